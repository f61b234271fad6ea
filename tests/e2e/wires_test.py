"""TF Serving's two wires, flag by flag and error by error: targets, bodies, labels, reload, examples, filters, compression.

    build/venv/bin/python tests/e2e/wires_test.py [-v] [Rest.test_...]
"""
import gzip
import json
import os
import socket
import subprocess
import time
import unittest
import zlib

import grpc
import numpy as np

import server
from server import CODE, MODELS, PATIENCE, Case, Server, serving

from grpc_health.v1 import health_pb2, health_pb2_grpc  # noqa: E402
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase  # noqa: E402
from google.protobuf import descriptor_pool, message_factory  # noqa: E402
from messages import tf  # noqa: E402
from tensorflow_serving.apis import classification_pb2, get_model_metadata_pb2, get_model_status_pb2, inference_pb2  # noqa: E402
from tensorflow_serving.apis import model_management_pb2, model_service_pb2_grpc, predict_pb2, prediction_service_pb2_grpc  # noqa: E402
from tensorflow_serving.apis import regression_pb2  # noqa: E402

PREDICT = "/v1/models/half:predict"


def spec(m, name="half", signature="", version=None, label=None):
    m.model_spec.name, m.model_spec.signature_name = name, signature
    if version is not None:
        m.model_spec.version.value = version
    if label is not None:
        m.model_spec.version_label = label
    return m


def predict_request(x, *names, output_filter=(), **kw):
    r = spec(predict_pb2.PredictRequest(output_filter=output_filter), *names, **kw)
    r.inputs["x"].CopyFrom(tf.make_tensor_proto(np.float32(x)))
    return r


def add_examples(to, *xs):
    for x in xs:
        e = to.examples.add()
        if x is not None:
            e.features.feature["x"].float_list.value.append(x)


class Rest(Case):
    FLAGS = ("--max_request_bytes=1048576",)
    OPTIONS = {"versions": {"half": (1, 2), "tf1": (1,)}, "labels": ""}

    def test_targets(self):
        d = self.d
        for method, path, status, words in (
                ("POST", "/v1/models/half", 400, "Malformed request: POST /v1/models/half"),
                ("GET", PREDICT, 400, "Malformed request: GET " + PREDICT),
                ("PUT", PREDICT, 400, "Malformed request: PUT"),
                ("POST", PREDICT + "?x=1", 400, "Malformed request: POST " + PREDICT + "?x=1"),
                ("POST", "/v1/models/half:tune", 400, "Malformed request"),
                ("POST", "/v1/models/half/versions/x:predict", 400, "Malformed request"),
                ("POST", "/v1/models/half/versions/99999999999999999999:predict", 400, "is no 64-bit number"),
                ("POST", "/v1/models/half/versions/7:predict", 404, "Servable not found for request: Specific(half, 7)"),
                ("GET", "/v1/models/none", 404, "Could not find any versions of model none"),
                ("GET", "/v1/models/half/versions/7", 404, "Could not find version 7 of model half"),
                ("GET", "/v1/models/none/metadata", 404, "Servable not found for request: Latest(none)"),
                ("GET", "/v1", 404, "Not Found"), ("GET", "/nothing", 404, "Not Found")):
            r = self.answers(d.http(method, path, {"instances": [1]} if method == "POST" else None), status, words)
            self.assertEqual(r.headers["Content-Type"], "application/json")
        self.assertEqual(d.post("/V1/MODELS/half:PREDICT", {"instances": [0]}).json(), {"predictions": [3.0]})
        self.assertEqual(d.post("/v1/models/h%61lf/versions/0001:predict", {"instances": [0]}).json(), {"predictions": [2.0]})

    def test_bodies(self):
        for body, words in (("", "JSON Parse error: The document is empty"), ("[]", "JSON"), ("{", "JSON Parse error"), ("{}", "Missing 'inputs' or 'instances' key"),
                            ('{"instances": []}', "instances"), ('{"instances": [1], "inputs": [1]}', "instances"), ('{"instances": ["a"]}', "is not of expected type: float"),
                            ('{"instances": [[1], [1, 2]]}', "instances"), ('{"instances": [1], "signature_name": "two\\u0000"}', "holds a NUL byte"), ('{"instances": [1], "signature_name": 5}', "'signature_name' key must be a string value."),
                            ('{"instances": [1], "signature_name": "none"}', 'Serving signature name: "none" not found in signature def'),
                            ('{"instances": [{"z": 1}]}', "x"), ('{"inputs": {"z": 1}}', "Missing named input: x in 'inputs' object."),
                            ('{"instances": [1], "signature_name": "two"}', "")):
            self.answers(self.d.post(PREDICT, data=body), 400, words)
        self.answers(self.d.post(PREDICT, data='{"instances": [0]} and more'), 400, "The document root must not be followed by other values")
        self.answers(self.d.post(PREDICT, data=b"x" * (1 << 20) + b"x"), 413, "larger than max_request_bytes (1048576 bytes)")

    def test_classify_and_regress(self):
        d, both = self.d, [{"x": 2.0}, {"x": [4.0]}]
        post = lambda verb, **body: d.post(f"/v1/models/half/versions/1:{verb}", {"signature_name": verb, **body})
        self.assertEqual(post("regress", examples=both).json(), {"results": [3.0, 4.0]})
        self.assertEqual(post("classify", examples=both[:1]).json(), {"results": [[["up", 3.0], ["down", -3.0]]]})
        self.assertEqual(post("regress", context={"x": 8.0}, examples=[{}, both[0]]).json(), {"results": [6.0, 3.0]})
        for verb, body, words in (("regress", {}, "key 'examples' is expected and was not found"), ("regress", {"examples": {}}, "examples"),
                                  ("regress", {"examples": [{"x": 2}]}, "x"), ("regress", {"examples": [{"x": [1.0, "a"]}]}, "x"),
                                  ("regress", {"examples": [{}]}, "x"), ("regress", {"examples": [{"x": None}]}, "x"),
                                  ("classify", {"examples": both, "context": 5}, "Example must be JSON object")):
            self.answers(post(verb, **body), 400, words)
        self.answers(d.post("/v1/models/half:regress", {"signature_name": "none", "examples": both}), 400, "No signature was found with the name: none")
        self.answers(d.post("/v1/models/half:classify", {"signature_name": "regress", "examples": both}), 400, "Expected classification signature outputs")
        self.answers(d.post("/v1/models/half:regress", {"signature_name": "two", "examples": both}), 400, "Expected one input Tensor.")

    def test_packed_bodies_and_answers(self):
        body = json.dumps({"instances": [0] * 2000}).encode()
        want = {"predictions": [3.0] * 2000}
        for pack, name in ((gzip.compress, "gzip"), (zlib.compress, "deflate")):
            r = self.d.post(PREDICT, data=pack(body), headers={"Content-Encoding": name, "Accept-Encoding": name})
            self.assertEqual((r.headers["Content-Encoding"], r.headers["Vary"], r.json()), (name, "Accept-Encoding", want))
            self.assertLess(int(r.headers["Content-Length"]), 500)
        for accept in ("identity", "gzip;q=0", "br", ""):
            r = self.d.post(PREDICT, data=body, headers={"Accept-Encoding": accept})
            self.assertEqual((r.headers.get("Content-Encoding"), r.json()), (None, want))
        r = self.d.post(PREDICT, {"instances": [0]}, headers={"Accept-Encoding": "gzip"})
        self.assertEqual((r.headers.get("Content-Encoding"), r.json()), (None, {"predictions": [3.0]}))   # too short to gain anything
        for bad in (b"no gzip", gzip.compress(body)[:-20]):
            self.answers(self.d.post(PREDICT, data=bad, headers={"Content-Encoding": "gzip"}), 400, "inflating the body: no valid gzip or zlib")
        bomb = gzip.compress(b" " * (1 << 21))
        self.answers(self.d.post(PREDICT, data=bomb, headers={"Content-Encoding": "gzip"}), 413, "more than 1048576 bytes")
        out = subprocess.run(["curl", "-sS", "--compressed", "-d", '{"instances": [0, 2]}', f"http://127.0.0.1:{self.d.rest_port}{PREDICT}"],
                             capture_output=True, text=True, timeout=30)
        self.assertEqual(json.loads(out.stdout), {"predictions": [3.0, 4.0]}, out.stderr)
        with serving("--rest_api_compress_bytes=0") as d:
            self.assertNotIn("Content-Encoding", d.post(PREDICT, data=body, headers={"Accept-Encoding": "gzip"}).headers)

    def test_reload_over_rest(self):
        self.answers(self.d.post("/v1/models/none:reload"), 404, "Could not find any versions of model none")
        with serving("--file_system_poll_wait_seconds=0", "--max_num_load_retries=0") as d:
            d.add("half", 2)
            states = {v["version"]: v["state"] for v in d.post("/v1/models/half:reload").json()["model_version_status"]}
            self.assertEqual(states, {"1": "AVAILABLE", "2": "AVAILABLE"})
            os.mkdir(os.path.join(d.base("half"), "3"))
            states = {v["version"]: v["state"] for v in d.post("/v1/models/half:reload").json()["model_version_status"]}
            self.assertEqual(states["3"], "END")


class Flags(server.Alone):
    def start_fails(self, *flags, code=2, words, **kw):
        got, _, err = Server(*flags, wait=False, **kw).exits()
        self.assertEqual(got, code, err)
        self.assertIn(words, err)

    def test_rest_api_timeout_in_ms(self):
        slow = {"signature_name": "slow", "inputs": {"n": 1 << 60}}
        with serving("--rest_api_timeout_in_ms=300") as d:
            from_s = time.time()
            self.answers(d.post(PREDICT, slow), 504, "deadline")
            self.assertLess(time.time() - from_s, 5 * PATIENCE)
        self.start_fails("--rest_api_timeout_in_ms=-1", words="flag --rest_api_timeout_in_ms: value -1, want 0 to")

    def test_cors(self):
        origin = {"Origin": "https://here.example"}
        with serving("--rest_api_enable_cors_support") as d:
            for r in (d.http("OPTIONS", PREDICT, headers=origin), d.post(PREDICT, {"instances": [0]}), d.get("/v1/models/none")):
                got = [r.headers.get("Access-Control-Allow-" + h) for h in ("Origin", "Methods", "Headers")]
                self.assertEqual(got, ["*", "POST, GET", "Content-Type"])
            r = d.http("OPTIONS", PREDICT, headers=origin)
            self.assertEqual((r.status_code, r.text), (200, ""))
            self.answers(d.http("OPTIONS", PREDICT), 400, "Origin header is missing in CORS preflight")
            self.assertEqual(d.http("OPTIONS", "/v2/models/half/infer", headers=origin).status_code, 200)
            self.assertEqual(d.http("OPTIONS", "/v2").status_code, 400)
        with serving() as d:
            self.assertNotIn("Access-Control-Allow-Origin", d.post(PREDICT, {"instances": [0]}, headers=origin).headers)

    def test_one_thread_each(self):
        with serving("--rest_api_num_threads=1", "--grpc_max_threads=1") as d:
            stub = prediction_service_pb2_grpc.PredictionServiceStub(d.channel)
            calls = [stub.Predict.future(predict_request([i]), 20) for i in range(50)]
            self.assertEqual(d.post(PREDICT, {"instances": [0]}).json(), {"predictions": [2.0]})
            self.assertEqual([list(c.result().outputs["y"].float_val) for c in calls], [[i / 2 + 2] for i in range(50)])
        self.start_fails("--grpc_max_threads=-1", words="flag --grpc_max_threads: value -1")
        self.start_fails("--rest_api_num_threads=x", words="flag --rest_api_num_threads: value 'x' is no integer")

    def test_grpc_channel_arguments(self):
        arguments = "grpc.max_concurrent_streams=3,grpc.max_connection_age_ms=100000,some.text=abc,odd"
        with serving("--grpc_channel_arguments=" + arguments) as d:
            self.assertIn("gRPC channel argument 'odd' is not KEY=VALUE: left out", "".join(d.log))
            stub = prediction_service_pb2_grpc.PredictionServiceStub(d.channel)
            slow = spec(predict_pb2.PredictRequest(), signature="slow")
            slow.inputs["n"].CopyFrom(tf.make_tensor_proto(np.int64(1 << 60)))
            calls = [stub.Predict.future(slow, 20) for _ in range(3)]
            time.sleep(0.3)
            with self.fails(CODE.DEADLINE_EXCEEDED):   # three streams are open: a fourth waits for one of them
                stub.Predict(predict_request([1]), 0.5)
            for c in calls:
                c.cancel()
            self.assertEqual(list(stub.Predict(predict_request([0]), 20).outputs["y"].float_val), [2.0])

    def test_ports(self):
        port = server.free_port()
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            s.listen()
            taken = s.getsockname()[1]
            self.start_fails(f"--port={taken}", code=1, words=f"listening for gRPC on 127.0.0.1:{taken}: the address cannot be bound")
            self.start_fails(f"--rest_api_port={taken}", code=1, words=f"listening on 127.0.0.1 port {taken}: Address already in use")
        self.start_fails("--port=0", "--rest_api_port=0", words="nothing to listen on")
        s = Server(f"--port={port}", f"--rest_api_port={port}")
        self.assertIn(f"rest_api_port {port} is the gRPC port too: the HTTP API is not started", "".join(s.log))
        self.assertEqual((s.rest_port, s.stop()), (0, 0))

    def test_configurations_that_contradict_themselves(self):
        half = os.path.join(MODELS, "half")
        for text, words in ((server.config(("half", half), ("half", half)), "Illegal to list model half multiple times in config list"),
                            (server.config(("half", "half")), "Expected model half to have an absolute path or URI; got base_path()=half"),
                            (f'model_config_list {{ config {{ name: "half" base_path: "{half}" }} }}', "Illegal setting neither model_type nor model_platform"),
                            (server.config(("half", half, "logging_config {}")), "logging_config: log_collector_config of type '' is not known, 'tfrecord' is"),
                            ("custom_model_config {}", "custom_model_config is not supported")):
            self.start_fails(files={"models.config": text}, words=words)
        self.start_fails("--model_config_file=", words="Both server_options.model_base_path and server_options.model_config_file are empty!")
        with serving(files={"models.config": ""}) as d:   # no models at all are a configuration
            self.assertEqual((d.get("/v1/models").json()["data"], d.get("/readyz").status_code), ([], 200))

    def test_saved_model_tags(self):
        with serving("--saved_model_tags=serve,gpu", "--max_num_load_retries=0") as d:
            status = d.get("/v1/models/half").json()["model_version_status"][0]
            self.assertEqual((status["state"], status["status"]["error_code"]), ("END", "NOT_FOUND"))
            self.assertIn("serve,gpu", status["status"]["error_message"])

    def test_version_and_help(self):
        out = subprocess.run([server.DAEMON, "--version"], capture_output=True, text=True, timeout=30)
        self.assertRegex(out.stdout, r"^tensord \d+\.\d+")
        out = subprocess.run([server.DAEMON, "--help"], capture_output=True, text=True, timeout=30)
        self.assertIn("--grpc_channel_arguments", out.stdout)
        self.assertEqual(out.returncode, 0)


class Labels(server.Alone):
    def reload(self, d, *models, **labels):
        q = model_management_pb2.ReloadConfigRequest()
        for name in models or ("half",):
            m = q.config.model_config_list.config.add(name=name, base_path=d.base(name), model_platform="tensorflow")
            m.model_version_policy.all.SetInParent()
            for k, v in labels.items():
                m.version_labels[k] = v
        return model_service_pb2_grpc.ModelServiceStub(d.channel).HandleReloadConfigRequest(q, 30)

    def ask(self, d, label):
        return d.post(f"/v1/models/half/labels/{label}:predict", {"instances": [0]})

    def test_labels_need_available_versions(self):
        with serving(versions={"half": (1, 2)}) as d:
            self.assertEqual(self.reload(d, stable=1).status.error_code, 0)
            self.assertEqual(self.ask(d, "stable").json(), {"predictions": [2.0]})
            self.reload(d, stable=2, old=1)
            self.assertEqual([self.ask(d, n).json()["predictions"] for n in ("stable", "old")], [[3.0], [2.0]])
            words = "Request to assign label to version 9 of model half, which is not currently available for inference"
            for labels in ({"stable": 9}, {"new": 9}):
                with self.fails(CODE.FAILED_PRECONDITION, words):
                    self.reload(d, **labels)
            self.assertEqual(self.ask(d, "stable").json(), {"predictions": [3.0]})   # a refused change changes nothing
            self.reload(d)
            self.answers(self.ask(d, "stable"), 400, "Unrecognized servable version label: stable")

    def test_labels_of_versions_to_come(self):
        with serving("--allow_version_labels_for_unavailable_models") as d:
            self.reload(d, canary=2)
            self.answers(self.ask(d, "canary"), 404, "Servable not found for request: Specific(half, 2)")
            d.add("half", 2)
            for _ in range(200):
                if self.ask(d, "canary").status_code == 200:
                    break
                time.sleep(0.05)
            self.assertEqual(self.ask(d, "canary").json(), {"predictions": [3.0]})
            with self.fails(CODE.FAILED_PRECONDITION, "Request to assign label to version 7 of model half"):
                self.reload(d, canary=7)   # a label in use moves to loaded versions only

    def test_models_come_and_go(self):
        with serving(versions={"half": (1,), "tf1": (1,)}) as d:
            self.reload(d, "half")
            self.answers(d.post("/v1/models/tf1:predict", {"instances": [1]}), 404, "Servable not found for request: Latest(tf1)")
            self.assertEqual(self.reload(d, "tf1").status.error_code, 0)
            self.assertEqual(d.post("/v1/models/tf1:predict", {"instances": [0]}).json(), {"predictions": [2.0]})
            self.answers(d.post(PREDICT, {"instances": [1]}), 404, "Servable not found for request: Latest(half)")
            q = model_management_pb2.ReloadConfigRequest(metric_names=["/tensorflow/cc/saved_model/load_attempt_count", "/none"])
            for name in ("half", "tf1"):
                q.config.model_config_list.config.add(name=name, base_path=d.base(name), model_platform="tensorflow")
            r = model_service_pb2_grpc.ModelServiceStub(d.channel).HandleReloadConfigRequest(q, 30)
            self.assertEqual([(m.name, m.int64_value_increase) for m in r.metric], [(q.metric_names[0], 1), ("/none", 0)])
            os.mkdir(d.base("empty"))
            with self.fails(CODE.UNAVAILABLE, "1 servable(s) did not become available", "empty"):
                self.reload(d, "tf1", "empty")
            self.assertEqual(self.reload(d, "tf1").status.error_code, 0)


class Grpc(Case):
    OPTIONS = {"versions": {"half": (1,), "tf1": (1,)}}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.stub = prediction_service_pb2_grpc.PredictionServiceStub(cls.d.channel)

    def test_examples_with_and_without_a_context(self):
        for make, call, signature in ((classification_pb2.ClassificationRequest, self.stub.Classify, "classify"),
                                      (regression_pb2.RegressionRequest, self.stub.Regress, "regress")):
            q = spec(make(), signature=signature)
            with self.fails(CODE.INVALID_ARGUMENT, "Input is empty."):
                call(q, 10)
            q.input.example_list_with_context.context.features.feature["x"].float_list.value.append(6.0)
            with self.fails(CODE.INVALID_ARGUMENT, "Input is empty."):
                call(q, 10)
            add_examples(q.input.example_list_with_context, None, 8.0)
            r = call(q, 10).result
            got = [c.classes[0].score for c in r.classifications] if signature == "classify" else [v.value for v in r.regressions]
            self.assertEqual(got, [5.0, 6.0])
            add_examples(q.input.example_list, None)
            with self.fails(CODE.INVALID_ARGUMENT, "x"):   # an example without a feature that has no default
                call(q, 10)
            q.ClearField("model_spec")
            with self.fails(CODE.INVALID_ARGUMENT, "Missing ModelSpec"):
                call(q, 10)
            with self.fails(CODE.NOT_FOUND, "Servable not found for request: Latest(none)"):
                call(spec(q, "none"), 10)
            with self.fails(CODE.INVALID_ARGUMENT, "No signature was found with the name: none"):
                call(spec(q, "half", "none"), 10)
            with self.fails(CODE.INVALID_ARGUMENT, "Expected one input Tensor."):
                call(spec(q, "half", "two"), 10)

    def test_multi_inference(self):
        def request(*tasks):
            m = inference_pb2.MultiInferenceRequest()
            for method, *names in tasks:
                spec(m.tasks.add(method_name="tensorflow/serving/" + method), *names)
            m.input.example_list_with_context.context.features.feature["x"].float_list.value.append(2.0)
            add_examples(m.input.example_list_with_context, None, 4.0)
            return m
        r = self.stub.MultiInference(request(("regress", "half", "regress"), ("classify", "half", "classify")), 10)
        self.assertEqual([v.value for v in r.results[0].regression_result.regressions], [3.0, 4.0])
        self.assertEqual([c.classes[1].score for c in r.results[1].classification_result.classifications], [-3.0, -4.0])
        self.assertEqual([x.model_spec.signature_name for x in r.results], ["regress", "classify"])
        for tasks, code, words in (((), CODE.INVALID_ARGUMENT, "ModelSpec"),
                                   ((("regress", "", "regress"),), CODE.INVALID_ARGUMENT, "Found ModelSpec with an empty model name."),
                                   ((("regress", "half", "regress"), ("classify", "tf1", "classify")), CODE.INVALID_ARGUMENT, "must access the same model name"),
                                   ((("regress", "half", "regress"),) * 2, CODE.INVALID_ARGUMENT, "Duplicate evaluation of signature: regress"),
                                   ((("predict", "half", "regress"),), CODE.UNIMPLEMENTED, "Unsupported signature method_name: tensorflow/serving/predict"),
                                   ((("regress", "none", "regress"),), CODE.NOT_FOUND, "Servable not found for request: Latest(none)"),
                                   ((("regress", "half", "none"),), CODE.INVALID_ARGUMENT, "No signature was found with the name: none")):
            with self.fails(code, words):
                self.stub.MultiInference(request(*tasks), 10)

    def test_output_filter_runs_what_it_names(self):
        x = np.float32([[2.0]])
        ask = lambda *names: self.stub.Predict(predict_request(x, "tf1", "partial", output_filter=names), 10).outputs
        now = lambda: ask("now")["now"].float_val[0]
        self.assertEqual((now(), now()), (0.0, 0.0))
        self.assertEqual(list(ask("y")["y"].float_val), [3.0])
        self.assertEqual(ask("next")["next"].float_val[0], 1.0)
        self.assertEqual(now(), 1.0)                                  # what was not asked for did not count
        self.assertEqual(sorted(ask("y", "now")), ["now", "y"])
        for names in ((), ("row9",), ("y", "row9")):
            with self.fails(CODE.INVALID_ARGUMENT, "9"):
                ask(*names)
        with self.fails(CODE.INVALID_ARGUMENT, "output tensor alias not found in signature: z Outputs expected to be in the set {next,now,row9,y}."):
            ask("z")
        with self.fails(CODE.INVALID_ARGUMENT, "duplicate output tensor alias: y"):
            ask("y", "y")

    def test_metadata_and_status_errors(self):
        models = model_service_pb2_grpc.ModelServiceStub(self.d.channel)
        meta = lambda fields=("signature_def",), **kw: self.stub.GetModelMetadata(spec(get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=fields), **kw), 10)
        with self.fails(CODE.INVALID_ARGUMENT, "at least one metadata_field"):
            meta(())
        with self.fails(CODE.INVALID_ARGUMENT, "Metadata field other is not supported"):
            meta(("other",))
        with self.fails(CODE.NOT_FOUND, "Servable not found for request: Specific(half, 5)"):
            meta(version=5)
        with self.fails(CODE.INVALID_ARGUMENT, "Unrecognized servable version label: l"):
            meta(label="l")
        with self.fails(CODE.INVALID_ARGUMENT, "Missing ModelSpec"):
            models.GetModelStatus(get_model_status_pb2.GetModelStatusRequest(), 10)
        with self.fails(CODE.NOT_FOUND, "Could not find any versions of model none"):
            models.GetModelStatus(spec(get_model_status_pb2.GetModelStatusRequest(), "none"), 10)

    def test_session_service_is_not_there(self):
        with self.fails(CODE.UNIMPLEMENTED, "/tensorflow.serving.SessionService/SessionRun"):
            self.d.channel.unary_unary("/tensorflow.serving.SessionService/SessionRun")(b"", timeout=10)

    def test_compressed_messages(self):
        for how in (grpc.Compression.Gzip, grpc.Compression.Deflate):
            r = self.stub.Predict(predict_request(np.zeros(5000)), 10, compression=how)
            self.assertEqual(len(r.outputs["y"].float_val), 5000)
        with serving("--grpc_channel_arguments=grpc.default_compression_algorithm=2,grpc.default_compression_level=3") as d:
            r = prediction_service_pb2_grpc.PredictionServiceStub(d.channel).Predict(predict_request(np.zeros(5000)), 10)
            self.assertEqual(len(r.outputs["y"].float_val), 5000)

    def test_health(self):
        health = health_pb2_grpc.HealthStub(self.d.channel)
        check = lambda name: health.Check(health_pb2.HealthCheckRequest(service=name), timeout=10).status
        for name in ("", "half", "tf1", "PredictionService", "ModelService", "tensorflow.serving.PredictionService", "inference.GRPCInferenceService"):
            self.assertEqual(check(name), health_pb2.HealthCheckResponse.SERVING, name)
        with self.fails(CODE.NOT_FOUND, "no service and no model is named 'none'"):
            check("none")
        with self.fails(CODE.INVALID_ARGUMENT, "a service name may have 4095 bytes"):
            check("x" * 5000)
        watch = health.Watch(health_pb2.HealthCheckRequest(service="none"), timeout=10)
        self.assertEqual(next(watch).status, health_pb2.HealthCheckResponse.SERVICE_UNKNOWN)
        watch.cancel()
        with serving(versions={"half": (1,), "tf1": ()}) as d:   # one model has no version
            stub = health_pb2_grpc.HealthStub(d.channel)
            pool = descriptor_pool.DescriptorPool(ProtoReflectionDescriptorDatabase(d.channel))   # not every stub has List yet
            kind = message_factory.GetMessageClass(pool.FindServiceByName("grpc.health.v1.Health").methods_by_name["List"].output_type)
            statuses = kind.FromString(d.channel.unary_unary("/grpc.health.v1.Health/List")(b"", timeout=10)).statuses
            self.assertEqual({k: v.status for k, v in statuses.items()}, {"": 2, "half": 1, "tf1": 2})
            watch = stub.Watch(health_pb2.HealthCheckRequest(service=""), timeout=20)
            self.assertEqual(next(watch).status, health_pb2.HealthCheckResponse.NOT_SERVING)
            d.add("tf1", 1)
            self.assertEqual(next(watch).status, health_pb2.HealthCheckResponse.SERVING)
            watch.cancel()

    def test_reflection(self):
        db = ProtoReflectionDescriptorDatabase(self.d.channel)
        services = db.get_services()
        for name in ("tensorflow.serving.PredictionService", "tensorflow.serving.ModelService", "inference.GRPCInferenceService", "grpc.health.v1.Health"):
            self.assertIn(name, services)
        pool = descriptor_pool.DescriptorPool(db)
        service = pool.FindServiceByName("tensorflow.serving.ModelService")
        method = service.methods_by_name["GetModelStatus"]
        make = lambda d: message_factory.GetMessageClass(d)
        q = make(method.input_type)()
        q.model_spec.name = "half"
        r = self.d.channel.unary_unary(f"/{service.full_name}/{method.name}")(q.SerializeToString(), timeout=10)
        self.assertEqual(make(method.output_type).FromString(r).model_version_status[0].version, 1)
        for name in ("tensorflow.serving.ModelSpec", "tensorflow.serving.ModelSpec.name", "tensorflow.serving.ModelSpec.version_choice",
                     "tensorflow.serving.ModelVersionStatus.State", "tensorflow.serving.ModelVersionStatus.AVAILABLE", "tensorflow.DT_FLOAT",
                     "inference.ModelInferRequest.InferInputTensor.shape", "tensorflow.serving.PredictionService.Predict"):
            self.assertTrue(ProtoReflectionDescriptorDatabase(self.d.channel).FindFileContainingSymbol(name).name, name)   # one that knows nothing yet
        for name in ("none.Such", "tensorflow.serving.ModelSpec.none", "tensorflow.serving.AVAILABLE", "tensorflow.serving.ModelSpec.name.x"):
            with self.assertRaises(KeyError):
                ProtoReflectionDescriptorDatabase(self.d.channel).FindFileContainingSymbol(name)
        with self.assertRaises(KeyError):
            pool.FindServiceByName("none.Such")


if __name__ == "__main__":
    unittest.main()
