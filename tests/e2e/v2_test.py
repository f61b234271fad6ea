"""KServe v2's extensions on both wires, driven by unmodified tritonclient: HTTP and gRPC, sync, asyncio and streaming,
statistics, configurations, trace and log settings, parameters.

    build/venv/bin/python tests/e2e/v2_test.py [-v] [TestCase.test]      $TENSORD: the daemon (default build/tensord)
"""
import asyncio
import base64
import contextlib
import json
import os
import queue
import re
import shutil
import tempfile
import threading
import time
import unittest

import numpy as np
import tritonclient.grpc as tg
import tritonclient.grpc.aio as tga
import tritonclient.http as th
import tritonclient.http.aio as tha
from tritonclient.grpc import service_pb2
from tritonclient.utils import InferenceServerException

from server import PATIENCE, until
from v2_server import TYPES, Case, Daemon, setUpModule, tensor, value  # noqa: F401


class Extensions(Case):
    def test_both_wires_name_the_same_extensions(self):
        http, grpc = self.d.rest.get_server_metadata(), self.d.grpc.get_server_metadata()
        self.assertEqual(http["extensions"], list(grpc.extensions))
        self.assertIn("system_shared_memory", grpc.extensions)
        self.assertNotIn("cuda_shared_memory", grpc.extensions)

    def test_configurations(self):
        http = self.d.rest.get_model_config("types")
        grpc = self.d.grpc.get_model_config("types").config
        self.assertEqual((http["name"], http["platform"], http["max_batch_size"]), ("types", "tensorflow_savedmodel", 0))
        self.assertEqual((grpc.name, grpc.platform, grpc.max_batch_size), ("types", "tensorflow_savedmodel", 0))
        self.assertEqual([(t["name"], t["dims"]) for t in http["input"]], [(t.name, list(t.dims)) for t in grpc.input])
        self.assertEqual(http["model_transaction_policy"], {"decoupled": False})
        slow = self.d.rest.get_model_config("half:slow")
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
        for _ in range(20):   # by then three rows are known to be short, and are not shared out
            self.d.rest.infer("half", [value(self.wires[0][0], "x", [1, 2, 3])], model_version="2")
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
        http, grpc = self.d.rest.get_inference_statistics(), self.d.grpc.get_inference_statistics()
        self.assertEqual([(s["name"], s["version"], s["inference_count"]) for s in http["model_stats"]],
                         [(s.name, s.version, s.inference_count) for s in grpc.model_stats])

    def test_statistics_of_scalars_and_signatures(self):
        one = lambda: self.d.rest.get_inference_statistics("half", "2")["model_stats"][0]
        before = one()
        n = tg.InferInput("n", [], "INT64")
        n.set_data_from_numpy(np.array(3, np.int64).reshape([]))
        self.d.grpc.infer("half:slow", [n])
        self.d.grpc.infer("half", [value(tg, "x", [])])      # no rows: still an inference
        after = one()
        self.assertEqual((after["inference_count"] - before["inference_count"], after["execution_count"] - before["execution_count"]), (2, 2))
        rows = sum(b["batch_size"] * b["compute_infer"]["count"] for b in after["batch_stats"])
        self.assertEqual((sum(b["compute_infer"]["count"] for b in after["batch_stats"]), rows), (after["execution_count"], after["inference_count"]))
        for _, c in self.wires:
            self.assertTrue(c.is_model_ready("half:two"))
            self.assertFalse(c.is_model_ready("half:none"))
            c.get_inference_statistics("half:two")
            with self.fails(400, 'Serving signature key "none" not found.', code="FAILED_PRECONDITION"):
                c.get_inference_statistics("half:none")

    def test_cuda_memory_is_refused(self):
        for _, c in self.wires:
            status = c.get_cuda_shared_memory_status()
            self.assertEqual(len(status if isinstance(status, list) else status.regions), 0)
            with self.fails(501, "failed to register CUDA shared memory region: 'r', GPUs not supported"):
                c.register_cuda_shared_memory("r", base64.b64encode(b"\1\0" * 32), 0, 8)
            c.unregister_cuda_shared_memory()

    def test_trace_settings(self):
        g = self.d.grpc
        text = lambda s: {k: list(v.value) for k, v in s.settings.items()}
        default = text(g.get_trace_settings())
        self.assertEqual((default["trace_level"], default["trace_rate"], default["trace_count"]), (["OFF"], ["1000"], ["-1"]))
        got = self.d.rest.update_trace_settings("half", {"trace_level": ["TIMESTAMPS"], "trace_rate": "1", "trace_count": "2"})
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
        wires = ((th, d.rest), (tg, d.grpc))

        def load(name):
            with open(name) as f:
                return json.load(f)
        try:
            on = d.grpc.update_trace_settings("half", {"trace_level": ["TENSORS", "TIMESTAMPS"], "trace_rate": "1", "trace_count": "4"})
            self.assertEqual((list(on.settings["trace_level"].value), list(on.settings["trace_file"].value)), (["TIMESTAMPS", "TENSORS"], [path]))
            self.assertEqual(d.rest.get_trace_settings("half")["trace_level"], ["TIMESTAMPS", "TENSORS"])
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
            d.rest.update_trace_settings("types", {"trace_level": ["TENSORS"], "trace_rate": "1", "log_frequency": "2"})
            for i in range(3):
                d.rest.infer("types", [tensor(n, v, t) for n, t, v in TYPES], request_id=f"t{i}")
            rows = [r["tensor"] for r in load(path + ".1") if r.get("activity") == "TENSOR_QUEUE_INPUT"]
            self.assertEqual({t["name"]: t["dtype"] for t in rows}, {n: t for n, t, _ in TYPES})
            self.assertEqual({t["name"]: t["data"] for t in rows if t["name"] in ("string", "uint64", "float16")},
                             {"string": '"h\u00e9", ""', "uint64": "0,18446744073709551615", "float16": "-0.5,65504.0"})
            self.assertEqual([[r["request_id"] for r in load(f"{path}.{k}") if "request_id" in r] for k in (0, 1)], [["t0", "t1"], ["t2"]])
            count = re.search(r':tensorflow:serving:request_log_count\{model_name="types",status_code="OK"\} (\d+)', d.call("GET", "/metrics")[2].decode())
            self.assertEqual(count.group(1), "3")
        finally:
            self.assertEqual(d.stop(), 0)
            shutil.rmtree(os.path.dirname(path))

    def test_log_settings(self):
        before = self.d.rest.get_log_settings()
        self.assertEqual((before["log_info"], before["log_error"], before["log_verbose_level"]), (True, True, 0))
        got = self.d.grpc.update_log_settings({"log_info": False, "log_verbose_level": 1})
        self.assertFalse(got.settings["log_info"].bool_param)
        self.assertEqual((self.d.rest.get_log_settings()["log_info"], self.d.rest.get_log_settings()["log_verbose_level"]), (False, 1))
        self.assertEqual(self.d.rest.update_log_settings({"log_info": True, "log_verbose_level": 0}), before)
        for _, c in self.wires:
            with self.fails(501, "log file location can not be updated"):
                c.update_log_settings({"log_file": "/tmp/x"})
            with self.fails(400, "log setting 'log_verbose_level' must be a whole number, 0 or more" if c is self.d.rest else "'log_loud' is no log setting"):
                c.update_log_settings({"log_info": False, "log_verbose_level": True} if c is self.d.rest else {"log_info": False, "log_loud": True})
            with self.fails(400, "'log_color' is no log setting"):
                c.update_log_settings({"log_info": False, "log_color": True})
        self.assertEqual(self.d.rest.get_log_settings(), before)


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
            with self.fails(503, "Request timeout expired: model 'half' version 2, signature 'slow': the run was stopped: its deadline has passed"):
                c.infer("half:slow", [t], timeout=200_000)
            self.assertLess(time.monotonic() - began, 5 * PATIENCE)

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

    def test_texts_that_hold_a_nul(self):
        stub = self.d.grpc._client_stub
        for r in (service_pb2.ModelInferRequest(model_name="half\0x"), service_pb2.ModelInferRequest(model_name="half", id="1\0002")):
            with self.assertRaises(Exception) as e:
                stub.ModelInfer(r)
            self.assertEqual(e.exception.code().name, "INVALID_ARGUMENT")
            self.assertIn("holds a NUL byte", e.exception.details())

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
        c = client or tg.InferenceServerClient(f"127.0.0.1:{self.d.port}")
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

    def waiting(self):
        found = re.findall(r'^nv_inference_pending_request_count\{model="half",[^}]*\} (\S+)$', self.d.get("/metrics").text, re.M)
        return sum(map(float, found))

    def test_requests_of_one_stream_share_batches(self):
        """Both lanes (or all: as many slow requests as there are processors) are busy, and what comes behind gathers."""
        busy = len(os.sched_getaffinity(0))

        def counted():
            rows = self.d.grpc.get_inference_statistics("half").model_stats
            return sum(r.inference_stats.success.count for r in rows), sum(r.execution_count for r in rows)
        with self.stream() as (c, take):
            def send(n):
                for i in range(n):
                    c.async_stream_infer("half", [value(tg, "x", [i])])

            def receive(n):
                return [take()[0].as_numpy("y").tolist() for _ in range(n)]
            send(4)   # the model's rows are known to be independent
            receive(4)
            requests, runs = counted()
            slow = service_pb2.ModelInferRequest(model_name="half:slow")
            slow.inputs.add(name="n", datatype="INT64", shape=[]).contents.int64_contents.append(2**40)
            calls = [self.d.grpc._client_stub.ModelInfer.future(slow) for _ in range(busy)]
            time.sleep(0.5)  # they run
            send(40)
            self.assertTrue(until(lambda: self.waiting() == 40))
            for call in calls:
                call.cancel()
            self.assertEqual(receive(40), [[i / 2 + 3] for i in range(40)])
            after = counted()
        self.assertEqual(after[0] - requests, 40)
        self.assertLess(after[1] - runs, 40)  # without it: 40 and the slow ones
        self.assertEqual(self.waiting(), 0)

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
        call = stub.ModelStreamInfer(iter([q] * 20))   # some run, the others wait
        time.sleep(0.3)
        began = time.monotonic()
        call.cancel()
        for _ in range(3):   # the cores are free again
            self.d.grpc.infer("half", [value(tg, "x", [1])])
        self.assertLess(time.monotonic() - began, 10 * PATIENCE)

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
            http, grpc = tha.InferenceServerClient(f"127.0.0.1:{self.d.rest_port}"), tga.InferenceServerClient(f"127.0.0.1:{self.d.port}")
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
            c = tga.InferenceServerClient(f"127.0.0.1:{self.d.port}")

            async def requests():
                for name in ("half", "none", "half"):
                    yield {"model_name": name, "inputs": [value(tg, "x", [4])], "request_id": name}
            got = [(r.as_numpy("y").tolist() if r else None, e.message() if e else "") async for r, e in c.stream_infer(requests())]
            self.assertEqual([y for y, _ in got], [[5.0], None, [5.0]])
            self.assertIn("Request for unknown model: 'none' is not found", got[1][1])
            await c.close()
        asyncio.run(run())


if __name__ == "__main__":
    unittest.main()
