"""Jobs of several GPUs (tensord.gpus), on the host-run CUDA device: the numbers of one, sums by NCCL where that is, and nobody waits for
who is gone.

    build/venv/bin/python tests/e2e/gpus_test.py [-v] [Numbers.test_...]      $TENSORD: the daemon (default build/tensord)
"""
import glob
import json
import os
import re
import signal
import subprocess
import time
import unittest

import finetune_daemon as fd
import host_gpu
import mpi_test
import numpy as np
import server
import tensorflow as tf
from mpi_test import BAD_JOB, DONE, OTHER, PAUSED, Dense, Picture, dense_rows, random

BY_NCCL = "GPUs sum by NCCL 2.28.99 (libnccl.so.2)"


class Jobs(mpi_test.Case):
    devices = "gpu"
    settings = {"HOST_CUDA_DEVICES": "3"}

    @classmethod
    def setUpClass(cls):  # not that of mpirun
        if not os.path.exists(host_gpu.MODULE):
            raise unittest.SkipTest("the host-run device is not built")

    def command(self, n, name, mpi=False):
        with open(self.path("job.json")) as f:
            body = json.load(f)
        body["tensord"]["gpus"] = 1 if mpi else n
        file = self.path(name + ".job.json")
        with open(file, "w") as f:
            json.dump(body, f)
        before = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(n)] if mpi else []
        return before + [server.DAEMON, "train", file, "--model_base_path=" + self.path("base"), "--threads=1", "--output=" + self.path(name),
                         "--work_dir=" + self.path(name + ".work"), "--events=" + self.path(name + ".json"), "--devices=" + self.devices,
                         "--device_module=" + host_gpu.MODULE, "--log_device_placement=true"]

    def environment(self):
        return {**os.environ, **host_gpu.DRIVER, **self.settings}

    def run_job(self, n, name, status=DONE, mpi=False):
        p = subprocess.run(self.command(n, name, mpi), capture_output=True, text=True, timeout=300, env=self.environment())
        self.assertEqual(p.returncode, status, p.stdout + p.stderr[-4000:])
        self.assertNotIn("host_cuda: ", p.stderr)
        return p

    def start(self, n, name, until):
        """A job under way, at the first line that has `until`."""
        p = subprocess.Popen(self.command(n, name), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=self.environment())
        for line in p.stdout:
            if until in line:
                return p
        self.fail(f"no line with {until}")

    def children(self, p):
        with open(f"/proc/{p.pid}/task/{p.pid}/children") as f:
            return [int(c) for c in f.read().split()]

    def end_of(self, p):
        with p:
            text = p.stdout.read()
        self.assertNotIn("host_cuda: ", text)
        return p.returncode, text

    def long_job(self, epochs):
        self.save(Dense(3, tf.nn.softmax))
        self.job(dense_rows(50, 1), dense_rows(20, 2), epochs=epochs, batch=8, loss={"name": "sparse_categorical_crossentropy"},
                 optimizer={"name": "adam", "learning_rate": 0.001}, metrics=["accuracy"])


class Numbers(Jobs):
    """As those of one GPU. 50 rows in batches of 16: the last has two, so that one of three GPUs has none of them."""

    def as_one(self, *counts):
        self.run_job(1, "one")
        for n in counts or ((3,) if server.SANITIZED else (2, 3)):
            p = self.run_job(n, f"of{n}")
            self.assertEqual(p.stderr.count(f"{n} {BY_NCCL}"), 1, p.stderr[-2000:])
            self.same_result(f"of{n}", "one")

    def test_weights_metrics_penalties_and_clipping(self):
        self.save(Dense(3, tf.nn.softmax))
        self.job(dense_rows(50, 1), dense_rows(20, 2), epochs=4,
                 loss={"name": "sparse_categorical_crossentropy", "reduction": "mean_with_sample_weight", "class_weight": {"1": 2.5}},
                 optimizer={"name": "adam", "learning_rate": 0.02}, clip={"global_norm": 0.5}, regularizers=[{"pattern": "*", "l1": 0.01, "l2": 0.02}],
                 metrics=["accuracy"], weighted_metrics=["accuracy"], early_stopping={"monitor": "val_loss", "patience": 1, "min_delta": 0.02})
        self.as_one()

    def test_accumulation_averages_and_auc(self):
        self.save(Dense(1, tf.sigmoid))
        self.job(dense_rows(50, 3, 2), dense_rows(20, 4, 2), epochs=3, loss={"name": "binary_crossentropy"},
                 optimizer={"name": "rmsprop", "learning_rate": 0.02}, gradient_accumulation_steps=3, ema={"momentum": 0.8, "overwrite_frequency": 2},
                 metrics=["auc", "precision"])
        self.as_one(2)

    def test_two_outputs_and_two_optimizers(self):
        self.save(Picture())
        r = random(8)
        x = r.standard_normal((50, 8, 8, 2)).astype("f4")
        rows = [{"inputs": a.tolist(), "targets": {"kind": int(k), "size": float(a.mean())}} for a, k in zip(x, r.integers(0, 3, 50))]
        losses = [{"name": "sparse_categorical_crossentropy", "from_logits": True, "output": "kind", "target": "targets.kind"},
                  {"name": "mae", "output": "size", "target": "targets.size", "weight": 0.3}]
        self.job(rows, rows[:9], loss=losses, metrics=["mae"], optimizers=[{"pattern": "k*", "name": "sgd", "momentum": 0.9, "learning_rate": 0.05}],
                 optimizer={"name": "adamw", "learning_rate": 0.01, "clip": {"norm": 0.4}})
        self.as_one(2)

    def copied(self, p):
        """Bytes that went between host and GPUs, of all processes."""
        return sum(int(n) for n in re.findall(r"copies of (\d+) bytes to and from the host", p.stderr))

    def test_gradients_stay_on_the_gpus_where_nccl_is(self):
        """Without it they go by the host, one line says so, and the numbers are the same."""
        self.save(Wide())
        rows = [{"inputs": random(i).standard_normal(64).tolist(), "targets": float(i % 3)} for i in range(128)]
        self.job(rows, epochs=1, batch=8, loss={"name": "mse"}, optimizer={"name": "sgd", "learning_rate": 0.01})
        self.run_job(1, "one")
        by_gpus = self.run_job(2, "gpus")
        self.settings = {**self.settings, "HOST_CUDA_LIBRARIES": "cublaslt"}
        by_host = self.run_job(2, "host")
        self.assertEqual(by_host.stderr.count("the sums of 2 processes go by the host: NCCL: ncclGetUniqueId: "), 1, by_host.stderr[-2000:])
        for name in "gpus", "host":
            self.same_result(name, "one")
        gradients = 4 * 64 * 512 * 16 * 2  # bytes, steps, processes; progress, which fetches weights, is saved when the epoch ends
        self.assertLess(self.copied(by_gpus), gradients // 4)
        self.assertGreater(self.copied(by_host), 2 * gradients)  # there and back


class Wide(tf.Module):
    """x [B, 64] -> [B, 1], by way of 512."""

    def __init__(self):
        super().__init__()
        self.w = tf.Variable(random(3).standard_normal((64, 512)).astype("f4") * 0.05, name="w")
        self.v = tf.Variable(random(4).standard_normal((512, 1)).astype("f4") * 0.05, name="v")

    @tf.function(input_signature=[tf.TensorSpec([None, 64], tf.float32, "x")])
    def __call__(self, x):
        return {"y": tf.tanh(x @ self.w) @ self.v}


class Together(Jobs):
    def test_a_signal_stops_all_and_the_job_goes_on(self):
        self.long_job(12)
        self.run_job(2, "whole")
        p = self.start(2, "cut", "Epoch 5/12")
        p.send_signal(signal.SIGTERM)
        status, text = self.end_of(p)
        self.assertEqual(status, PAUSED, text[-3000:])
        self.run_job(2, "cut")
        (got, said), (want, _) = self.data("cut"), self.data("whole")
        self.assertTrue(any("resumed" in m for m in said), said)
        self.assertEqual(got, want)  # to the last bit
        a, b = self.variables("cut"), self.variables("whole")
        for k in b:
            self.assertTrue((a[k] == b[k]).all(), k)
        self.assertFalse(glob.glob(self.path("cut.work", "rank-*")))

    def killed(self, **settings):
        self.settings = {**self.settings, **settings}
        self.long_job(4000)
        p = self.start(3, "cut", "Epoch 3/4000")
        others = self.children(p)
        self.assertEqual(len(others), 2)
        began = time.monotonic()
        os.kill(others[1], signal.SIGKILL)
        status, text = self.end_of(p)
        self.assertEqual(status, OTHER, text[-3000:])
        self.assertIn("process 2 of 3 of the job was ended by signal 9 (Killed)", text.splitlines()[-1])
        self.assertLess(time.monotonic() - began, 20)
        self.assertFalse(any(os.path.exists(f"/proc/{c}") for c in others))
        self.assertTrue(any("ended by signal 9" in m for m in self.data("cut")[1]))

    def test_one_that_is_killed_ends_the_job(self):
        self.killed()

    def test_one_that_is_killed_ends_the_job_without_nccl(self):
        self.killed(HOST_CUDA_LIBRARIES="cublaslt")

    def test_the_others_die_with_the_first(self):
        self.long_job(4000)
        p = self.start(3, "cut", "Epoch 3/4000")
        others = self.children(p)
        p.kill()
        self.end_of(p)
        until = time.monotonic() + 10
        while any(os.path.exists(f"/proc/{c}") for c in others) and time.monotonic() < until:
            time.sleep(0.05)
        self.assertFalse(any(os.path.exists(f"/proc/{c}") for c in others))

    def alone(self, status, **settings):
        """Process 2 of 3 does not come to where NCCL waits for all; what it says of that."""
        self.settings = {**self.settings, **settings}
        self.long_job(2)
        began = time.monotonic()
        p = self.run_job(3, "alone", status)
        self.assertLess(time.monotonic() - began, 100)  # else rank 0 waits for two minutes
        return p.stderr

    def test_one_that_fails_before_nccl_keeps_nobody_waiting(self):
        text = self.alone(OTHER, HOST_CUDA_NO_STREAMS="2")
        self.assertIn("process 2 of 3: opening a stream for sums: ", text)
        self.assertIn("the sums of 3 processes go by the host: another process could not join", text)
        self.assertIn("opening a stream: ", text.splitlines()[-1])  # it has none for anything else, either

    def test_one_that_nccl_fails_keeps_nobody_waiting(self):
        text = self.alone(DONE, HOST_CUDA_NCCL_FAILS="2")
        self.assertIn("process 2 of 3: NCCL: ncclCommInitRank: unhandled system error", text)
        self.assertIn("the sums of 3 processes go by the host: another process could not join", text)
        self.settings = Jobs.settings
        self.run_job(1, "one")
        self.same_result("alone", "one")

    def test_one_that_is_killed_while_nccl_joins_ends_the_job(self):
        text = self.alone(OTHER, HOST_CUDA_NCCL_DIES="2")
        self.assertIn("process 2 of 3 of the job was ended by signal 9 (Killed)", text.splitlines()[-1])

    def test_what_fails_in_one_is_said_once_and_ends_all(self):
        self.save(mpi_test.Pooled())
        rows = [{"inputs": [1, 2, 3], "targets": 1.0} for _ in range(32)]
        rows[29]["inputs"] = [1, 99, 3]  # the second batch, the last share
        self.job(rows, shuffle=False, loss={"name": "mse"})
        p = self.run_job(2, "bad", OTHER)
        self.assertEqual(p.stderr.count("is not in [0, 20)"), 1, p.stderr[-3000:])
        self.assertIn("step 2", p.stderr)

    def test_a_loss_that_is_not_finite_names_the_tensor(self):
        self.save(Dense(1, tf.identity))
        rows = dense_rows(32, 1)
        for row in rows:
            row["targets"] = 1.0
        rows[30]["targets"] = 3e38
        self.job(rows, shuffle=False, loss={"name": "mse"})
        p = self.run_job(2, "bad", OTHER)
        self.assertEqual(p.stderr.count("loss is not finite at step 2: the first tensor that is not is"), 1, p.stderr[-3000:])

    def test_a_process_of_mpirun_takes_the_gpu_of_its_number(self):
        if mpi_test.MISSING or server.SANITIZED:
            self.skipTest(mpi_test.MISSING or "sanitizers do not bear what MPI loads")
        self.save(Dense(3, tf.nn.softmax))
        self.job(dense_rows(50, 1), epochs=2, loss={"name": "sparse_categorical_crossentropy"}, optimizer={"name": "adam", "learning_rate": 0.02})
        self.run_job(1, "one")
        p = self.run_job(2, "two", mpi=True)
        self.assertIn("2 " + BY_NCCL, p.stderr)
        self.same_result("two", "one")
        p = self.run_job(4, "four", mpi=True)  # of three GPUs
        self.assertIn("the sums of 4 processes go by the host: processes 0 and 3 share a GPU", p.stderr)
        self.same_result("four", "one")


class Refused(Jobs):
    def small(self):
        self.save(Dense(3, tf.nn.softmax))
        self.job(dense_rows(20, 1), epochs=1, loss={"name": "sparse_categorical_crossentropy"})

    def test_more_gpus_than_there_are(self):
        self.small()
        p = self.run_job(4, "bad", BAD_JOB)
        self.assertEqual(p.stderr.count("tensord.gpus: the job wants 4 GPUs, and this machine has fewer that can be used"), 1, p.stderr[-2000:])

    def test_on_the_cpu(self):
        self.small()
        self.devices = "cpu"
        p = self.run_job(2, "bad", BAD_JOB)
        self.assertEqual(p.stderr.count("tensord.gpus is 2, and the job is to run on the CPU (--devices)"), 1, p.stderr)


class Served(unittest.TestCase):
    """Jobs of a server."""

    def weights(self, version):
        reader = tf.train.load_checkpoint(os.path.join(version, "variables", "variables"))
        values = {k: reader.get_tensor(k) for k in reader.get_variable_to_shape_map() if not k.startswith("_CHECK")}
        return {k: v for k, v in values.items() if v.dtype.kind == "f"}

    def one_epoch(self, **tensord):
        job = fd.class_job(**tensord)
        job["method"]["supervised"]["hyperparameters"]["n_epochs"] = 1
        return job

    def made(self, d, rows, **tensord):
        answer = d.create(self.one_epoch(**tensord), rows)
        self.assertEqual(answer.status_code, 200, answer.text)
        job = d.wait(answer.json()["id"])
        self.assertEqual(job["status"], "succeeded", job)
        return os.path.join(d.base("classes"), job["fine_tuned_model"].split("/")[-1])

    def made_by_hand(self, d, rows):
        """On the CPU. A server's job waits for what others leave of the processors; this one does not."""
        folder = os.path.join(d.dir, "by_hand")
        os.mkdir(folder)
        with open(os.path.join(folder, "rows.jsonl"), "w") as f:
            f.write(rows)
        with open(os.path.join(folder, "job.json"), "w") as f:
            json.dump({**self.one_epoch(), "training_file": "rows.jsonl"}, f)
        p = subprocess.run([server.DAEMON, "train", os.path.join(folder, "job.json"), "--model=classes=" + d.base("classes"), "--threads=1",
                            "--output=" + os.path.join(folder, "out")], capture_output=True, text=True, timeout=300)
        self.assertEqual(p.returncode, DONE, p.stdout + p.stderr[-2000:])
        return os.path.join(folder, "out")

    def test_a_job_of_two_gpus_is_one_of_one(self):
        with host_gpu.environment(HOST_CUDA_DEVICES="2", **host_gpu.DRIVER):
            d = fd.Daemon("--job_devices=auto", "--job_gpus=2", "--device_module=" + host_gpu.MODULE, "--devices=cpu", names=["classes"])
        try:
            rows = fd.lines(fd.class_rows(90))
            one, two = self.made_by_hand(d, rows), self.made(d, rows, gpus=2)
            self.assertTrue(any("2 " + BY_NCCL in line for line in d.log), d.log[-30:])
            self.assertFalse(any("host_cuda: " in line for line in d.log), d.log[-30:])
            want, got = self.weights(one), self.weights(two)
            self.assertEqual(sorted(got), sorted(want))
            for k in want:
                np.testing.assert_allclose(got[k], want[k], 2e-3, 1e-5, err_msg=k)
            answer = d.create(fd.class_job(gpus=3), fd.lines(fd.class_rows(9)))
            self.assertEqual(answer.status_code, 400, answer.text)
            self.assertEqual(answer.json()["error"]["message"], "tensord.gpus is 3, a job of this server may have 2 (--job_gpus, --job_devices)")
        finally:
            d.stop()

    def test_one_that_is_killed_fails_the_job(self):
        with host_gpu.environment(HOST_CUDA_DEVICES="2", **host_gpu.DRIVER):
            d = fd.Daemon("--job_devices=gpu", "--job_gpus=2", "--device_module=" + host_gpu.MODULE, "--devices=cpu", names=["classes"])
        try:
            job = fd.class_job(gpus=2)
            job["method"]["supervised"]["hyperparameters"]["n_epochs"] = 4000
            made = d.create(job, fd.lines(fd.class_rows(90))).json()["id"]
            self.assertTrue(server.until(lambda: len(d.steps(made)) > 0, fd.WAIT_S))
            first, = d.children()
            with open(f"/proc/{first}/task/{first}/children") as f:
                second, = map(int, f.read().split())
            os.kill(second, signal.SIGKILL)
            ended = d.wait(made)
            self.assertEqual(ended["status"], "failed", ended)
            self.assertIn("process 1 of 2 of the job was ended by signal 9 (Killed)", ended["error"]["message"])
        finally:
            d.stop()


if __name__ == "__main__":
    unittest.main()
