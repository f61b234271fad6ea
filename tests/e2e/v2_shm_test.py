"""KServe v2's system shared memory on both wires, driven by unmodified tritonclient.

    build/venv/bin/python tests/e2e/v2_shm_test.py [-v] [TestCase.test]      $TENSORD: the daemon (default build/tensord)
"""
import asyncio
import base64
import contextlib
import os
import queue
import threading
import unittest
import uuid

import numpy as np
import tritonclient.grpc as tg
import tritonclient.http as th
import tritonclient.http.aio as tha
import tritonclient.utils.shared_memory as shm
from tritonclient.utils import InferenceServerException, serialize_byte_tensor

import server
from v2_server import Case, Daemon, setUpModule, value  # noqa: F401


class SharedMemory(Case):
    @contextlib.contextmanager
    def region(self, size):
        name = "r" + uuid.uuid4().hex[:8]
        key = "/tensord-" + name
        handle = shm.create_shared_memory_region(name, key, size)
        try:
            yield name, key, handle
        finally:
            for c in (self.d.rest, self.d.grpc):
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
            with tg.InferenceServerClient(f"127.0.0.1:{self.d.port}") as c:
                c.start_stream(lambda result, error: got.put((result, error)))
                c.async_stream_infer("half", [self.shared(tg, "x", [1], "FP32", name, 4)], outputs=[self.wanted(tg, "y", name, 4, 8)])
                self.assertIsNone(got.get(timeout=20)[1])
                c.stop_stream()
            self.assertEqual(shm.get_contents_as_numpy(handle, np.float32, [1], offset=8).tolist(), [6.0])

            async def run():
                c = tha.InferenceServerClient(f"127.0.0.1:{self.d.rest_port}")
                self.assertEqual([r["name"] for r in await c.get_system_shared_memory_status()], [name])
                r = await c.infer("half", [self.shared(th, "x", [1], "FP32", name, 4)])
                self.assertEqual(r.as_numpy("y").tolist(), [6.0])
                await c.close()
            asyncio.run(run())

    def test_status_and_names(self):
        with self.region(64) as (name, key, handle):
            self.d.grpc.register_system_shared_memory(name, key, 32, offset=16)
            self.assertEqual(self.d.rest.get_system_shared_memory_status(name), [{"name": name, "key": key, "offset": 16, "byte_size": 32}])
            row = self.d.grpc.get_system_shared_memory_status().regions[name]
            self.assertEqual((row.name, row.key, row.offset, row.byte_size), (name, key, 16, 32))
            for _, c in self.wires:
                with self.fails(400, f"shared memory region '{name}' already in manager", code="ALREADY_EXISTS"):
                    c.register_system_shared_memory(name, key, 64)
            self.d.rest.unregister_system_shared_memory(name)
            for _, c in self.wires:
                c.unregister_system_shared_memory(name)
                with self.fails(404, f"Unable to find system shared memory region: '{name}'"):
                    c.get_system_shared_memory_status(name)
            for n in ("one", "two"):
                self.d.grpc.register_system_shared_memory(n, key, 8)
            self.d.rest.unregister_system_shared_memory()
            self.assertEqual(self.d.rest.get_system_shared_memory_status(), [])

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
                inputs = [self.shared(lib, n, [size // each], t, name, size) for n, each, t in (("a", 4, "FP32"), ("b", 8, "INT64"))]
                with self.fails(400, "input 'b': the inputs in shared memory are larger than max_request_bytes"):
                    c.infer("half:two", inputs)

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


DRIVER = os.path.join(os.path.dirname(server.DAEMON), "tests", "fake_cuda")


@unittest.skipUnless(os.path.exists(os.path.join(DRIVER, "libcuda.so.1")), "the stand-in for the driver is not built")
class Cuda(unittest.TestCase):
    """Memory on a GPU, as far as the driver: tests/fake_cuda.c is one whose handles name shared memory of the host."""
    fails, wanted, shared = Case.fails, SharedMemory.wanted, SharedMemory.shared

    @classmethod
    def setUpClass(cls):
        os.environ["LD_LIBRARY_PATH"], path = DRIVER, os.environ.get("LD_LIBRARY_PATH")
        try:
            cls.d = Daemon()
        finally:
            os.environ.pop("LD_LIBRARY_PATH") if path is None else os.environ.update(LD_LIBRARY_PATH=path)
        cls.wires = ((th, cls.d.rest), (tg, cls.d.grpc))

    @classmethod
    def tearDownClass(cls):
        assert cls.d.stop() == 0

    @contextlib.contextmanager
    def memory(self, size=64):
        key = "/tensord-cuda-" + uuid.uuid4().hex[:8]
        handle = shm.create_shared_memory_region("m", key, size)
        try:
            yield handle, base64.b64encode(key.encode().ljust(64, b"\0"))
        finally:
            for c in (self.d.rest, self.d.grpc):
                c.unregister_cuda_shared_memory()
            shm.destroy_shared_memory_region(handle)

    def test_tensors_in_and_out(self):
        self.assertIn("cuda_shared_memory", self.d.rest.get_server_metadata()["extensions"])
        self.assertIn("cuda_shared_memory", self.d.grpc.get_server_metadata().extensions)
        for lib, c in self.wires:
            with self.memory() as (handle, raw):
                c.register_cuda_shared_memory("g", raw, 0, 64)
                x = np.float32([1, 2, 3])
                shm.set_shared_memory_region(handle, [x], offset=16)
                c.infer("half", [self.shared(lib, "x", [3], "FP32", "g", 12, 16)], outputs=[self.wanted(lib, "y", "g", 32, 32)])
                np.testing.assert_array_equal(shm.get_contents_as_numpy(handle, np.float32, [3], offset=32), x / 2 + 3)
                shm.set_shared_memory_region(handle, [serialize_byte_tensor(np.array([b"ab", b"c\x00"], dtype=object))])
                c.infer("types:text", [self.shared(lib, "s", [2], "BYTES", "g", 12)], outputs=[self.wanted(lib, "upper", "g", 32, 32)])
                self.assertEqual(shm.get_contents_as_numpy(handle, np.object_, [2], offset=32).tolist(), [b"AB", b"C\x00"])

    def test_status_and_names(self):
        with self.memory() as (handle, raw):
            self.d.grpc.register_cuda_shared_memory("g", raw, 0, 32)
            self.assertEqual(self.d.rest.get_cuda_shared_memory_status("g"), [{"name": "g", "device_id": 0, "byte_size": 32}])
            row = self.d.grpc.get_cuda_shared_memory_status().regions["g"]
            self.assertEqual((row.name, row.device_id, row.byte_size), ("g", 0, 32))
            self.assertEqual(self.d.rest.get_system_shared_memory_status(), [])
            for _, c in self.wires:
                with self.fails(400, "shared memory region 'g' already in manager", code="ALREADY_EXISTS"):
                    c.register_cuda_shared_memory("g", raw, 0, 64)
                c.unregister_system_shared_memory()
            self.d.rest.unregister_cuda_shared_memory("g")
            for _, c in self.wires:
                with self.fails(404, "Unable to find cuda shared memory region: 'g'"):
                    c.get_cuda_shared_memory_status("g")

    def test_wrong_regions(self):
        for lib, c in self.wires:
            with self.memory() as (handle, raw):
                for what, device, size, words in ((raw, 1, 64, "device_id 1, there are 1 GPUs"), (raw, 0, 65, "byte_size 65 does not lie in the 64 bytes"),
                                                  (raw, 0, 0, "byte_size 0"), (base64.b64encode(b"\0" * 64), 0, 8, "failed to open CUDA IPC handle"),
                                                  (base64.b64encode(b"x"), 0, 8, "raw_handle has 1 bytes, want 64"), (b"", 0, 8, "raw_handle has 0 bytes")):
                    with self.fails(400, "failed to register CUDA shared memory region: 'g', " , words):
                        c.register_cuda_shared_memory("g", what, device, size)
                c.register_cuda_shared_memory("g", raw, 0, 64)
                with self.fails(400, "Invalid offset + byte size for shared memory region: 'g'"):
                    c.infer("half", [self.shared(lib, "x", [1], "FP32", "g", 4, 61)])


if __name__ == "__main__":
    unittest.main()
