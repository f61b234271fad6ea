"""What a client can make the server hold: each scenario under a small --max_memory, by the process's peak memory, and by whether others
are answered meanwhile and afterwards.

    build/venv/bin/python tests/e2e/memory_test.py [-v] [Memory.test_...]
"""
import gzip
import json
import os
import socket
import threading
import time
import unittest

import grpc
import numpy as np

import server
from server import CODE, Alone, Server, config

from messages import tf  # noqa: E402
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc  # noqa: E402
from tritonclient.grpc import service_pb2, service_pb2_grpc  # noqa: E402

MB = 1 << 20
LIMIT, BESIDES = 300, 130  # MB: --max_memory, and what the program, its libraries and their buffers take besides (Debug: more of both)


def save(where, body, dtype):
    m = tf.Module()
    m.f = tf.function(body, input_signature=[tf.TensorSpec([None], dtype, name="x")], autograph=False)
    tf.saved_model.save(m, where, signatures=m.f)


def make(where):
    save(f"{where}/same/1", lambda x: {"y": tf.identity(x)}, tf.float32)
    save(f"{where}/fill/1", lambda x: {"y": tf.fill([x[0]], 1.5)}, tf.int32)
    save(f"{where}/sum/1", lambda x: {"y": tf.reduce_sum(tf.fill([x[0]], 1.5), keepdims=True)}, tf.int32)
    save(f"{where}/text/1", lambda x: {"y": tf.strings.length(x)}, tf.string)


def predict(model, **inputs):
    r = predict_pb2.PredictRequest()
    r.model_spec.name = model
    for name, t in inputs.items():
        r.inputs[name].CopyFrom(t if isinstance(t, tf.make_tensor_proto(0).__class__) else tf.make_tensor_proto(t))
    return r


def expanding(mb):
    """A TensorProto of few bytes: one value that is repeated."""
    t = tf.make_tensor_proto(np.float32(1), shape=[1])
    t.ClearField("tensor_content")
    t.ClearField("float_val")
    t.float_val.append(1.5)
    t.tensor_shape.dim[0].size = mb * MB // 4
    return t


class Memory(Alone):
    make = staticmethod(make)

    def setUp(self):
        self.began = time.time()

    def serve(self, *flags, limit=LIMIT):
        names = ("same", "fill", "sum", "text")
        self.d = Server(f"--max_memory={limit}MiB", *flags, versions={}, wait=False,
                        files={"models.config": config(*((n, f"{self.where}/{n}") for n in names))})
        self.d.start()
        self.stub = self.d.stub(prediction_service_pb2_grpc.PredictionServiceStub)
        self.addCleanup(self.stop)
        self.well()

    def stop(self):
        if "TELL" in os.environ:
            print(self.id().split(".")[-1], {k: self.status(k) for k in ("VmHWM", "VmRSS", "VmPeak")}, round(time.time() - self.began, 1), "s", flush=True)
        code = self.d.stop()
        self.assertEqual(code, 0, "".join(self.d.log[-30:]))

    def well(self):
        """Somebody else's request: answered, and soon."""
        began = time.time()
        self.assertEqual(self.stub.Predict(predict("same", x=np.float32([1, 2])), 20).outputs["y"].float_val[:], [1, 2])
        self.assertLess(time.time() - began, 5)

    def eventually_well(self):
        """The same, once what was refused has gone."""
        for _ in range(100):
            try:
                return self.well()
            except grpc.RpcError as e:
                self.assertEqual(e.code(), CODE.RESOURCE_EXHAUSTED, e.details())
                time.sleep(0.1)
        self.well()

    def status(self, key):
        return server.held(self.d.proc.pid, key) // MB

    def bounded(self, most=LIMIT + BESIDES):
        self.assertLess(self.status("VmHWM"), most, "MB of memory at its peak")

    def at_once(self, n, ask):
        """ask(i) on n threads; what came of each."""
        out = [None] * n

        def run(i):
            try:
                out[i] = ask(i)
            except grpc.RpcError as e:
                out[i] = e.code()
        threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(n)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(60)
        return out

    # ---- names, dtypes and sizes come before bytes

    def test_inputs_that_nobody_knows_are_not_decoded(self):
        self.serve()
        r = predict("same", **{f"no{i}": expanding(100) for i in range(2000)})
        began = time.time()
        with self.fails(CODE.INVALID_ARGUMENT, "input size does not match signature"):
            self.stub.Predict(r, 30)
        with self.fails(CODE.INVALID_ARGUMENT, "was expected to be a float tensor"):
            self.stub.Predict(predict("same", x=np.int64([1])), 30)
        v2 = service_pb2_grpc.GRPCInferenceServiceStub(self.d.channel)
        q = service_pb2.ModelInferRequest(model_name="same")
        for i in range(2000):
            q.inputs.add(name=f"no{i}", datatype="FP32", shape=[1 << 20])
            q.raw_input_contents.append(b"")
        with self.fails(CODE.INVALID_ARGUMENT):
            v2.ModelInfer(q, 30)
        inputs = [{"name": "x", "datatype": "FP32", "shape": [2], "data": [1, 2]}] * 3000
        self.answers(self.d.post("/v2/models/same/infer", {"inputs": inputs}), 400, "already exists")
        self.assertLess(time.time() - began, 8)
        self.bounded(BESIDES + 20)

    def test_what_a_shape_says_is_looked_at_first(self):
        self.serve("--max_request_memory=40MiB")
        with self.fails(CODE.RESOURCE_EXHAUSTED, "--max_request_memory=41943040"):
            self.stub.Predict(predict("same", x=expanding(90)), 30)
        with self.fails(CODE.INVALID_ARGUMENT, "bytes allowed"):
            self.stub.Predict(predict("same", x=expanding(500)), 30)
        self.bounded(BESIDES + 20)

    # ---- runs

    def test_a_run_that_wants_too_much_is_refused_alone(self):
        self.serve()
        for model in ("fill", "sum"):
            with self.fails(CODE.RESOURCE_EXHAUSTED, "--max_request_memory"):
                self.stub.Predict(predict(model, x=np.int32([1000000000])), 30)
        self.answers(self.d.post("/v1/models/fill:predict", {"instances": [1000000000]}), 429, "--max_request_memory")
        self.well()
        self.bounded()

    def test_many_runs_at_once_share_what_there_is(self):
        self.serve("--max_request_memory=0")
        got = self.at_once(20, lambda i: len(self.stub.Predict(predict("sum", x=np.int32([25 << 20])), 60).outputs))
        self.assertLessEqual(set(got), {1, CODE.RESOURCE_EXHAUSTED})
        self.assertIn(1, got)
        self.eventually_well()
        self.bounded()

    def test_queued_inputs_share_what_there_is(self):
        self.serve("--max_request_memory=0")
        got = self.at_once(40, lambda i: len(self.stub.Predict(predict("same", x=expanding(40)), 60).outputs))
        self.assertLessEqual(set(got), {1, CODE.RESOURCE_EXHAUSTED})
        self.eventually_well()
        self.bounded()

    # ---- bodies and answers

    def test_a_body_that_unpacks_to_much(self):
        self.serve()
        body = gzip.compress(b'{"instances": [' + b'"",' * (30 << 20) + b'""]}', 9)
        self.assertLess(len(body), 200000)
        for path in ("/v1/models/text:predict", "/v1/models/same:predict"):
            r = self.d.http("POST", path, data=body, headers={"Content-Encoding": "gzip"})
            self.assertIn(r.status_code, (400, 429, 413), r.text[:200])
        self.eventually_well()
        self.bounded()

    def test_bodies_that_do_not_end(self):
        self.serve()
        open_ones = []
        for i in range(20):
            s = socket.create_connection(("127.0.0.1", self.d.rest_port))
            s.settimeout(10)
            open_ones.append(s)
            try:
                s.sendall(b"POST /v1/models/same:predict HTTP/1.1\r\nHost: x\r\nContent-Length: 90000000\r\n\r\n" + b" " * 40000000)
            except OSError:
                pass  # refused
        self.assertEqual(self.d.get("/healthz").status_code, 200)
        self.bounded()
        for s in open_ones:
            s.close()
        self.eventually_well()

    def test_answers_that_nobody_reads(self):
        self.serve()
        body = json.dumps({"instances": [10000000]}).encode()
        open_ones = [socket.create_connection(("127.0.0.1", self.d.rest_port)) for _ in range(20)]
        for s in open_ones:
            s.sendall(b"POST /v1/models/fill:predict HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        time.sleep(4)
        self.assertEqual(self.d.get("/healthz").status_code, 200)
        self.bounded()
        for s in open_ones:
            s.close()
        self.eventually_well()

    def test_streams_whose_answers_nobody_reads(self):
        self.serve()
        v2 = service_pb2_grpc.GRPCInferenceServiceStub(self.d.channel)
        q = service_pb2.ModelInferRequest(model_name="fill", raw_input_contents=[np.int32([5 << 20]).tobytes()])
        q.inputs.add(name="x", datatype="INT32", shape=[1])
        over = threading.Event()

        def requests():
            for _ in range(200):
                yield q
            over.wait(30)
        calls = [v2.ModelStreamInfer(requests()) for _ in range(2)]
        time.sleep(3)
        self.eventually_well()
        self.bounded()
        for c in calls:
            c.cancel()
        over.set()
        self.eventually_well()

    # ---- afterwards

    def test_a_burst_leaves_nothing(self):
        self.serve(limit=2000)
        large = predict("same", x=np.ones(8 << 20, np.float32))
        small = predict("text", x=np.array([b"some words"] * 400000))
        self.assertEqual(set(self.at_once(8, lambda i: len(self.stub.Predict(large, 60).outputs))), {1})
        self.assertEqual(set(self.at_once(12, lambda i: len(self.stub.Predict(small, 60).outputs))), {1})
        for _ in range(60):
            if self.status("VmRSS") < 200:
                break
            time.sleep(0.25)
        self.assertLess(self.status("VmRSS"), 200, "MB when all is over")

    # ---- the system's own limits

    def test_an_address_space_that_is_too_small(self):
        for mb in (1500,):
            names = ("same", "fill", "sum", "text")
            self.d = Server(versions={}, wait=False, files={"models.config": config(*((n, f"{self.where}/{n}") for n in names))})
            self.d.args = ["/bin/bash", "-c", f'ulimit -v {mb * 1024}; exec "$@"', "sh", *self.d.args]
            self.d.start()
            self.stub = self.d.stub(prediction_service_pb2_grpc.PredictionServiceStub)
            try:
                x = np.ones(20 << 20, np.float32)
                got = self.at_once(12, lambda i: len(self.stub.Predict(predict("same", x=x), 60).outputs))
                self.assertIsNone(self.d.proc.poll(), "".join(self.d.log[-10:]))
                self.assertLessEqual(set(got), {1, CODE.RESOURCE_EXHAUSTED, CODE.UNAVAILABLE})
                self.eventually_well()
            finally:
                self.stop()

    def test_an_address_space_that_grpc_does_not_survive(self):
        d = Server(versions={}, wait=False, files={"models.config": config(("same", f"{self.where}/same"))})
        d.args = ["/bin/bash", "-c", 'ulimit -v 524288; exec "$@"', "sh", *d.args]
        code, _, text = d.exits()
        self.assertEqual(code, 1, text)
        self.assertIn("ulimit -v leaves", text)
        self.assertIn("--max_request_bytes=", text)


if __name__ == "__main__":
    unittest.main()
