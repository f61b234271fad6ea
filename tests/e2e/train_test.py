"""`tensord train`: jobs by hand, against what Keras's fit makes of the same rows; killed and gone on with; refused; where results go.

    build/venv/bin/python tests/e2e/train_test.py [-v] [TestCase.test]      $TENSORD: the daemon (default build/tensord)
"""
import csv
import glob
import hashlib
import json
import os
import re
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import server  # noqa: E402
from host_gpu import DRIVER, environment, gpu_flags  # noqa: E402
import keras  # noqa: E402
import tensorflow as tf  # noqa: E402

DONE, OTHER, BAD_JOB, PAUSED = 0, 1, 2, 75
TAIL = "/.ATTRIBUTES/VARIABLE_VALUE"


def small_model():
    keras.utils.set_random_seed(3)
    layers = [keras.layers.Input((6,), name="x"), keras.layers.Dense(8, "tanh", name="one"), keras.layers.Dense(3, "softmax", name="two")]
    return keras.Sequential(layers, name="small")


def rows(n, seed):
    r = np.random.default_rng(seed)
    x = r.standard_normal((n, 6)).astype(np.float32)
    return x, np.argmax(x[:, :3] + 0.3 * r.standard_normal((n, 3)), 1)


def write_rows(path, x, y):
    with open(path, "w") as f:
        for a, b in zip(x, y):
            f.write(json.dumps({"inputs": a.tolist(), "targets": b.tolist()}) + "\n")


def tree(folder):
    """Every file below folder: name -> SHA-256."""
    out = {}
    for where, _, files in os.walk(folder):
        for f in files:
            with open(os.path.join(where, f), "rb") as g:
                out[os.path.relpath(os.path.join(where, f), folder)] = hashlib.sha256(g.read()).hexdigest()
    return out


def checkpoint(version):
    reader = tf.train.load_checkpoint(os.path.join(version, "variables", "variables"))
    return {k: reader.get_tensor(k) for k in reader.get_variable_to_shape_map()}


class Jobs(unittest.TestCase):
    """A folder with base/1 (an export of small_model), train.jsonl and validation.jsonl."""

    @classmethod
    def setUpClass(cls):
        cls.shared = tempfile.mkdtemp(prefix="tensord-e2e.")
        cls.model = small_model()
        cls.model.export(os.path.join(cls.shared, "base", "1"), verbose=False)
        cls.train, cls.valid = rows(50, 1), rows(20, 2)
        write_rows(os.path.join(cls.shared, "train.jsonl"), *cls.train)
        write_rows(os.path.join(cls.shared, "validation.jsonl"), *cls.valid)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.shared, True)

    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="tensord-e2e.")
        shutil.copytree(self.shared, self.dir, dirs_exist_ok=True)

    def tearDown(self):
        shutil.rmtree(self.dir, True)

    def path(self, *names):
        return os.path.join(self.dir, *names)

    def job(self, name="job.json", epochs=3, batch=16, validation=None, file="train.jsonl", **tensord):
        """Writes a job; returns its path."""
        tensord = {"loss": {"name": "sparse_categorical_crossentropy"}, "optimizer": {"name": "adam", "learning_rate": 0.01}, "shuffle": False, **tensord}
        body = {"model": "m", "training_file": file, "validation_file": validation, "seed": 5,
                "method": {"type": "supervised", "supervised": {"hyperparameters": {"n_epochs": epochs, "batch_size": batch}}}, "tensord": tensord}
        with open(self.path(name), "w") as f:
            json.dump(body, f)
        return self.path(name)

    def command(self, job, *flags):
        return [server.DAEMON, "train", job, "--model=m=" + self.path("base"), *flags]

    def run_job(self, job, *flags, status=DONE):
        p = subprocess.run(self.command(job, *flags), capture_output=True, text=True, timeout=300)
        self.assertEqual(p.returncode, status, p.stdout + p.stderr)
        return p

    def events(self, file="events.json"):
        with open(self.path(file)) as f:
            doc = json.load(f)
        self.assertEqual((doc["object"], doc["has_more"]), ("list", False))
        self.assertEqual((doc["first_id"], doc["last_id"]), (doc["data"][0]["id"], doc["data"][-1]["id"]))
        self.assertEqual(len({e["id"] for e in doc["data"]}), len(doc["data"]))
        return doc["data"][::-1]

    def steps(self, events):
        return [e["data"] for e in events if e["type"] == "metrics" and "metrics" not in e["data"]]

    def epochs(self, events):
        return [e["data"] for e in events if e["type"] == "metrics" and "metrics" in e["data"]]


class TestAgainstFit(Jobs):
    def fit(self, optimizer, epochs, callbacks=(), valid=True, **kw):
        """Keras's own training of the same rows in the same order: (model, history)."""
        model = small_model()
        model.compile(optimizer, "sparse_categorical_crossentropy", metrics=["accuracy"])
        h = model.fit(*self.train, epochs=epochs, batch_size=16, shuffle=False, verbose=0, callbacks=list(callbacks),
                      validation_data=self.valid if valid else None, validation_batch_size=16, **kw)
        return model, h.history

    def weights_of(self, version):
        """The tuned weights, by variable name, as tf.saved_model.load has them."""
        return {v.name.split(":")[0]: v.numpy() for v in tf.saved_model.load(version).variables}

    def check_weights(self, version, model):
        got = self.weights_of(version)
        for v in model.trainable_variables:
            np.testing.assert_allclose(got[v.path], v.numpy(), 1e-4, 1e-6, err_msg=v.path)

    def test_a_whole_job(self):
        job = self.job(validation="validation.jsonl", metrics=["accuracy"])
        self.run_job(job, "--events=" + self.path("events.json"), "--work_dir=" + self.path("work"))
        model, history = self.fit(keras.optimizers.Adam(0.01), 3)
        events = self.events()
        self.check_weights(self.path("base", "2"), model)
        for i, e in enumerate(self.epochs(events)):
            self.assertEqual((e["epoch"], e["step"]), (i + 1, 4 * i + 4))
            want = {"loss": history["loss"][i], "accuracy": history["accuracy"][i]}
            valid = {"loss": history["val_loss"][i], "accuracy": history["val_accuracy"][i]}
            for side, w in ("train", want), ("validation", valid):
                self.assertEqual(list(e["metrics"][side]), list(w))
                np.testing.assert_allclose(list(e["metrics"][side].values()), list(w.values()), 1e-5)
            self.assertEqual(e["valid_loss"], e["metrics"]["validation"]["loss"])
        steps = self.steps(events)
        self.assertEqual([s["step"] for s in steps], list(range(1, 13)))
        self.assertEqual([(s["total_steps"], s["epoch"], s["learning_rate"]) for s in steps], [(12, i // 4 + 1, [0.01]) for i in range(12)])

    def test_on_a_gpu(self):
        """The host-run CUDA device, with random delays of its streams."""
        with environment(HOST_CUDA_DEBUG="1", HOST_CUDA_WORKERS="2", **DRIVER):
            self.run_job(self.job(), *gpu_flags())
        self.check_weights(self.path("base", "2"), self.fit(keras.optimizers.Adam(0.01), 3)[0])
        said = []
        for n in 64, 256:  # one epoch, whose end alone saves
            write_rows(self.path("long.jsonl"), *rows(n, 1))
            shutil.rmtree(self.path("job.work"), True)
            with environment(**DRIVER):
                p = self.run_job(self.job(epochs=1, file="long.jsonl"), *gpu_flags("--log_device_placement=true", "--output=" + self.path(f"after_{n}")))
            said.append([int(n) for n in re.search(r"(\d+) kernels launched, [^;]*; \d+ copies of (\d+) bytes to and from the host", p.stdout + p.stderr).groups()])
        # Twelve steps more send their batches, and fetch a few numbers: weights and slots stay.
        self.assertGreater(said[1][0], 2 * said[0][0])
        self.assertLess(said[1][1] - said[0][1], 12 * 1000)
        p = self.run_job(self.job(), "--devices=gpu", status=OTHER)
        self.assertIn("--devices=gpu: there is no NVIDIA driver", p.stderr)

    def test_the_result_is_loaded_by_all(self):
        self.run_job(self.job())
        tuned = self.path("base", "2")
        x = self.valid[0]
        loaded = tf.saved_model.load(tuned)
        want = loaded.signatures["serving_default"](x=tf.constant(x))
        name, want = next(iter(want.items()))
        layer = keras.layers.TFSMLayer(tuned, call_endpoint="serving_default")
        np.testing.assert_array_equal(layer(x)[name], want)
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:  # by the graph's restore op, as TF Serving does
            s = tf.compat.v1.saved_model.load(session, ["serve"], tuned).signature_def["serving_default"]
            got = session.run(s.outputs[name].name, {s.inputs["x"].name: x})
        np.testing.assert_allclose(got, want, 1e-6)
        self.assertGreater(np.max(np.abs(want.numpy() - self.model.predict(x, verbose=0))), 0.01)

    def test_what_is_not_trained_keeps_its_bytes(self):
        self.run_job(self.job(frozen=["small/one/*"]))
        old, new = checkpoint(self.path("base", "1")), checkpoint(self.path("base", "2"))
        self.assertEqual(set(old), set(new))
        moved = {k for k in old if not np.array_equal(old[k], new[k])}
        self.assertEqual(len(moved), 4)  # kernel and bias of `two`, under two keys each
        for k in moved:
            self.assertIn(old[k].shape, ((8, 3), (3,)))
        files = {d: {k: v for k, v in tree(self.path("base", d)).items() if not k.startswith("variables/variables.")} for d in "12"}
        self.assertEqual(files["1"], files["2"])

    def test_early_stopping_gives_back_the_best(self):
        stop = keras.callbacks.EarlyStopping("val_loss", patience=2, restore_best_weights=True)
        model, history = self.fit(keras.optimizers.SGD(2.0, 0.9), 30, [stop])
        job = self.job(epochs=30, validation="validation.jsonl", optimizer={"name": "sgd", "learning_rate": 2.0, "momentum": 0.9},
                       early_stopping={"monitor": "val_loss", "patience": 2})
        self.run_job(job, "--events=" + self.path("events.json"))
        events = self.events()
        self.assertLess(len(history["loss"]), 30)
        self.assertEqual(len(self.epochs(events)), len(history["loss"]))
        best = int(np.argmin(history["val_loss"])) + 1
        self.assertIn(f"after step {4 * best}", events[-2]["message"])
        self.assertTrue(any("Stopped early" in e["message"] for e in events))
        got = self.weights_of(self.path("base", "2"))
        for v in model.trainable_variables:
            np.testing.assert_allclose(got[v.path], v.numpy(), 1e-3, 1e-5)

    def test_averages_and_schedules(self):
        schedule = keras.optimizers.schedules.CosineDecay(0.1, 10, alpha=0.1)
        model, _ = self.fit(keras.optimizers.RMSprop(schedule, use_ema=True, ema_momentum=0.8, ema_overwrite_frequency=5), 3)
        job = self.job(optimizer={"name": "rmsprop", "learning_rate": 0.1, "schedule": {"name": "cosine", "decay_steps": 10, "alpha": 0.1}},
                       ema={"momentum": 0.8, "overwrite_frequency": 5})
        self.run_job(job, "--events=" + self.path("events.json"))
        self.check_weights(self.path("base", "2"), model)
        np.testing.assert_allclose([s["learning_rate"][0] for s in self.steps(self.events())], [float(schedule(i)) for i in range(12)], 1e-6)

    def test_gradients_are_added_up_across_epochs(self):
        model, _ = self.fit(keras.optimizers.SGD(0.5, gradient_accumulation_steps=3), 4)
        self.run_job(self.job(epochs=4, optimizer={"name": "sgd", "learning_rate": 0.5}, gradient_accumulation_steps=3))
        self.check_weights(self.path("base", "2"), model)

    def test_parts_of_a_tf1_variable(self):
        """One step of plain descent, by hand; the parts are slices again."""
        server.models()
        old = os.path.join(server.MODELS, "parts", "1")
        r = np.random.default_rng(4)
        x, y = r.standard_normal((8, 7)).astype(np.float32), r.standard_normal((8, 3)).astype(np.float32)
        write_rows(self.path("train.jsonl"), x, y)
        job = self.job(epochs=1, batch=8, loss={"name": "mse"}, optimizer={"name": "sgd", "learning_rate": 0.5})
        p = subprocess.run([server.DAEMON, "train", job, "--model_base_path=" + old, "--output=" + self.path("tuned")], capture_output=True, text=True)
        self.assertEqual(p.returncode, DONE, p.stdout + p.stderr)
        before, after = checkpoint(old), checkpoint(self.path("tuned"))
        e = x @ before["layer/w"] + before["layer/b"] - y
        np.testing.assert_allclose(after["layer/w"], before["layer/w"] - 0.5 * 2 / 24 * x.T @ e, 1e-4, 1e-6)
        np.testing.assert_allclose(after["layer/b"], before["layer/b"] - 0.5 * 2 / 24 * e.sum(0), 1e-4, 1e-6)
        np.testing.assert_array_equal(after["frozen"], before["frozen"])
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            s = tf.compat.v1.saved_model.load(session, ["serve"], self.path("tuned")).signature_def["serving_default"]
            got = session.run(s.outputs["y"].name, {s.inputs["x"].name: x})
        np.testing.assert_allclose(got, x @ after["layer/w"] + after["layer/b"], 1e-4, 1e-6)


class TestFiles(Jobs):
    def test_the_result_file(self):
        job = self.job(validation="validation.jsonl", metrics=["accuracy"])
        self.run_job(job, "--events=" + self.path("events.json"), "--work_dir=" + self.path("work"))
        with open(self.path("work", "result.csv"), newline="") as f:
            table = list(csv.DictReader(f))
        events = self.events()
        self.assertEqual(list(table[0]), ["step", "epoch", "train_loss", "learning_rate", "valid_loss", "train_accuracy", "valid_accuracy"])
        self.assertEqual([(int(r["step"]), int(r["epoch"]), float(r["train_loss"]), float(r["learning_rate"])) for r in table],
                         [(s["step"], s["epoch"], s["train_loss"], s["learning_rate"][0]) for s in self.steps(events)])
        by_step = {e["step"]: e for e in self.epochs(events)}
        for r in table:
            e = by_step.get(int(r["step"]))
            want = [e["valid_loss"], e["metrics"]["train"]["accuracy"], e["metrics"]["validation"]["accuracy"]] if e else [None] * 3
            self.assertEqual([float(r[k]) if r[k] else None for k in ("valid_loss", "train_accuracy", "valid_accuracy")], want)

    def test_tensorboard(self):
        job = self.job(validation="validation.jsonl", metrics=["accuracy"], histograms=True)
        self.run_job(job, "--events=" + self.path("events.json"), "--work_dir=" + self.path("work"))
        points = {}
        for side in "train", "validation":
            file, = glob.glob(self.path("work", "tensorboard", side, "events.out.tfevents.*"))
            for e in tf.compat.v1.train.summary_iterator(file):
                for v in e.summary.value:
                    points.setdefault((side, v.tag), []).append((e.step, v.histo.num if v.HasField("histo") else v.simple_value))
        events = self.events()
        steps, epochs = self.steps(events), self.epochs(events)
        self.assertEqual(points["train", "batch_loss"], [(s["step"], np.float32(s["train_loss"])) for s in steps])
        self.assertEqual(points["train", "batch_learning_rate"], [(s["step"], np.float32(0.01)) for s in steps])
        for side in "train", "validation":
            for k in "loss", "accuracy":
                self.assertEqual(points[side, "epoch_" + k], [(e["epoch"], np.float32(e["metrics"][side][k])) for e in epochs])
        for kind in "/histogram", "/gradient":  # a kernel's elements, after each epoch
            self.assertIn([(1, 48), (2, 48), (3, 48)], [v for k, v in points.items() if k[1].endswith(kind)])

    def test_where_results_go(self):
        self.run_job(self.job())
        self.run_job(self.job(optimizer={"name": "sgd", "learning_rate": 0.1}))
        self.assertEqual(sorted(os.listdir(self.path("base"))), ["1", "2", "3"])
        p = self.run_job(self.job(publish=False))
        kept = p.stdout.rstrip().rsplit(" ", 1)[1]
        self.assertTrue(os.path.basename(kept).startswith(".") and os.path.exists(os.path.join(kept, "saved_model.pb")), kept)
        self.assertEqual(sorted(d for d in os.listdir(self.path("base")) if d[0] != "."), ["1", "2", "3"])
        out = "--output=" + self.path("tuned")
        self.run_job(self.job(), out)
        self.assertIn("is there already", self.run_job(self.job(), out, status=BAD_JOB).stderr)

    def test_the_gate(self):
        gate = {"monitor": "val_accuracy", "mode": "max"}
        kw = dict(validation="validation.jsonl", metrics=["accuracy"], gate=gate)
        p = self.run_job(self.job(epochs=20, **kw))
        self.assertIn("passed", p.stdout)
        self.assertTrue(os.path.exists(self.path("base", "2")))
        p = self.run_job(self.job(epochs=1, **{**kw, "optimizer": {"name": "sgd", "learning_rate": 0}}))
        self.assertIn("not passed", p.stdout)
        self.assertFalse(os.path.exists(self.path("base", "3")))


class TestGoingOn(Jobs):
    """A job that is ended at any moment and started again is as one that was not."""

    KW = dict(epochs=40, batch=4, validation="validation.jsonl", shuffle=True, metrics=["accuracy"], gradient_accumulation_steps=2,
              ema={"momentum": 0.9, "overwrite_frequency": 7}, early_stopping={"monitor": "val_loss", "patience": 100, "restore_best": True}, checkpoint_steps=5)

    def flags(self, name):
        return ["--output=" + self.path(name), "--work_dir=" + self.path(name + ".work"), "--events=" + self.path(name + ".json")]

    def check_same(self):
        self.assertEqual(tree(self.path("a")), tree(self.path("b")))
        a, b = ([(e["message"], e["data"]) for e in self.events(f + ".json") if e["type"] == "metrics"] for f in "ab")
        self.assertEqual(a, b)
        self.assertEqual(*(tree(self.path(f + ".work"))["result.csv"] for f in "ab"))
        self.assertEqual([f for f in os.listdir(self.path("b.work")) if "progress" in f], [])

    def told(self):
        """Events that are in the file of the job that is under way."""
        try:
            with open(self.path("b.work", "events.jsonl")) as f:
                return sum(1 for _ in f)
        except FileNotFoundError:
            return 0

    def ended_by(self, number, times):
        job = self.job(**self.KW)
        self.run_job(job, *self.flags("a"))
        moments, ended = random.Random(7), 0
        for _ in range(times):
            p = subprocess.Popen(self.command(job, *self.flags("b")), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            until = self.told() + moments.randint(1, 60)
            while p.poll() is None and self.told() < until:
                time.sleep(0.001)
            if p.poll() is None:
                p.send_signal(number)
                ended += 1
            status = p.wait(60)
            if status == 0:
                break
            self.assertIn(status, (-number, PAUSED))
        if not os.path.exists(self.path("b")):
            self.run_job(job, *self.flags("b"))
        self.check_same()
        return ended

    def test_killed(self):
        self.assertGreater(self.ended_by(signal.SIGKILL, 8), 2)

    def test_paused(self):
        self.assertGreater(self.ended_by(signal.SIGTERM, 8), 2)
        self.assertTrue(any("resumed after step" in e["message"] for e in self.events("b.json")))

    def test_progress_is_a_checkpoint(self):
        """Of a job that was paused; another job does not take it for its own."""
        job = self.job(**{**self.KW, "epochs": 2000, "checkpoint_steps": 1})
        p = subprocess.Popen(self.command(job, *self.flags("b")), stdout=subprocess.DEVNULL)
        while not glob.glob(self.path("b.work", "progress-*")) and p.poll() is None:
            time.sleep(0.02)
        p.send_signal(signal.SIGTERM)
        self.assertEqual(p.wait(60), PAUSED)
        saved, = glob.glob(self.path("b.work", "progress-*", "state.index"))
        names = {n for n, _ in tf.train.list_variables(saved[:-len(".index")])}
        self.assertTrue({"job", "at", "numbers", "sums"} <= names)
        self.assertTrue(any(n.startswith("state/train/") for n in names), names)
        self.assertFalse(os.path.exists(self.path("b")))
        p = self.run_job(self.job(**{**self.KW, "epochs": 3}), *self.flags("b"), status=OTHER)
        self.assertIn("is of another job", p.stderr)


class TestRefused(Jobs):
    def refused(self, status, words, *flags, **kw):
        job = self.job(**kw)
        before = tree(self.path("base"))
        p = self.run_job(job, "--events=" + self.path("events.json"), *flags, status=status)
        self.assertIn(words, p.stderr)
        self.assertEqual(tree(self.path("base")), before)
        self.assertEqual([d for d in os.listdir(self.path("base")) if d != "1"], [])

    def test_bad_jobs(self):
        self.refused(BAD_JOB, "momentum", optimizer={"name": "sgd", "momentum": 2})
        self.refused(BAD_JOB, "no/such/*", frozen=["no/such/*"])
        self.refused(BAD_JOB, "nowhere", loss={"name": "mse", "output": "nowhere"})
        self.refused(BAD_JOB, "has no signature 'other'", signature="other")
        self.refused(BAD_JOB, "validation_file", validation="missing.jsonl")

    def test_bad_rows(self):
        with open(self.path("train.jsonl"), "a") as f:
            f.write('{"inputs": [1, 2, 3, 4, 5, 6], "targets": 3}\n')
        self.refused(BAD_JOB, "row 51")

    def test_a_loss_that_is_not_finite(self):
        self.refused(OTHER, "loss is not finite at step", epochs=4, regularizers=[{"pattern": "*", "l2": 1e30}], optimizer={"name": "sgd", "learning_rate": 1e9})
        events = self.events()
        self.assertEqual(events[-1]["level"], "error")
        self.assertIn("loss is not finite", events[-1]["message"])

    def test_arguments(self):
        job = self.job()
        for flags, words in (([], "which model?"), (["--model=other=" + self.path("base")], "is for model 'm'"), (["--model=m=" + self.path("no")], "No such file"),
                             (["--model=m=" + self.path("base"), "--threads=0"], "--threads=0"), (["--model=m=" + self.path("base"), "--nonsense=1"], "no option --nonsense"),
                             (["--model=m=" + self.path("base", "1")], "--output=DIR")):
            p = subprocess.run([server.DAEMON, "train", job, *flags], capture_output=True, text=True)
            self.assertEqual(p.returncode, BAD_JOB, p.stderr)
            self.assertIn(words, p.stderr)


if __name__ == "__main__":
    unittest.main()
