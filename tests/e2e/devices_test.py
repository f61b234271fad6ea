"""--devices: what the start says where something of a GPU is missing, models on the host-run CUDA device, and what is told of devices.

    build/venv/bin/python tests/e2e/devices_test.py
"""
import base64
import concurrent.futures
import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest
from multiprocessing import shared_memory

import numpy as np

import server
from host_gpu import BUILD, DRIVER, MANAGED, MODULE, environment, gpu_flags
from server import Server, config, serving

HERE = os.path.dirname(os.path.abspath(__file__))
DIGITS = os.path.join(HERE, "..", "..", "deploy", "models", "digits")
FILES = {"models.config": config(("digits", os.path.abspath(DIGITS)))}
IMAGES = [[[float(i * 7 % 17) for i in range(8 * r, 8 * r + 8)] for r in range(8)] for _ in range(3)]


CTL = os.path.join(os.path.dirname(server.DAEMON), "tensorctl")


def value(text, metric, labels='device="/device:GPU:0"'):
    return float(re.search(rf"^{metric}{{{labels}}} (\S+)$", text, re.M).group(1))


def sent(text, direction="to_device"):
    return value(text, "tensord_gpu_copied_bytes_total", f'device="/device:GPU:0",direction="{direction}"')


def crossed(text):
    return sent(text) + sent(text, "to_host")


def ctl(*args, code=0, **settings):
    with environment(**settings):
        p = subprocess.run([CTL, "devices", *args], capture_output=True, text=True, timeout=60)
    assert p.returncode == code, p.stderr
    return p.stdout if code == 0 else p.stderr


def chain(where):
    """y = x * sigmoid(x): a chain of element-wise nodes."""
    import tensorflow as tf
    module = tf.Module()
    module.f = tf.function(lambda x: {"y": x * tf.raw_ops.Sigmoid(x=x)}, input_signature=[tf.TensorSpec([None, 2], tf.float32, "x")])
    tf.saved_model.save(module, os.path.join(where, "1"), signatures=module.f)


def counter(where, side):
    """by -> v += by; plus -> the least and the most of v + plus."""
    import tensorflow as tf

    class Counter(tf.Module):
        def __init__(self):
            self.v = tf.Variable(tf.zeros([side, side]))

        @tf.function(input_signature=[tf.TensorSpec([], tf.float32, "by")])
        def step(self, by):
            return {"by": self.v.assign(self.v * 1.0 + by)[0, 0] - self.v[side - 1, side - 1]}

        @tf.function(input_signature=[tf.TensorSpec([], tf.float32, "plus")])
        def read(self, plus):
            seen = self.v + plus  # one reading: between two a step may come
            return {"low": tf.reduce_min(seen), "high": tf.reduce_max(seen)}

    m = Counter()
    tf.saved_model.save(m, os.path.join(where, "1"), signatures={"step": m.step, "read": m.read})


class Missing(unittest.TestCase):
    """With gpu the start ends; with auto the models are served by the CPU. Both say the same, once."""

    def check(self, *flags, words, level="WARNING", **settings):
        with environment(**settings):
            code, _, text = Server("--devices=gpu", *flags, versions={}, files=FILES, wait=False).exits()
            self.assertEqual(code, 2, text)
            self.assertIn("--devices=gpu: " + words, text)
            with serving("--devices=auto", *flags, versions={}, files=FILES) as d:
                self.assertEqual(d.post("/v1/models/digits:predict", {"instances": IMAGES}).status_code, 200)
                said = [line for line in d.log if words in line]
                self.assertEqual(len(said), 1, d.log)
                self.assertIn(level, said[0])
                self.assertIn("models run on the CPU: ", said[0])

    def test_no_driver(self):
        self.check(words="there is no NVIDIA driver: libcuda.so.1", level="INFO")

    def test_no_module(self):
        with server.folder() as alone, environment(**DRIVER):
            program = shutil.copy(server.DAEMON, alone)  # beside the built one a module may lie
            p = subprocess.run([program, "--devices=gpu", "--port=auto", "--model_base_path=" + DIGITS], capture_output=True, text=True, timeout=60)
            self.assertEqual(p.returncode, 2, p.stderr)
            self.assertIn("--devices=gpu: tensord_cuda.so is neither beside this program nor in its lib/tensord", p.stderr)
        self.check("--device_module=/nowhere.so", words="module /nowhere.so: it cannot be loaded: /nowhere.so: cannot open", **DRIVER)

    def test_another_library(self):
        self.check("--device_module=" + os.path.join(BUILD, "op_library", "example_ops.so"), words="module ", **DRIVER)

    def test_modules_of_other_builds(self):
        for other, words in ((1, "it speaks version 2 of the interface, this program version 1"), (2, "of other sources"), (3, "tensord 0.0.1 of other sources")):
            with environment(**DRIVER):
                flag = f"--device_module={BUILD}/host_cuda/other_module_{other}.so"
                code, _, text = Server("--devices=gpu", flag, versions={}, files=FILES, wait=False).exits()
                self.assertEqual(code, 2, text)
                self.assertIn(words, text)

    def test_an_old_driver(self):
        self.check("--device_module=" + MODULE, words="the driver is too old: it serves CUDA 11.8, and the module was built with CUDA ",
                   HOST_CUDA_DRIVER="11080", **DRIVER)

    def test_no_gpu(self):
        self.check("--device_module=" + MODULE, words="no GPU is found: no device (cudaErrorNoDevice)", HOST_CUDA_DEVICES="0", **DRIVER)

    def test_too_little_memory(self):
        self.check("--device_module=" + MODULE, "--gpu_memory_limit=64GiB",
                   words="/device:GPU:0 (CUDA on the host (for tests) 0) has too little memory: 68719476736 bytes are asked for", **DRIVER)

    def test_flags_that_say_nothing(self):
        for flag, words in (("--devices=tpu", "--devices is 'tpu', want auto, cpu or gpu"), ("--gpu_memory_limit=50%", "--per_process_gpu_memory_fraction is for shares"),
                            ("--per_process_gpu_memory_fraction=1.5", "per_process_gpu_memory_fraction"),
                            ("--gpu_pinned_memory=much", "gpu_pinned_memory")):
            code, _, text = Server(flag, versions={}, files=FILES, wait=False).exits()
            self.assertEqual(code, 2, text)
            self.assertIn(words, text)


class There(unittest.TestCase):
    def ask(self, d, rows=3):
        return d.post("/v1/models/digits:predict", {"instances": (IMAGES * rows)[:rows]})

    def numbers(self, answer):
        self.assertEqual(answer.status_code, 200, answer.text)
        return np.array([p["probabilities"] for p in answer.json()["predictions"]])

    def test_answers_are_the_cpus_and_weights_are_sent_once(self):
        with serving("--devices=cpu", versions={}, files=FILES) as d:
            cpu = self.numbers(self.ask(d))
            self.assertNotIn("_gpu_", d.get("/metrics").text)
        with environment(**DRIVER), serving(*gpu_flags("--gpu_memory_limit=1GiB", "--gpu_graph_run=0"), versions={}, files=FILES) as d:
            np.testing.assert_allclose(self.numbers(self.ask(d)), cpu, rtol=1e-5, atol=1e-6)
            first = d.get("/metrics").text
            np.testing.assert_allclose(self.numbers(self.ask(d)), cpu, rtol=1e-5, atol=1e-6)
            second = d.get("/metrics").text
            self.assertEqual(value(first, "tensord_gpu_memory_limit_bytes"), 1 << 30)
            self.assertGreater(value(first, "tensord_gpu_kernels_total"), 0)
            self.assertGreater(value(first, "tensord_gpu_memory_held_bytes"), 0)
            self.assertEqual(value(first, "tensord_gpu_memory_held_bytes"), value(second, "tensord_gpu_memory_held_bytes"))
            again = sent(second) - sent(first)
            self.assertGreater(sent(first) - again, value(first, "tensord_gpu_memory_held_bytes") / 2)
            self.assertEqual(sent(second, "to_host"), 2 * sent(first, "to_host"))
            self.assertIn("/device:GPU:0: CUDA on the host (for tests) 0, GPU-00000000-0000-0000-0000-000000000000, compute capability 8.0", "".join(d.log))

    def test_libraries_that_are_there_and_that_are_not_are_said_once(self):
        with environment(**DRIVER), serving(*gpu_flags("--gpu_tf32"), versions={}, files=FILES) as d:
            with_them = self.numbers(self.ask(d))
            said = [line for line in d.log if "products by" in line or "convolutions by" in line]
            self.assertEqual(len(said), 2, d.log)
            self.assertIn("INFO", said[0])
            self.assertIn("/device:GPU:0: products by cuBLASLt 13.0.99 (libcublasLt.so.13) with TF32", said[0])
            self.assertIn("/device:GPU:0: convolutions by cuDNN 9.0.99 (libcudnn.so.9) with TF32", said[1])
        with environment(HOST_CUDA_LIBRARIES="0", **DRIVER), serving(*gpu_flags(), versions={}, files=FILES) as d:
            np.testing.assert_allclose(self.numbers(self.ask(d)), with_them, rtol=2e-2, atol=2e-3)
            self.assertTrue((self.numbers(self.ask(d)) != with_them).any())
            said = [line for line in d.log if "our own kernels" in line]
            self.assertEqual(len(said), 2, d.log)
            self.assertIn("WARNING", said[0])
            self.assertIn("products by our own kernels: cuBLASLt: libcublasLt.so.13: cublasLtCreate: ", said[0])
            self.assertIn("convolutions by our own kernels: cuDNN: libcudnn.so.9: cudnnCreate: ", said[1])

    def test_kernels_are_tried_on_the_device(self):
        with environment(**DRIVER), serving(*gpu_flags("--kernel_trials_ms=5"), versions={}, files=FILES) as d:
            tried = self.numbers(self.ask(d))
        with environment(**DRIVER), serving(*gpu_flags(), versions={}, files=FILES) as d:
            np.testing.assert_allclose(self.numbers(self.ask(d)), tried, rtol=1e-5, atol=1e-6)

    def test_memory_past_the_limit_fails_one_request(self):
        with environment(**DRIVER), serving(*gpu_flags("--gpu_memory_limit=256KiB"), versions={}, files=FILES) as d:
            self.assertEqual(self.ask(d).status_code, 200)
            r = self.ask(d, 2000)
            self.assertEqual(r.status_code, 429, r.text[:300])
            self.assertIn("are allowed (--gpu_memory_limit)", r.json()["error"])
            self.assertEqual(self.ask(d).status_code, 200)

    def test_many_requests_share_two_streams(self):
        with environment(HOST_CUDA_DEBUG="1", HOST_CUDA_WORKERS="2", **DRIVER), serving(*gpu_flags("--gpu_streams=2", "--lanes=4"), versions={}, files=FILES) as d:
            alone = self.numbers(self.ask(d))
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                for answer in pool.map(lambda _: self.ask(d), range(64)):
                    np.testing.assert_allclose(self.numbers(answer), alone, rtol=1e-5, atol=1e-6)

    def test_recorded_plans_run_at_once_on_four_streams(self):
        flags = gpu_flags("--gpu_streams=4", "--gpu_graph_run=1", "--gpu_pinned_memory=64KiB")
        with environment(HOST_CUDA_DEBUG="1", HOST_CUDA_WORKERS="2", **DRIVER), serving(*flags, versions={}, files=FILES) as d:
            alone = self.numbers(self.ask(d))
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                for answer in pool.map(lambda _: self.ask(d), range(64)):
                    np.testing.assert_allclose(self.numbers(answer), alone, rtol=1e-5, atol=1e-6)
            seen = d.get("/metrics").text
            self.assertGreater(value(seen, "tensord_gpu_graph_launches_total"), value(seen, "tensord_gpu_graphs_made_total"))
            self.assertLessEqual(value(seen, "tensord_gpu_pinned_bytes"), 64 << 10)

    def test_a_plan_is_recorded_and_its_answers_stay_the_same(self):
        with environment(**DRIVER), serving(*gpu_flags("--gpu_graph_run=0"), versions={}, files=FILES) as d:
            plain = self.numbers(self.ask(d))
            self.assertEqual(value(d.get("/metrics").text, "tensord_gpu_graphs_made_total"), 0)
        with environment(**DRIVER), serving(*gpu_flags("--enable_debug_api"), versions={}, files=FILES) as d:
            def launched_again():
                np.testing.assert_array_equal(self.numbers(self.ask(d)), plain)
                seen = d.get("/metrics").text
                return value(seen, "tensord_gpu_graph_launches_total") > value(seen, "tensord_gpu_graphs_made_total") > 0
            # On a busy machine a plan may be bound once more meanwhile (its kernels were not all tried), and recorded once more.
            self.assertTrue(server.until(launched_again))
            self.assertGreater(value(d.get("/metrics").text, "tensord_gpu_graphs"), 0)
            shown = d.post("/v1/models/digits:debug", {"mode": "placement", "inputs": {"images": IMAGES}}).text
            self.assertIn("recorded with its neighbours from run 3 on", shown)
            self.assertEqual(d.post("/v2/repository/models/digits/unload", {}).status_code, 200)
            self.assertTrue(server.until(lambda: value(d.get("/metrics").text, "tensord_gpu_graphs") == 0))

    def test_copies_go_by_pinned_memory(self):
        with environment(**DRIVER), serving(*gpu_flags("--gpu_pinned_memory=0"), versions={}, files=FILES) as d:
            plain = self.numbers(self.ask(d))
            self.assertEqual(value(d.get("/metrics").text, "tensord_gpu_pinned_bytes"), 0)
        with environment(**DRIVER), serving(*gpu_flags("--gpu_pinned_memory=1MiB"), versions={}, files=FILES) as d:
            np.testing.assert_array_equal(self.numbers(self.ask(d)), plain)
            seen = d.get("/metrics").text
            self.assertGreater(value(seen, "tensord_gpu_pinned_bytes"), 0)
            self.assertTrue(server.until(lambda: value(d.get("/metrics").text, "tensord_gpu_pinned_used_bytes") == 0))
            self.assertEqual(value(seen, "tensord_gpu_pinned_refusals_total"), 0)

    def test_unloading_gives_memory_back(self):
        with environment(**DRIVER), serving(*gpu_flags(), versions={}, files=FILES) as d:
            self.assertEqual(self.ask(d).status_code, 200)
            self.assertGreater(value(d.get("/metrics").text, "tensord_gpu_memory_held_bytes"), 0)
            self.assertEqual(d.post("/v2/repository/models/digits/unload", {}).status_code, 200)
            self.assertTrue(server.until(lambda: value(d.get("/metrics").text, "tensord_gpu_memory_held_bytes") == 0))

    def test_models_list_the_device_and_nodes_may_ask_for_it(self):
        with environment(**DRIVER), serving(*gpu_flags("--log_device_placement"), versions={}, files=FILES) as d:
            self.assertEqual(self.ask(d).status_code, 200)
            self.assertIn('"/device:GPU:0"', d.get("/v1/models").text)
            self.assertTrue(d.wait_log("(MatMul): /job:localhost/replica:0/task:0/device:GPU:0", 5))

    def test_a_fused_node_gets_a_kernel_that_the_next_start_finds(self):
        compiler = dict(DRIVER, HOST_CUDA_NVRTC="1")
        with tempfile.TemporaryDirectory(prefix="tensord-devices.") as where:
            files = {"models.config": config(("chain", server.made(chain)))}
            kept, names, files_kept = os.path.join(where, "state", "cuda-kernels"), [], []
            for settings in (compiler, compiler, DRIVER):
                with environment(**settings), serving(*gpu_flags("--enable_debug_api", "--state_dir=" + os.path.join(where, "state")), versions={}, files=files) as d:
                    r = d.post("/v1/models/chain:predict", {"inputs": {"x": [[-1.0, 0.0], [0.5, 2.0]]}})
                    self.assertEqual(r.status_code, 200, r.text)
                    np.testing.assert_allclose(r.json()["outputs"], [[-0.2689414, 0.0], [0.3112297, 1.7615942]], rtol=1e-5)
                    shown = d.post("/v1/models/chain:debug", {"mode": "placement", "inputs": {"x": [[-1.0, 0.0]]}}).json()
                    names.append({n["kernel"] for n in shown["nodes"] if (n["kernel"] or "").startswith("fused")})
                    files_kept.append({os.stat(os.path.join(kept, f)).st_ino for f in os.listdir(kept)})
            self.assertEqual(names[:2], [{"fused(compiled)"}] * 2)
            self.assertEqual(names[2], {"fused(there is no NVRTC)"})  # but a kernel that looks the steps up
            self.assertEqual(len(files_kept[0]), 1)
            self.assertEqual(files_kept, [files_kept[0]] * 3)

    def test_variables_stay_where_they_are_computed(self):
        """One signature assigns what the GPU computes, the other reads: whole values, and none of it comes to the host in between."""
        side, times = 128, 40
        files = {"models.config": config(("counter", server.made(counter, side)))}
        with environment(HOST_CUDA_DEBUG="1", HOST_CUDA_WORKERS="2", **DRIVER), serving(*gpu_flags("--lanes=4"), versions={}, files=files) as d:
            def ask(i):
                name, key = ("step", "by") if i % 4 == 0 else ("read", "plus")
                r = d.post("/v1/models/counter:predict", {"signature_name": name, "inputs": {key: 1.0}})
                self.assertEqual(r.status_code, 200, r.text)
                return r.json()["outputs"]
            ask(0)
            before = crossed(d.get("/metrics").text)
            for _ in range(times):
                ask(0)
            self.assertEqual(ask(1), {"low": times + 2.0, "high": times + 2.0})
            self.assertLess(crossed(d.get("/metrics").text) - before, side * side * 4)
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                for answer in pool.map(ask, range(4 * times)):
                    if isinstance(answer, dict):
                        self.assertEqual(answer["low"], answer["high"])


class Told(unittest.TestCase):
    """GET /v1/devices, tensord.v1.Models/Devices, metrics, and tensorctl devices of a server and without one."""

    def test_none(self):
        words = "there is no NVIDIA driver: libcuda.so.1: cannot open"
        self.assertIn("models run on the CPU: " + words, ctl())
        self.assertIn(words, json.loads(ctl("--json"))["missing"])
        with environment(**DRIVER, HOST_CUDA_DRIVER="11080"):
            self.assertIn("the driver is too old: it serves CUDA 11.8", ctl("--device_module=" + MODULE))
        with serving("--devices=auto", versions={}, files=FILES) as d:
            told = d.get("/v1/devices").json()
            self.assertEqual((told["devices"], told["versions"]), ([], {}))
            self.assertIn(told["missing"], "".join(d.log))
            self.assertIn("models run on the CPU: " + words, ctl(f"--server=127.0.0.1:{d.port}"))
        in_sandbox = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"   # the search for leaks traces the process, which is not for a sandbox
        for flag, said in (("--devices=cpu", "none was asked for (--devices=cpu)"), ("--sandbox", "--sandbox keeps a GPU's driver from its files")):
            with environment(ASAN_OPTIONS=in_sandbox), serving(flag, versions={}, files=FILES) as d:
                self.assertEqual(d.get("/v1/devices").json()["missing"], said)

    def test_of_this_machine(self):
        two = json.loads(ctl("--json", "--device_module=" + MODULE, HOST_CUDA_DEVICES="2", **DRIVER))
        self.assertEqual([d["name"] for d in two["devices"]], ["/device:GPU:0", "/device:GPU:1"])
        self.assertEqual([d["pci"] for d in two["devices"]], ["0000:01:00.0", "0000:02:00.0"])
        self.assertEqual(two["devices"][1]["memory"], {"total": 4 << 30, "unused": 4 << 30})
        self.assertNotIn("temperature", two["devices"][0])
        self.assertNotIn("driver", two["versions"])
        text = ctl("--device_module", MODULE, HOST_CUDA_DEVICES="2", **MANAGED)
        self.assertIn("/device:GPU:0  CUDA on the host (for tests) 0, compute capability 8.0, 1 multiprocessors, PCI 0000:01:00.0, GPU-0", text)
        self.assertIn("  memory: total 4.00 GiB, unused 4.00 GiB\n", text)
        self.assertIn("  utilization 40%  temperature 50 C  power 300 W\n", text)
        self.assertIn("  utilization 50%  power 301 W\n", text)
        self.assertRegex(text, r"CUDA \d+\.\d+, the driver serves \d+\.\d+; driver 580\.65\.06\n$")
        self.assertIn("usage: tensorctl devices", ctl("digits", code=2))

    def test_parts_of_gpus(self):
        """MIG: a part's uuid and memory; the GPU's temperature, which is the part's; neither use nor power, which are others' too."""
        parts = json.loads(ctl("--json", "--device_module=" + MODULE, HOST_CUDA_DEVICES="2", FAKE_CUDA_MIG="1", **MANAGED))["devices"]
        self.assertEqual([d["uuid"] for d in parts], [f"MIG-a1000000-0000-0000-0000-00000000000{i}" for i in range(2)])
        self.assertEqual([d.get("temperature") for d in parts], [50.0, None])
        self.assertFalse({"utilization", "power"} & {*parts[0], *parts[1]})
        alone = json.loads(ctl("--json", "--device_module=" + MODULE, FAKE_CUDA_MIG="1", **DRIVER))["devices"]
        self.assertEqual(alone[0]["uuid"], parts[0]["uuid"])  # without the management library, too
        with environment(FAKE_CUDA_MIG="1", **MANAGED), serving(*gpu_flags("--per_process_gpu_memory_fraction=0.5"), versions={}, files=FILES) as d:
            (gpu,) = d.get("/v1/devices").json()["devices"]
            self.assertEqual(gpu["memory"]["limit"], gpu["memory"]["total"] // 2)
            metrics, label = d.get("/metrics").text, f'gpu_uuid="{gpu["uuid"]}"'
            self.assertEqual([value(metrics, "nv_gpu_memory_" + name, label) for name in ("total_bytes", "used_bytes")], [10 << 30, 2 << 30])
            self.assertNotIn("nv_gpu_utilization{", metrics)
            self.assertNotIn("nv_gpu_power_usage{", metrics)
            self.assertIn(gpu["uuid"], "".join(d.log))

    def test_of_a_server(self):
        with environment(**MANAGED), serving(*gpu_flags("--gpu_memory_limit=1GiB", "--gpu_streams=2"), versions={}, files=FILES) as d:
            self.assertEqual(d.post("/v1/models/digits:predict", {"instances": IMAGES}).status_code, 200)
            document = d.get("/v1/devices").json()
            self.assertEqual(json.loads(ctl("--json", f"--server=127.0.0.1:{d.port}")), document)
            (gpu,) = document["devices"]
            streams = gpu["streams"]
            self.assertIn(streams.pop("open"), (1, 2))  # weights may be sent on another than the run's
            self.assertEqual(streams, {"used": 0, "runs": 0, "limit": 2})
            self.assertEqual((gpu["in_service"], gpu["utilization"], gpu["temperature"]), (True, 0.4, 50.0))
            memory, metrics = gpu["memory"], d.get("/metrics").text
            self.assertTrue(0 < memory["held"] <= memory["most"] <= memory["limit"] == 1 << 30)
            self.assertLess(memory["unused"], memory["total"])
            text = ctl(f"--server=127.0.0.1:{d.port}")
            self.assertIn("limit 1.00 GiB, held 0.00 GiB", text)
            self.assertRegex(text, r"  streams: open [12], used 0 by 0 runs, limit 2\n")
            for name, told in (("memory_held_bytes", memory["held"]), ("memory_most_bytes", memory["most"]), ("streams_used", 0),
                               ("runs", 0), ("out_of_service", 0), ("temperature_celsius", 50)):
                self.assertEqual(value(metrics, "tensord_gpu_" + name), told, name)
            for name, told in (("utilization", 0.4), ("memory_total_bytes", 80 << 30), ("memory_used_bytes", 20 << 30), ("power_usage", 300.5)):
                self.assertEqual(value(metrics, "nv_gpu_" + name, f'gpu_uuid="{gpu["uuid"]}"'), told, name)

    def test_a_lost_device(self):
        with environment(HOST_CUDA_FAIL_AT="40", **DRIVER), serving(*gpu_flags(), versions={}, files=FILES) as d:
            self.assertTrue(server.until(lambda: d.post("/v1/models/digits:predict", {"instances": IMAGES}).status_code == 503))
            self.assertEqual(value(d.get("/metrics").text, "tensord_gpu_out_of_service"), 1)
            self.assertFalse(d.get("/v1/devices").json()["devices"][0]["in_service"])
            self.assertIn("  out of service: ", ctl(f"--server=127.0.0.1:{d.port}"))


class Restarted(unittest.TestCase):
    """A GPU that an error has made unusable: readiness says so, and tensorctl devices --restart gives it back."""

    LOST = dict(DRIVER, HOST_CUDA_FAIL_AT="60")

    def ready(self, d):
        r = d.get("/readyz")
        v2 = [d.get("/v2/health/ready").status_code, d.get("/v2/models/digits/ready").status_code]
        self.assertEqual(v2, [r.status_code if r.status_code == 200 else 400] * 2)
        return r.status_code, r.json()["missing"]

    def restart(self, d, name="/device:GPU:0", **how):
        return ctl("--restart", name, f"--server=127.0.0.1:{d.port}", **how)

    def test_it_serves_again(self):
        ask = lambda: d.post("/v1/models/digits:predict", {"instances": IMAGES})
        with environment(**self.LOST), serving(*gpu_flags(), versions={}, files=FILES) as d:
            first = ask().json()
            self.assertIn("is in service: there is nothing to restart", self.restart(d, code=1))
            self.assertEqual(self.ready(d), (200, []))
            self.assertTrue(server.until(lambda: ask().status_code == 503))
            self.assertEqual(self.ready(d), (503, ["digits"]))
            self.assertIn("there is no device '/device:GPU:3'", self.restart(d, "/device:GPU:3", code=1))
            self.assertEqual(d.post("/v1/devices:restart", {"gpu": 0}).status_code, 400)
            self.assertEqual(self.restart(d), "/device:GPU:0 is in service again\n")
            self.assertEqual(self.ready(d), (200, []))
            for _ in range(6):
                self.assertEqual(ask().json(), first)
            text = d.get("/metrics").text
            self.assertEqual(value(text, "tensord_gpu_out_of_service"), 0)
            self.assertGreater(value(text, "tensord_gpu_graphs"), 0)
            self.assertTrue(d.wait_log("/device:GPU:0 was restarted, and is in service again", 5))

    def test_regions_on_it_are_unregistered(self):
        memory = shared_memory.SharedMemory(create=True, size=64)
        self.addCleanup(memory.unlink)
        handle = base64.b64encode(f"/{memory.name}".encode().ljust(64, b"\0")).decode()
        with environment(**self.LOST), serving(*gpu_flags(), versions={}, files=FILES) as d:
            regions = lambda: d.get("/v2/cudasharedmemory/status").json()
            r = d.post("/v2/cudasharedmemory/region/r/register", {"raw_handle": {"b64": handle}, "device_id": 0, "byte_size": 64})
            self.assertEqual(r.status_code, 200, r.text)
            self.assertTrue(server.until(lambda: d.post("/v1/models/digits:predict", {"instances": IMAGES}).status_code == 503))
            self.assertEqual(len(regions()), 1)
            self.assertEqual(d.post("/v1/devices:restart", {"device": "/device:GPU:0"}).json()["regions"], 1)
            self.assertEqual(regions(), [])

    def test_while_many_ask(self):
        with environment(HOST_CUDA_DEBUG="1", HOST_CUDA_WORKERS="2", **self.LOST), serving(*gpu_flags("--lanes=4"), versions={}, files=FILES) as d:
            ask = lambda _=0: d.post("/v1/models/digits:predict", {"instances": IMAGES})
            self.assertTrue(server.until(lambda: ask().status_code == 503))
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                asked = [pool.submit(ask) for _ in range(200)]
                self.assertEqual(d.post("/v1/devices:restart", {"device": "/device:GPU:0"}).json(), {"restarted": "/device:GPU:0", "regions": 0, "lost": []})
                self.assertLessEqual({r.result().status_code for r in asked}, {200, 503})
            self.assertEqual(ask().status_code, 200)

    def test_one_that_the_driver_does_not_give_back(self):
        with environment(HOST_CUDA_RESETS="0", **self.LOST), serving(*gpu_flags(), versions={}, files=FILES) as d:
            self.assertTrue(server.until(lambda: d.post("/v1/models/digits:predict", {"instances": IMAGES}).status_code == 503))
            for _ in range(2):
                self.assertIn("stays out of service: CUDA does not give it back to this process, which must be started again", self.restart(d, code=1))
            self.assertEqual(self.ready(d), (503, ["digits"]))

    def test_what_was_there_alone_is_lost(self):
        """A variable that steps have assigned on the GPU: told, an error to read, and what the files have when it is loaded again."""
        files = {"models.config": config(("counter", server.made(counter, 4)))}
        with environment(**self.LOST), serving(*gpu_flags("--gpu_graph_run=0"), versions={}, files=files) as d:
            def ask(name, key):
                return d.post("/v1/models/counter:predict", {"signature_name": name, "inputs": {key: 1.0}})
            self.assertEqual(ask("step", "by").status_code, 200)
            self.assertTrue(server.until(lambda: ask("step", "by").status_code == 503))
            done = d.post("/v1/devices:restart", {"device": "/device:GPU:0"}).json()
            (lost,) = done["lost"]
            self.assertEqual((lost["model"], lost["version"], len(lost["variables"])), ("counter", "1", 1))
            for name, key in (("read", "plus"), ("step", "by")):
                r = ask(name, key)
                self.assertEqual(r.status_code, 500, r.text)
                self.assertIn("its value was on /device:GPU:0 alone when that was restarted, and is lost", r.json()["error"])
            for how in ("unload", "load"):
                self.assertEqual(d.post(f"/v2/repository/models/counter/{how}", {}).status_code, 200)
            self.assertEqual(ask("read", "plus").json()["outputs"], {"low": 1.0, "high": 1.0})


if __name__ == "__main__":
    server.models()
    unittest.main()
