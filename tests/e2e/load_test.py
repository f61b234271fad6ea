"""Load by wrk, h2load and curl, a few seconds each: no request fails, also while versions change; wrong ones fail, all of them, with their words.

    build/venv/bin/python tests/e2e/load_test.py [-v] [Load.test_...]
"""
import json
import os
import re
import subprocess
import threading
import time
import unittest

import numpy as np

from server import Case

from messages import tf  # noqa: E402
from tensorflow_serving.apis import predict_pb2  # noqa: E402

SECONDS = 2
LUA = 'wrk.method = "POST"\nwrk.body = [[%s]]\nwrk.headers["Content-Type"] = "application/json"\n'


def message(signature=""):
    """A framed PredictRequest, as it stands in an HTTP/2 stream."""
    r = predict_pb2.PredictRequest()
    r.model_spec.name, r.model_spec.signature_name = "half", signature
    r.inputs["x"].CopyFrom(tf.make_tensor_proto(np.float32([1, 2, 3])))
    data = r.SerializeToString()
    return b"\0" + len(data).to_bytes(4, "big") + data


class Load(Case):
    def run_tool(self, *args):
        out = subprocess.run(args, capture_output=True, text=True, timeout=60)
        self.assertEqual(out.returncode, 0, out.stdout + out.stderr)
        return out.stdout

    def path(self, name, content):
        where = os.path.join(self.d.dir, name)
        with open(where, "wb") as f:
            f.write(content)
        return where

    def wrk(self, body):
        """Requests made, and how many of them were not answered with 2xx; broken connections fail the test."""
        script = self.path("post.lua", (LUA % body).encode())
        out = self.run_tool("wrk", "-t1", "-c32", f"-d{SECONDS}s", "-s", script, f"http://127.0.0.1:{self.d.rest_port}/v1/models/half:predict")
        self.assertNotIn("Socket errors", out)
        bad = re.search(r"Non-2xx or 3xx responses: (\d+)", out)
        return int(re.search(r"(\d+) requests in", out).group(1)), int(bad.group(1)) if bad else 0

    def h2load(self, data):
        """How many requests were made and ended; the codes of gRPC are the counters' affair."""
        body = self.path("grpc.bin", data)
        out = self.run_tool("h2load", "-t1", "-c4", "-m16", "-n4000", "-d", body, "-H", "content-type: application/grpc", "-H", "te: trailers",
                            f"http://127.0.0.1:{self.d.port}/tensorflow.serving.PredictionService/Predict")
        done, failed, errored, timeout = (int(v) for v in re.search(r"(\d+) succeeded, (\d+) failed, (\d+) errored, (\d+) timeout", out).groups())
        self.assertEqual((failed, errored, timeout), (0, 0, 0), out)
        return done

    def counted(self, status):
        m = re.search(rf':tensorflow:serving:request_count{{model_name="half",status="{status}"}} (\d+)', self.d.get("/metrics").text)
        return int(m.group(1)) if m else 0

    def test_wrk(self):
        made, bad = self.wrk('{"instances": [1, 2, 3]}')
        self.assertGreater(made, 100)
        self.assertEqual(bad, 0)

    def test_wrk_with_wrong_bodies(self):
        made, bad = self.wrk('{"instances": ["no number"]}')
        self.assertGreater(made, 100)
        self.assertEqual(bad, made)
        self.answers(self.d.post("/v1/models/half:predict", {"instances": ["no number"]}), 400, "is not of expected type: float")

    def test_wrk_while_versions_come_and_go(self):
        def change():
            for v in range(10, 10 + 4 * SECONDS):
                self.d.add("half", v, source=1 + v % 2)
                time.sleep(0.25)
                if v > 10:
                    os.unlink(os.path.join(self.d.base("half"), str(v - 1)))
        t = threading.Thread(target=change)
        t.start()
        made, bad = self.wrk('{"instances": [1, 2, 3]}')
        t.join()
        self.assertGreater(made, 100)
        self.assertEqual(bad, 0)

    def test_h2load(self):
        before = self.counted("OK")
        done = self.h2load(message())
        self.assertEqual((done, self.counted("OK") - before), (4000, 4000))

    def test_h2load_with_wrong_messages(self):
        before = self.counted("FAILED_PRECONDITION")
        done = self.h2load(message("none"))
        self.assertEqual((done, self.counted("FAILED_PRECONDITION") - before), (4000, 4000))

    def test_curl(self):
        url = f"http://127.0.0.1:{self.d.rest_port}/v1/models/half:predict"
        out = self.run_tool("curl", "-sS", "--fail", "-Z", "--parallel-max", "8", "-d", '{"instances": [0]}', *[url] * 50)
        self.assertEqual(out.count("predictions"), 50)
        out = self.run_tool("curl", "-sS", "-w", "\n%{http_code}", "-d", "{", url)
        self.assertRegex(out, r"(?s)JSON Parse error.*\n400$")
        out = self.run_tool("curl", "-sS", f"http://127.0.0.1:{self.d.rest_port}/v1/models/half/metadata")
        self.assertIn("serving_default", json.loads(out)["metadata"]["signature_def"]["signature_def"])

    def test_curl_speaks_grpc(self):
        def call(data):
            return self.run_tool("curl", "-sS", "--http2-prior-knowledge", "-D", "-", "-o", os.path.join(self.d.dir, "out"), "-H", "content-type: application/grpc",
                                 "-H", "te: trailers", "--data-binary", "@" + self.path("grpc.bin", data),
                                 f"http://127.0.0.1:{self.d.port}/tensorflow.serving.PredictionService/Predict")
        self.assertIn("grpc-status: 0", call(message()))
        with open(os.path.join(self.d.dir, "out"), "rb") as f:
            r = predict_pb2.PredictResponse.FromString(f.read()[5:])
        self.assertEqual(len(r.outputs["y"].float_val), 3)
        self.assertRegex(call(message("none")), r'(?s)grpc-status: 9.*grpc-message: Serving signature key "none" not found\.')


if __name__ == "__main__":
    unittest.main()
