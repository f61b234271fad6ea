"""Several GPUs: replicas of a version, where requests go, instance_group, graphs that name a GPU, and one that is lost; on the host-run CUDA device.

    build/venv/bin/python tests/e2e/replicas_test.py
"""
import concurrent.futures
import os
import re
import shutil
import unittest

import numpy as np

import server
from host_gpu import DRIVER, environment, gpu_flags
from server import config, serving

HERE = os.path.dirname(os.path.abspath(__file__))
DIGITS = os.path.join(HERE, "..", "..", "deploy", "models", "digits")
IMAGES = [[[float(i * 7 % 17) for i in range(8 * r, 8 * r + 8)] for r in range(8)] for _ in range(3)]
TWO = {"HOST_CUDA_DEVICES": "2", **DRIVER}
GPUS = ["/device:GPU:0", "/device:GPU:1"]


def kernels(d):
    """Queued so far, by device."""
    return {name: int(n) for name, n in re.findall(r'^tensord_gpu_kernels_total{device="([^"]*)"} (\d+)$', d.get("/metrics").text, re.M)}


def devices(d, model):
    (found,) = [m for m in d.get("/v1/models").json()["models"] if m["name"] == model]
    return found["versions"][0]["devices"]


def ask(d, rows=3):
    return d.post("/v1/models/digits:predict", {"instances": (IMAGES * rows)[:rows]})


def numbers(answer):
    assert answer.status_code == 200, answer.text
    return np.array([p["probabilities"] for p in answer.json()["predictions"]])


def digits(where):
    """A copy of the model, to put a configuration beside."""
    shutil.copytree(DIGITS, os.path.join(where, "digits"))
    return os.path.join(where, "digits")


def make_named(where, *names):
    """One node on each of the named devices."""
    import tensorflow as tf
    v1 = tf.compat.v1
    info = v1.saved_model.build_tensor_info
    with tf.Graph().as_default(), v1.Session() as session:
        x = y = v1.placeholder(tf.float32, [None], "x")
        for name in names:
            with tf.device(name):
                y = tf.add(y, x)
        builder = v1.saved_model.Builder(os.path.join(where, "1"))
        builder.add_meta_graph_and_variables(session, ["serve"], {"serving_default": v1.saved_model.build_signature_def(
            {"x": info(x)}, {"y": info(y)}, "tensorflow/serving/predict")})
        builder.save()


class Replicas(unittest.TestCase):
    files = {"models.config": config(("digits", os.path.abspath(DIGITS)))}

    def test_all_gpus_serve_and_answer_alike(self):
        with serving("--devices=cpu", versions={}, files=self.files) as d:
            cpu = numbers(ask(d))
        with environment(**TWO), serving(*gpu_flags("--gpu_graph_run=0"), versions={}, files=self.files) as d:
            self.assertEqual(devices(d, "digits"), ["cpu", *GPUS])
            self.assertEqual([g["name"] for g in d.get("/v1/devices").json()["devices"]], GPUS)
            self.assertEqual(kernels(d), dict.fromkeys(GPUS, 0))
            for _ in range(4):  # one at a time: in turn, with those that were cut and begun again
                numbers(ask(d))
            alone = kernels(d)
            self.assertLess(max(alone.values()), 2 * min(alone.values()) + 1, alone)
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                for answer in pool.map(lambda _: ask(d), range(48)):
                    np.testing.assert_allclose(numbers(answer), cpu, rtol=1e-5, atol=1e-6)
            self.assertTrue(all(n > alone[g] for g, n in kernels(d).items()))
            (function,) = [f for f in d.get("/v1/models/digits/functions").json()["functions"] if f["name"] == "serving_default"]
            self.assertEqual(function["traces"], 2)
            self.assertEqual({k for c in function["concrete"] for k in c["devices"]}, {"cpu", *GPUS})
            held = lambda: [g["memory"]["held"] for g in d.get("/v1/devices").json()["devices"]]
            self.assertEqual(*held())  # the same weights on both, and no recordings
            self.assertEqual(d.post("/v2/repository/models/digits/unload", {}).status_code, 200)
            self.assertTrue(server.until(lambda: held() == [0, 0]), held())

    def test_variables_are_shared(self):
        files = {"models.config": config(("batching", os.path.join(server.MODELS, "batching")))}
        with environment(**TWO), serving(*gpu_flags(), versions={}, files=files) as d:
            said = [d.post("/v1/models/batching:predict", {"signature_name": "count", "inputs": [0.0]}).json()["outputs"] for _ in range(6)]
            self.assertEqual(said, [[float(n)] for n in range(1, 7)])

    def grouped(self, text):
        where = server.folder()
        base = digits(where.__enter__())
        self.addCleanup(where.__exit__, None, None, None)
        with open(os.path.join(base, "config.pbtxt"), "w", encoding="utf-8") as f:
            f.write(text)
        return environment(**TWO), serving(*gpu_flags(), versions={}, files={"models.config": config(("digits", base))})

    def test_instance_groups_choose(self):
        for text, wanted in (("instance_group { kind: KIND_GPU gpus: [1] }", ["cpu", GPUS[1]]), ("instance_group { kind: KIND_GPU count: 2 }", ["cpu", *GPUS]),
                             ("instance_group { kind: KIND_CPU }", ["cpu"]), ("instance_group { count: 1 }", ["cpu", *GPUS]),
                             ("instance_group [ { kind: KIND_GPU gpus: [1] }, { kind: KIND_GPU gpus: [0] } ]", ["cpu", GPUS[1], GPUS[0]])):
            settings, serve = self.grouped(text)
            with self.subTest(text), settings, serve as d:
                self.assertEqual(devices(d, "digits"), wanted)
                numbers(ask(d))
                self.assertEqual({g for g, n in kernels(d).items() if n > 0}, set(wanted[1:2]))

    def test_a_group_of_a_gpu_that_is_not_there(self):
        settings, serve = self.grouped("instance_group { name: \"far\" kind: KIND_GPU gpus: [0, 5] }")
        with settings, serve as d:
            self.assertTrue(d.wait_log("config.pbtxt: instance_group 'far': GPU 5 is not there; models may run on 2, from /device:GPU:0 on", 15), d.log)

    def test_graphs_that_name_a_gpu(self):
        for names, wanted in ((["/device:GPU:1"], ["cpu", GPUS[1]]), (["/gpu:1", "/device:GPU:0"], ["cpu", GPUS[1]]), (["/device:GPU:7"], ["cpu", *GPUS]),
                              (["/cpu:0"], ["cpu", *GPUS])):
            with self.subTest(names):
                base = server.made(make_named, *names)
                with environment(**TWO), serving(*gpu_flags(), versions={}, files={"models.config": config(("named", base))}) as d:
                    self.assertEqual(devices(d, "named"), wanted)
                    r = d.post("/v1/models/named:predict", {"inputs": [1.0, 2.0]})
                    self.assertEqual(r.json(), {"outputs": [1.0 + len(names), 2.0 + 2 * len(names)]})

    def test_a_lost_gpu_gives_its_work_to_the_other(self):
        with environment(HOST_CUDA_FAIL_AT="40", **TWO), serving(*gpu_flags(), versions={}, files=self.files) as d:
            first = numbers(ask(d))
            with concurrent.futures.ThreadPoolExecutor(4) as pool:
                for answer in pool.map(lambda _: ask(d), range(40)):
                    np.testing.assert_allclose(numbers(answer), first, rtol=1e-5, atol=1e-6)
            self.assertEqual([g["in_service"] for g in d.get("/v1/devices").json()["devices"]], [False, True])
            before = kernels(d)
            numbers(ask(d))
            after = kernels(d)
            self.assertEqual(before[GPUS[0]], after[GPUS[0]])
            self.assertGreater(after[GPUS[1]], before[GPUS[1]])
            self.assertEqual(d.get("/readyz").status_code, 200)
            self.assertEqual(d.post("/v1/devices:restart", {"device": GPUS[0]}).json(), {"restarted": GPUS[0], "regions": 0, "lost": []})
            for _ in range(4):
                np.testing.assert_allclose(numbers(ask(d)), first, rtol=1e-5, atol=1e-6)
            self.assertGreater(kernels(d)[GPUS[0]], before[GPUS[0]])

    def test_a_gpu_that_cannot_be_used_is_left_out(self):
        for old in (0, 1):
            with environment(HOST_CUDA_OLD=str(old), **TWO), serving(*gpu_flags(), versions={}, files=self.files) as d:
                self.assertEqual(devices(d, "digits"), ["cpu", GPUS[1 - old]])
                self.assertIn(f"a GPU is left out: /device:GPU:{old} (CUDA on the host (for tests) {old}) has compute capability 7.0, the kernels need 8.0", "".join(d.log))
                numbers(ask(d))
                (group,) = d.get("/v2/models/digits/config").json()["instance_group"]
                self.assertEqual((group["kind"], group["gpus"]), ("KIND_GPU", [1 - old]))


if __name__ == "__main__":
    server.models()
    unittest.main()
