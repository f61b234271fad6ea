"""Devices that nodes ask for: soft placement, TensorFlow's error without it, the log.

    build/venv/bin/python tests/e2e/placement_test.py
"""
import os
import unittest

from messages import tf  # noqa: E402
from server import config, made, serving



def make(where):
    """anywhere(x) -> y = -x     gpu(x) -> y = x + x on /gpu:0     cpu(x) -> y = x * x on /cpu:0"""
    v1 = tf.compat.v1
    info = v1.saved_model.build_tensor_info
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None], "x")
        ys = {"anywhere": tf.negative(x, "negative")}
        with tf.device("/gpu:0"):
            ys["gpu"] = tf.add(x, x, "twice")
        with tf.device("/cpu:0"):
            ys["cpu"] = tf.multiply(x, x, "square")
        builder = v1.saved_model.Builder(os.path.join(where, "1"))
        builder.add_meta_graph_and_variables(session, ["serve"], {
            k: v1.saved_model.build_signature_def({"x": info(x)}, {"y": info(y)}, "tensorflow/serving/predict") for k, y in ys.items()})
        builder.save()


class Placement(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.files = {"models.config": config(("placed", made(make)))}

    def ask(self, server, signature):
        return server.post("/v1/models/placed:predict", {"signature_name": signature, "inputs": {"x": [3.0]}})

    def test_soft_placement_is_the_default_and_is_logged(self):
        with serving("--log_device_placement", versions={}, files=self.files) as d:
            self.assertEqual([self.ask(d, s).json() for s in ("anywhere", "gpu", "cpu")],
                             [{"outputs": [-3.0]}, {"outputs": [6.0]}, {"outputs": [9.0]}])
            for line in ("negative: (Neg)", "twice: (AddV2)", "square: (Mul)"):
                self.assertTrue(d.wait_log(line + ": /job:localhost/replica:0/task:0/device:CPU:0", 5), line)

    def test_without_it_only_the_signature_that_asks_in_vain_fails(self):
        with serving("--no_soft_placement", versions={}, files=self.files) as d:
            self.assertEqual([self.ask(d, s).json() for s in ("anywhere", "cpu")], [{"outputs": [-3.0]}, {"outputs": [9.0]}])
            for _ in range(2):
                r = self.ask(d, "gpu")
                self.assertEqual(r.status_code, 400)
                self.assertIn("Cannot assign a device for operation twice: {{node twice}} was explicitly assigned to /device:GPU:0 but available "
                              "devices are [ /job:localhost/replica:0/task:0/device:CPU:0 ]. Make sure the device specification refers to a "
                              "valid device. Op: AddV2. Registered kernels: device='CPU'; T in [", r.json()["error"])
            self.assertNotIn("negative: (Neg)", "".join(d.log))


if __name__ == "__main__":
    unittest.main()
