"""Models that mean harm, or come to it, in a daemon that serves others: a mapped file is cut, constants that no memory holds, calls 60 deep,
a loop without an end.

    build/venv/bin/python tests/e2e/hostile_test.py [-v] [Hostile.test_...]
"""
import os
import shutil
import threading
import time
import unittest

import grpc
import numpy as np

import server
from server import CODE, MODELS, PATIENCE, Alone, Server, config

from messages import tf  # noqa: E402
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc  # noqa: E402

WIDE = 1 << 20  # floats of a variable: enough pages that some are not in memory


def function(body):
    return tf.function(body, input_signature=[tf.TensorSpec([None], tf.float32, name="x")], autograph=False)


def nested(levels):
    """x + 1 under so many functions."""
    return function(lambda x: x + 1) if levels == 0 else (lambda inner: function(lambda x: inner(x)))(nested(levels - 1))


def save(where, body, variable=None):
    m = tf.Module()
    m.A = variable  # sorts before the object graph, so that its bytes are aligned in the file and stay mapped
    m.f = body if hasattr(body, "get_concrete_function") else function(body)
    tf.saved_model.save(m, where, signatures=m.f)


def make(where):
    w = tf.Variable(np.arange(WIDE, dtype=np.float32))
    save(f"{where}/cut/1", lambda x: x + tf.reduce_sum(w), w)
    save(f"{where}/vast/1", lambda x: x + tf.reduce_sum(tf.fill(tf.constant([1 << 42], tf.int64), 1.0)))
    save(f"{where}/large/1", lambda x: x + tf.reduce_sum(tf.fill([1 << 29], 1.0)))
    save(f"{where}/deep/1", nested(60))
    save(f"{where}/endless/1", lambda x: tf.while_loop(lambda i, x: tf.reduce_all(i >= 0), lambda i, x: (i * 0, x + 1), (tf.constant(0), x))[1])


def request(model, *values):
    r = predict_pb2.PredictRequest()
    r.model_spec.name = model
    r.inputs["x"].CopyFrom(tf.make_tensor_proto(np.float32(values)))
    return r


class Hostile(Alone):
    NAMES = ("cut", "vast", "large", "deep", "endless")

    make = staticmethod(make)

    def setUp(self):
        rows = [("half", os.path.join(MODELS, "half"))] + [(n, f"{self.where}/{n}") for n in self.NAMES]
        self.d = Server(versions={}, files={"models.config": config(*rows)})
        self.predict = self.d.stub(prediction_service_pb2_grpc.PredictionServiceStub).Predict

    def tearDown(self):
        self.assertEqual(self.d.stop(), 0, "".join(self.d.log[-30:]))

    def memory(self):
        """The most that the daemon has held, in MiB."""
        return server.held(self.d.proc.pid) >> 20

    def others_are_served(self):
        self.answers(self.d.post("/v1/models/half:predict", {"instances": [1.0]}), 200)

    def test_a_mapped_file_that_is_cut(self):
        copy = f"{self.d.dir}/copy"
        shutil.copytree(f"{self.where}/cut", copy)
        with server.serving(versions={}, files={"models.config": config(("half", os.path.join(MODELS, "half")), ("cut", copy))}) as d:
            call = d.stub(prediction_service_pb2_grpc.PredictionServiceStub).Predict
            call(request("cut", 1), timeout=30)
            os.truncate(f"{copy}/1/variables/variables.data-00000-of-00001", 4096)
            for _ in range(2):
                with self.fails(CODE.DATA_LOSS, "cut"):
                    call(request("cut", 1), timeout=30)
            self.answers(d.post("/v1/models/cut:predict", {"instances": [1.0]}), 500)
            self.answers(d.post("/v1/models/half:predict", {"instances": [1.0]}), 200)

    def test_constants_that_no_memory_holds(self):
        self.assertLess(self.memory(), 1024, "a Fill of 2 GiB was made at load")
        with self.fails(CODE.RESOURCE_EXHAUSTED, "OOM"):
            self.predict(request("vast", 1), timeout=30)
        self.answers(self.d.post("/v1/models/vast:predict", {"instances": [1.0]}), 429)
        self.assertLess(self.memory(), 1024)
        self.others_are_served()

    def test_calls_60_deep(self):
        out = self.predict(request("deep", 1), timeout=30)
        self.assertEqual(tf.make_ndarray(next(iter(out.outputs.values()))).tolist(), [2.0])

    def test_an_endless_loop_ends_with_its_deadline(self):
        with self.fails(CODE.DEADLINE_EXCEEDED):
            self.predict(request("endless", 1), timeout=1)
        self.others_are_served()

    def test_calls_without_a_deadline_end_with_the_servers(self):
        rows = config(("half", os.path.join(MODELS, "half")), ("endless", f"{self.where}/endless"))
        with server.serving("--default_deadline=1", "--lanes=2", versions={}, files={"models.config": rows}) as d:
            stub = d.stub(prediction_service_pb2_grpc.PredictionServiceStub)
            start = time.monotonic()
            calls = [stub.Predict.future(request("endless", 1)) for _ in range(4)]  # twice as many as compute at once
            self.assertEqual([c.code() for c in calls], [CODE.DEADLINE_EXCEEDED] * 4)
            self.answers(d.post("/v1/models/endless:predict", {"instances": [1.0]}), 504)
            self.assertLess(time.monotonic() - start, 8 * PATIENCE)
            self.answers(d.post("/v1/models/half:predict", {"instances": [1.0]}), 200)

    def test_an_endless_loop_ends_with_the_server(self):
        codes = []

        def wait():
            try:
                self.predict(request("endless", 1), timeout=60)
            except grpc.RpcError as e:
                codes.append(e.code())
        t = threading.Thread(target=wait)
        t.start()
        time.sleep(0.5)
        self.d.proc.terminate()
        self.assertEqual(self.d.proc.wait(25), 0)
        t.join(10)
        self.assertEqual(codes, [CODE.UNAVAILABLE])


if __name__ == "__main__":
    unittest.main()
