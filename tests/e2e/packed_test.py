"""Packed weights below --state_dir: the next start maps them and answers the same, whatever became of the one before.

    build/venv/bin/python tests/e2e/packed_test.py [-v] [Packed.test_...]
"""
import os
import signal
import time
import unittest

import numpy as np

from server import PATIENCE, Alone, Server, until

SIDE, CHANNELS, ROWS = 14, 96, 24


class Packed(Alone):
    def make(where):
        """Two convolutions and a product whose weights are worth a file each."""
        import tensorflow as tf

        class Net(tf.Module):
            def __init__(self):
                r = np.random.default_rng(5)
                draw = lambda *shape: tf.Variable(r.standard_normal(shape).astype(np.float32) * 0.05)
                self.a, self.b = draw(3, 3, CHANNELS, CHANNELS), draw(3, 3, CHANNELS, CHANNELS)
                self.c = draw(SIDE * SIDE * CHANNELS, 64)

            @tf.function(input_signature=[tf.TensorSpec([None, SIDE, SIDE, CHANNELS], tf.float32, name="x")])
            def __call__(self, x):
                y = tf.nn.relu(tf.nn.conv2d(x, self.a, 1, "SAME"))
                y = tf.nn.relu(tf.nn.conv2d(y, self.b, 1, "SAME"))
                return {"y": tf.matmul(tf.reshape(y, [-1, SIDE * SIDE * CHANNELS]), self.c)}
        net = Net()
        tf.saved_model.save(net, os.path.join(where, "net", "1"), signatures={"serving_default": net.__call__})

    def setUp(self):
        self.x = np.random.default_rng(6).standard_normal((ROWS, SIDE, SIDE, CHANNELS)).round(2).tolist()

    def serve(self, *flags):
        d = Server(*flags, versions={}, wait=False)
        os.mkdir(d.base("net"))
        os.symlink(os.path.join(self.where, "net", "1"), os.path.join(d.base("net"), "1"))
        with open(f"{d.dir}/models.config", "w") as f:
            f.write(f'model_config_list {{ config {{ name: "net" base_path: "{d.base("net")}" model_platform: "tensorflow" }} }}')
        d.start()
        self.addCleanup(lambda: d.stop())
        return d

    def again(self, d, sig=signal.SIGTERM):
        d.proc.send_signal(sig)
        d.proc.wait(30)
        d.reader.join(10)
        d.proc.stderr.close()
        d.proc.stdout.close()
        d.log.clear()
        d.start()

    def ask(self, d):
        r = d.post("/v1/models/net:predict", {"inputs": {"x": self.x}})
        self.assertEqual(r.status_code, 200, r.text[:300])
        return r.text

    def files(self, d, half=False):
        folder = f"{d.dir}/state/packed"
        names = os.listdir(folder) if os.path.isdir(folder) else []
        return [os.path.join(folder, n) for n in names if (".tempstate" in n if half else len(n) == 32)]

    def kept(self, d, n):
        self.assertTrue(until(lambda: len(self.files(d)) >= n and not self.files(d, half=True), 30 * PATIENCE), "".join(d.log[-5:]))

    def mapped(self, d):
        with open(f"/proc/{d.proc.pid}/maps") as f:
            return {line.split()[-1] for line in f if "/packed/" in line}

    def test_the_second_start_maps_what_the_first_has_packed(self):
        d = self.serve()
        first = self.ask(d)
        self.assertEqual(self.mapped(d), set())
        self.kept(d, 2)
        for path in self.files(d):
            self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
        before = {p: os.stat(p).st_ino for p in self.files(d)}   # one more may be on its way
        self.again(d)
        self.assertEqual(self.ask(d), first)
        self.assertLessEqual(set(before), self.mapped(d))
        time.sleep(3)  # what was not packed is not written
        self.assertEqual({p: os.stat(p).st_ino for p in before}, before)
        self.assertEqual(self.ask(d), first)

    def test_damaged_files_are_packed_and_written_anew(self):
        d = self.serve()
        first = self.ask(d)
        self.kept(d, 2)
        names = sorted(self.files(d))
        with open(names[0], "r+b") as f:
            f.seek(5000)
            f.write(b"other")
        os.truncate(names[1], 6000)
        self.again(d)
        self.assertEqual(self.ask(d), first)
        self.assertFalse(self.mapped(d) & set(names[:2]))
        self.assertTrue(until(lambda: os.path.getsize(names[1]) > 6000, 30 * PATIENCE))
        self.again(d)
        self.assertEqual(self.ask(d), first)
        self.assertIn(names[1], self.mapped(d))

    def test_a_daemon_killed_while_it_writes_leaves_nothing_that_counts(self):
        d = self.serve()
        first = self.ask(d)
        for _ in range(4):
            n = len(self.files(d))
            if not until(lambda: self.files(d, half=True) or len(self.files(d)) > n, 6 * PATIENCE):
                break   # all are there
            self.again(d, signal.SIGKILL)
            self.assertEqual(self.files(d, half=True), [])
            self.assertEqual(self.ask(d), first)
        self.kept(d, 2)

    def test_the_limit_holds_and_none_is_none(self):
        d = self.serve("--packed_cache_bytes=400000")
        first = self.ask(d)
        self.assertTrue(d.wait_log("packed weights are not all kept", 30 * PATIENCE))
        self.assertLessEqual(sum(map(os.path.getsize, self.files(d))), 400000)
        self.assertEqual(self.ask(d), first)
        d = self.serve("--packed_cache_bytes=0")
        self.assertEqual(self.ask(d), first)
        time.sleep(3)
        self.assertFalse(os.path.exists(f"{d.dir}/state/packed"))


if __name__ == "__main__":
    unittest.main()
