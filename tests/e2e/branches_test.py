"""A lone request to a model of parallel branches uses the lanes that idle, and its answer stays the same.

    build/venv/bin/python tests/e2e/branches_test.py [-v] [Branches.test_...]      prints what a request took, with and without
"""
import concurrent.futures
import os
import re
import sys
import time
import unittest

import numpy as np
import tritonclient.http as th

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import server  # noqa: E402
from server import Case, Server  # noqa: E402

TURNS = 30   # enough to learn what the branches take, and to try


class Branches(Case):
    OPTIONS = {"versions": {"branches": (1,)}}
    FLAGS = ("--batching=false", "--monitoring_config_file={dir}/monitoring")

    @classmethod
    def setUpClass(cls):
        server.models()
        files = {"monitoring": 'prometheus_config { enable: true path: "/metrics" }'}
        cls.d = Server(*cls.FLAGS, "--lanes=2", files=files, **cls.OPTIONS)
        cls.plain = Server(*cls.FLAGS, "--passes_off=parallel", "--lanes=1", files=files, **cls.OPTIONS)

    @classmethod
    def tearDownClass(cls):
        cls.plain.stop()
        super().tearDownClass()

    @staticmethod
    def image(seed):
        return np.random.default_rng(seed).standard_normal((1, 35, 35, 64)).astype(np.float32)

    @staticmethod
    def ask(d, x):
        with th.InferenceServerClient(f"127.0.0.1:{d.rest_port}") as client:
            given = th.InferInput("x", list(x.shape), "FP32")
            given.set_data_from_numpy(x)
            began = time.perf_counter()
            y = client.infer("branches", [given]).as_numpy("y")
            return y, time.perf_counter() - began

    @staticmethod
    def lent(d):
        m = re.search(r"^tensord_lanes_lent_total{} (\d+)", d.get("/metrics").text, re.M)
        return int(m.group(1)) if m else 0

    def test_a_lone_request_borrows_idle_lanes(self):
        took = {self.d: [], self.plain: []}
        for i in range(TURNS):
            x = self.image(i)
            answers = []
            for d, times in took.items():
                y, seconds = self.ask(d, x)
                answers.append(y)
                times.append(seconds)
            np.testing.assert_allclose(*answers, rtol=1e-5, atol=1e-6)   # oneDNN may block pieces otherwise
        self.assertGreater(self.lent(self.d), 0)
        self.assertEqual(self.lent(self.plain), 0)
        alone, together = (np.median(took[d][TURNS // 2:]) * 1e3 for d in (self.plain, self.d))
        print(f"a lone request: {alone:.1f} ms, with branches on both lanes {together:.1f} ms", file=sys.stderr)

    def test_many_requests_at_once_get_their_own_answers(self):
        want = [self.ask(self.plain, self.image(i))[0] for i in range(6)]
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            got = list(pool.map(lambda i: self.ask(self.d, self.image(i % 6))[0], range(60)))
        for i, y in enumerate(got):
            np.testing.assert_allclose(y, want[i % 6], rtol=1e-5, atol=1e-6)


if __name__ == "__main__":
    unittest.main()
