"""What a rewrite of TensorFlow Serving gets wrong first, one test a trap, with tensorflow-serving-api and plain HTTP.

    build/venv/bin/python tests/e2e/traps_test.py [-v] [Traps.test_trap_01_...]
"""
import os
import signal
import tempfile
import unittest

import grpc
import numpy as np

import server
from server import CODE, MODELS, Case, Server, serving

from messages import tf  # noqa: E402
from tensorflow_serving.apis import classification_pb2, get_model_metadata_pb2, inference_pb2, predict_pb2  # noqa: E402
from tensorflow_serving.apis import prediction_service_pb2_grpc, regression_pb2  # noqa: E402


def spec(m, name, signature="", version=None, label=None):
    m.model_spec.name, m.model_spec.signature_name = name, signature
    if version is not None:
        m.model_spec.version.value = version
    if label is not None:
        m.model_spec.version_label = label
    return m


def predict_request(name, signature="", inputs={}, **kw):
    r = spec(predict_pb2.PredictRequest(), name, signature, **kw)
    for k, v in inputs.items():
        r.inputs[k].CopyFrom(v if isinstance(v, type(tf.make_tensor_proto(0))) else tf.make_tensor_proto(np.float32(v)))
    return r


def examples(to, *xs):
    for x in xs:
        to.examples.add().features.feature["x"].float_list.value.append(x)


def index_block_type(path):
    """The compression byte of the first data block of a checkpoint's index (a LevelDB table)."""
    with open(path, "rb") as f:
        data = f.read()

    def varints(at):
        while True:
            v = shift = 0
            while True:
                b = data[at]
                at += 1
                v |= (b & 127) << shift
                shift += 7
                if b < 128:
                    break
            yield v
    footer = varints(len(data) - 48)
    _, _, index, _ = (next(footer) for _ in range(4))
    entry = varints(index)                 # shared, unshared, value length; then the key and the data block's handle
    _, unshared, _ = (next(entry) for _ in range(3))
    handle = varints(index + 3 + unshared)
    offset, size = next(handle), next(handle)
    return data[offset + size]


class Traps(Case):
    @classmethod
    def setUpClass(cls):
        server.models()
        half, tf1 = os.path.join(MODELS, "half"), os.path.join(MODELS, "tf1")
        text = server.config(("half", half, 'model_version_policy { all {} } version_labels { key: "old" value: 1 }'), ("tf1", tf1))
        cls.OPTIONS = {"files": {"models.config": text}}
        super().setUpClass()
        cls.stub = prediction_service_pb2_grpc.PredictionServiceStub(cls.d.channel)

    def predict(self, *args, **kw):
        return self.stub.Predict(predict_request(*args, **kw), 20)

    def test_trap_01_feeds_are_interior_tensors(self):
        self.assertEqual(list(self.predict("tf1", inputs={"x": [[1.0]]}).outputs["y"].float_val), [2.5])
        r = spec(regression_pb2.RegressionRequest(), "tf1", "regress")
        examples(r.input.example_list, 1.0, 3.0)
        self.assertEqual([v.value for v in self.stub.Regress(r, 20).result.regressions], [2.5, 3.5])
        self.assertEqual(self.d.post("/v1/models/tf1:predict", {"instances": [[1.0], [3.0]]}).json(), {"predictions": [[2.5], [3.5]]})
        with self.fails(CODE.INVALID_ARGUMENT, "was expected to be a float tensor but is a string tensor"):
            self.predict("tf1", inputs={"x": tf.make_tensor_proto(["no"])})

    def test_trap_02_no_shape_validation_against_the_signature(self):
        for shape in ([1], [3], []):
            y = self.predict("tf1", inputs={"x": np.full(shape, 2.0)}).outputs["y"]
            self.assertEqual([d.size for d in y.tensor_shape.dim], shape)
        self.assertEqual(self.d.post("/v1/models/tf1:predict", {"instances": [2, 3, 4]}).json(), {"predictions": [3.0, 3.5, 4.0]})
        with serving("--strict_shapes", versions={"tf1": (1,)}) as d:
            self.answers(d.post("/v1/models/tf1:predict", {"instances": [2, 3, 4]}), 400, "input 'x' has shape [3], the signature declares [?,1]")

    def test_trap_03_predict_answers_in_typed_fields(self):
        y = self.predict("half", inputs={"x": [1.0]}).outputs["y"]
        self.assertEqual((len(y.float_val), y.tensor_content), (1, b""))
        typed = tf.make_tensor_proto(np.zeros(4, np.float32))
        typed.ClearField("tensor_content")
        for given, want in (([2.0, 4.0], [4.0, 5.0, 5.0, 5.0]), ([], [3.0] * 4)):
            del typed.float_val[:]
            typed.float_val.extend(given)
            self.assertEqual(list(self.predict("half", inputs={"x": typed}).outputs["y"].float_val), want)
        whole = tf.make_tensor_proto(np.zeros(4, np.float32))
        whole.tensor_content = whole.tensor_content[:-1]
        with self.fails(CODE.INVALID_ARGUMENT, "tensor parsing error: x"):
            self.predict("half", inputs={"x": whole})
        with serving("--enable_serialization_as_tensor_content") as d:
            y = prediction_service_pb2_grpc.PredictionServiceStub(d.channel).Predict(predict_request("half", inputs={"x": [1.0]}), 20).outputs["y"]
            self.assertEqual((list(y.float_val), y.tensor_content), ([], np.float32(2.5).tobytes()))

    def test_trap_04_variables_index_blocks_may_be_snappy(self):
        self.assertEqual(index_block_type(os.path.join(MODELS, "tf1", "1", "variables", "variables.index")), 1)
        self.assertEqual(list(self.predict("tf1", inputs={"x": [[10.0]]}).outputs["y"].float_val), [7.0])

    def test_trap_05_signature_defaults_are_live(self):
        self.assertEqual(list(self.predict("tf1", "defaulted").outputs["y"].float_val), [4.0])
        self.assertEqual(list(self.predict("tf1", "defaulted", {"x": [[0.0]]}).outputs["y"].float_val), [2.0])
        self.assertEqual(self.d.post("/v1/models/tf1:predict", {"signature_name": "defaulted", "inputs": {}}).json(), {"outputs": [[4.0]]})
        with self.fails(CODE.INVALID_ARGUMENT, "input size does not match signature: 0!=1", "Missing but required: {x}"):
            self.predict("tf1")
        m = self.d.get("/v1/models/tf1/metadata").json()["metadata"]["signature_def"]["signature_def"]
        self.assertEqual([m["defaulted"]["defaults"]["x"]["dtype"], m["serving_default"]["defaults"]], ["DT_FLOAT", {}])

    def test_trap_06_a_missing_model_is_named_servable(self):
        for kw, words in (({}, "Servable not found for request: Latest(none)"), ({"version": 3}, "Servable not found for request: Specific(none, 3)")):
            with self.fails(CODE.NOT_FOUND, words):
                self.predict("none", **kw)
        self.answers(self.d.post("/v1/models/none:predict", {"instances": [1]}), 404, "Servable not found for request: Latest(none)")
        self.answers(self.d.post("/v1/models/half/versions/9:predict", {"instances": [1]}), 404, "Servable not found for request: Specific(half, 9)")

    def test_trap_07_a_bad_config_file_ends_the_process(self):
        words = "Error parsing text-format tensorflow.serving.ModelServerConfig"
        code, _, err = Server(files={"models.config": 'model_config_list { config { nmae: "half" } }'}, wait=False).exits()
        self.assertEqual(code, 2)
        self.assertRegex(err, words + r".*nmae")
        code, _, err = Server("--model_config_file={dir}/none", wait=False).exits()
        self.assertEqual(code, 2)
        self.assertRegex(err, "--model_config_file: .*none: no such file")

    def test_trap_08_signatures_of_predict_answer_classify_and_regress(self):
        def ask(stub):
            c, r = spec(classification_pb2.ClassificationRequest(), "half", "classify"), spec(regression_pb2.RegressionRequest(), "half", "regress")
            m = inference_pb2.MultiInferenceRequest()
            for t, s in (("classify", "classify"), ("regress", "regress")):
                spec(m.tasks.add(method_name="tensorflow/serving/" + t), "half", s)
            for q in (c, r, m):
                examples(q.input.example_list, 2.0)
            return (lambda: stub.Classify(c, 20)), (lambda: stub.Regress(r, 20)), (lambda: stub.MultiInference(m, 20))
        classify, regress, multi = ask(self.stub)
        self.assertEqual(classify().result.classifications[0].classes[0].label, "up")
        self.assertEqual(regress().result.regressions[0].value, 4.0)
        self.assertEqual(len(multi().results), 2)
        meta = self.d.get("/v1/models/half/metadata").json()["metadata"]["signature_def"]["signature_def"]
        self.assertEqual(meta["classify"]["method_name"], "tensorflow/serving/predict")
        self.assertEqual(list(self.predict("tf1", "odd", {"x": [[0.0]]}).outputs["y"].float_val), [2.0])
        with serving("--enable_signature_method_name_check", versions={"half": (1,), "tf1": (1,)}) as d:
            stub = prediction_service_pb2_grpc.PredictionServiceStub(d.channel)
            classify, regress, multi = ask(stub)
            with self.fails(CODE.INVALID_ARGUMENT, "Expected classification signature method_name to be tensorflow/serving/classify. Was: "
                            "tensorflow/serving/predict"):
                classify()
            with self.fails(CODE.INVALID_ARGUMENT, "Expected regression signature method_name to be tensorflow/serving/regress. Was: "):
                regress()
            with self.fails(CODE.INVALID_ARGUMENT, "Expected classification signature method_name"):
                multi()
            words = "Expected prediction signature method_name to be one of {tensorflow/serving/predict, tensorflow/serving/classify, " \
                    "tensorflow/serving/regress}. Was: tensorflow/serving/made_up"
            with self.fails(CODE.INTERNAL, words):
                stub.Predict(predict_request("tf1", "odd", {"x": [[0.0]]}), 20)
            self.answers(d.post("/v1/models/tf1:predict", {"signature_name": "odd", "instances": [1]}), 500, words)
            q = spec(regression_pb2.RegressionRequest(), "tf1", "regress")
            examples(q.input.example_list, 2.0)
            self.assertEqual(stub.Regress(q, 20).result.regressions[0].value, 3.0)

    def test_trap_09_a_socket_file_is_replaced(self):
        path = os.path.join(tempfile.mkdtemp(), "tf-serving.sock")

        def ask():
            with grpc.insecure_channel("unix:" + path) as c:
                r = prediction_service_pb2_grpc.PredictionServiceStub(c).Predict(predict_request("half", inputs={"x": [1.0]}), 20, wait_for_ready=True)
                return r.model_spec.version.value
        killed = Server("--grpc_socket_path=" + path)
        self.assertEqual(ask(), 1)
        killed.stop(signal.SIGKILL)
        self.assertTrue(os.path.exists(path))
        with serving("--grpc_socket_path=" + path):            # a stale file
            self.assertEqual(ask(), 1)
            with serving("--grpc_socket_path=" + path, versions={"half": (2,)}) as d:   # the latest server of several has the name
                self.assertEqual(ask(), 2)
                self.assertTrue(d.wait_log("another process was listening"))
        with open(path, "w"):
            pass
        code, _, err = Server("--grpc_socket_path=" + path, wait=False).exits()
        self.assertEqual(code, 1)
        self.assertIn("the file is there and is no socket", err)

    def test_trap_10_status_ignores_labels(self):
        both = self.d.get("/v1/models/half").json()
        self.assertEqual([(v["version"], v["state"]) for v in both["model_version_status"]], [("2", "AVAILABLE"), ("1", "AVAILABLE")])
        self.assertEqual(self.d.get("/v1/models/half/labels/old").json(), both)
        self.assertEqual(self.d.get("/v1/models/half/labels/none").json(), both)
        self.assertEqual(self.d.get("/v1/models/half/labels/old/metadata").json()["model_spec"]["version"], "1")
        self.assertEqual(self.d.post("/v1/models/half/labels/old:predict", {"instances": [0]}).json(), {"predictions": [2.0]})
        self.answers(self.d.post("/v1/models/half/labels/none:predict", {"instances": [0]}), 400, "Unrecognized servable version label: none")
        self.answers(self.d.get("/v1/models/half/labels/none/metadata"), 400, "Unrecognized servable version label: none")
        q = spec(get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"]), "half", label="old")
        self.assertEqual(self.stub.GetModelMetadata(q, 20).model_spec.version.value, 1)

    def test_trap_11_unknown_arguments_and_malformed_values(self):
        with serving("--no_such_flag=1", "stray", "-x") as d:
            log = "".join(d.log)
            for arg in ("--no_such_flag=1", "-x"):
                self.assertIn("unknown argument ignored: " + arg, log)
            self.assertIn("usage: tensord", log)
            self.assertEqual(d.post("/v1/models/half:predict", {"instances": [0]}).json(), {"predictions": [2.0]})
        for flag, words in (("--rest_api_port=x", "value 'x' is no integer"), ("--port=70000", "want 0 to 65535"),
                            ("--enable_batching=maybe", "is neither true nor false"), ("--model_name", "no value")):
            code, _, err = Server(flag, wait=False).exits()
            self.assertEqual(code, 2, flag)
            self.assertIn("usage: tensord", err)
            self.assertIn(flag.split("=")[0] + ":", err)
            self.assertIn(words, err)


if __name__ == "__main__":
    unittest.main()
