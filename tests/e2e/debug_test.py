"""The debugger over REST and gRPC, and tensorctl's verbs for it, on a model that prints, counts, draws and branches.

    build/venv/bin/python tests/e2e/debug_test.py      $TENSORD: the daemon, with tensorctl beside it (default build/tensord)
"""
import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest
import urllib.error
import urllib.request

import server

HERE = os.path.dirname(os.path.abspath(__file__))
DAEMON = os.environ.get("TENSORD", os.path.join(os.path.dirname(os.path.dirname(HERE)), "build", "tensord"))
CTL = os.path.join(os.path.dirname(DAEMON), "tensorctl")


def make(where):
    import tensorflow as tf

    class Model(tf.Module):
        def __init__(self):
            super().__init__()
            self.count = tf.Variable(0.0, name="count")
            self.w = tf.Variable([2.0, 3.0], name="w")

        @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, name="x")])
        def call(self, x):
            tf.print("sum is", tf.reduce_sum(x))
            s = tf.constant(0.0)
            for i in tf.range(3):
                s += tf.cast(i, tf.float32) * 2.0
            y = tf.cond(tf.reduce_sum(x) > 0, lambda: x * self.w, lambda: tf.math.log(x))
            return {"y": y + s}

        @tf.function(input_signature=[tf.TensorSpec([], tf.float32, name="by")])
        def add(self, by):
            noise = tf.random.uniform([2], seed=7)
            return {"count": self.count.assign_add(by), "noise": noise}

    m = Model()
    tf.saved_model.save(m, os.path.join(where, "1"), signatures={"serving_default": m.call, "add": m.add})


class Debug(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.mkdtemp(prefix="tensord-debug.")
        server.copy_of(server.made(make), os.path.join(cls.dir, "m"))
        cls.daemons = []
        cls.grpc, cls.rest = cls.start("--enable_debug_api")
        _, cls.off = cls.start()

    @classmethod
    def tearDownClass(cls):
        for p in cls.daemons:
            p.terminate()
            p.wait(20)
            p.stderr.close()
        shutil.rmtree(cls.dir, True)

    @classmethod
    def start(cls, *flags):
        p = subprocess.Popen([DAEMON, "--bind_address=127.0.0.1", "--port=auto", "--rest_api_port=auto", "--model_name=m",
                              f"--model_base_path={cls.dir}/m", f"--state_dir={cls.dir}/state{len(cls.daemons)}", *flags],
                             stderr=subprocess.PIPE, text=True)
        cls.daemons.append(p)
        for line in p.stderr:
            m = re.search(r"ready: port=(\d+) rest_api_port=(\d+)", line)
            if m:
                return int(m.group(1)), int(m.group(2))
        raise RuntimeError("the daemon did not start")

    def post(self, verb, port=None, **body):
        req = urllib.request.Request(f"http://127.0.0.1:{port or self.rest}/v1/models/m:{verb}", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})  # what manages and debugs must be such
        try:
            return json.load(urllib.request.urlopen(req))
        except urllib.error.HTTPError as e:
            return e.code, e.read().decode()

    def ctl(self, *args):
        return subprocess.run([CTL, *args], capture_output=True, text=True, timeout=60)

    def test_off_unless_asked_for(self):
        code, text = self.post("debug", self.off, inputs={"x": [[1, 2]]})
        self.assertEqual(code, 403)
        self.assertIn("--enable_debug_api", text)

    def test_eager(self):
        r = self.post("debug", inputs={"x": [[1.0, 2.0]]}, values="full")
        self.assertEqual(r["outputs"]["y"], [[8.0, 12.0]])
        self.assertEqual(r["outputs"], {"y": self.post("predict", inputs={"x": [[1.0, 2.0]]})["outputs"]})
        self.assertIn("sum is 3", "".join(r["prints"]))
        inside = [n for n in r["nodes"] if "cond_true" in n["function"]]
        self.assertTrue(any(n["op"] == "Mul" and n["outputs"][0]["value"] == [[2.0, 6.0]] for n in inside), inside)
        self.assertGreater(len([n for n in r["nodes"] if "while_body" in n["function"] and n["op"] == "Mul"]), 2)

    def test_nonfinite(self):
        r = self.post("debug", inputs={"x": [[-1.0, -2.0]]}, stop_on_nonfinite=True)
        self.assertRegex(r["stopped"], r"\(Log\).* output 0 has 2 NaN")
        self.assertIsNone(r["outputs"])

    def test_compare(self):
        r = self.post("debug", inputs={"x": [[1.0, 2.0]]}, mode="compare")
        self.assertIsNone(r["first_difference"])
        self.assertGreater(r["compared_nodes"], 5)
        self.assertEqual(len(r["prints"]), 1)

    def test_compare_leaves_state_alone(self):
        before = self.post("predict", signature_name="add", inputs={"by": 1.0})["outputs"]["count"]
        r = self.post("debug", signature_name="add", inputs={"by": 5.0}, mode="compare")
        self.assertEqual(r["state"], "copies")
        self.assertIsNone(r["first_difference"])
        self.assertEqual(r["outputs"]["count"], before + 5)
        self.assertEqual(self.post("predict", signature_name="add", inputs={"by": 1.0})["outputs"]["count"], before + 1)

    def test_placement(self):
        r = self.post("debug", mode="placement")
        self.assertIsNone(r["outputs"])
        self.assertTrue(any(n["op"] == "Log" and n["kernel"] for n in r["nodes"]))
        self.assertTrue(all(n["placed"] in ("step", "constant", "fed", "compiled away") for n in r["nodes"]))

    def test_tensorctl(self):
        server = ("--server", f"127.0.0.1:{self.grpc}")
        out = self.ctl("debug", "m", *server, "--inputs", "x=[[1,2]]", "--mode", "compare", "--json")
        self.assertIsNone(json.loads(out.stdout)["first_difference"], out.stderr)
        out = self.ctl("debug", "m", *server, "--inputs", "x=[[1,2]]")
        self.assertIn("printed: sum is 3", out.stdout)
        self.assertIn("y = [[8.0, 12.0]]", out.stdout)
        out = self.ctl("functions", "m", *server, "--json")
        names = [f["name"] for f in json.loads(out.stdout)["functions"]]
        self.assertEqual(sorted(names), ["add", "serving_default"])
        out = self.ctl("run", f"{self.dir}/m/1", "--inputs", "x=[[1,2]]", "--eager", "--print-nodes")
        self.assertRegex(out.stdout, r"FLOAT\[1,2\] 2 \.\. 6 mean 4")
        self.assertEqual(out.returncode, 0)
        out = self.ctl("run", f"{self.dir}/m/1", "--inputs", "x=[[1,2]]", "--mode", "compare")
        self.assertIn("no difference", out.stdout + out.stderr)
        out = self.ctl("run", f"{self.dir}/m/1", "--inputs", "x=[[1,2]]", "--mode", "placement")
        self.assertIn("step ", out.stdout)


if __name__ == "__main__":
    unittest.main()
