"""OpenTelemetry: trace context over REST and gRPC, and the spans that a collector gets (OTLP/HTTP, read by OpenTelemetry's own schema
where that is installed).

    build/venv/bin/python tests/e2e/spans_test.py [-v]
"""
import contextlib
import http.server
import json
import os
import threading
import time
import unittest

import numpy as np

import server
from server import PATIENCE, SANITIZED, Server, config, serving

from messages import tf  # noqa: E402
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc  # noqa: E402

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


class Collector(http.server.ThreadingHTTPServer):
    """Keeps every span; `status` and `delay` are how it answers."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.spans, self.resources, self.paths, self.status, self.delay = [], [], [], 200, 0.0
        self.thread = threading.Thread(target=self.serve_forever, daemon=True)
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server_port}"

    def wait(self, n, seconds=10):
        end = time.monotonic() + seconds
        while len(self.spans) < n and time.monotonic() < end:
            time.sleep(0.02)
        return list(self.spans)

    def close(self):
        self.shutdown()
        self.server_close()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        time.sleep(self.server.delay)
        assert self.headers["Content-Type"] == "application/json"
        self.server.paths.append(self.path)
        if self.server.status == 200:
            for r in json.loads(body)["resourceSpans"]:
                self.server.resources.append(attributes(r["resource"]))
                for s in r["scopeSpans"]:
                    self.server.spans += s["spans"]
            with contextlib.suppress(ImportError):
                from google.protobuf import json_format
                from opentelemetry.proto.collector.trace.v1 import trace_service_pb2
                m = json.loads(body)      # ids are hex in OTLP's JSON, where protobuf's own has base64
                for s in m["resourceSpans"][0]["scopeSpans"][0]["spans"]:
                    for key in ("traceId", "spanId", "parentSpanId"):
                        s[key] = __import__("base64").b64encode(bytes.fromhex(s[key])).decode()
                json_format.ParseDict(m, trace_service_pb2.ExportTraceServiceRequest())
        self.send_response(self.server.status)
        self.send_header("Content-Length", "2")
        self.end_headers()
        with contextlib.suppress(OSError):
            self.wfile.write(b"{}")

    def log_message(self, *args):
        pass


def attributes(of):
    return {a["key"]: a["value"].get("stringValue", a["value"].get("intValue")) for a in of["attributes"]}


def named(spans, name):
    return [s for s in spans if s["name"] == name]


def counted(d, outcome):
    for line in d.get("/metrics").text.split("\n"):
        if line.startswith(f'tensord_spans_total{{outcome="{outcome}"}}'):
            return int(float(line.split()[-1]))
    return 0


def make_loud(where):
    m = tf.Module()
    m.f = tf.function(lambda x: (tf.print("sum is", tf.reduce_sum(x)), x)[1], input_signature=[tf.TensorSpec([None], tf.float32, name="x")])
    tf.saved_model.save(m, f"{where}/1", signatures=m.f)


def request(x):
    r = predict_pb2.PredictRequest()
    r.model_spec.name = "half"
    r.inputs["x"].CopyFrom(tf.make_tensor_proto(np.float32(x)))
    return r


REST = "POST /v1/models/{model}{at}:predict"
GRPC = "tensorflow.serving.PredictionService/Predict"


class Spans(unittest.TestCase):
    def setUp(self):
        server.models()
        self.collector = Collector()
        self.addCleanup(self.collector.close)

    def test_spans_of_requests(self):
        began = time.time_ns()
        with serving(f"--otlp_endpoint={self.collector.url}", "--trace_sampling=0") as d:
            stub = prediction_service_pb2_grpc.PredictionServiceStub(d.channel)
            context = {"traceparent": f"00-{TRACE}-{PARENT}-01", "tracestate": "congo=t61rcWkgMzE,rojo=00f067aa0ba902b7"}
            self.assertEqual(d.post("/v1/models/half:predict", {"instances": [5.0]}, headers=context).status_code, 200)
            stub.Predict(request([1, 2]), 10, metadata=list(context.items()))
            self.assertEqual(d.post("/v1/models/half:predict", {"instances": ["no"]}, headers=context).status_code, 400)
            self.assertEqual(d.post("/v1/models/none:predict", {"instances": [5.0]}, headers=context).status_code, 404)
            # Not sampled by the caller, or by nobody: no spans.
            d.post("/v1/models/half:predict", {"instances": [5.0]}, headers={"traceparent": f"00-{TRACE}-{PARENT}-00"})
            d.post("/v1/models/half:predict", {"instances": [5.0]})
            stub.Predict(request([1]), 10, metadata=[("traceparent", "garbage")])
            end = time.monotonic() + 10
            while len([s for s in self.collector.spans if s["kind"] == 2]) < 4 and time.monotonic() < end:
                time.sleep(0.05)
            time.sleep(1.2)
            spans = list(self.collector.spans)
            roots = [s for s in spans if s["kind"] == 2]
            self.assertEqual([s["name"] for s in roots], [REST, GRPC, REST, REST])
            self.assertEqual(set(self.collector.paths), {"/v1/traces"})
            self.assertEqual(self.collector.resources[0]["service.name"], "tensord")
            for s in spans:
                self.assertEqual(s["traceId"], TRACE)
                self.assertLessEqual(int(s["startTimeUnixNano"]), int(s["endTimeUnixNano"]))
                self.assertTrue(began <= int(s["startTimeUnixNano"]) and int(s["endTimeUnixNano"]) <= time.time_ns())
            self.assertEqual(len({s["spanId"] for s in spans}), len(spans))
            for s in roots:
                self.assertEqual((s["parentSpanId"], s["traceState"]), (PARENT, context["tracestate"]))
            for root in roots[:2]:
                children = [s for s in spans if s["parentSpanId"] == root["spanId"]]
                self.assertLessEqual({"decode", "compute", "encode"}, {s["name"] for s in children})
                for s in children:     # within the request, one after the other
                    self.assertTrue(int(root["startTimeUnixNano"]) <= int(s["startTimeUnixNano"]) and int(s["endTimeUnixNano"]) <= int(root["endTimeUnixNano"]))
                for before, after in zip(children, children[1:]):
                    self.assertLessEqual(int(before["endTimeUnixNano"]), int(after["startTimeUnixNano"]))
            rest, rpc, bad, missing = map(attributes, roots)
            self.assertEqual(rest, {"http.request.method": "POST", "http.route": REST[5:], "http.response.status_code": "200",
                                    "tensord.model.name": "half", "tensord.model.version": "1", "tensord.signature": "serving_default"})
            self.assertEqual({k: v for k, v in rpc.items() if k.startswith("rpc.")}, {"rpc.system": "grpc", "rpc.grpc.status_code": "0",
                             "rpc.service": "tensorflow.serving.PredictionService", "rpc.method": "Predict"})
            self.assertEqual((bad["http.response.status_code"], bad["error.type"]), ("400", "INVALID_ARGUMENT"))
            self.assertEqual((missing["http.response.status_code"], missing["error.type"]), ("404", "NOT_FOUND"))
            self.assertTrue(all("status" not in s for s in roots))     # what a client did wrong is not the server's error
            self.assertEqual(counted(d, "exported"), len(spans))

    def test_log_lines_carry_the_trace_of_their_request(self):
        """Those of the front end and those of ops that print; of the caller's trace without a collector, and with one of the span that it gets."""
        files = {"models.config": config(("loud", server.made(make_loud)))}
        sent = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
        for flags in ((), (f"--otlp_endpoint={self.collector.url}", "--trace_sampling=0")):
            with serving("--log_format=json", *flags, versions={}, files=files) as d:
                ask = lambda x, **headers: self.assertEqual(d.post("/v1/models/loud:predict", {"instances": [x]}, headers=headers).status_code, 200)
                line = lambda words: [row for row in map(json.loads, "".join(d.log).splitlines()) if words in row["message"]]
                ask(1.5, **sent)
                ask(2.5)
                ask(3.5, traceparent="garbage")
                q = request([4.5])
                q.model_spec.name = "loud"
                prediction_service_pb2_grpc.PredictionServiceStub(d.channel).Predict(q, 10, metadata=list(sent.items()))
                self.assertEqual(d.post("/v1/models/loud:reload", headers=sent).status_code, 200)
                self.assertTrue(d.wait_log("sum is 4.5") and d.wait_log(":reload"))
                for words in ("sum is 1.5", "sum is 4.5", ":reload"):
                    self.assertEqual([row["trace_id"] for row in line(words)], [TRACE], line(words))
                self.assertNotIn("span_id", line(":reload")[0])
                for words in ("sum is 2.5", "sum is 3.5"):
                    self.assertEqual(["trace_id" in row for row in line(words)], [bool(flags)], line(words))    # one that begins here
                if flags:
                    roots = {s["spanId"] for s in self.collector.wait(2) if s["kind"] == 2}
                    self.assertIn(line("sum is 1.5")[0]["span_id"], roots)
                else:
                    self.assertNotIn("span_id", line("sum is 1.5")[0])

    @unittest.skipIf(SANITIZED, "a sanitizer's end is not possible in a sandbox")
    def test_spans_leave_the_sandbox(self):
        with serving("--sandbox", f"--otlp_endpoint={self.collector.url}") as d:
            self.assertEqual(d.post("/v1/models/half:predict", {"instances": [5.0]}).status_code, 200)
            self.assertTrue(self.collector.wait(1), "".join(d.log))

    def test_traces_that_begin_here_are_sampled(self):
        with serving(f"--otlp_endpoint={self.collector.url}/", "--trace_sampling=0.25") as d:
            for _ in range(400):
                d.post("/v1/models/half:predict", {"instances": [5.0]})
            time.sleep(1.5)
            roots = [s for s in self.collector.spans if s["kind"] == 2]
            self.assertTrue(60 <= len(roots) <= 145, len(roots))
            self.assertEqual(len({s["traceId"] for s in roots}), len(roots))
            self.assertEqual({s["parentSpanId"] for s in roots}, {""})
            # Whatever is no trace context begins a trace, too.
            wrong = [f"00-{'0' * 32}-{PARENT}-01", f"00-{TRACE}-{'0' * 16}-01", f"ff-{TRACE}-{PARENT}-01", f"00-{TRACE.upper()}-{PARENT}-01",
                     f"00-{TRACE}-{PARENT}-01-more", f"00-{TRACE}-{PARENT}-0", "", "00", "é" * 60]
            for w in wrong:
                r = d.post("/v1/models/half:predict", {"instances": [5.0]}, headers={"traceparent": w.encode()})
                self.assertEqual(r.status_code, 200)
            d.post("/v1/models/half:predict", {"instances": [5.0]}, headers={"traceparent": f"01-{TRACE}-{PARENT}-03-later"})
            time.sleep(1.5)
            self.assertEqual(len([s for s in self.collector.spans if s["traceId"] == TRACE and s["kind"] == 2]), 1)

    def test_a_collector_that_is_slow_or_gone_delays_nobody(self):
        self.collector.delay = 30
        with serving(f"--otlp_endpoint={self.collector.url}") as d:
            slowest, stub = 0.0, prediction_service_pb2_grpc.PredictionServiceStub(d.channel)
            for i in range(20000):
                began = time.monotonic()
                stub.Predict(request([1]), 30)
                slowest = max(slowest, time.monotonic() - began)
                if i % 400 == 399 and counted(d, "dropped") > 0:  # some 2,000 wait; where requests are slow some of those are given up meanwhile
                    break
            self.assertLess(slowest, 8.0)  # a collector's answer takes longer
            self.assertTrue(counted(d, "dropped") > 0)
            began = time.monotonic()
        self.assertLess(time.monotonic() - began, 4 * PATIENCE)     # the stop waits a second for it
        self.collector.delay = 0
        with serving("--otlp_endpoint=http://127.0.0.1:9") as d:
            self.assertEqual(d.post("/v1/models/half:predict", {"instances": [5.0]}).status_code, 200)
            self.assertTrue(d.wait_log("spans are lost"))

    def test_variables_and_what_is_refused(self):
        os.environ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"], os.environ["OTEL_SERVICE_NAME"] = self.collector.url + "/my/own", "shop"
        try:
            with serving() as d:
                d.post("/v1/models/half:predict", {"instances": [5.0]})
                self.assertTrue(self.collector.wait(1))
        finally:
            del os.environ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"], os.environ["OTEL_SERVICE_NAME"]
        self.assertEqual((self.collector.paths[0], self.collector.resources[0]["service.name"]), ("/my/own", "shop"))
        for url in ("https://127.0.0.1:4318", "127.0.0.1:4318", "http://", "http://a b", "http://h:123456"):
            code, _, text = Server(f"--otlp_endpoint={url}", wait=False).exits()
            self.assertEqual(code, 2, text)
            self.assertIn("--otlp_endpoint '" + url, text)


if __name__ == "__main__":
    unittest.main()
