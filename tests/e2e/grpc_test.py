"""The daemon over gRPC, driven by unmodified clients: tensorflow-serving-api, grpc.health.v1 by hand, tritonclient.

    build/venv/bin/python tests/e2e/grpc_test.py [-v] [TestCase.test]      $TENSORD: the daemon (default build/tensord)

Needs `pip install tensorflow-cpu tensorflow-serving-api tritonclient[grpc]`. The models are made once, under build/e2e.
"""
import contextlib
import os
import signal
import tempfile
import time
import unittest

import grpc
import numpy as np

import server
from server import CODE, PATIENCE, Case, Server

import tensorflow as tf  # noqa: E402
from tensorflow_serving.apis import classification_pb2, get_model_metadata_pb2, get_model_status_pb2, inference_pb2  # noqa: E402
from tensorflow_serving.apis import model_management_pb2, model_service_pb2_grpc, predict_pb2  # noqa: E402
from tensorflow_serving.apis import prediction_service_pb2_grpc, regression_pb2  # noqa: E402
import messages  # noqa: E402


class Daemon(Server):
    """Serves `half` as the one model of the command line."""

    def __init__(self, *flags, versions=(1,)):
        super().__init__("--model_config_file=", "--model_name=half", "--model_base_path={dir}/half", *flags, versions={"half": versions})

    def start(self):
        super().start()
        self.predict = prediction_service_pb2_grpc.PredictionServiceStub(self.channel)
        self.models = model_service_pb2_grpc.ModelServiceStub(self.channel)


def setUpModule():
    server.models()


def request(inputs, signature="", **spec):
    r = predict_pb2.PredictRequest()
    r.model_spec.name = spec.get("name", "half")
    r.model_spec.signature_name = signature
    if "version" in spec:
        r.model_spec.version.value = spec["version"]
    if "label" in spec:
        r.model_spec.version_label = spec["label"]
    for k, v in inputs.items():
        r.inputs[k].CopyFrom(tf.make_tensor_proto(v) if not isinstance(v, tf.make_tensor_proto(0).__class__) else v)
    return r


def examples(*xs):
    return [tf.train.Example(features=tf.train.Features(feature={
        "x": tf.train.Feature(float_list=tf.train.FloatList(value=[x]))})) for x in xs]


class Served(Case):
    """Tests on one daemon with version 1 of the model."""

    @classmethod
    def setUpClass(cls):
        cls.d = Daemon("--max_request_bytes=67108864")

    @classmethod
    def tearDownClass(cls):
        code = cls.d.stop()
        assert code == 0, f"exit {code}: {''.join(cls.d.log[-5:])}"

    def test_predict_answers_typed_fields(self):
        r = self.d.predict.Predict(request({"x": np.float32([1, 2, 3])}), 10)
        self.assertEqual(list(r.outputs["y"].float_val), [2.5, 3.0, 3.5])
        self.assertEqual(r.outputs["y"].tensor_content, b"")
        self.assertEqual((r.model_spec.name, r.model_spec.version.value, r.model_spec.signature_name), ("half", 1, "serving_default"))

    def test_predict_takes_typed_fields_and_repeats_the_last_value(self):
        t = tf.make_tensor_proto(np.float32([0, 0, 0]))
        t.ClearField("tensor_content")
        t.float_val[:] = [2, 4]
        r = self.d.predict.Predict(request({"x": t}), 10)
        self.assertEqual(list(r.outputs["y"].float_val), [3.0, 4.0, 4.0])

    def test_several_inputs_and_outputs(self):
        ins = {"a": np.float32([1, 2]), "b": np.int64([10, -20])}
        r = self.d.predict.Predict(request(ins, "two"), 10)
        self.assertEqual(sorted(r.outputs), ["kept", "sum", "text"])
        self.assertEqual(list(r.outputs["text"].string_val), [b"10", b"-20"])
        self.assertEqual(list(r.outputs["kept"].int64_val), [10, -20])
        q = request(ins, "two")
        q.output_filter[:] = ["sum"]
        r = self.d.predict.Predict(q, 10)
        self.assertEqual(list(r.outputs), ["sum"])
        q.output_filter[:] = ["nothing"]
        with self.fails(CODE.INVALID_ARGUMENT, "output tensor alias not found in signature: nothing"):
            self.d.predict.Predict(q, 10)
        q.output_filter[:] = ["sum", "sum"]
        with self.fails(CODE.INVALID_ARGUMENT, "duplicate output tensor alias: sum"):
            self.d.predict.Predict(q, 10)

    def test_a_large_tensor_goes_both_ways(self):
        x = np.arange(10_000_000, dtype=np.float32)
        r = self.d.predict.Predict(request({"x": x}), 60)
        y = np.array(r.outputs["y"].float_val, np.float32)
        np.testing.assert_allclose(y, x / 2 + 2)

    def test_errors(self):
        x = {"x": np.float32([1])}
        with self.fails(CODE.NOT_FOUND, "Servable not found for request: Latest(none)"):
            self.d.predict.Predict(request(x, name="none"), 10)
        with self.fails(CODE.NOT_FOUND, "Servable not found for request: Specific(half, 9)"):
            self.d.predict.Predict(request(x, version=9), 10)
        with self.fails(CODE.INVALID_ARGUMENT, "Unrecognized servable version label: canary"):
            self.d.predict.Predict(request(x, label="canary"), 10)
        with self.fails(CODE.FAILED_PRECONDITION, 'Serving signature key "none" not found.'):
            self.d.predict.Predict(request(x, "none"), 10)
        with self.fails(CODE.INVALID_ARGUMENT, "Missing ModelSpec"):
            self.d.predict.Predict(predict_pb2.PredictRequest(), 10)
        with self.fails(CODE.INVALID_ARGUMENT, "input size does not match signature", "Sent extra: {z}", "Missing but required: {x}"):
            self.d.predict.Predict(request({"z": np.float32([1])}), 10)
        with self.fails(CODE.INVALID_ARGUMENT):
            self.d.predict.Predict(request({"x": np.float64([1])}), 10)
        bad = tf.make_tensor_proto(np.float32([1, 2, 3]))
        bad.tensor_content = bad.tensor_content[:-1]
        with self.fails(CODE.INVALID_ARGUMENT, "tensor parsing error: x"):
            self.d.predict.Predict(request({"x": bad}), 10)
        with self.fails(CODE.RESOURCE_EXHAUSTED):
            self.d.predict.Predict(request({"x": np.zeros(17 << 20, np.float32)}), 10)

    def test_unknown_methods_and_broken_messages(self):
        call = lambda path, data: self.d.channel.unary_unary(path)(data, 10)
        with self.fails(CODE.UNIMPLEMENTED):
            call("/tensorflow.serving.PredictionService/Nothing", b"")
        with self.fails(CODE.UNIMPLEMENTED):
            call("/some.Service/Method", b"x")
        with self.fails(CODE.INVALID_ARGUMENT):
            call("/tensorflow.serving.PredictionService/Predict", b"\x0a\xff\xff\xff\xff\x0f")

    def test_classify(self):
        q = classification_pb2.ClassificationRequest()
        q.model_spec.name, q.model_spec.signature_name = "half", "classify"
        q.input.example_list.examples.extend(examples(2.0, 4.0))
        r = self.d.predict.Classify(q, 10)
        got = [[(c.label, c.score) for c in row.classes] for row in r.result.classifications]
        self.assertEqual(got, [[("up", 3.0), ("down", -3.0)], [("up", 4.0), ("down", -4.0)]])
        self.assertEqual((r.model_spec.version.value, r.model_spec.signature_name), (1, "classify"))
        q.input.example_list.ClearField("examples")
        with self.fails(CODE.INVALID_ARGUMENT, "Input is empty."):
            self.d.predict.Classify(q, 10)
        q.model_spec.signature_name = "none"
        with self.fails(CODE.INVALID_ARGUMENT, "No signature was found with the name: none"):
            self.d.predict.Classify(q, 10)

    def test_regress_with_context(self):
        q = regression_pb2.RegressionRequest()
        q.model_spec.name, q.model_spec.signature_name = "half", "regress"
        q.input.example_list_with_context.examples.extend([tf.train.Example(), examples(8.0)[0]])
        q.input.example_list_with_context.context.CopyFrom(examples(6.0)[0])
        r = self.d.predict.Regress(q, 10)
        self.assertEqual([x.value for x in r.result.regressions], [5.0, 6.0])

    def test_multi_inference(self):
        q = inference_pb2.MultiInferenceRequest()
        for name, method in (("regress", "regress"), ("classify", "classify")):
            t = q.tasks.add(method_name=f"tensorflow/serving/{method}")
            t.model_spec.name, t.model_spec.signature_name = "half", name
        q.input.example_list.examples.extend(examples(2.0))
        r = self.d.predict.MultiInference(q, 10)
        self.assertEqual(r.results[0].regression_result.regressions[0].value, 3.0)
        self.assertEqual(r.results[1].classification_result.classifications[0].classes[1].label, "down")
        self.assertEqual(r.results[1].model_spec.signature_name, "classify")
        q.tasks[1].model_spec.signature_name = "regress"
        with self.fails(CODE.INVALID_ARGUMENT, "Duplicate evaluation of signature: regress"):
            self.d.predict.MultiInference(q, 10)

    def test_metadata(self):
        q = get_model_metadata_pb2.GetModelMetadataRequest()
        q.model_spec.name = "half"
        with self.fails(CODE.INVALID_ARGUMENT):
            self.d.predict.GetModelMetadata(q, 10)
        q.metadata_field.append("signature_def")
        r = self.d.predict.GetModelMetadata(q, 10)
        self.assertEqual(r.model_spec.version.value, 1)
        sigs = get_model_metadata_pb2.SignatureDefMap()
        self.assertTrue(r.metadata["signature_def"].Unpack(sigs))
        two = sigs.signature_def["two"]
        self.assertEqual(two.inputs["b"].dtype, tf.int64.as_datatype_enum)
        self.assertEqual([d.size for d in two.inputs["b"].tensor_shape.dim], [-1])
        self.assertEqual(two.method_name, "tensorflow/serving/predict")
        self.assertTrue(two.outputs["sum"].name.endswith(":1") or ":" in two.outputs["sum"].name)
        q.metadata_field.append("other")
        with self.fails(CODE.INVALID_ARGUMENT, "other"):
            self.d.predict.GetModelMetadata(q, 10)

    def test_status(self):
        q = get_model_status_pb2.GetModelStatusRequest()
        q.model_spec.name = "half"
        r = self.d.models.GetModelStatus(q, 10)
        self.assertEqual([(s.version, s.state, s.status.error_code) for s in r.model_version_status], [(1, 30, 0)])
        q.model_spec.version.value = 4
        with self.fails(CODE.NOT_FOUND, "Could not find version 4 of model half"):
            self.d.models.GetModelStatus(q, 10)
        q.model_spec.name = "none"
        with self.fails(CODE.NOT_FOUND, "Could not find"):
            self.d.models.GetModelStatus(q, 10)

    def test_health(self):
        check = self.d.channel.unary_unary("/grpc.health.v1.Health/Check")
        self.assertEqual(check(b"", 10), b"\x08\x01")
        self.assertEqual(check(b"\x0a\x04half", 10), b"\x08\x01")
        with self.fails(CODE.NOT_FOUND):
            check(b"\x0a\x04none", 10)
        watch = self.d.channel.unary_stream("/grpc.health.v1.Health/Watch")(b"\x0a\x04none", timeout=10)
        self.assertEqual(next(watch), b"\x08\x03")
        watch.cancel()

    def test_deadline_and_cancellation_stop_the_run(self):
        start = time.time()
        with self.fails(CODE.DEADLINE_EXCEEDED):
            self.d.predict.Predict(request({"n": np.int64(1 << 60)}, "slow"), 0.3)
        calls = [self.d.predict.Predict.future(request({"n": np.int64(1 << 60)}, "slow")) for _ in range(64)]
        time.sleep(0.3)
        for c in calls:
            c.cancel()
        # nobody computes any more: a short request is answered at once
        r = self.d.predict.Predict(request({"x": np.float32([0])}), 10)
        self.assertEqual(list(r.outputs["y"].float_val), [2.0])
        self.assertLess(time.time() - start, 8 * PATIENCE)

    def test_a_run_that_was_thought_short_can_be_cancelled(self):
        """Runs on the thread that read it, as those before did, and is watched once it takes long."""
        for _ in range(30):
            self.d.predict.Predict(request({"n": np.int64(1)}, "slow"), 10)
        call = self.d.predict.Predict.future(request({"n": np.int64(1 << 60)}, "slow"))
        time.sleep(0.3)
        call.cancel()
        start = time.time()
        for _ in range(8):   # all lanes are free again
            self.d.predict.Predict(request({"n": np.int64(1)}, "slow"), 10)

        def used():
            with open(f"/proc/{self.d.proc.pid}/stat") as f:
                return int(f.read().rsplit(")", 1)[1].split()[11])
        for _ in range(100):
            before = used()
            time.sleep(0.1)
            if used() - before < 3:
                break
        self.assertLess(used() - before, 3)
        self.assertLess(time.time() - start, 8 * PATIENCE)

    def test_many_at_once(self):
        futures = [self.d.predict.Predict.future(request({"x": np.float32([i])}), 30) for i in range(500)]
        for i, f in enumerate(futures):
            self.assertEqual(list(f.result().outputs["y"].float_val), [i / 2 + 2])

    def test_compressed_messages(self):
        r = self.d.predict.Predict(request({"x": np.zeros(1000, np.float32)}), 10, compression=grpc.Compression.Gzip)
        self.assertEqual(len(r.outputs["y"].float_val), 1000)
        with self.fails(CODE.RESOURCE_EXHAUSTED):   # 68 MB of zeros are a few KB on the wire
            self.d.predict.Predict(request({"x": np.zeros(17 << 20, np.float32)}), 30, compression=grpc.Compression.Gzip)


class Messages(unittest.TestCase):
    """What the other tests encode without TensorFlow is what TensorFlow encodes."""

    def test_tensors(self):
        values = [0, 1.5, 1 << 20, True, ["no", "é"], [[1, 2], [3, 4]], [0.5, 2]]
        for t in messages.DTYPES:
            for shape in (), (1,), (2, 3), (0, 2):
                n = int(np.prod(shape))
                values.append(np.full(shape, b"a\0b", object) if t == object else (np.arange(n) - (t.kind in "if") > 0 if t.kind == "b" else np.arange(n)).reshape(shape).astype(t))
        for v in values:
            whole = tf.make_tensor_proto(v)
            self.assertEqual(messages.make_tensor_proto(v).SerializeToString(), whole.SerializeToString(), v)
            typed = type(whole)(dtype=whole.dtype, tensor_shape=whole.tensor_shape)
            if np.size(v):  # one value for all
                first = np.asarray(v, object if isinstance(v, list) and isinstance(v[0], str) else None).reshape(-1)[0]
                typed.MergeFrom(tf.make_tensor_proto(first, dtype=whole.dtype, shape=[]))
                typed.tensor_shape.CopyFrom(whole.tensor_shape)
            for p in whole, typed:
                got, want = messages.make_ndarray(p), tf.make_ndarray(p)
                self.assertEqual((got.dtype, got.shape, got.tolist()), (want.dtype, want.shape, want.tolist()))

    def test_records(self):
        with server.folder() as where:
            rows, paths = [b"", b"one", bytes(range(256)) * 9], [os.path.join(where, name) for name in "ab"]
            for path, writer in zip(paths, (messages.TFRecordWriter, tf.io.TFRecordWriter)):
                with writer(path) as w:
                    for r in rows:
                        w.write(r)
            with open(paths[0], "rb") as a, open(paths[1], "rb") as b:
                self.assertEqual(a.read(), b.read())
            self.assertEqual(messages.records_of(paths[1]), rows)


class Reflection(Case):
    """By hand, as no reflection client is installed: ask, build messages from the descriptors, and call with them."""

    @classmethod
    def setUpClass(cls):
        cls.d = Daemon()

    @classmethod
    def tearDownClass(cls):
        assert cls.d.stop() == 0

    def ask(self, *requests, package="v1"):
        call = self.d.channel.stream_stream(f"/grpc.reflection.{package}.ServerReflection/ServerReflectionInfo")
        return list(call(iter(requests), timeout=10))

    def test_services_and_a_call_made_from_descriptors(self):
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
        pool, symbol = descriptor_pool.DescriptorPool(), b"grpc.reflection.v1.ServerReflection"

        def add(answers):   # field 4 holds a FileDescriptorResponse of repeated FileDescriptorProto bytes
            files = re_files(answers)
            names = {f.name for f in files}
            done = set()
            while done != names:
                for f in files:
                    if f.name not in done and all(d in done for d in f.dependency):
                        with contextlib.suppress(TypeError):
                            pool.Add(f) if hasattr(pool, "Add") else pool.AddSerializedFile(f.SerializeToString())
                        done.add(f.name)

        def re_files(data):
            holder = descriptor_pb2.FileDescriptorSet()   # file = 1: the same shape as FileDescriptorResponse
            at, out = 0, None

            def varint():
                nonlocal at
                v = shift = 0
                while True:
                    b = data[at]
                    at += 1
                    v |= (b & 127) << shift
                    shift += 7
                    if b < 128:
                        return v
            while at < len(data):
                tag, n = varint(), varint()
                if tag >> 3 == 4:
                    out = data[at:at + n]
                at += n
            holder.ParseFromString(out)
            return holder.file
        add(self.ask(b"\x22" + bytes([len(symbol)]) + symbol)[0])
        kind = message_factory.GetMessageClass(pool.FindMessageTypeByName("grpc.reflection.v1.ServerReflectionResponse"))
        for package in ("v1", "v1alpha"):
            services = kind.FromString(self.ask(b"\x3a\x00", package=package)[0]).list_services_response.service
            self.assertIn("tensorflow.serving.PredictionService", [s.name for s in services])
            self.assertIn("inference.GRPCInferenceService", [s.name for s in services])
        for name in [s.name.encode() for s in services]:   # every service that is listed is described
            answer = kind.FromString(self.ask(b"\x22" + bytes([len(name)]) + name)[0])
            self.assertTrue(answer.file_descriptor_response.file_descriptor_proto, name)
        two = self.ask(b"\x22\x04none", b"\x22\x1finference.GRPCInferenceService.")
        self.assertEqual(kind.FromString(two[0]).error_response.error_code, 5)
        name = b"inference.GRPCInferenceService"
        add(self.ask(b"\x22" + bytes([len(name)]) + name)[0])
        make = lambda n: message_factory.GetMessageClass(pool.FindMessageTypeByName(n))
        q = make("inference.ModelMetadataRequest")(name="half")
        r = self.d.channel.unary_unary("/inference.GRPCInferenceService/ModelMetadata")(q.SerializeToString(), 10)
        self.assertEqual(make("inference.ModelMetadataResponse").FromString(r).inputs[0].datatype, "FP32")


class Lifecycle(server.Alone):
    """Each test starts a daemon of its own."""

    def test_versions_labels_and_reload(self):
        d = Daemon(versions=(1, 2))
        try:
            self.assertEqual(d.predict.Predict(request({"x": np.float32([0])}), 10).model_spec.version.value, 2)
            q = model_management_pb2.ReloadConfigRequest()
            m = q.config.model_config_list.config.add(name="half", base_path=d.base("half"), model_platform="tensorflow")
            m.model_version_policy.all.SetInParent()
            self.assertEqual(d.models.HandleReloadConfigRequest(q, 30).status.error_code, 0)
            for _ in range(200):
                s = get_model_status_pb2.GetModelStatusRequest()
                s.model_spec.name = "half"
                up = [v.version for v in d.models.GetModelStatus(s, 10).model_version_status if v.state == 30]
                if len(up) == 2:
                    break
                time.sleep(0.05)
            self.assertEqual(sorted(up), [1, 2])
            m.version_labels["stable"] = 1
            d.models.HandleReloadConfigRequest(q, 30)
            r = d.predict.Predict(request({"x": np.float32([0])}, label="stable"), 10)
            self.assertEqual((r.model_spec.version.value, list(r.outputs["y"].float_val)), (1, [2.0]))
            r = d.predict.Predict(request({"x": np.float32([0])}, version=2), 10)
            self.assertEqual(list(r.outputs["y"].float_val), [3.0])
            q.config.model_config_list.config.append(m)
            with self.fails(CODE.INVALID_ARGUMENT, "half"):
                d.models.HandleReloadConfigRequest(q, 30)
            with self.fails(CODE.INVALID_ARGUMENT, "Only ModelConfigList is currently supported"):
                d.models.HandleReloadConfigRequest(model_management_pb2.ReloadConfigRequest(), 30)
        finally:
            self.assertEqual(d.stop(), 0)

    def test_health_watch_sees_a_model_come_and_go(self):
        d = Daemon()
        try:
            watch = d.channel.unary_stream("/grpc.health.v1.Health/Watch")(b"\x0a\x05other", timeout=30)
            self.assertEqual(next(watch), b"\x08\x03")
            q = model_management_pb2.ReloadConfigRequest()
            for name in ("half", "other"):
                q.config.model_config_list.config.add(name=name, base_path=d.base("half"), model_platform="tensorflow")
            d.models.HandleReloadConfigRequest(q, 30)
            seen = next(watch)
            while seen != b"\x08\x01":
                seen = next(watch)
            watch.cancel()
        finally:
            self.assertEqual(d.stop(), 0)

    def test_sigterm_lets_running_calls_finish(self):
        d = Daemon()
        d.predict.Predict(request({"n": np.int64(10)}, "slow"), 10)
        start = time.time()
        d.predict.Predict(request({"n": np.int64(100000)}, "slow"), 60)
        n = max(1, int(100000 / (time.time() - start)))   # about a second's work
        call = d.predict.Predict.future(request({"n": np.int64(n)}, "slow"), 60)
        time.sleep(0.2)
        d.proc.send_signal(signal.SIGTERM)
        self.assertEqual(list(call.result().outputs["n"].int64_val), [n])
        self.assertEqual((d.proc.wait(30), d.stop()), (0, 0))

    def test_content_outputs(self):
        d = Daemon("--enable_serialization_as_tensor_content")
        try:
            r = d.predict.Predict(request({"x": np.float32([1])}), 10)
            self.assertEqual(np.frombuffer(r.outputs["y"].tensor_content, np.float32), [2.5])
        finally:
            self.assertEqual(d.stop(), 0)

    def test_unix_socket(self):
        path = os.path.join(tempfile.mkdtemp(), "s.sock")
        d = Daemon(f"--grpc_socket_path={path}")
        try:
            with grpc.insecure_channel(f"unix:{path}") as c:
                r = prediction_service_pb2_grpc.PredictionServiceStub(c).Predict(request({"x": np.float32([1])}), 10)
                self.assertEqual(list(r.outputs["y"].float_val), [2.5])
        finally:
            self.assertEqual(d.stop(), 0)


class OpenInference(Case):
    """tritonclient on the same port."""

    @classmethod
    def setUpClass(cls):
        import tritonclient.grpc as triton
        cls.t = triton
        cls.d = Daemon(versions=(1, 2))
        cls.c = triton.InferenceServerClient(f"127.0.0.1:{cls.d.port}")

    @classmethod
    def tearDownClass(cls):
        cls.c.close()
        assert cls.d.stop() == 0

    def test_liveness_and_metadata(self):
        self.assertTrue(self.c.is_server_live() and self.c.is_server_ready() and self.c.is_model_ready("half"))
        self.assertFalse(self.c.is_model_ready("none"))
        self.assertEqual(self.c.get_server_metadata().name, "tensord")
        m = self.c.get_model_metadata("half")
        self.assertEqual((m.name, list(m.versions), m.platform), ("half", ["2"], "tensorflow_savedmodel"))
        self.assertEqual([(i.name, i.datatype, list(i.shape)) for i in m.inputs], [("x", "FP32", [-1])])
        with self.assertRaisesRegex(self.t.InferenceServerException, "unknown model"):
            self.c.get_model_metadata("none")

    def test_infer(self):
        x = self.t.InferInput("x", [3], "FP32")
        x.set_data_from_numpy(np.float32([1, 2, 3]))
        r = self.c.infer("half", [x], request_id="id1")
        np.testing.assert_array_equal(r.as_numpy("y"), np.float32([3.5, 4, 4.5]))
        self.assertEqual((r.get_response().id, r.get_response().model_version), ("id1", "2"))

    def test_another_signature_with_strings(self):
        a, b = self.t.InferInput("a", [2], "FP32"), self.t.InferInput("b", [2], "INT64")
        a.set_data_from_numpy(np.float32([1, 2]))
        b.set_data_from_numpy(np.int64([3, 4]))
        r = self.c.infer("half", [a, b], parameters={"signature_name": "two"}, outputs=[self.t.InferRequestedOutput("text")])
        self.assertEqual(r.as_numpy("text").tolist(), [b"3", b"4"])
        self.assertEqual(len(r.get_response().outputs), 1)

    def test_typed_contents(self):
        from tritonclient.grpc import service_pb2, service_pb2_grpc
        q = service_pb2.ModelInferRequest(model_name="half")
        i = q.inputs.add(name="x", datatype="FP32", shape=[2])
        i.contents.fp32_contents[:] = [1, 2]
        r = service_pb2_grpc.GRPCInferenceServiceStub(self.d.channel).ModelInfer(q)
        self.assertEqual(r.raw_output_contents[0], np.float32([3.5, 4]).tobytes())
        i.contents.fp32_contents.append(3)
        with self.fails(CODE.INVALID_ARGUMENT, "more values"):
            service_pb2_grpc.GRPCInferenceServiceStub(self.d.channel).ModelInfer(q)

    def test_errors(self):
        x = self.t.InferInput("x", [3], "FP32")
        x.set_data_from_numpy(np.float32([1, 2, 3]))
        with self.assertRaisesRegex(self.t.InferenceServerException, "unknown model: 'none' is not found"):
            self.c.infer("none", [x])
        with self.assertRaisesRegex(self.t.InferenceServerException, "version 7"):
            self.c.infer("half", [x], model_version="7")


if __name__ == "__main__":
    unittest.main()
