"""Versions and their folders: taken when complete, never without their weights, withdrawn when damaged, healed when restored.
Models that never settle, or never answer: the others load, are managed and served, and the server ends when told to.

    build/venv/bin/python tests/e2e/versions_test.py [-v] [Folders.test_...]
"""
import os
import shutil
import socket
import threading
import time
import unittest

import grpc
import numpy as np
import requests

from server import MODELS, PATIENCE, Alone, Server, config, free_port, until

from messages import tf  # noqa: E402
from tensorflow_serving.apis import predict_pb2, prediction_log_pb2, prediction_service_pb2_grpc  # noqa: E402

HALF = os.path.join(MODELS, "half")
DATA, INDEX = "variables/variables.data-00000-of-00001", "variables/variables.index"


def state(d, model, version):
    r = d.get(f"/v1/models/{model}")
    rows = {v["version"]: v for v in r.json().get("model_version_status", [])}
    return rows.get(str(version), {"state": "NONE", "status": {"error_code": "", "error_message": ""}})


class Folders(Alone):
    """One model, "m", in a folder that each test fills."""

    def serve(self, *flags, first=True):
        d = Server(*flags, versions={}, files={"models.config": config(("m", "{dir}/m"))}, wait=False)
        with open(f"{d.dir}/models.config", "w") as f:
            f.write(config(("m", f"{d.dir}/m")))
        os.mkdir(f"{d.dir}/m")
        self.d = d
        if first:
            shutil.copytree(f"{HALF}/1", f"{d.dir}/m/1")
            d.start()
        self.addCleanup(lambda: self.assertEqual(d.stop(), 0, "".join(d.log[-30:])))
        return d

    def value(self, version=None):
        at = f"/versions/{version}" if version else ""
        r = self.d.post(f"/v1/models/m{at}:predict", {"instances": [2.0]})
        return r.json()["predictions"][0] if r.status_code == 200 else (r.status_code, r.json()["error"])

    def copy(self, version, *names, source=None):
        for name in names:
            to = f"{self.d.dir}/m/{version}/{name}"
            os.makedirs(os.path.dirname(to), exist_ok=True)
            shutil.copyfile(f"{HALF}/{source or version}/{name}", to)

    def test_a_folder_is_taken_when_its_weights_are_there(self):
        d = self.serve()
        before = self.value()
        self.copy(2, "saved_model.pb")
        os.mkdir(f"{d.dir}/m/2/variables")
        time.sleep(2.5)                            # long quiet, and not complete: the graph restores variables
        self.copy(2, INDEX)
        with open(f"{d.dir}/m/2/{DATA}", "wb") as f, open(f"{HALF}/2/{DATA}", "rb") as whole:
            bytes_ = whole.read()
            f.write(bytes_[:len(bytes_) // 2])
            f.flush()
            end = time.time() + 2.5
            while time.time() < end:
                self.assertEqual(self.value(), before)
                self.assertNotEqual(state(d, "m", 2)["state"], "AVAILABLE")
                time.sleep(0.05)
            f.write(bytes_[len(bytes_) // 2:])
        written = time.time()
        self.assertTrue(until(lambda: state(d, "m", 2)["state"] == "AVAILABLE"))
        self.assertLess(time.time() - written, 5 * PATIENCE)
        self.assertNotEqual(self.value(), before)

    def test_also_at_the_start(self):
        d = self.serve(first=False)
        self.copy(1, "saved_model.pb", INDEX)
        shutil.copytree(f"{HALF}/2", f"{d.dir}/m/2")
        os.truncate(f"{d.dir}/m/2/{DATA}", os.path.getsize(f"{HALF}/2/{DATA}") - 1)
        started = time.time()
        d.start()                                  # "ready" is said, and says that nothing is served
        self.assertLess(time.time() - started, 10 * PATIENCE)
        self.assertIn("without=m", "".join(d.log))
        self.assertEqual(d.get("/readyz").status_code, 503)
        self.assertEqual(state(d, "m", 2)["state"], "END")
        self.assertIn("the checkpoint's index names", state(d, "m", 2)["status"]["error_message"])
        shutil.copyfile(f"{HALF}/2/{DATA}", f"{d.dir}/m/2/{DATA}")
        self.assertTrue(until(lambda: d.get("/readyz").status_code == 200))

    def damage(self, how):
        """A version that serves is damaged: it leaves AVAILABLE, readiness says so, requests say why; restored, it heals."""
        d = self.serve()
        before = self.value()
        path = f"{d.dir}/m/1/{DATA}"
        how(path)
        self.assertTrue(until(lambda: state(d, "m", 1)["state"] == "END"), state(d, "m", 1))
        self.assertTrue(until(lambda: d.get("/readyz").status_code == 503))
        self.assertEqual(d.get("/v2/models/m/ready").status_code, 400)
        code, text = self.value()
        self.assertEqual(code, 500)
        self.assertIn("damaged", text)
        return before

    def heals(self, before):
        self.assertTrue(until(lambda: state(self.d, "m", 1)["state"] == "AVAILABLE"), state(self.d, "m", 1))
        self.assertEqual(self.value(), before)
        self.assertEqual(self.d.get("/readyz").status_code, 200)

    def test_cut_and_restored(self):
        before = self.damage(lambda path: os.truncate(path, 1))
        self.copy(1, DATA)
        self.heals(before)

    def test_gone_and_restored(self):
        before = self.damage(os.remove)
        self.copy(1, DATA)
        self.heals(before)

    def test_written_over_and_reloaded(self):
        def scribble(path):
            with open(path, "r+b") as f:
                f.write(b"\xff" * os.path.getsize(path))
        before = self.damage(scribble)
        self.assertEqual(self.d.post("/v1/models/m:reload").status_code, 503)
        self.copy(1, DATA)
        self.assertEqual(self.d.post("/v1/models/m:reload").status_code, 200)
        self.assertEqual(self.value(), before)

    def test_another_graph_and_loaded(self):
        def scribble(_):
            with open(f"{self.d.dir}/m/1/saved_model.pb", "wb") as f:
                f.write(b"no graph")
        before = self.damage(scribble)
        self.assertGreaterEqual(self.d.post("/v2/repository/models/m/load", {}).status_code, 400)
        self.copy(1, "saved_model.pb")
        self.assertEqual(self.d.post("/v2/repository/models/m/load", {}).status_code, 200)
        self.assertEqual(self.value(), before)

    def test_new_files_are_taken_in_place(self):
        d = self.serve()
        before = self.value()
        shutil.copytree(f"{HALF}/2", f"{d.dir}/new")
        for name in ("saved_model.pb", INDEX, DATA):   # by renames: what serves goes on until the new ones are loaded
            os.replace(f"{d.dir}/new/{name}", f"{d.dir}/m/1/{name}")
        self.assertTrue(until(lambda: self.value() != before))
        self.assertEqual(state(d, "m", 1)["state"], "AVAILABLE")


def endless_while(x):
    return tf.while_loop(lambda i, x: i >= 0, lambda i, x: (i * 0, x + 1), (tf.constant(0), x))[1]


def save_endless_init(where):
    """A TF1 model whose initialiser has no end; requests to it would."""
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as s:
        x = v1.placeholder(tf.float32, [None], "x")
        loop = v1.while_loop(lambda i: i >= 0, lambda i: i * 0, [tf.constant(0)])
        info = v1.saved_model.build_signature_def({"x": v1.saved_model.build_tensor_info(x)}, {"y": v1.saved_model.build_tensor_info(x + 1)},
                                                  "tensorflow/serving/predict")
        b = v1.saved_model.Builder(where)
        b.add_meta_graph_and_variables(s, ["serve"], {"serving_default": info}, main_op=tf.group(loop))
        b.save()


def save(where, body):
    m = tf.Module()
    m.f = tf.function(body, input_signature=[tf.TensorSpec([None], tf.float32, name="x")], autograph=False)
    tf.saved_model.save(m, where, signatures=m.f)


def request(model, *values):
    r = predict_pb2.PredictRequest()
    r.model_spec.name = model
    r.inputs["x"].CopyFrom(tf.make_tensor_proto(np.float32(values)))
    return r


def save_endless_warmup(where):
    save(where, endless_while)
    os.makedirs(f"{where}/assets.extra")
    with tf.io.TFRecordWriter(f"{where}/assets.extra/tf_serving_warmup_requests") as w:
        w.write(prediction_log_pb2.PredictionLog(predict_log=prediction_log_pb2.PredictLog(request=request("w", 1))).SerializeToString())


class Endless(Alone):
    @staticmethod
    def make(where):
        save_endless_init(f"{where}/init/1")
        save_endless_warmup(f"{where}/warm/1")
        save(f"{where}/endless/1", endless_while)
        save(f"{where}/count/1", lambda x: tf.while_loop(lambda i, s: i < x[0], lambda i, s: (i + 1, s * 0.5 + x), (tf.constant(0.0), x))[1])

    def start(self, *flags, settle=True, **models):
        """models: of self.where, by the names that they are served under; half is there always."""
        d = Server(*flags, versions={"half": (1,)}, wait=False)
        with open(f"{d.dir}/models.config", "w") as f:
            f.write(config(("half", d.base("half")), *((n, f"{self.where}/{m}") for n, m in models.items())))
        if settle:
            d.start()
        else:                                       # "ready" is not to come: the ports are chosen here
            d.port, d.rest_port = free_port(), free_port()
            d.args = [a for a in d.args if not a.startswith(("--port", "--rest_api_port"))] + [f"--port={d.port}", f"--rest_api_port={d.rest_port}"]
            d.launch()
            self.assertTrue(until(lambda: self.up(d)), "".join(d.log))
            d.channel = grpc.insecure_channel(f"127.0.0.1:{d.port}")
        self.d = d
        return d

    def up(self, d):
        try:
            return d.get("/healthz").status_code == 200
        except requests.ConnectionError:
            return False

    def stops(self, seconds=3.0):
        from_ = time.time()
        self.assertEqual(self.d.stop(), 0, "".join(self.d.log[-30:]))
        self.assertLess(time.time() - from_, seconds * PATIENCE)

    def half(self):
        return self.d.post("/v1/models/half:predict", {"instances": [2.0]})

    def quick(self, path, limit=1.0):
        """A request of a client of its own, answered soon."""
        from_ = time.time()
        r = requests.get(f"http://127.0.0.1:{self.d.rest_port}{path}", timeout=20)
        self.assertLess(time.time() - from_, limit * PATIENCE, path)
        return r.status_code

    def test_endless_loads_keep_no_others_from_loading(self):
        names = {f"a{i}": ("init", "warm")[i % 2] for i in range(6)}     # before "half" by name
        self.start("--num_load_threads=2", "--lanes=2", settle=False, **names)
        self.assertTrue(until(lambda: self.half().status_code == 200), "".join(self.d.log[-5:]))
        self.assertEqual(state(self.d, "a0", 1)["state"], "LOADING")
        self.stops()

    def test_a_load_has_its_time(self):
        self.start("--load_timeout=1", a="init", b="warm")               # says that it is ready
        for name in "ab":
            self.assertEqual(state(self.d, name, 1)["state"], "END")
            self.assertEqual(state(self.d, name, 1)["status"]["error_code"], "DEADLINE_EXCEEDED")
            self.assertIn("--load_timeout", state(self.d, name, 1)["status"]["error_message"])
        r = self.d.post("/v1/models/a:reload")
        self.assertEqual(r.status_code, 503)
        self.stops()

    def test_management_that_waits_holds_nothing(self):
        self.start("--max_waiting_commands=12", settle=False, a="init")
        self.assertTrue(until(lambda: self.half().status_code == 200))
        socks = []
        for _ in range(12):
            s = socket.create_connection(("127.0.0.1", self.d.rest_port))
            s.sendall(b"POST /v1/models/a:reload HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
            socks.append(s)
        time.sleep(0.5)
        for path in ("/healthz", "/metrics", "/v1/models", "/v1/models/half", "/v2/health/live"):
            self.assertEqual(self.quick(path), 200)
        self.assertEqual(self.half().status_code, 200)
        self.answers(self.d.post("/v1/models/a:reload"), 429, "--max_waiting_commands")
        for s in socks:
            s.close()                                                    # who leaves waits no more
        self.assertTrue(until(lambda: self.d.post("/v1/models/half:reload").status_code == 200, 3))
        from_ = time.time()
        self.answers(self.d.post("/v1/models/a:reload", headers={"X-Request-Timeout": "0.3"}), 504, "not settled")
        self.assertLess(time.time() - from_, 2 * PATIENCE)
        self.stops()

    def test_endless_runs_and_readiness(self):
        self.start("--lanes=2", "--busy_timeout=1", endless="endless")
        calls = [self.d.stub(prediction_service_pb2_grpc.PredictionServiceStub).Predict.future(request("endless", 1)) for _ in range(3)]
        self.assertTrue(until(lambda: self.quick("/readyz") == 503, 5))
        self.assertFalse(self.d.get("/readyz").json()["workers_answer"])
        self.assertEqual(self.quick("/healthz"), 200)
        self.assertEqual(self.quick("/v2/health/ready"), 400)
        self.assertEqual(self.quick("/v2/models/half/ready"), 400)
        self.assertEqual(self.quick("/metrics"), 200)
        self.assertEqual(self.d.post("/v1/models/half:reload").status_code, 200)
        for c in calls:
            c.cancel()
        self.assertTrue(until(lambda: self.quick("/readyz") == 200, 5))
        self.assertEqual(self.half().status_code, 200)
        self.stops()

    def test_what_was_short_may_turn_out_long(self):
        """Requests of a kind that was quick turn out to have no end: the threads that read sockets are not theirs."""
        self.start("--lanes=2", count="count")
        for _ in range(300):
            self.assertEqual(self.d.post("/v1/models/count:predict", {"instances": [1.0]}).status_code, 200)
        def ask():
            try:
                self.post("/v1/models/count:predict", {"instances": [9e9]}, 6)
            except requests.RequestException:
                pass
        threads = [threading.Thread(target=ask) for _ in range(6)]
        for t in threads:
            t.start()
        time.sleep(0.3)
        for _ in range(20):
            self.assertEqual(self.quick("/healthz", 0.5), 200)
        for t in threads:
            t.join()
        self.assertTrue(until(lambda: self.half().status_code == 200))
        self.stops()

    def post(self, path, json, timeout):
        return requests.post(f"http://127.0.0.1:{self.d.rest_port}{path}", json=json, timeout=timeout)


if __name__ == "__main__":
    unittest.main()
