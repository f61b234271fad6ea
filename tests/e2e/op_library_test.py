"""A model of ops that only a library has, served over REST and gRPC; libraries that must stop the start; tensorctl.

    build/venv/bin/python tests/e2e/op_library_test.py      ($OP_LIBRARIES: where the build left example_ops.so, bad_ops_N.so)
"""
import json
import os
import subprocess
import unittest

from server import CODE, DAEMON, ROOT, Case, Server, config

import numpy as np
from messages import tf  # noqa: E402
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc  # noqa: E402

MODEL = os.path.join(ROOT, "tests", "op_library", "model")
BUILT = os.environ.get("OP_LIBRARIES", os.path.join(os.path.dirname(DAEMON), "tests", "op_library"))
EXAMPLE = os.path.join(BUILT, "example_ops.so")
FILES = {"models.config": config(("ops", MODEL))}


class OpLibrary(Case):
    FLAGS = (f"--op_library={EXAMPLE},{os.path.join(BUILT, 'bad_ops_8.so')}",)
    OPTIONS = {"versions": {}, "files": FILES}

    @classmethod
    def setUpClass(cls):
        cls.d = Server(*cls.FLAGS, **cls.OPTIONS)

    def test_rest(self):
        r = self.d.post("/v1/models/ops:predict", {"inputs": {"x": [-3.0, 0.5, 1.0, 9.0]}})
        self.assertEqual(r.json(), {"outputs": {"y": [-10.0, 5.0, 10.0, 20.0], "values": [0.5, 1.0], "indices": [1, 2]}})
        r = self.d.post("/v1/models/ops:predict", {"signature_name": "text", "inputs": {"s": ["a", ""]}})
        self.assertEqual(r.json(), {"outputs": ["#a", "#"]})

    def test_grpc_and_its_errors(self):
        stub = self.d.stub(prediction_service_pb2_grpc.PredictionServiceStub)
        r = predict_pb2.PredictRequest()
        r.model_spec.name, r.model_spec.signature_name = "ops", "ints"
        r.inputs["n"].CopyFrom(tf.make_tensor_proto(np.int64([-9, 1, 9])))
        self.assertEqual(list(tf.make_ndarray(stub.Predict(r, 10).outputs["m"])), [-1, 1, 2])
        r.model_spec.signature_name = "bad_range"
        r.inputs["x"].CopyFrom(tf.make_tensor_proto(np.float32([1])))
        del r.inputs["n"]
        with self.fails(CODE.INVALID_ARGUMENT, "node 'bad_range' (TensordExampleClipScale): low is 2, must not exceed high, -1"):
            stub.Predict(r, 10)
        r.model_spec.signature_name = "broken"
        with self.fails(CODE.INTERNAL, "node 'broken' (TensordBad)", "output 7"):
            stub.Predict(r, 10)

    def test_bad_libraries_stop_the_start(self):
        for number, words in ((1, "built for ABI 2"), (2, "signature of op 'TensordBad'"), (4, "op 'MatMul' is there already"),
                              (6, "it has no function tensord_op_library")):
            path = os.path.join(BUILT, f"bad_ops_{number}.so")
            code, _, text = Server(f"--op_library={EXAMPLE},{path}", wait=False, **self.OPTIONS).exits()
            self.assertEqual(code, 2, text)
            self.assertIn(f"op library '{path}'", text)
            self.assertIn(words, text)

    def test_tensorctl(self):
        ctl = os.path.join(os.path.dirname(DAEMON), "tensorctl")
        command = [ctl, "run", os.path.join(MODEL, "1"), "--signature", "ints", "--inputs", "n=[5]"]
        p = subprocess.run([*command, "--op_library", EXAMPLE], capture_output=True, text=True, timeout=30)
        self.assertEqual((p.returncode, p.stdout), (0, "m: int64[1] = [2]\n"), p.stderr)
        p = subprocess.run(command, capture_output=True, text=True, timeout=30)
        self.assertEqual(p.returncode, 1)
        self.assertIn("Op type not registered 'TensordExampleClipScale'", p.stderr)
        p = subprocess.run([ctl, "inspect", os.path.join(MODEL, "1"), f"--op_library={EXAMPLE}"], capture_output=True, text=True, timeout=30)
        self.assertEqual(p.returncode, 0, p.stderr)
        lacking = {k: [r["op"] for r in v["unsupported_ops"]] for k, v in json.loads(p.stdout)["signatures"].items()}
        self.assertEqual({k: v for k, v in lacking.items() if v}, {"broken": ["TensordBad"], "wrong_type": ["TensordExampleClipScale"]})


if __name__ == "__main__":
    unittest.main()
