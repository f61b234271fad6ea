"""GET /metrics and the monitoring path of TF Serving, read by Prometheus' own parser.

    build/venv/bin/python tests/e2e/metrics_test.py [-v] [Metrics.test_...]
"""
import os
import re
import threading
import unittest

import numpy as np
from prometheus_client.parser import text_string_to_metric_families

import server
from server import CODE, Case, Server, serving

from messages import tf  # noqa: E402
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc, regression_pb2  # noqa: E402

PATH = "/monitoring/prometheus/metrics"
SERVING = ":tensorflow:serving:"


with open(os.path.join(server.ROOT, "docs", "metrics.md")) as page:  # made of the table of metrics (docs/manual.c)
    TOLD = {name: set(labels.split(", ")) - {""} for name, labels in re.findall(r"^\| `([\w:]+)` \| [^|]* \| ([^|]*) \|", page.read(), re.M)}


def request(x, name="half", signature=""):
    r = predict_pb2.PredictRequest()
    r.model_spec.name, r.model_spec.signature_name = name, signature
    r.inputs["x"].CopyFrom(tf.make_tensor_proto(np.float32(x)))
    return r


class Metrics(Case):
    FLAGS = ("--monitoring_config_file={dir}/monitoring",)
    OPTIONS = {"files": {"monitoring": "prometheus_config { enable: true }"}, "versions": {"half": (1, 2), "tf1": (1,)}}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.stub = prediction_service_pb2_grpc.PredictionServiceStub(cls.d.channel)

    def read(self, path="/metrics", d=None):
        """Samples by name and labels; checks what holds for every histogram."""
        r = (d or self.d).get(path)
        self.assertEqual((r.status_code, r.headers["Content-Type"].split(";")[0]), (200, "text/plain"), r.text)
        out = {}
        for family in text_string_to_metric_families(r.text):
            rows = {}
            for s in family.samples:
                name = s.name if f"\n{s.name}{{" in r.text else s.name.removesuffix("_total")   # the parser names counters anew
                key = (name, *sorted(s.labels.items()))
                self.assertNotIn(key, out)
                self.assertEqual(set(s.labels) - {"le"}, TOLD[name if name in TOLD else re.sub("_(bucket|sum|count)$", "", name)], s)
                out[key] = s.value
                if s.name.endswith("_bucket"):
                    labels = tuple(sorted(kv for kv in s.labels.items() if kv[0] != "le"))
                    rows.setdefault(labels, []).append((float(s.labels["le"]), s.value))
            for labels, buckets in rows.items():
                self.assertEqual(buckets, sorted(buckets))
                self.assertEqual([v for _, v in buckets], sorted(v for _, v in buckets))
                self.assertEqual(buckets[-1], (float("inf"), out[(family.name + "_count", *labels)]))
        return out

    def changes(self, act):
        """What act() adds to the samples, by name and labels."""
        before = self.read()
        act()
        after = self.read()
        return {k: v - before.get(k, 0) for k, v in after.items() if v != before.get(k, 0)}

    @staticmethod
    def key(name, **labels):
        return (name, *sorted(labels.items()))

    def test_requests_are_counted_by_model_status_and_way(self):
        def act():
            for _ in range(3):
                self.stub.Predict(request([1.0]), 10)
            self.d.post("/v1/models/half:predict", {"instances": [1]})
            self.d.post("/v1/models/half:predict", {"instances": ["no"]})
            self.d.get("/v1/models/half")
            with self.fails(CODE.FAILED_PRECONDITION):
                self.stub.Predict(request([1.0], signature="none"), 10)
            q = regression_pb2.RegressionRequest()
            q.model_spec.name, q.model_spec.signature_name = "half", "regress"
            for x in (1.0, 2.0):
                q.input.example_list.examples.add().features.feature["x"].float_list.value.append(x)
            self.stub.Regress(q, 10)
        c = self.changes(act)
        count = lambda status: c.get(self.key(SERVING + "request_count", model_name="half", status=status))
        self.assertEqual([count(s) for s in ("OK", "INVALID_ARGUMENT", "FAILED_PRECONDITION", "INTERNAL")], [6, 1, 1, None])
        latency = lambda api, entry: c.get(self.key(SERVING + "request_latency_count", model_name="half", API=api, entrypoint=entry))
        self.assertEqual([latency(*k) for k in (("Predict", "GRPC"), ("predict", "REST"), ("", "REST"), ("Regress", "GRPC"))], [3, 1, 1, 1])
        runs = lambda api: c.get(self.key(SERVING + "runtime_latency_count", model_name="half", API=api, runtime="TF1"))
        self.assertEqual([runs("Predict"), runs("Regress")], [4, 1])
        self.assertEqual(c[self.key(SERVING + "request_example_counts_count", model="half")], 1)
        self.assertEqual(c[self.key(SERVING + "request_example_count_total", model="half")], 2)
        self.assertEqual((c[(":tensorflow:core:graph_runs",)], c[(":tensorflow:core:direct_session_runs",)]), (5, 5))
        self.assertGreater(self.read()[(":tensorflow:core:graph_run_time_usecs",)], 0)
        self.assertEqual(c[self.key("tensord_version_requests_total", model_name="half", version="2", outcome="ok")], 5)

    def test_latency_by_version_signature_protocol_and_code(self):
        def act():
            for x in ([1.0], [1.0, 2.0]):
                self.stub.Predict(request(x), 10)
            self.d.post("/v1/models/half/versions/1:predict", {"instances": [1]})
            self.d.post("/v1/models/half:predict", {"inputs": {"z": [1]}})
            with self.fails(CODE.FAILED_PRECONDITION):
                self.stub.Predict(request([1.0], signature="none"), 10)
            self.d.post("/v1/models/half/versions/9:predict", {"instances": [1]})
            self.d.post("/v2/models/half/infer", {"inputs": [{"name": "x", "shape": [1], "datatype": "FP32", "data": [1]}]})
            self.d.post("/v1/models/half:gradient", {"inputs": {"x": [1.0]}, "target": "y", "wrt": ["x"]})
            self.d.get("/v1/models/half")
        c = self.changes(act)
        mine = {tuple(dict(k[1:])[n] for n in ("version", "signature", "API", "protocol", "code")): v for k, v in c.items()
                if k[0] == "tensord_request_latency_us_count" and dict(k[1:])["model_name"] == "half"}
        default = "serving_default"
        self.assertEqual(mine, {
            ("2", default, "Predict", "grpc", "OK"): 2, ("1", default, "Predict", "rest", "OK"): 1, ("2", default, "Predict", "rest", "INVALID_ARGUMENT"): 1,
            ("2", "", "Predict", "grpc", "FAILED_PRECONDITION"): 1, ("", "", "Predict", "rest", "NOT_FOUND"): 1,
            ("2", default, "ModelInfer", "rest", "OK"): 1, ("2", default, "Gradient", "rest", "OK"): 1})
        self.assertEqual(c[self.key("nv_inference_request_success", model="half", version="2")], 4)
        self.assertEqual(c[self.key("nv_inference_count", model="half", version="1")], 1)

    def test_series_of_a_version_go_with_it(self):
        with serving("--file_system_poll_wait_seconds=0") as d:
            versions = lambda: {dict(k[1:])["version"] for k in self.read(d=d) if k[0] == "tensord_request_latency_us_count"}
            requests = lambda: self.read(d=d)[self.key(SERVING + "request_count", model_name="half", status="OK")]
            d.post("/v1/models/half:predict", {"instances": [1]})
            self.assertEqual((versions(), requests()), ({"1"}, 1))
            d.post("/v2/repository/models/half/unload")
            self.assertTrue(server.until(lambda: not versions()))
            self.assertEqual(requests(), 1)
            d.post("/v2/repository/models/half/load")
            d.post("/v1/models/half:predict", {"instances": [1]})
            self.assertEqual((versions(), requests()), ({"1"}, 2))

    def test_buckets_are_tf_serving_s(self):
        self.stub.Predict(request([1.0]), 10)
        bounds = [float(dict(k[1:])["le"]) for k in self.read() if k[0] == SERVING + "request_latency_bucket"
                  and dict(k[1:])["API"] == "Predict"]
        self.assertEqual(len(bounds), 34)
        np.testing.assert_allclose(bounds[:33], [10 * 1.8**i for i in range(33)], rtol=1e-5)

    def test_only_configured_models_make_labels(self):
        def act():
            for i in range(50):
                self.d.post(f"/v1/models/made-up-{i}:predict", {"instances": [1]})
                with self.fails(CODE.NOT_FOUND):
                    self.stub.Predict(request([1.0], f"made-up-{i}"), 10)
        c = self.changes(act)
        self.assertFalse([k for k in c if "made-up" in str(k)])
        self.assertEqual(c[self.key(SERVING + "request_count", model_name="", status="NOT_FOUND")], 100)

    def test_v2_requests_are_those_of_their_model(self):
        body = {"inputs": [{"name": "x", "shape": [1], "datatype": "FP32", "data": [1]}]}
        c = self.changes(lambda: [self.d.post(f"/v2/models/{m}/infer", body) for m in ("half", "half:serving_default")])
        self.assertEqual(c[self.key(SERVING + "request_latency_count", model_name="half", API="infer", entrypoint="REST")], 2)

    def test_nothing_is_lost_when_many_count_at_once(self):
        def act():
            def ask():
                for _ in range(50):
                    self.stub.Predict(request([1.0]), 20)
            threads = [threading.Thread(target=ask) for _ in range(8)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
        self.assertEqual(self.changes(act)[self.key(SERVING + "request_count", model_name="half", status="OK")], 400)

    def test_loads_and_the_process(self):
        m = self.read()
        path = self.d.base("half") + "/1"
        self.assertEqual(m[self.key(":tensorflow:cc:saved_model:load_attempt_count", model_path=path, status="success")], 1)
        self.assertGreater(m[self.key(":tensorflow:cc:saved_model:load_latency", model_path=path)], 0)
        for stage in ("restore_graph", "init_graph"):
            self.assertEqual(m[self.key(":tensorflow:cc:saved_model:load_latency_by_stage_count", model_path=path, stage=stage)], 1)
        self.assertGreater(m[("process_resident_memory_bytes",)], 1 << 20)
        self.assertGreater(m[("process_open_fds",)], 3)
        self.assertGreater(m[("process_start_time_seconds",)], 1.7e9)
        self.assertGreater(m[self.key("tensord_version_weight_bytes", model_name="tf1", version="1")], 0)

    def test_the_monitoring_path(self):
        self.assertIn((":tensorflow:core:graph_runs",), self.changes(lambda: self.d.post("/v1/models/half:predict", {"instances": [1]})))
        self.assertIn("process_start_time_seconds", self.d.get(PATH).text)
        self.answers(self.d.get(PATH + "?x=1"), 400, "Unexpected path: " + PATH + "?x=1")
        with serving() as d:
            self.answers(d.get(PATH), 404, "Not Found")
            self.assertEqual(d.get("/metrics").status_code, 200)
        with serving("--monitoring_config_file={dir}/m", files={"m": 'prometheus_config { enable: true path: "/other" }'}) as d:
            self.assertEqual((d.get("/other").status_code, d.get(PATH).status_code), (200, 404))
        with serving("--monitoring_config_file={dir}/m", files={"m": "prometheus_config { enable: false }"}) as d:
            self.answers(d.get(PATH), 404, "Not Found")

    def test_a_wrong_configuration_ends_the_start(self):
        for text, words in (("prometheus_config { enable: maybe }", "Error parsing text-format tensorflow.serving.MonitoringConfig"),
                            ('prometheus_config { path: "x" }', "prometheus path 'x', want /...")):
            code, _, err = Server("--monitoring_config_file={dir}/m", files={"m": text}, wait=False).exits()
            self.assertEqual(code, 2)
            self.assertIn(words, err)

    def test_labels_are_escaped(self):
        name = 'a"b\\c'
        half = server.MODELS + "/half"
        text = f'model_config_list {{ config {{ name: "a\\"b\\\\c" base_path: "{half}" model_platform: "tensorflow" }} }}'
        with serving(files={"models.config": text}) as d:
            prediction_service_pb2_grpc.PredictionServiceStub(d.channel).Predict(request([1.0], name), 10)
            self.assertEqual(self.read(d=d)[self.key(SERVING + "request_count", model_name=name, status="OK")], 1)


if __name__ == "__main__":
    unittest.main()
