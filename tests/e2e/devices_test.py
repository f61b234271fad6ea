"""--devices: what the start says where something of a GPU is missing, and models on the host-run CUDA device.

    build/venv/bin/python tests/e2e/devices_test.py
"""
import concurrent.futures
import os
import re
import shutil
import subprocess
import unittest

import numpy as np

import server
from host_gpu import BUILD, DRIVER, MODULE, environment, gpu_flags
from server import Server, config, serving

HERE = os.path.dirname(os.path.abspath(__file__))
DIGITS = os.path.join(HERE, "..", "..", "deploy", "models", "digits")
FILES = {"models.config": config(("digits", os.path.abspath(DIGITS)))}
IMAGES = [[[float(i * 7 % 17) for i in range(8 * r, 8 * r + 8)] for r in range(8)] for _ in range(3)]


def value(text, metric):
    return float(re.search(rf"^{metric}{{}} (\S+)$", text, re.M).group(1))


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
                            ("--per_process_gpu_memory_fraction=1.5", "per_process_gpu_memory_fraction")):
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
            self.assertEqual(value(d.get("/metrics").text, "tensord_gpu_memory_limit_bytes"), 0)
        with environment(**DRIVER), serving(*gpu_flags("--gpu_memory_limit=1GiB"), versions={}, files=FILES) as d:
            np.testing.assert_allclose(self.numbers(self.ask(d)), cpu, rtol=1e-5, atol=1e-6)
            first = d.get("/metrics").text
            np.testing.assert_allclose(self.numbers(self.ask(d)), cpu, rtol=1e-5, atol=1e-6)
            second = d.get("/metrics").text
            self.assertEqual(value(first, "tensord_gpu_memory_limit_bytes"), 1 << 30)
            self.assertGreater(value(first, "tensord_gpu_kernels_total"), 0)
            self.assertGreater(value(first, "tensord_gpu_memory_held_bytes"), 0)
            self.assertEqual(value(first, "tensord_gpu_memory_held_bytes"), value(second, "tensord_gpu_memory_held_bytes"))
            copied = value(first, "tensord_gpu_copied_bytes_total")
            again = value(second, "tensord_gpu_copied_bytes_total") - copied
            self.assertGreater(copied - again, value(first, "tensord_gpu_memory_held_bytes") / 2)
            self.assertIn("/device:GPU:0: CUDA on the host (for tests) 0, compute capability 8.0", "".join(d.log))

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


if __name__ == "__main__":
    server.models()
    unittest.main()
