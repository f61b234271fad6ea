"""KServe v2's extensions on both wires, driven by unmodified tritonclient: HTTP and gRPC, sync, asyncio and streaming,
system shared memory, repository control, statistics, configurations, trace and log settings, parameters.

    build/venv/bin/python tests/e2e/v2_test.py [-v] [TestCase.test]      $TENSORD: the daemon (default build/tensord)
"""
import asyncio
import contextlib
import json
import os
import queue
import re
import shutil
import sys
import tempfile
import threading
import time
import unittest
import uuid

import numpy as np
import tritonclient.grpc as tg
import tritonclient.grpc.aio as tga
import tritonclient.http as th
import tritonclient.http.aio as tha
import tritonclient.utils.shared_memory as shm
from tritonclient.grpc import service_pb2
from tritonclient.utils import InferenceServerException, serialize_byte_tensor

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import v2_rest_test as base  # noqa: E402
from v2_rest_test import MODELS, setUpModule  # noqa: E402,F401

CODES = {400: "INVALID_ARGUMENT", 404: "NOT_FOUND", 501: "UNIMPLEMENTED", 503: "UNAVAILABLE"}


class Daemon(base.Daemon):
    def __init__(self, *flags, **kw):
        super().__init__("--port=auto", *flags, **kw)
        self.grpc_port = int(re.search(r"ready: port=(\d+)", self.log[-1]).group(1))
        self.http = self.client
        self.grpc = tg.InferenceServerClient(f"127.0.0.1:{self.grpc_port}")

    def stop(self):
        self.grpc.close()
        return super().stop()


def value(lib, name, values, datatype="FP32"):
    t = lib.InferInput(name, list(np.shape(values)), datatype)
    t.set_data_from_numpy(np.asarray(values, np.float32 if datatype == "FP32" else None))
    return t


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.d = Daemon()
        cls.wires = ((th, cls.d.http), (tg, cls.d.grpc))

    @classmethod
    def tearDownClass(cls):
        code = cls.d.stop()
        assert code == 0, f"exit {code}: {''.join(cls.d.log[-5:])}"

    @contextlib.contextmanager
    def fails(self, status, *words, code=None):
        """The status over HTTP, or the same one's name over gRPC."""
        with self.assertRaises(InferenceServerException) as e:
            yield
        self.assertIn(str(e.exception.status()), (str(status), f"StatusCode.{code or CODES[status]}"), e.exception)
        for w in words:
            self.assertIn(w, e.exception.message())


class Extensions(Case):
    def test_both_wires_name_the_same_extensions(self):
        http, grpc = self.d.http.get_server_metadata(), self.d.grpc.get_server_metadata()
        self.assertEqual(http["extensions"], list(grpc.extensions))
        self.assertIn("system_shared_memory", grpc.extensions)
        self.assertNotIn("cuda_shared_memory", grpc.extensions)

    def test_configurations(self):
        http = self.d.http.get_model_config("types")
        grpc = self.d.grpc.get_model_config("types").config
        self.assertEqual((http["name"], http["platform"], http["max_batch_size"]), ("types", "tensorflow_savedmodel", 0))
        self.assertEqual((grpc.name, grpc.platform, grpc.max_batch_size), ("types", "tensorflow_savedmodel", 0))
        self.assertEqual([(t["name"], t["dims"]) for t in http["input"]], [(t.name, list(t.dims)) for t in grpc.input])
        self.assertEqual(http["model_transaction_policy"], {"decoupled": False})
        slow = self.d.http.get_model_config("half:slow")
        self.assertEqual((slow["max_batch_size"], slow["input"][0]["dims"], slow["input"][0]["data_type"]), (0, [], "TYPE_INT64"))
        rows = self.d.grpc.get_model_config("types:rows").config
        self.assertEqual(rows.max_batch_size, 1000)
        self.assertEqual([list(t.dims) for t in rows.input] + [list(t.dims) for t in rows.output], [[4], [], [4]])
        for _, c in self.wires:
            with self.fails(404, "Request for unknown model: 'none' is not found"):
                c.get_model_config("none")

    def test_statistics(self):
        def of(c):
            s = c.get_inference_statistics("half", "2")
            return s["model_stats"][0] if isinstance(s, dict) else s.model_stats[0]
        get = lambda o, k: o[k] if isinstance(o, dict) else getattr(o, k)
        for lib, c in self.wires:
            before = of(c)
            c.infer("half", [value(lib, "x", [1, 2, 3])], model_version="2")
            with self.assertRaises(InferenceServerException):
                c.infer("half", [value(lib, "z", [1])], model_version="2")
            after = of(c)
            self.assertEqual(get(after, "inference_count") - get(before, "inference_count"), 3)
            self.assertEqual(get(after, "execution_count") - get(before, "execution_count"), 1)
            runs = lambda s, k: get(get(get(s, "inference_stats"), k), "count")
            self.assertEqual(runs(after, "success") - runs(before, "success"), 1)
            self.assertEqual(runs(after, "fail") - runs(before, "fail"), 1)
            self.assertEqual({runs(after, k) for k in ("success", "queue", "compute_input", "compute_infer", "compute_output")}, {runs(after, "success")})
            self.assertIn(3, [get(b, "batch_size") for b in get(after, "batch_stats")])
            self.assertLess(abs(get(after, "last_inference") / 1000 - time.time()), 60)
            with self.fails(404, "Request for unknown model: 'half' version 9 is not found"):
                c.get_inference_statistics("half", "9")
        http, grpc = self.d.http.get_inference_statistics(), self.d.grpc.get_inference_statistics()
        self.assertEqual([(s["name"], s["version"], s["inference_count"]) for s in http["model_stats"]],
                         [(s.name, s.version, s.inference_count) for s in grpc.model_stats])

    def test_cuda_memory_is_refused(self):
        for _, c in self.wires:
            status = c.get_cuda_shared_memory_status()
            self.assertEqual(len(status if isinstance(status, list) else status.regions), 0)
            with self.fails(501, "failed to register CUDA shared memory region: 'r', GPUs not supported"):
                c.register_cuda_shared_memory("r", b"aGFuZGxl", 0, 8)
            c.unregister_cuda_shared_memory()

    def test_trace_settings(self):
        g = self.d.grpc
        text = lambda s: {k: list(v.value) for k, v in s.settings.items()}
        default = text(g.get_trace_settings())
        self.assertEqual((default["trace_level"], default["trace_rate"], default["trace_count"]), (["OFF"], ["1000"], ["-1"]))
        got = self.d.http.update_trace_settings("half", {"trace_level": ["TIMESTAMPS"], "trace_rate": "1", "trace_count": "2"})
        self.assertEqual((got["trace_level"], got["trace_rate"]), (["TIMESTAMPS"], "1"))
        self.assertEqual(text(g.get_trace_settings("half"))["trace_level"], ["TIMESTAMPS"])
        self.assertEqual(text(g.get_trace_settings("types")), default)
        for i in range(4):
            g.infer("half", [value(tg, "x", [1])], request_id=f"traced{i}")
        for _ in range(100):
            lines = [line for line in self.d.log if "trace: " in line]
            if len(lines) >= 2:
                break
            time.sleep(0.02)
        self.assertEqual([re.search(r"request=(\w+)", line).group(1) for line in lines], ["traced0", "traced1"])
        self.assertEqual(text(g.update_trace_settings("half", {"trace_level": None, "trace_rate": None, "trace_count": None})), default)
        for _, c in self.wires:
            with self.fails(404, "Request for unknown model: 'none' is not found"):
                c.get_trace_settings("none")
            with self.fails(400, "'LOUD' is no trace_level"):
                c.update_trace_settings(settings={"trace_level": ["LOUD"], "trace_rate": "7"})
            with self.fails(400, "Unable to parse 'trace_rate', got: 'x'"):
                c.update_trace_settings(settings={"trace_rate": "x"})
            with self.fails(501, "trace file location can not be updated"):
                c.update_trace_settings(settings={"trace_file": "/tmp/x"})
        self.assertEqual(text(g.get_trace_settings()), default)

    def test_a_trace_file(self):
        path = os.path.join(tempfile.mkdtemp(prefix="tensord-e2e."), "traces")
        d = Daemon("--trace_file=" + path)
        wires, load = ((th, d.http), (tg, d.grpc)), lambda name: json.load(open(name))
        try:
            on = d.grpc.update_trace_settings("half", {"trace_level": ["TENSORS", "TIMESTAMPS"], "trace_rate": "1", "trace_count": "4"})
            self.assertEqual((list(on.settings["trace_level"].value), list(on.settings["trace_file"].value)), (["TIMESTAMPS", "TENSORS"], [path]))
            self.assertEqual(d.http.get_trace_settings("half")["trace_level"], ["TIMESTAMPS", "TENSORS"])
            for n, (lib, c) in enumerate(wires, 1):
                c.infer("half", [value(lib, "x", [1, -2.5])], request_id=f"a{n}")
                rows = [r for r in load(path) if r["id"] == n]
                self.assertEqual(rows[0], {"id": n, "model_name": "half", "model_version": 2, "request_id": f"a{n}"})
                self.assertEqual([t["name"] for t in rows[1]["timestamps"]], ["REQUEST_START", "QUEUE_START", "COMPUTE_START", "COMPUTE_INPUT_END",
                                                                              "COMPUTE_OUTPUT_START", "COMPUTE_END", "REQUEST_END"])
                times = [t["ns"] for t in rows[1]["timestamps"]]
                self.assertEqual(times, sorted(times))
                self.assertEqual(rows[2:], [
                    {"id": n, "activity": "TENSOR_QUEUE_INPUT", "tensor": {"name": "x", "data": "1.0,-2.5", "shape": "2", "dtype": "FP32"}},
                    {"id": n, "activity": "TENSOR_BACKEND_OUTPUT", "tensor": {"name": "y", "data": "3.5,1.75", "shape": "2", "dtype": "FP32"}}])
            d.grpc.infer("half", [value(tg, "x", np.zeros(70000))])
            big = [r["tensor"] for r in load(path) if r["id"] == 3 and "tensor" in r]
            self.assertEqual([(t["truncated"], t["data"].count(",") + 1, t["shape"]) for t in big], [(True, 65536, "70000")] * 2)
            with self.assertRaises(InferenceServerException):      # a request that fails has a trace too
                d.grpc.infer("half", [value(tg, "x", [[[1]]] * 2), value(tg, "z", [1])])
            d.http.update_trace_settings("types", {"trace_level": ["TENSORS"], "trace_rate": "1", "log_frequency": "2"})
            for i in range(3):
                d.http.infer("types", [base.tensor(n, v, t) for n, t, v in base.TYPES], request_id=f"t{i}")
            rows = [r["tensor"] for r in load(path + ".1") if r.get("activity") == "TENSOR_QUEUE_INPUT"]
            self.assertEqual({t["name"]: t["dtype"] for t in rows}, {n: t for n, t, _ in base.TYPES})
            self.assertEqual({t["name"]: t["data"] for t in rows if t["name"] in ("string", "uint64", "float16")},
                             {"string": '"h\u00e9", ""', "uint64": "0,18446744073709551615", "float16": "-0.5,65504.0"})
            self.assertEqual([[r["request_id"] for r in load(f"{path}.{k}") if "request_id" in r] for k in (0, 1)], [["t0", "t1"], ["t2"]])
            count = re.search(r':tensorflow:serving:request_log_count\{model_name="types",status_code="OK"\} (\d+)', d.call("GET", "/metrics")[2].decode())
            self.assertEqual(count.group(1), "3")
        finally:
            self.assertEqual(d.stop(), 0)
            shutil.rmtree(os.path.dirname(path))

    def test_log_settings(self):
        before = self.d.http.get_log_settings()
        self.assertEqual((before["log_info"], before["log_error"], before["log_verbose_level"]), (True, True, 0))
        got = self.d.grpc.update_log_settings({"log_info": False, "log_verbose_level": 1})
        self.assertFalse(got.settings["log_info"].bool_param)
        self.assertEqual((self.d.http.get_log_settings()["log_info"], self.d.http.get_log_settings()["log_verbose_level"]), (False, 1))
        self.assertEqual(self.d.http.update_log_settings({"log_info": True, "log_verbose_level": 0}), before)
        for _, c in self.wires:
            with self.fails(501, "log file location can not be updated"):
                c.update_log_settings({"log_file": "/tmp/x"})
            with self.fails(400, "log setting 'log_verbose_level' must be a whole number, 0 or more" if c is self.d.http else "'log_loud' is no log setting"):
                c.update_log_settings({"log_info": False, "log_verbose_level": True} if c is self.d.http else {"log_info": False, "log_loud": True})
            with self.fails(400, "'log_color' is no log setting"):
                c.update_log_settings({"log_info": False, "log_color": True})
        self.assertEqual(self.d.http.get_log_settings(), before)


class Parameters(Case):
    def test_requests_with_every_parameter(self):
        for lib, c in self.wires:
            r = c.infer("half", [value(lib, "x", [2])], request_id="7", sequence_id=5, sequence_start=True, sequence_end=True,
                        priority=2, timeout=10_000_000, parameters={"mine": "x", "other": 1})
            self.assertEqual(r.as_numpy("y").tolist(), [4.0])
            head = r.get_response()
            self.assertEqual(head["id"] if lib is th else head.id, "7")
            r = c.infer("half", [value(lib, "x", [2])], sequence_id="text")
            self.assertEqual(r.as_numpy("y").tolist(), [4.0])

    def test_a_request_that_takes_too_long(self):
        n = th.InferInput("n", [], "INT64"), tg.InferInput("n", [], "INT64")
        for (lib, c), t in zip(self.wires, n):
            t.set_data_from_numpy(np.array(2**40, np.int64).reshape([]))
            began = time.monotonic()
            with self.fails(503, "Request timeout expired"):
                c.infer("half:slow", [t], timeout=200_000)
            self.assertLess(time.monotonic() - began, 5)

    def test_wrong_types(self):
        c = self.d.grpc
        for key, v, words in (("priority", "x", "expected int64_param"), ("priority", -1, "0 or more"), ("timeout", True, "expected int64_param"),
                              ("sequence_id", True, "expected int64_param or string_param"), ("sequence_start", 1, "expected bool_param"),
                              ("triton_x", 1, "reserved"), ("signature_name", 1, "expected string_param")):
            r = service_pb2.ModelInferRequest(model_name="half")
            p = r.parameters[key]
            if isinstance(v, bool):
                p.bool_param = v
            elif isinstance(v, int):
                p.int64_param = v
            else:
                p.string_param = v
            with self.assertRaises(Exception) as e:
                c._client_stub.ModelInfer(r)
            self.assertEqual(e.exception.code().name, "INVALID_ARGUMENT", key)
            self.assertIn(words, e.exception.details())
            status, _, data = self.d.call("POST", "/v2/models/half/infer", {"inputs": [], "parameters": {key: v}})
            self.assertEqual(status, 400, key)
            self.assertIn(key, json.loads(data)["error"])

    def test_classification(self):
        for lib, c in self.wires:
            r = c.infer("types:rows", [value(lib, "x", [[1, 4, 3, 2], [8, 5, 8, 7]])],
                        outputs=[lib.InferRequestedOutput("scores", class_count=2), lib.InferRequestedOutput("best", class_count=9)])
            self.assertEqual(r.as_numpy("scores").tolist(), [[b"8.000000:1", b"6.000000:2"], [b"16.000000:0", b"16.000000:2"]])
            self.assertEqual(r.as_numpy("best").tolist(), [b"1:0", b"0:1"])
            t = lib.InferInput("s", [1], "BYTES")
            t.set_data_from_numpy(np.array([b"a"], dtype=object))
            with self.fails(400, "class result not available for output due to unsupported type 'BYTES'"):
                c.infer("types:text", [t], outputs=[lib.InferRequestedOutput("upper", class_count=1)])


class Streams(Case):
    @contextlib.contextmanager
    def stream(self, client=None):
        got = queue.Queue()
        c = client or tg.InferenceServerClient(f"127.0.0.1:{self.d.grpc_port}")
        c.start_stream(lambda result, error: got.put((result, error)))
        try:
            yield c, lambda: got.get(timeout=20)
        finally:
            c.stop_stream()
            c.close()

    def test_answers_come_in_order(self):
        with self.stream() as (c, take):
            for i in range(200):
                c.async_stream_infer("half", [value(tg, "x", [i])], request_id=str(i), enable_empty_final_response=i % 2 == 0)
            for i in range(200):
                result, error = take()
                self.assertIsNone(error)
                self.assertEqual((result.get_response().id, result.as_numpy("y").tolist()), (str(i), [i / 2 + 3]))
                self.assertTrue(result.get_response().parameters["triton_final_response"].bool_param)

    def test_many_streams_at_once(self):
        stub = self.d.grpc._client_stub

        def one(k, failures):
            q = [service_pb2.ModelInferRequest(model_name="half", id=str(i)) for i in range(60)]
            for i, r in enumerate(q):
                r.inputs.add(name="x", datatype="FP32", shape=[1]).contents.fp32_contents.append(k * 100 + i)
            got = [(a.infer_response.id, np.frombuffer(a.infer_response.raw_output_contents[0], np.float32)[0]) for a in stub.ModelStreamInfer(iter(q))]
            if got != [(str(i), (k * 100 + i) / 2 + 3) for i in range(60)]:
                failures.append((k, got))
        failures = []
        threads = [threading.Thread(target=one, args=(k, failures)) for k in range(24)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(60)
        self.assertEqual(failures, [])

    def test_an_error_is_one_answer_of_many(self):
        with self.stream() as (c, take):
            c.async_stream_infer("half", [value(tg, "x", [1])], request_id="a")
            c.async_stream_infer("none", [value(tg, "x", [1])], request_id="b")
            c.async_stream_infer("half", [value(tg, "z", [1])], request_id="c")
            c.async_stream_infer("half:two", [value(tg, "a", [1]), value(tg, "b", np.int64([2]), "INT64")], request_id="d")
            self.assertEqual(take()[0].as_numpy("y").tolist(), [3.5])
            for words in ("Request for unknown model: 'none' is not found", "missing required input(s) ['x']"):
                result, error = take()
                self.assertIsNone(result)
                self.assertIn(words, error.message())
            self.assertEqual(take()[0].as_numpy("sum").tolist(), [3.0])

    def test_an_error_carries_its_requests_id(self):
        stub = self.d.grpc._client_stub
        answers = list(stub.ModelStreamInfer(iter([service_pb2.ModelInferRequest(model_name="none", id="17")])))
        self.assertEqual([(a.infer_response.id, a.error_message) for a in answers], [("17", "Request for unknown model: 'none' is not found")])

    def test_a_client_that_leaves_stops_its_run(self):
        stub = self.d.grpc._client_stub
        q = service_pb2.ModelInferRequest(model_name="half:slow")
        q.inputs.add(name="n", datatype="INT64", shape=[]).contents.int64_contents.append(2**40)
        call = stub.ModelStreamInfer(iter([q]))
        time.sleep(0.3)
        began = time.monotonic()
        call.cancel()
        for _ in range(3):   # the cores are free again
            self.d.grpc.infer("half", [value(tg, "x", [1])])
        self.assertLess(time.monotonic() - began, 10)

    def test_streams_that_compute_leave_the_server_reachable(self):
        stub = self.d.grpc._client_stub
        q = service_pb2.ModelInferRequest(model_name="half:slow")
        q.inputs.add(name="n", datatype="INT64", shape=[]).contents.int64_contents.append(2**40)
        calls = [stub.ModelStreamInfer(iter([q])) for _ in range(12)]
        time.sleep(0.3)
        try:
            self.assertTrue(self.d.grpc.is_server_live(client_timeout=10))
            self.assertTrue(self.d.grpc.is_model_ready("half", client_timeout=10))
        finally:
            for call in calls:
                call.cancel()
        self.assertEqual(self.d.grpc.infer("half", [value(tg, "x", [1])], client_timeout=20).as_numpy("y").tolist(), [3.5])

    def test_a_stream_without_requests_ends_well(self):
        self.assertEqual(list(self.d.grpc._client_stub.ModelStreamInfer(iter([]))), [])


class Asyncio(Case):
    def test_both_clients(self):
        async def run():
            http, grpc = tha.InferenceServerClient(f"127.0.0.1:{self.d.port}"), tga.InferenceServerClient(f"127.0.0.1:{self.d.grpc_port}")
            for lib, c in ((th, http), (tg, grpc)):
                self.assertTrue(await c.is_server_live() and await c.is_model_ready("half", "1"))
                answers = await asyncio.gather(*[c.infer("half", [value(lib, "x", [i])]) for i in range(50)])
                self.assertEqual([a.as_numpy("y").tolist() for a in answers], [[i / 2 + 3] for i in range(50)])
                with self.fails(404, "Request for unknown model: 'none' is not found"):
                    await c.infer("none", [value(lib, "x", [1])])
                await c.close()
        asyncio.run(run())

    def test_a_stream(self):
        async def run():
            c = tga.InferenceServerClient(f"127.0.0.1:{self.d.grpc_port}")

            async def requests():
                for name in ("half", "none", "half"):
                    yield {"model_name": name, "inputs": [value(tg, "x", [4])], "request_id": name}
            got = [(r.as_numpy("y").tolist() if r else None, e.message() if e else "") async for r, e in c.stream_infer(requests())]
            self.assertEqual([y for y, _ in got], [[5.0], None, [5.0]])
            self.assertIn("Request for unknown model: 'none' is not found", got[1][1])
            await c.close()
        asyncio.run(run())


class SharedMemory(Case):
    @contextlib.contextmanager
    def region(self, size):
        name = "r" + uuid.uuid4().hex[:8]
        key = "/tensord-" + name
        handle = shm.create_shared_memory_region(name, key, size)
        try:
            yield name, key, handle
        finally:
            for c in (self.d.http, self.d.grpc):
                c.unregister_system_shared_memory(name)
            shm.destroy_shared_memory_region(handle)

    def shared(self, lib, name, shape, datatype, region, size, offset=0):
        t = lib.InferInput(name, shape, datatype)
        t.set_shared_memory(region, size, offset)
        return t

    def wanted(self, lib, name, region, size, offset=0):
        o = lib.InferRequestedOutput(name)
        o.set_shared_memory(region, size, offset)
        return o

    def test_tensors_in_and_out(self):
        for lib, c in self.wires:
            with self.region(64) as (name, key, handle):
                c.register_system_shared_memory(name, key, 64)
                x = np.float32([1, 2, 3])
                shm.set_shared_memory_region(handle, [x], offset=16)
                r = c.infer("half", [self.shared(lib, "x", [3], "FP32", name, 12, 16)], outputs=[self.wanted(lib, "y", name, 32, 32)])
                np.testing.assert_array_equal(shm.get_contents_as_numpy(handle, np.float32, [3], offset=32), x / 2 + 3)
                out = r.get_output("y")
                if lib is th:
                    self.assertEqual(out, {"name": "y", "datatype": "FP32", "shape": [3]})
                else:
                    self.assertEqual((out.parameters["shared_memory_byte_size"].int64_param, list(r.get_response().raw_output_contents)), (12, [b""]))
                r = c.infer("half", [self.shared(lib, "x", [3], "FP32", name, 12, 16)])   # only the input is shared
                np.testing.assert_array_equal(r.as_numpy("y"), x / 2 + 3)

    def test_strings(self):
        for lib, c in self.wires:
            with self.region(64) as (name, key, handle):
                c.register_system_shared_memory(name, key, 64)
                shm.set_shared_memory_region(handle, [serialize_byte_tensor(np.array([b"ab", b"", b"c\x00"], dtype=object))])
                outs = [self.wanted(lib, "upper", name, 32, 32), lib.InferRequestedOutput("blob")]
                r = c.infer("types:text", [self.shared(lib, "s", [3], "BYTES", name, 16)], outputs=outs)
                self.assertEqual(shm.get_contents_as_numpy(handle, np.object_, [3], offset=32).tolist(), [b"AB", b"", b"C\x00"])
                self.assertEqual(r.as_numpy("blob").tolist(), [b"\xffab", b"\xff", b"\xffc\x00"])

    def test_shared_and_sent_inputs_mix(self):
        for lib, c in self.wires:
            with self.region(64) as (name, key, handle):
                c.register_system_shared_memory(name, key, 64)
                shm.set_shared_memory_region(handle, [np.float32([1, 2])])
                b = lib.InferInput("b", [2], "INT64")
                b.set_data_from_numpy(np.int64([10, 20]))
                r = c.infer("half:two", [self.shared(lib, "a", [2], "FP32", name, 8), b])
                self.assertEqual(r.as_numpy("sum").tolist(), [11.0, 22.0])

    def test_streams_and_asyncio(self):
        with self.region(64) as (name, key, handle):
            self.d.grpc.register_system_shared_memory(name, key, 64)
            shm.set_shared_memory_region(handle, [np.float32([6])])
            got = queue.Queue()
            with tg.InferenceServerClient(f"127.0.0.1:{self.d.grpc_port}") as c:
                c.start_stream(lambda result, error: got.put((result, error)))
                c.async_stream_infer("half", [self.shared(tg, "x", [1], "FP32", name, 4)], outputs=[self.wanted(tg, "y", name, 4, 8)])
                self.assertIsNone(got.get(timeout=20)[1])
                c.stop_stream()
            self.assertEqual(shm.get_contents_as_numpy(handle, np.float32, [1], offset=8).tolist(), [6.0])

            async def run():
                c = tha.InferenceServerClient(f"127.0.0.1:{self.d.port}")
                self.assertEqual([r["name"] for r in await c.get_system_shared_memory_status()], [name])
                r = await c.infer("half", [self.shared(th, "x", [1], "FP32", name, 4)])
                self.assertEqual(r.as_numpy("y").tolist(), [6.0])
                await c.close()
            asyncio.run(run())

    def test_status_and_names(self):
        with self.region(64) as (name, key, handle):
            self.d.grpc.register_system_shared_memory(name, key, 32, offset=16)
            self.assertEqual(self.d.http.get_system_shared_memory_status(name), [{"name": name, "key": key, "offset": 16, "byte_size": 32}])
            row = self.d.grpc.get_system_shared_memory_status().regions[name]
            self.assertEqual((row.name, row.key, row.offset, row.byte_size), (name, key, 16, 32))
            for _, c in self.wires:
                with self.fails(400, f"shared memory region '{name}' already in manager", code="ALREADY_EXISTS"):
                    c.register_system_shared_memory(name, key, 64)
            self.d.http.unregister_system_shared_memory(name)
            for _, c in self.wires:
                c.unregister_system_shared_memory(name)
                with self.fails(404, f"Unable to find system shared memory region: '{name}'"):
                    c.get_system_shared_memory_status(name)
            for n in ("one", "two"):
                self.d.grpc.register_system_shared_memory(n, key, 8)
            self.d.http.unregister_system_shared_memory()
            self.assertEqual(self.d.http.get_system_shared_memory_status(), [])

    def test_wrong_regions(self):
        for lib, c in self.wires:
            with self.region(64) as (name, key, handle):
                for k, size, offset, words in ((key, 65, 0, "invalid args"), (key, 8, 60, "invalid args"), (key, 8, 2**64 - 4, "too big integer" if lib is th else "invalid args"),
                                               (key, 0, 0, "invalid args"), (key + "x", 8, 0, "Unable to open shared memory region"),
                                               ("/../etc/passwd", 8, 0, "without further slashes")):
                    with self.fails(400, words):
                        c.register_system_shared_memory(name, k, size, offset)
                c.register_system_shared_memory(name, key, 64)
                infer = lambda i, *o: c.infer("half", [i], outputs=list(o) or None)
                x = lambda *a: self.shared(lib, "x", [1], "FP32", *a)
                with self.fails(404, "Unable to find shared memory region: 'none'"):
                    infer(x("none", 4))
                with self.fails(400, f"Invalid offset + byte size for shared memory region: '{name}'"):
                    infer(x(name, 4, 61))
                with self.fails(400, "input byte size mismatch for input 'x'"):
                    infer(x(name, 8))
                with self.fails(400, "shared memory size specified with the request for output 'y' (3 bytes) should be at least 4 bytes"):
                    infer(x(name, 4), self.wanted(lib, "y", name, 3))
                with self.fails(404, "Unable to find shared memory region: 'none'"):
                    infer(x(name, 4), self.wanted(lib, "y", "none", 4))

    def test_a_request_takes_no_more_than_it_may(self):
        size = 60 << 20   # of 100 MiB, twice
        for lib, c in self.wires:
            with self.region(size) as (name, key, handle):
                c.register_system_shared_memory(name, key, size)
                inputs = [self.shared(lib, n, [size // 4], "FP32", name, size) for n in ("x", "z")]
                with self.fails(400, "input 'z': the inputs in shared memory are larger than max_request_bytes"):
                    c.infer("half", inputs)

    def test_a_region_that_shrinks_is_an_error(self):
        for lib, c in self.wires:
            with self.region(1 << 20) as (name, key, handle):
                c.register_system_shared_memory(name, key, 1 << 20)
                os.truncate("/dev/shm" + key, 4096)
                for inputs, outputs in (([self.shared(lib, "x", [1024], "FP32", name, 4096, 8192)], None),
                                        ([value(lib, "x", [1])], [self.wanted(lib, "y", name, 4096, 8192)])):
                    with self.fails(400, "has become smaller than it was when registered"):
                        c.infer("half", inputs, outputs=outputs)
                self.assertEqual(os.stat("/dev/shm" + key).st_size, 4096)
                r = c.infer("half", [self.shared(lib, "x", [1], "FP32", name, 4)])
                self.assertEqual(r.as_numpy("y").tolist(), [3.0])
                os.truncate("/dev/shm" + key, 1 << 20)

    def test_truncating_while_it_serves(self):
        with self.region(1 << 22) as (name, key, handle):
            self.d.grpc.register_system_shared_memory(name, key, 1 << 22)
            stop = threading.Event()

            def shrink():
                while not stop.is_set():
                    os.truncate("/dev/shm" + key, 0)
                    os.truncate("/dev/shm" + key, 1 << 22)
            t = threading.Thread(target=shrink)
            t.start()
            outcomes = set()
            for _ in range(100):
                try:
                    self.d.grpc.infer("half", [self.shared(tg, "x", [1 << 18], "FP32", name, 1 << 20)], outputs=[self.wanted(tg, "y", name, 1 << 20, 1 << 21)])
                    outcomes.add("answer")
                except InferenceServerException as e:
                    self.assertIn("has become smaller", e.message())
                    outcomes.add("refused")
            stop.set()
            t.join()
            os.truncate("/dev/shm" + key, 1 << 22)
            self.assertTrue(outcomes)
            self.assertTrue(self.d.grpc.is_server_live())


class Repository(unittest.TestCase):
    fails = Case.fails

    def test_both_wires_load_and_unload(self):
        d = Daemon(versions=(1,))
        try:
            index = lambda: {(m.name, m.version): m.state for m in d.grpc.get_model_repository_index().models}
            self.assertEqual(index(), {("half", "1"): "READY", ("types", "1"): "READY"})
            d.add(2)
            d.grpc.load_model("half")
            self.assertEqual(index()["half", "2"], "READY")
            d.grpc.unload_model("half")
            self.assertFalse(d.http.is_model_ready("half"))
            self.assertIn(index()["half", "2"], ("UNLOADING", "UNAVAILABLE"))
            self.assertEqual([m["state"] for m in d.http.get_model_repository_index()][2:], ["READY"])
            ready = d.grpc._client_stub.RepositoryIndex(service_pb2.RepositoryIndexRequest(ready=True))
            self.assertEqual([m.name for m in ready.models], ["types"])
            d.http.load_model("half")
            self.assertEqual(d.grpc.infer("half", [value(tg, "x", [0])]).as_numpy("y").tolist(), [3.0])
            for c in (d.grpc, d.http):
                with self.fails(404, "failed to load 'none'"):
                    c.load_model("none")
                with self.fails(404, "failed to unload 'none'"):
                    c.unload_model("none")
            with self.assertRaises(Exception) as e:
                d.grpc._client_stub.RepositoryIndex(service_pb2.RepositoryIndexRequest(repository_name="r"))
            self.assertEqual((e.exception.code().name, e.exception.details()), ("UNIMPLEMENTED", "'repository_name' specification is not supported"))
        finally:
            self.assertEqual(d.stop(), 0)


class Ports(unittest.TestCase):
    def test_kserves_own_ports_serve_the_same(self):
        d = Daemon("--kserve_rest_port=auto", "--kserve_grpc_port=auto")
        try:
            grpc, rest = (int(n) for n in re.search(r"kserve_grpc_port=(\d+) kserve_rest_port=(\d+)", d.log[-1]).groups())
            self.assertEqual(len({grpc, rest, d.port, d.grpc_port}), 4)
            for lib, port in ((th, rest), (tg, grpc)):
                with contextlib.closing(lib.InferenceServerClient(f"127.0.0.1:{port}")) as c:
                    self.assertEqual(c.infer("half", [value(lib, "x", [1])]).as_numpy("y").tolist(), [3.5])
            for c in (d.http, d.grpc):
                self.assertTrue(c.is_server_live())
        finally:
            self.assertEqual(d.stop(), 0)


class Configured(unittest.TestCase):
    """A model with a config.pbtxt, changed and loaded again."""
    fails = Case.fails

    CONFIG = """
        name: "half" platform: "tensorflow_savedmodel" max_batch_size: 4   # rows
        input [ { name: "x" data_type: TYPE_FP32 dims: [] } ]
        output { name: "y" data_type: TYPE_FP32 label_filename: "labels.txt" }
        dynamic_batching { preferred_batch_size: [ 2, 4 ] max_queue_delay_microseconds: 100
                           priority_queue_policy { key: 1 value { max_queue_size: 7 timeout_action: DELAY } } }
        instance_group [ { count: 2 kind: KIND_CPU } ]
        parameters { key: "mine" value { string_value: "x" } }
        model_warmup { name: "w" batch_size: 2 count: 3 inputs { key: "x" value { data_type: TYPE_FP32 random_data: true } } }
    """

    @classmethod
    def setUpClass(cls):
        cls.d = Daemon(versions=(2,))
        cls.write("labels.txt", "low\nhigh\r\n")

    @classmethod
    def tearDownClass(cls):
        assert cls.d.stop() == 0

    @classmethod
    def write(cls, name, text, mode="w"):
        path = os.path.join(cls.d.base, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, mode) as f:
            f.write(text)

    def reload(self, config):
        self.write("config.pbtxt", config)
        self.d.grpc.unload_model("half")
        self.d.grpc.load_model("half")

    def test_it_is_honoured_and_answered(self):
        self.reload(self.CONFIG)
        http, grpc = self.d.http.get_model_config("half"), self.d.grpc.get_model_config("half").config
        self.assertEqual((http["max_batch_size"], grpc.max_batch_size), (4, 4))
        self.assertEqual((http["dynamic_batching"]["preferred_batch_size"], list(grpc.dynamic_batching.preferred_batch_size)), ([2, 4], [2, 4]))
        self.assertEqual(http["dynamic_batching"]["priority_queue_policy"]["1"]["timeout_action"], "DELAY")
        self.assertEqual((http["parameters"], http["instance_group"][0]["count"]), ({"mine": {"string_value": "x"}}, 2))
        self.assertEqual((grpc.backend, grpc.input[0].name, grpc.output[0].label_filename), ("tensorflow", "x", "labels.txt"))
        for lib, c in ((th, self.d.http), (tg, self.d.grpc)):
            self.assertEqual(c.infer("half", [value(lib, "x", [1] * 4)]).as_numpy("y").shape, (4,))
            with self.fails(400, "inference request batch-size must be <= 4 for 'half'"):
                c.infer("half", [value(lib, "x", [1] * 5)])
            with self.fails(400, "unexpected shape for input 'x' for model 'half'. Expected [?], got [2,1]. NOTE: Setting a non-zero max_batch_size"):
                c.infer("half", [value(lib, "x", [[1], [2]])])
            with self.fails(400, "missing required input(s) ['x']"):
                c.infer("half", [value(lib, "z", [1])])
            r = c.infer("half", [value(lib, "x", [1, 5, 3])], outputs=[lib.InferRequestedOutput("y", class_count=3)])
            self.assertEqual(r.as_numpy("y").tolist(), [b"5.500000:1:high", b"4.500000:2", b"3.500000:0:low"])

    def test_warm_up_reads_files(self):
        self.write("warmup/x", np.float32([1, 2]).tobytes(), "wb")
        self.reload(self.CONFIG.replace("random_data: true", 'input_data_file: "x"'))
        with self.fails(503, "config.pbtxt: model_warmup 'w'", "input byte size mismatch for input 'x'"):
            self.reload(self.CONFIG.replace("random_data: true", 'input_data_file: "x"').replace("batch_size: 2 count", "batch_size: 3 count"))
        with self.fails(503, "must lie below warmup/"):
            self.reload(self.CONFIG.replace("random_data: true", 'input_data_file: "../x"'))

    def test_wrong_ones_fail_the_load(self):
        change = lambda a, b: self.CONFIG.replace(a, b)
        for config, words in (
                ("max_batch_size: many", "Error parsing text-format inference.ModelConfig"),
                (change('"tensorflow_savedmodel"', '"onnxruntime_onnx"'), "platform 'onnxruntime_onnx' is not served"),
                (change('name: "x" data_type', 'name: "q" data_type'), "unexpected inference input 'q'"),
                (change('"x" data_type: TYPE_FP32', '"x" data_type: TYPE_INT8'), "input 'x' has type"),
                (change("dims: []", "dims: [ 3 ]"), "input 'x' has shape"),
                (change("max_batch_size: 4 ", "max_batch_size: -1 "), "max_batch_size -1 must be 0 or more"),
                (change("[ 2, 4 ]", "[ 2, 5 ]"), "preferred size 5 must be in 1 .. max_batch_size (4)"),
                (change("labels.txt", "none.txt"), "none.txt"),
                (self.CONFIG + "sequence_batching {}", "sequence_batching"),
                (self.CONFIG + "ensemble_scheduling {}", "ensemble_scheduling"),
                (self.CONFIG + "model_transaction_policy { decoupled: true }", "decoupled")):
            with self.fails(503, "failed to load 'half'", "config.pbtxt", words):
                self.reload(config)
        self.reload(self.CONFIG)

    def test_its_version_policy_counts(self):
        root = tempfile.mkdtemp(prefix="tensord-e2e.")
        for v in (1, 2):
            os.symlink(os.path.join(MODELS, "half", str(v)), os.path.join(root, str(v)))
        served = lambda: [m["version"] for m in self.d.http.get_model_repository_index() if m["name"] == "half" and m["state"] == "READY"]
        d = self.d
        self.__class__.d = Daemon("--model_name=half", f"--model_base_path={root}", "--model_config_file=")
        try:
            self.assertEqual(served(), ["2"])
            for policy, versions in (("all {}", ["2", "1"]), ("specific { versions: 1 }", ["1"]), ("latest { num_versions: 1 }", ["2"])):
                with open(os.path.join(root, "config.pbtxt"), "w") as f:
                    f.write("version_policy { " + policy + " }")
                self.d.http.load_model("half")
                for _ in range(200):   # the old ones go after the new ones are there
                    if served() == versions:
                        break
                    time.sleep(0.02)
                self.assertEqual(served(), versions)
        finally:
            code, self.__class__.d = self.d.stop(), d
            shutil.rmtree(root)
        self.assertEqual(code, 0)


if __name__ == "__main__":
    unittest.main()
