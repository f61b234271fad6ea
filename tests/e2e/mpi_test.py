"""`mpirun -n N tensord train`: the numbers of one process, one mind about stopping, one voice when something fails.

    build/venv/bin/python tests/e2e/mpi_test.py [-v] [Numbers.test_...]      $TENSORD: the daemon (default build/tensord)

Skipped where mpirun or tensord_mpi.so is missing. What the numbers of one process are is judged elsewhere (train_test.py).
"""
import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import server  # noqa: E402
import tensorflow as tf  # noqa: E402

DONE, OTHER, BAD_JOB, PAUSED = 0, 1, 2, 75
PLACES = [os.path.join(os.path.dirname(server.DAEMON), p) for p in ("tensord_mpi.so", "../lib/tensord/tensord_mpi.so")]
MISSING = "mpirun is missing" if shutil.which("mpirun") is None else "" if any(map(os.path.exists, PLACES)) else "tensord_mpi.so is missing"


def random(seed):
    return np.random.default_rng(seed)


# ---------------------------------------------------------------------------------------------------------------- models

class Dense(tf.Module):
    """x [B, 6] -> tanh layer -> last [B, n], under `activation`."""

    def __init__(self, n, activation):
        super().__init__()
        r = random(3)
        self.w1 = tf.Variable(r.standard_normal((6, 8)).astype("f4") * 0.5, name="one/w")
        self.b1 = tf.Variable(np.zeros(8, "f4"), name="one/b")
        self.w2 = tf.Variable(r.standard_normal((8, n)).astype("f4") * 0.5, name="two/w")
        self.activation = activation

    @tf.function(input_signature=[tf.TensorSpec([None, 6], tf.float32, "x")])
    def __call__(self, x):
        return {"y": self.activation(tf.tanh(x @ self.w1 + self.b1) @ self.w2)}


class Pooled(tf.Module):
    """ids [B, any] -> embedding -> mean over all positions, filled ones too -> [B, 1]."""

    def __init__(self):
        super().__init__()
        r = random(4)
        self.table = tf.Variable(r.standard_normal((20, 5)).astype("f4"), name="table")
        self.w = tf.Variable(r.standard_normal((5, 1)).astype("f4"), name="w")

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32, "ids")])
    def __call__(self, ids):
        return {"y": tf.reduce_mean(tf.gather(self.table, ids), 1) @ self.w}


class Tagger(tf.Module):
    """x [B, 5, 3] -> class probabilities of each position [B, 5, 4]."""

    def __init__(self):
        super().__init__()
        self.w = tf.Variable(random(5).standard_normal((3, 4)).astype("f4"), name="w")

    @tf.function(input_signature=[tf.TensorSpec([None, 5, 3], tf.float32, "x")])
    def __call__(self, x):
        return {"y": tf.nn.softmax(tf.einsum("btc,ck->btk", x, self.w))}


class Picture(tf.Module):
    """x [B, 8, 8, 2] -> convolution, pooling -> [B, 3] and, beside it, [B, 1]."""

    def __init__(self):
        super().__init__()
        r = random(6)
        self.k = tf.Variable(r.standard_normal((3, 3, 2, 4)).astype("f4") * 0.3, name="conv/k")
        self.w = tf.Variable(r.standard_normal((64, 3)).astype("f4") * 0.2, name="class/w")
        self.v = tf.Variable(r.standard_normal((64, 1)).astype("f4") * 0.2, name="size/w")

    @tf.function(input_signature=[tf.TensorSpec([None, 8, 8, 2], tf.float32, "x")])
    def __call__(self, x):
        h = tf.nn.max_pool2d(tf.nn.relu(tf.nn.conv2d(x, self.k, 1, "SAME")), 2, 2, "SAME")
        h = tf.reshape(h, [-1, 64])
        return {"kind": h @ self.w, "size": h @ self.v}


class Own(tf.Module):
    """Trains itself."""

    def __init__(self):
        super().__init__()
        self.w = tf.Variable(1.0, name="w")

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, "x"), tf.TensorSpec([None], tf.float32, "y")])
    def train(self, x, y):
        loss = tf.reduce_mean((self.w * x - y) ** 2)
        self.w.assign_sub(0.1 * loss)
        return {"loss": loss}


def put_rows(path, rows):
    with open(path, "w") as f:
        for row in rows:
            f.write(json.dumps(row) + "\n")


def dense_rows(n, seed, classes=3):
    r = random(seed)
    x = r.standard_normal((n, 6)).astype("f4")
    y = np.argmax(x[:, :classes] + 0.3 * r.standard_normal((n, classes)), 1)
    return [{"inputs": a.tolist(), "targets": int(b), "sample_weight": float(w)} for a, b, w in zip(x, y, r.uniform(0.2, 3, n))]


# ---------------------------------------------------------------------------------------------------------------- running

class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if MISSING:
            raise unittest.SkipTest(MISSING)

    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="tensord-e2e.")

    def tearDown(self):
        shutil.rmtree(self.dir, True)

    def path(self, *names):
        return os.path.join(self.dir, *names)

    def save(self, model, **signatures):
        signatures = signatures or {"serving_default": model.__call__}
        tf.saved_model.save(model, self.path("base", "1"), signatures)

    def job(self, rows, valid=None, epochs=3, batch=16, **tensord):
        put_rows(self.path("train.jsonl"), rows)
        if valid:
            put_rows(self.path("valid.jsonl"), valid)
        body = {"model": "m", "training_file": "train.jsonl", "validation_file": "valid.jsonl" if valid else None, "seed": 5, "tensord": tensord,
                "method": {"type": "supervised", "supervised": {"hyperparameters": {"n_epochs": epochs, "batch_size": batch}}}}
        with open(self.path("job.json"), "w") as f:
            json.dump(body, f)

    def command(self, n, name):
        mpirun = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(n)]
        return (mpirun if n > 1 else []) + [server.DAEMON, "train", self.path("job.json"), "--model_base_path=" + self.path("base"), "--threads=1",
                                            "--output=" + self.path(name), "--work_dir=" + self.path(name + ".work"), "--events=" + self.path(name + ".json")]

    def run_job(self, n, name, status=DONE):
        p = subprocess.run(self.command(n, name), capture_output=True, text=True, timeout=300)
        self.assertEqual(p.returncode, status, p.stdout + p.stderr)
        return p

    def data(self, name):
        with open(self.path(name + ".json")) as f:
            events = json.load(f)["data"][::-1]
        return [e["data"] for e in events if e["type"] == "metrics"], [e["message"] for e in events if e["type"] == "message"]

    def variables(self, name):
        reader = tf.train.load_checkpoint(self.path(name, "variables", "variables"))
        return {k: reader.get_tensor(k) for k in reader.get_variable_to_shape_map() if not k.startswith("_CHECK")}

    def same(self, got, want, where):
        """Numbers within the tolerances of a job's."""
        if isinstance(want, dict):
            self.assertEqual(sorted(got), sorted(want), where)
            for k in want:
                self.same(got[k], want[k], f"{where}.{k}")
        elif isinstance(want, float) and isinstance(got, float):
            self.assertLessEqual(abs(got - want), 1e-5 + 1e-3 * abs(want), f"{where}: {got}, want {want}")
        else:
            self.assertEqual(got, want, where)

    def same_result(self, name, other):
        got, want = self.data(name)[0], self.data(other)[0]
        self.assertEqual(len(got), len(want))
        for a, b in zip(got, want):
            self.same(a, b, f"{name} step {b['step']}")
        a, b = self.variables(name), self.variables(other)
        self.assertEqual(sorted(a), sorted(b))
        for k in b:
            if b[k].dtype.kind == "f":
                np.testing.assert_allclose(a[k], b[k], 2e-3, 1e-5, err_msg=f"{name}: {k}")


# ---------------------------------------------------------------------------------------------------------------- tests

class Numbers(Case):
    """Whatever the number of processes, the numbers are those of one. 50 rows in batches of 16: the last has two, so that with three
    processes one has none of them."""

    def as_one(self, *counts):
        self.run_job(1, "one")
        first = self.variables("one")
        before = tf.train.load_checkpoint(self.path("base", "1", "variables", "variables"))
        moved = [k for k, v in first.items() if v.dtype.kind == "f" and np.abs(v - before.get_tensor(k)).max() > 1e-4]
        self.assertTrue(moved, "nothing was trained")
        for n in counts or (2, 3):
            self.run_job(n, f"of{n}")
            self.same_result(f"of{n}", "one")

    def test_weights_metrics_penalties_and_clipping(self):
        self.save(Dense(3, tf.nn.softmax))
        self.job(dense_rows(50, 1), dense_rows(20, 2), epochs=4,
                 loss={"name": "sparse_categorical_crossentropy", "reduction": "mean_with_sample_weight", "class_weight": {"1": 2.5}},
                 optimizer={"name": "adam", "learning_rate": 0.02}, clip={"global_norm": 0.5}, regularizers=[{"pattern": "*", "l1": 0.01, "l2": 0.02}],
                 metrics=["accuracy", {"name": "top_k_accuracy", "k": 2}], weighted_metrics=["accuracy"],
                 early_stopping={"monitor": "val_loss", "patience": 1, "min_delta": 0.02})
        self.as_one(2, 3, 5)

    def test_accumulation_averages_and_auc(self):
        self.save(Dense(1, tf.sigmoid))
        self.job(dense_rows(50, 3, 2), dense_rows(20, 4, 2), epochs=3,
                 loss={"name": "binary_crossentropy"}, optimizer={"name": "rmsprop", "learning_rate": 0.02},
                 gradient_accumulation_steps=3, ema={"momentum": 0.8, "overwrite_frequency": 2}, metrics=["auc", "precision", "recall"])
        self.as_one()

    def test_what_is_said_of_a_whole_batch(self):
        """In a batch of 0, 1 and -1 targets stay as they are, in one of 0 and 1 a 0 is -1: each share has 0 and 1 alone here."""
        self.save(Dense(1, tf.identity))
        rows = dense_rows(32, 5)
        for i, row in enumerate(rows):
            del row["sample_weight"]
            row["targets"] = i % 2 if i < 16 else 0 if i < 24 else -1
        self.job(rows, loss={"name": "hinge"}, optimizer={"name": "sgd", "learning_rate": 0.1}, shuffle=False)
        self.as_one(2, 4)

    def test_ragged_rows_are_as_long_as_the_longest_of_the_batch(self):
        self.save(Pooled())
        r = random(6)
        rows = [{"inputs": r.integers(1, 20, n).tolist(), "targets": float(n)} for n in r.integers(1, 9, 50)]
        self.job(rows, rows[:11], padding={"ids": 0}, loss={"name": "huber"}, optimizer={"name": "adagrad", "learning_rate": 0.5})
        self.as_one()

    def test_ignored_positions(self):
        self.save(Tagger())
        r = random(7)
        rows = [{"inputs": r.standard_normal((5, 3)).tolist(), "targets": [int(c) if k < n else -1 for k, c in enumerate(r.integers(0, 4, 5))],
                 "sample_weight": r.uniform(0, 2, 5).tolist()} for n in r.integers(0, 6, 50)]
        self.job(rows, loss={"name": "sparse_categorical_crossentropy", "ignore_class": -1}, optimizer={"name": "nadam", "learning_rate": 0.05})
        self.as_one()

    def test_two_outputs_and_two_optimizers(self):
        self.save(Picture())
        r = random(8)
        x = r.standard_normal((50, 8, 8, 2)).astype("f4")
        rows = [{"inputs": a.tolist(), "targets": {"kind": int(k), "size": float(a.mean())}} for a, k in zip(x, r.integers(0, 3, 50))]
        losses = [{"name": "sparse_categorical_crossentropy", "from_logits": True, "output": "kind", "target": "targets.kind"},
                  {"name": "mae", "output": "size", "target": "targets.size", "weight": 0.3}]
        self.job(rows, rows[:9], loss=losses, metrics=["mae"], optimizers=[{"pattern": "k*", "name": "sgd", "momentum": 0.9, "learning_rate": 0.05}],
                 optimizer={"name": "adamw", "learning_rate": 0.01, "clip": {"norm": 0.4}})
        self.as_one()


class Together(Case):
    def long_job(self, epochs):
        self.save(Dense(3, tf.nn.softmax))
        self.job(dense_rows(50, 1), dense_rows(20, 2), epochs=epochs, batch=8, loss={"name": "sparse_categorical_crossentropy"},
                 optimizer={"name": "adam", "learning_rate": 0.001}, metrics=["accuracy"])

    def pid_of(self, name, rank):
        """A process of the job, by what it was started as."""
        for d in glob.glob("/proc/[0-9]*"):
            try:
                with open(d + "/cmdline", "rb") as f, open(d + "/environ", "rb") as g:
                    if self.path(name).encode() in f.read() and f"OMPI_COMM_WORLD_RANK={rank}\0".encode() in g.read():
                        return int(os.path.basename(d))
            except OSError:
                pass
        return None

    def test_a_signal_to_one_stops_all_and_the_job_goes_on(self):
        self.long_job(400)
        self.run_job(2, "whole")
        with subprocess.Popen(self.command(2, "cut"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as p:
            for line in p.stdout:
                if "Epoch 20/400" in line:
                    os.kill(self.pid_of("cut", 1), signal.SIGTERM)  # not the one that saves
                    break
            rest = p.stdout.read()
        self.assertEqual(p.returncode, PAUSED, rest)
        self.assertTrue(glob.glob(self.path("cut.work", "progress*")) or os.listdir(self.path("cut.work")))
        self.assertFalse(os.path.exists(self.path("cut")))
        self.run_job(2, "cut")
        (got, said), (want, _) = self.data("cut"), self.data("whole")
        self.assertTrue(any("resumed" in m for m in said), said)
        self.assertEqual(got, want)  # to the last bit
        a, b = self.variables("cut"), self.variables("whole")
        for k in b:
            self.assertTrue(np.array_equal(a[k], b[k]), k)

    def test_killed_and_gone_on_with_by_another_number(self):
        self.long_job(400)
        self.run_job(1, "one")
        with subprocess.Popen(self.command(3, "cut"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as p:
            for line in p.stdout:
                if "Epoch 30/400" in line:
                    os.kill(self.pid_of("cut", 2), signal.SIGKILL)
                    break
            p.stdout.read()
        self.assertNotEqual(p.returncode, DONE)
        self.run_job(2, "cut")
        self.same_result("cut", "one")
        self.assertFalse(glob.glob(self.path("cut.work", "rank-1")))

    def test_what_fails_in_one_is_said_once_and_ends_all(self):
        self.save(Pooled())
        rows = [{"inputs": [1, 2, 3], "targets": 1.0} for _ in range(32)]
        rows[29]["inputs"] = [1, 99, 3]  # the second batch, the last share
        self.job(rows, shuffle=False, loss={"name": "mse"})
        for n in 2, 3:
            p = self.run_job(n, "bad", OTHER)
            self.assertIn("= 99 is not in [0, 20)", p.stderr)
            self.assertIn("step 2", p.stderr)
            self.assertEqual(p.stderr.count("is not in [0, 20)"), 1, p.stderr)
            self.assertIn("is not in [0, 20)", self.data("bad")[1][-1])
            self.assertFalse(os.path.exists(self.path("bad")))
            shutil.rmtree(self.path("bad.work"))

    def test_a_bad_row_of_validation_that_shows_when_it_runs(self):
        self.save(Pooled())
        rows = [{"inputs": [1, 2, 3], "targets": 1.0} for _ in range(16)]
        self.job(rows, rows[:9] + [{"inputs": [1, 99, 3], "targets": 1.0}], loss={"name": "mse"})
        p = self.run_job(2, "bad", OTHER)
        self.assertEqual(p.stderr.count("= 99 is not in [0, 20)"), 1, p.stderr)

    def test_a_loss_that_is_not_finite_names_the_tensor(self):
        self.save(Dense(1, tf.identity))
        rows = dense_rows(32, 1)
        for row in rows:
            row["targets"] = 1.0
        rows[30]["targets"] = 3e38
        self.job(rows, shuffle=False, loss={"name": "mse"})
        p = self.run_job(2, "bad", OTHER)
        self.assertEqual(p.stderr.count("loss is not finite at step 2: the first tensor that is not is"), 1, p.stderr)

    def test_a_job_that_is_refused_is_refused_once(self):
        self.save(Dense(3, tf.nn.softmax))
        rows = dense_rows(20, 1)
        rows[6]["targets"] = 7
        self.job(rows, loss={"name": "sparse_categorical_crossentropy"})
        p = self.run_job(3, "bad", BAD_JOB)
        self.assertEqual(p.stderr.count("row 7: "), 1, p.stderr)

    def test_what_cannot_be_shared(self):
        own = Own()
        self.save(own, train=own.train)
        self.job([{"inputs": {"x": 1.0}, "targets": {"y": 2.0}}] * 8, train_signature="train")
        p = self.run_job(2, "bad", BAD_JOB)
        self.assertEqual(p.stderr.count("several processes cannot share its batches"), 1, p.stderr)
        self.run_job(1, "good")


if __name__ == "__main__":
    unittest.main()
