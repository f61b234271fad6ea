"""tensorctl quantize: precision.json from recorded requests, what it says of the answers, and a daemon that serves the model so.

    build/venv/bin/python tests/e2e/quantize_test.py [-v] [Quantize.test_...]
"""
import json
import os
import re
import shutil
import subprocess
import unittest

import numpy as np
from sklearn.datasets import load_digits

import server
from server import DAEMON, ROOT, serving

from messages import tf  # noqa: E402
from tensorflow_serving.apis import prediction_log_pb2  # noqa: E402

DIGITS = load_digits()
HELD_OUT = np.arange(len(DIGITS.images)) % 5 == 0


def table(text):
    """{"int8": {"accuracy": .., ..}, ..} of what the command prints."""
    rows = {}
    for line in text.splitlines():
        cells = line.split()
        if cells and cells[0] in ("float32", "int8", "bfloat16"):
            rows[cells[0]] = dict(zip(("accuracy", "agrees", "error", "ms"), (None if c == "-" else float(c) for c in cells[1:])))
    return rows


class Quantize(server.Alone):
    def setUp(self):
        super().setUp()
        self.folder = self.enterContext(server.folder())
        self.model = os.path.join(self.folder, "digits", "1")
        shutil.copytree(os.path.join(ROOT, "deploy", "models", "digits", "1"), self.model)

    def path(self, name):
        return os.path.join(self.folder, name)

    def quantize(self, *args, status=0):
        done = subprocess.run([DAEMON, "quantize", self.model, *args], capture_output=True, text=True, timeout=120 * server.PATIENCE)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout if status == 0 else done.stderr

    def rows(self, name, chosen, labels=True):
        """A .jsonl of images, 32 a request."""
        x, y = DIGITS.images[chosen], DIGITS.target[chosen]
        with open(self.path(name), "w") as f:
            for i in range(0, len(x), 32):
                body = {"instances": x[i:i + 32].tolist()}
                f.write(json.dumps(body | ({"labels": y[i:i + 32].tolist()} if labels else {})) + "\n")
        return self.path(name)

    def records(self, path, *requests):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with tf.io.TFRecordWriter(path) as w:
            for r in requests:
                w.write(r if isinstance(r, bytes) else r.SerializeToString())
        return path

    def predict_log(self, images):
        log = prediction_log_pb2.PredictionLog()
        log.predict_log.request.inputs["images"].CopyFrom(tf.make_tensor_proto(np.float32(images)))
        return log

    def precision(self):
        with open(os.path.join(self.model, "assets.extra", "precision.json")) as f:
            return json.load(f)

    def answers(self):
        """Probabilities of the held-out images, by a daemon."""
        with serving(versions={}, files={"models.config": server.config(("digits", os.path.dirname(self.model)))}) as d:
            got = d.post("/v1/models/digits:predict", {"instances": DIGITS.images[HELD_OUT].tolist()}).json()["predictions"]
            return np.array([g["probabilities"] for g in got]), "".join(d.log)

    def test_bytes_keep_the_accuracy_and_are_served(self):
        exact, _ = self.answers()
        said = table(self.quantize("--precision=int8", "--requests=" + self.rows("seen.jsonl", ~HELD_OUT), "--check", self.rows("check.jsonl", HELD_OUT),
                                   "--output=probabilities"))
        self.assertGreater(said["float32"]["accuracy"], 0.97)
        self.assertGreater(said["int8"]["accuracy"], said["float32"]["accuracy"] - 0.01)
        self.assertGreater(said["int8"]["agrees"], 0.98)
        ranges = self.precision()["ranges"]
        self.assertEqual(sorted(ranges), ["weight", "weight_1", "weight_2"])
        self.assertEqual(ranges["weight_2"], [0.0, 1.0])   # the first convolution reads pixels / 16
        low, log = self.answers()
        self.assertIn("precision.json: products with weights are computed in int8", log)
        self.assertGreater((low.argmax(-1) == exact.argmax(-1)).mean(), 0.98)
        self.assertGreater(np.abs(low - exact).max(), 1e-5)   # they are not the same numbers
        self.assertLess(np.abs(low - exact).max(), said["int8"]["error"] + 1e-3)

    def test_bfloat16_needs_no_requests(self):
        self.assertIn("wrote ", self.quantize("--precision=bfloat16"))
        self.assertEqual(self.precision(), {"precision": "bfloat16"})
        self.quantize("--precision", "bfloat16", "--requests", self.rows("r.jsonl", HELD_OUT, labels=False))

    def test_the_warm_up_file_serves_as_requests(self):
        self.records(os.path.join(self.model, "assets.extra", "tf_serving_warmup_requests"), self.predict_log(DIGITS.images[:40]), self.predict_log(DIGITS.images[40:50]))
        said = self.quantize("--precision=int8")
        self.assertIn("50 rows, 0 with a label", said)
        self.assertIsNone(table(said)["int8"]["accuracy"])

    def test_what_is_wrong_is_said_and_leaves_the_model_alone(self):
        good = self.rows("good.jsonl", HELD_OUT)
        with open(self.path("bad.jsonl"), "w") as f:
            f.write('{"instances": [[1, 2]]}\n')
        with open(self.path("labels.jsonl"), "w") as f:
            f.write(json.dumps({"instances": DIGITS.images[:3].tolist(), "labels": [1, 2]}) + "\n")
        with open(self.path("words.jsonl"), "w") as f:
            f.write(json.dumps({"instances": DIGITS.images[:1].tolist(), "labels": ["one"]}) + "\n")
        open(self.path("empty.jsonl"), "w").close()
        other = prediction_log_pb2.PredictionLog()
        other.session_run_log.request.feed.add()
        for args, words in (
                (["--precision=int4"], "--precision=int4: there are int8 and bfloat16"),
                ([], "there are int8 and bfloat16"),
                (["--precision=int8"], "tf_serving_warmup_requests: no recorded requests are there"),
                (["--precision=int8", "--speed=3"], "tensord quantize has no option --speed"),
                (["--precision=int8", "--requests"], "--requests needs a value"),
                (["--precision=int8", "two"], "one model at a time"),
                (["--precision=int8", "--requests=" + self.path("bad.jsonl")], "bad.jsonl: request 1"),
                (["--precision=int8", "--requests=" + self.path("empty.jsonl")], "empty.jsonl holds no requests"),
                (["--precision=int8", "--requests=" + self.path("labels.jsonl")], "labels.jsonl: request 1: 2 labels of 3 rows"),
                (["--precision=int8", "--requests=" + self.path("words.jsonl")], "\"labels\" is no list of at most"),
                (["--precision=int8", "--requests=" + good, "--output=digit"], "there is no output digit of floats"),
                (["--precision=int8", "--check=" + self.path("missing.jsonl"), "--requests=" + good], "missing.jsonl: No such file")):
            with self.subTest(args=args):
                self.assertIn(words, self.quantize(*args, status=2))
                self.assertFalse(os.path.exists(os.path.join(self.model, "assets.extra", "precision.json")))
        with open(self.path("torn"), "wb") as f:
            f.write(b"\x05\0\0")
        session = self.records(self.path("logs/session"), other)
        self.assertIn("a log of kind 5", self.quantize("--precision=int8", "--requests", session, status=1))
        self.assertIn("truncated record", self.quantize("--precision=int8", "--requests=" + self.path("torn"), status=1))

    def test_a_file_that_makes_no_sense_is_refused_at_load(self):
        os.makedirs(os.path.join(self.model, "assets.extra"))
        for text, words in (
                ('{"precision": "int4"}', '"precision" is "int4": there are int8 and bfloat16'),
                ('{"precision": "int8"}', 'int8 wants an object "ranges"'),
                ('{"precision": "bfloat16", "ranges": {}}', "and bfloat16 none"),
                ('{"precision": "bfloat16", "speed": 1}', 'there is no key "speed"'),
                ('{"precision": "int8", "ranges": {"weight": [1, -1]}}', "'weight' is from 1 to -1"),
                ('{"precision": "int8", "ranges": {"weight": 3}}', "'weight' is not [least, largest]"),
                ('[1]', "not an object"),
                ('{', "line 1")):
            with self.subTest(text=text):
                with open(os.path.join(self.model, "assets.extra", "precision.json"), "w") as f:
                    f.write(text)
                done = subprocess.run([os.path.join(os.path.dirname(DAEMON), "tensorctl"), "inspect", self.model], capture_output=True, text=True)
                self.assertEqual(done.returncode, 1)
                self.assertIn("assets.extra/precision.json: ", done.stderr)
                self.assertIn(words, done.stderr)
        self.assertTrue(re.search(r"--precision=int8\|bfloat16", subprocess.run([DAEMON, "quantize", "--help"], capture_output=True, text=True).stdout))


if __name__ == "__main__":
    unittest.main()
