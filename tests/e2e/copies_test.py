"""How often the bytes of a large tensor are copied inside the server, wire by wire: counted by tests/bench/copies.c.

    build/venv/bin/python tests/e2e/copies_test.py [-v]      $COPIES_SO: that library (default build/tests/copies.so)
"""
import json
import os
import struct
import tempfile
import unittest

import numpy as np
import tritonclient.grpc as tg

import server
from server import Server

from messages import tf  # noqa: E402
from tensorflow_serving.apis import predict_pb2  # noqa: E402

N = 224 * 224 * 3
SHIM = os.environ.get("COPIES_SO", os.path.join(server.ROOT, "build", "tests", "copies.so"))


class Copies(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        server.models()
        f, cls.counter = tempfile.mkstemp()
        os.close(f)
        os.environ.update(LD_PRELOAD=SHIM, COPIES=cls.counter)
        try:
            cls.d = Server()
        finally:
            del os.environ["LD_PRELOAD"], os.environ["COPIES"]
        cls.x = np.random.default_rng(1).random(N, np.float32)

    @classmethod
    def tearDownClass(cls):
        assert cls.d.stop() == 0
        os.unlink(cls.counter)

    def copied(self):
        with open(self.counter, "rb") as f:
            return struct.unpack("<Q", f.read(8))[0]

    def copies(self, send, size):
        """Copies of the request's bytes, once the server knows such requests. Its answer is as large, and copied besides."""
        for _ in range(3):
            send()
        before = self.copied()
        for _ in range(5):
            send()
        return (self.copied() - before) / 5 / size

    def grpc(self, path, message):
        body = message.SerializeToString()
        return lambda: self.d.channel.unary_unary(path)(body, timeout=20)

    def predict(self, tensor):
        q = predict_pb2.PredictRequest()
        q.model_spec.name = "half"
        q.inputs["x"].CopyFrom(tensor)
        return self.grpc("/tensorflow.serving.PredictionService/Predict", q)

    def test_grpc_copies_a_tensor_once_each_way(self):
        content = tf.make_tensor_proto(self.x)
        typed = tf.make_tensor_proto(0.0)
        typed.tensor_shape.CopyFrom(content.tensor_shape)
        del typed.float_val[:]
        typed.float_val.extend(self.x.tolist())
        x = tg.InferInput("x", [N], "FP32")
        x.set_data_from_numpy(self.x)
        q = tg.service_pb2.ModelInferRequest(model_name="half", inputs=[x._get_tensor()], raw_input_contents=[self.x.tobytes()])
        got = {"content": self.copies(self.predict(content), self.x.nbytes), "typed": self.copies(self.predict(typed), self.x.nbytes),
               "raw": self.copies(self.grpc("/inference.GRPCInferenceService/ModelInfer", q), self.x.nbytes)}
        for way, n in got.items():
            self.assertLess(n, 2.05, way)   # in and out

    def test_rest_copies_a_body_once_and_a_tensor_once(self):
        head = json.dumps({"inputs": [{"name": "x", "shape": [N], "datatype": "FP32", "parameters": {"binary_data_size": self.x.nbytes}}],
                           "parameters": {"binary_data_output": True}}).encode()
        send = lambda: self.d.post("/v2/models/half/infer", data=head + self.x.tobytes(), headers={"Inference-Header-Content-Length": str(len(head)), "Accept-Encoding": "identity"})
        self.assertEqual(send().status_code, 200)
        text = json.dumps({"instances": np.round(self.x, 4).tolist()}).encode()
        got = {"v2 binary": (3.05, self.copies(send, self.x.nbytes)), "v1 JSON": (1.3, self.copies(lambda: self.d.post("/v1/models/half:predict", data=text, headers={"Accept-Encoding": "identity"}), len(text)))}
        for way, (most, n) in got.items():
            self.assertLess(n, most, way)   # v2: gathered, into the tensor, and out

if __name__ == "__main__":
    unittest.main()
