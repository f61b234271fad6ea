"""Each generator for a few turns, from a fixed seed, against one daemon: no promise is broken, and it ends well. Longer: run.py.

    build/venv/bin/python tests/attack/attack_test.py [-v] [Attacked.test_...]
"""
import argparse
import importlib
import unittest

import generator
import target

TURNS = {"http1_frames": 60, "http2_frames": 30, "grpc_messages": 40, "documents": 150, "slow_clients": 200, "management": 20, "damaged_models": 12, "valid_load": 30}


class Attacked(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.d = target.Target()

    @classmethod
    def tearDownClass(cls):
        code, _, reports = cls.d.end()
        assert code == 0 and not reports, f"exit {code}: {reports or ''.join(cls.d.log[-30:])}"

    def turns(self, kind):
        module = importlib.import_module(kind)
        a = generator.Attack(argparse.Namespace(port=self.d.port, rest_api_port=self.d.rest_port, folder=self.d.dir, pace=0, seed=1, seconds=60), 0, kind)
        for _ in range(TURNS[kind]):
            try:
                module.turn(a)
            except OSError:
                pass   # the connection was ended
        if hasattr(module, "finish"):
            module.finish(a)
        a.end()
        self.assertEqual(a.findings, [])
        self.assertTrue(self.d.lives(), "".join(self.d.log[-10:]))

    def test_http1_frames(self):
        self.turns("http1_frames")

    def test_http2_frames(self):
        self.turns("http2_frames")

    def test_messages(self):
        self.turns("grpc_messages")

    def test_documents(self):
        self.turns("documents")

    def test_slow_clients(self):
        self.turns("slow_clients")

    def test_management(self):
        self.turns("management")

    def test_damaged_models(self):
        self.turns("damaged_models")

    def test_right_load(self):
        self.turns("valid_load")


if __name__ == "__main__":
    unittest.main()
