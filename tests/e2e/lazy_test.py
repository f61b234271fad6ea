"""--lazy_loading and --max_resident_bytes: models are ready before they are loaded, their first requests wait and nobody else does, the
least recently used make room.

    build/venv/bin/python tests/e2e/lazy_test.py [-v] [Lazy.test_...]
"""
import concurrent.futures
import os
import re
import shutil
import threading
import time
import unittest

import numpy as np
import tritonclient.grpc as triton

from server import ROOT, SANITIZED, Case, Server, config

DIGITS = os.path.join(ROOT, "deploy", "models", "digits", "1")
IMAGE = np.arange(64, dtype=np.float32).reshape(1, 8, 8) % 17
NAMES = [f"m{i}" for i in range(6)]
LIMIT = 700_000  # two or three of them
# Runs for minutes before it is loaded: what ends it is --load_timeout.
SLOW = """max_batch_size: 1024
model_warmup [ { name: "w" batch_size: 1024 count: 100000
                 inputs { key: "images" value { data_type: TYPE_FP32 dims: [8, 8] zero_data: true } } } ]
"""


def serve(*flags, names=NAMES, configs={}):
    d = Server("--lazy_loading", *flags, versions={}, wait=False)
    for name in names:
        shutil.copytree(DIGITS, f"{d.base(name)}/1")
        if name in configs:
            with open(f"{d.base(name)}/config.pbtxt", "w") as f:
                f.write(configs[name])
    with open(f"{d.dir}/models.config", "w") as f:
        f.write(config(*((n, d.base(n)) for n in names)))
    d.start()
    return d


class Lazy(Case):
    @classmethod
    def setUpClass(cls):
        pass

    @classmethod
    def tearDownClass(cls):
        pass

    def serve(self, *flags, **kw):
        self.d = serve(*flags, **kw)
        self.v2 = triton.InferenceServerClient(f"127.0.0.1:{self.d.port}")
        self.addCleanup(self.stop)
        return self.d

    def stop(self):
        self.v2.close()
        self.assertEqual(self.d.stop(), 0, "".join(self.d.log[-30:]))

    def metric(self, name):
        return float(re.search(rf"^{name}{{}} (\S+)$", self.d.get("/metrics").text, re.M).group(1))

    def version(self, model):
        return next(m for m in self.d.get("/v1/models").json()["models"] if m["name"] == model)["versions"][0]

    def rest(self, model, **kw):
        return self.d.post(f"/v1/models/{model}:predict", {"instances": IMAGE.tolist()}, **kw)

    def grpc(self, model, **kw):
        given = triton.InferInput("images", [1, 8, 8], "FP32")
        given.set_data_from_numpy(IMAGE)
        return self.v2.infer(model, [given], **kw).as_numpy("digit").tolist()

    def test_cold_models_are_ready_and_their_first_request_loads_them(self):
        d = self.serve(f"--max_resident_bytes={LIMIT}")
        self.assertEqual(d.get("/readyz").status_code, 200)
        self.assertEqual((self.metric("tensord_versions_cold"), self.metric("tensord_versions_resident")), (6, 0))
        v = self.version("m0")
        self.assertEqual((v["state"], v["cold"], v["signatures"]), ("AVAILABLE", True, ["serving_default"]))
        self.assertEqual(d.get("/v2/models/m0/ready").status_code, 200)
        self.assertEqual(d.get("/v2/models/m0:serving_default/ready").status_code, 200)
        self.assertTrue(self.v2.is_model_ready("m0"))
        row = next(r for r in d.post("/v2/repository/index", {}).json() if r["name"] == "m0")
        self.assertEqual((row["state"], row["reason"]), ("READY", "not loaded yet: the next request loads it"))
        self.assertEqual(self.metric("tensord_versions_resident"), 0)  # looking loads nothing
        digit = self.rest("m0").json()["predictions"][0]["digit"]
        self.assertEqual(self.grpc("m1"), [digit])
        self.assertIn("loaded_at", self.version("m0"))
        self.assertEqual(self.v2.get_model_metadata("m2").name, "m2")
        self.assertEqual(d.get("/v2/models/m3/config").json()["name"], "m3")
        self.assertEqual(d.get("/v1/models/m4/metadata").status_code, 200)
        self.assertEqual(self.streamed("m5"), [digit])

        def ask(i):
            name = NAMES[i * 7 % 6]
            return [self.rest(name).json()["predictions"][0]["digit"]] if i % 2 else self.grpc(name)

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            self.assertEqual(set(map(tuple, pool.map(ask, range(120)))), {(digit,)})
        self.assertGreater(self.metric("tensord_evictions_total"), 3)
        for i in range(100):   # plans have grown since they were weighed: the next loads weigh again
            if self.metric("tensord_resident_bytes") <= LIMIT * 1.1:
                break
            self.rest(NAMES[i % 6])
        self.assertLessEqual(self.metric("tensord_resident_bytes"), LIMIT * 1.1)
        self.assertIn('tensord_cold_start_us_count{model_name="m1"}', d.get("/metrics").text)

    def streamed(self, model):
        """One request of a stream."""
        got, told = [], threading.Event()
        client = triton.InferenceServerClient(f"127.0.0.1:{self.d.port}")
        client.start_stream(lambda result, error: (got.append(error or result.as_numpy("digit").tolist()), told.set()))
        given = triton.InferInput("images", [1, 8, 8], "FP32")
        given.set_data_from_numpy(IMAGE)
        client.async_stream_infer(model, [given])
        told.wait(30)
        client.stop_stream()
        client.close()
        return got[0]

    def test_who_waits_for_a_model_keeps_no_thread(self):
        """Many more wait than there are threads for requests: others are answered, and all of them hear how the load ended."""
        wait_s, n = (4, 40) if SANITIZED else (1.5, 40)
        d = self.serve("--load_timeout=" + ("4" if SANITIZED else "2"), "--rest_api_num_threads=2", "--default_deadline=1", "--rest_api_timeout_in_ms=20000",
                       names=["slow", "m0"], configs={"slow": SLOW})
        self.rest("m0")
        with concurrent.futures.ThreadPoolExecutor(n + 10) as pool:
            start = time.time()
            waiting = [pool.submit(self.rest, "slow") for _ in range(n)]
            hurried = pool.submit(self.rest, "slow", headers={"X-Request-Timeout": "0.3"})
            calls = [pool.submit(self.code_of, lambda: self.grpc("slow", client_timeout=15)) for _ in range(8)]
            command = pool.submit(self.code_of, lambda: self.v2.load_model("slow"))  # without a deadline of its own
            while self.metric("tensord_requests_awaiting_models") < n:
                time.sleep(0.01)
            slowest = 0
            while time.time() < start + wait_s * 0.8:
                for path in ("/healthz", "/readyz", "/v1/models/slow"):
                    self.assertEqual(d.get(path).status_code, 200)
                t = time.time()
                self.assertEqual(self.rest("m0").status_code, 200)
                self.grpc("m0")
                slowest = max(slowest, time.time() - t)
            self.assertLess(slowest, 1)
            self.answers(hurried.result(), 504, "deadline has passed while model 'slow' version 1 was being loaded")
            for w in waiting:
                self.answers(w.result(), 504, "model 'slow' version 1 does not load", "--load_timeout")
            for c in calls:
                self.assertIn("--load_timeout", c.result())
            self.assertIn("--load_timeout", command.result())
        self.answers(self.rest("slow"), 504, "--load_timeout")  # said at once
        self.assertEqual(d.get("/readyz").status_code, 503)
        self.assertEqual(self.rest("m0").status_code, 200)

    def code_of(self, call):
        try:
            call()
        except Exception as e:  # noqa: BLE001: its text is looked at
            return str(e)
        return "OK"

    def test_the_limit_needs_lazy_loading(self):
        code, _, said = Server("--max_resident_bytes=1GiB", versions={}, wait=False).exits()
        self.assertEqual(code, 2)
        self.assertIn("--max_resident_bytes is '1GiB', and needs --lazy_loading", said)


if __name__ == "__main__":
    unittest.main()
