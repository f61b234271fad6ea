"""Fine-tuning jobs that cannot go well: each ends with a sentence that helps, leaves no version, and the model answers as before.

    build/venv/bin/python tests/e2e/finetune_errors_test.py [-v] [Files.test_...]
"""
import json
import os
import shutil
import struct
import time
import unittest
import zlib

import numpy as np

import finetune_daemon as fd
import server


def png():
    chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(b"\0\1\2\3")) + chunk(b"IEND", b"")


def rate(r, **job):
    return fd.class_job(optimizer={"name": "sgd", "learning_rate": r}, gradient_accumulation_steps=1, ema=None, **job)


class Case(unittest.TestCase):
    FLAGS = ()

    @classmethod
    def setUpClass(cls):
        cls.d = fd.Daemon("--file_system_poll_wait_seconds=1", *cls.FLAGS)
        cls.rows = fd.class_rows(64)
        cls.before = cls.d.predict("classes", cls.rows[:4], 1)

    @classmethod
    def tearDownClass(cls):
        code = cls.d.stop()
        assert code == 0, f"exit {code}: {''.join(cls.d.log[-30:])}"

    def unharmed(self, name="classes"):
        self.assertEqual([n for n in os.listdir(self.d.base(name)) if n.startswith(".")], [], "left in the base path")
        np.testing.assert_allclose(self.d.predict("classes", self.rows[:4], 1), self.before, rtol=1e-4, atol=1e-6)

    def fails(self, job, *words, code=None, seconds=fd.WAIT_S):
        """The job is refused, or fails, in these words; no version appears. Returns the error."""
        versions = self.d.versions(job["model"].split("/")[0])
        r = self.d.post("/v1/fine_tuning/jobs", job)
        if r.status_code == 200:
            i = r.json()["id"]
            end = self.d.wait(i, seconds=seconds)
            self.assertEqual(end["status"], "failed", end)
            error = end["error"]
            self.assertIsNone(end["fine_tuned_model"])
            last = self.d.events(i)[-1]
            self.assertEqual((last["level"], last["message"]), ("error", error["message"]))
        else:
            self.assertEqual(r.status_code, 400, r.text)
            error = r.json()["error"]
        if os.environ.get("TD_SHOW"):
            print(error["message"])
        for w in words:
            self.assertIn(w, error["message"])
        if code:
            self.assertEqual(error["code"], code)
        self.assertEqual(self.d.versions(job["model"].split("/")[0]), versions)
        self.unharmed()
        return error


class Files(Case):
    def job(self, data, name="train.jsonl", **more):
        return {**fd.class_job(**more), "training_file": self.d.upload(data, name)}

    def test_files_of_another_type(self):
        for data, name in ((png(), "train.jsonl"), (png(), "train.csv"), (png(), "train.tfrecord"), (b"x,y\n1,2\n", "train.jsonl"), (b"\0" * 5000, "train.jsonl"),
                           (b"\xff\xfe{\0}\0", "train.jsonl"), (fd.lines(self.rows).encode(), "train.tfrecord"), (b"PK\3\4" + bytes(300), "train.csv"),
                           (json.dumps(self.rows).encode(), "train.jsonl")):
            with self.subTest(name=name, data=data[:20]):
                e = self.fails(self.job(data, name), code="invalid_training_file")
                self.assertEqual(e["param"], "training_file")
                self.assertRegex(e["message"], r"(line|row|record) 1\b|header|column|TFRecord|tfrecord", e["message"])

    def test_a_row_too_long(self):
        row = json.dumps({"inputs": [0.5] * 3_000_000, "targets": 1})
        self.fails(self.job(fd.lines(self.rows) + row + "\n"), "65", code="invalid_training_file")

    def test_a_line_without_an_end(self):
        start = self.memory()
        self.fails(self.job(b'{"inputs":"' + b"a" * (96 << 20)), "1", code="invalid_training_file")
        self.assertLess(self.memory() - start, 400 << 20)

    def memory(self):
        """The most that the daemon ever held, in bytes."""
        return server.held(self.d.proc.pid)

    def test_a_label_out_of_range_in_row_10000(self):
        rows = [fd.class_rows(1)[0] for _ in range(4)] * 2510
        rows[9999] = {**rows[0], "targets": 4}
        self.fails(self.job(fd.lines(rows)), "row 10000", "4", code="invalid_training_file")
        rows[9999] = rows[0]
        validation = self.d.upload(fd.lines(rows[:20] + [{**rows[0], "targets": -1}]), "validation.jsonl")
        job = {**self.job(fd.lines(rows[:40])), "validation_file": validation}
        self.assertEqual(self.fails(job, "row 21", "-1", code="invalid_validation_file")["param"], "validation_file")


class Numbers(Case):
    def test_a_loss_that_is_not_finite_says_at_which_step_and_which_tensor(self):
        rows = fd.class_rows(64)
        rows[40]["inputs"] = [3e38 * (-1) ** i for i in range(32)]
        job = {**fd.class_job(), "training_file": self.d.upload(fd.lines(rows))}
        job["tensord"]["shuffle"] = False
        e = self.fails(job, "loss is not finite at step 3", code="training_error")
        self.assertIn("MatMul", e["message"], "the first tensor that is not finite is a matmul's")

    def test_a_loss_that_overflows(self):
        rows = [{"inputs": [1, 2, 3, 4, 5, 6], "targets": 1e30} for _ in range(8)]
        job = {"model": "ids", "training_file": self.d.upload(fd.lines(rows)), "tensord": {"loss": {"name": "mse"}}}
        e = self.fails(job, "loss is not finite at step 1", code="training_error")
        self.assertRegex(e["message"], r"mse|loss|Square|Mul")

    def test_a_learning_rate_of_1e9(self):
        job = {**rate(1e9), "training_file": self.d.upload(fd.lines(self.rows))}
        self.fails(job, "loss is not finite at step", code="training_error")

    def test_an_id_out_of_range(self):
        rows = [{"inputs": [1, 2, 3, 4, 5, 6], "targets": 1.0} for _ in range(40)]
        rows[35]["inputs"] = [1, 2, 50, 4, 5, 6]
        job = {"model": "ids", "training_file": self.d.upload(fd.lines(rows)), "tensord": {"loss": {"name": "mse"}, "shuffle": False}}
        self.fails(job, "50 is not in [0, 50)", "step 2", code="training_error")


class Memory(Case):
    FLAGS = (f"--job_memory={4 << 20}",)

    def test_a_job_that_needs_more_memory_than_it_may_have(self):
        job = {**fd.class_job(), "training_file": self.d.upload(fd.lines(self.rows))}
        job["method"]["supervised"]["hyperparameters"]["batch_size"] = 64
        self.fails(job, "no memory", "--job_memory", code="server_error")


class Meanwhile(Case):
    def long_job(self, **more):
        job = {**fd.class_job(**more), "training_file": self.d.upload(fd.lines(fd.class_rows(400)))}
        job["method"] = {"type": "supervised", "supervised": {"hyperparameters": {"n_epochs": 400, "batch_size": 8}}}
        return job

    def running(self, job):
        r = self.d.post("/v1/fine_tuning/jobs", job)
        self.assertEqual(r.status_code, 200, r.text)
        self.d.wait(r.json()["id"], until=("running",) + fd.ENDED)
        return r.json()["id"]

    def test_two_jobs_on_one_model_at_once(self):
        text = fd.lines(self.rows)
        first = len(self.d.versions("classes"))
        made = [self.d.create(fd.class_job(), text).json()["id"] for _ in range(3)]
        ends = [self.d.wait(i) for i in made]
        self.assertEqual([e["status"] for e in ends], ["succeeded"] * 3, ends)
        names = [e["fine_tuned_model"] for e in ends]
        self.assertEqual(names, [f"classes/versions/{first + 1 + k}" for k in range(3)], "in order of creation, each a version of its own")
        files = [self.variables(n) for n in names]
        self.assertEqual(files[0], files[1])
        self.assertEqual(files[0], files[2])
        self.unharmed()

    def variables(self, name):
        made = []
        for part in ("variables.index", "variables.data-00000-of-00001"):
            with open(os.path.join(self.d.base("classes"), name.rsplit("/", 1)[1], "variables", part), "rb") as f:
                made.append(f.read())
        return made

    def test_one_job_is_cancelled_beside_another(self):
        a, b = self.running(self.long_job()), self.d.create(fd.class_job(), fd.lines(self.rows)).json()["id"]
        self.assertEqual(self.d.post(f"/v1/fine_tuning/jobs/{a}/cancel").status_code, 200)
        self.assertEqual(self.d.wait(a)["status"], "cancelled")
        self.assertEqual(self.d.wait(b)["status"], "succeeded")
        self.unharmed()

    def test_a_model_that_is_unloaded_meanwhile(self):
        i = self.running({**self.long_job(), "model": "classes"})
        self.assertEqual(self.d.post("/v2/repository/models/classes/unload", {}).status_code, 200)
        self.state("classes", "END")
        j = self.d.job(i)
        self.assertIn(j["status"], ("running", "succeeded", "failed"), j)
        if j["status"] not in fd.ENDED:      # it may go on: its version was loaded for it alone
            time.sleep(.5)
            self.assertEqual(self.d.post(f"/v1/fine_tuning/jobs/{i}/cancel").status_code, 200)
            self.assertEqual(self.d.wait(i)["status"], "cancelled")
        self.assertEqual(self.d.post("/v1/fine_tuning/jobs", {**self.long_job(), "model": "classes"}).status_code, 400, "a job for what is not served")
        self.assertEqual(self.d.post("/v2/repository/models/classes/load", {}).status_code, 200)
        self.state("classes", "AVAILABLE")
        self.unharmed()

    def state(self, name, want):
        for _ in range(200):
            r = self.d.get(f"/v1/models/{name}").json()
            if all(v["state"] == want for v in r.get("model_version_status", [])):
                return
            time.sleep(.05)
        self.fail(f"{name} is not {want}: {r}")

    def test_a_base_path_that_is_gone_meanwhile(self):
        aside = self.d.base("ids") + ".aside"
        rows = [{"inputs": [1, 2, 3, 4, 5, 6], "targets": 1.0} for _ in range(200)]
        job = {"model": "ids/versions/1", "training_file": self.d.upload(fd.lines(rows)), "tensord": {"loss": {"name": "mse"}},
               "method": {"type": "supervised", "supervised": {"hyperparameters": {"n_epochs": 300, "batch_size": 8}}}}
        i = self.running(job)
        os.rename(self.d.base("ids"), aside)
        try:
            end = self.d.wait(i)
            self.assertEqual(end["status"], "failed", end)
            self.assertTrue(end["error"]["message"])
        finally:
            shutil.rmtree(self.d.base("ids"), True)
            os.rename(aside, self.d.base("ids"))
        self.assertEqual(self.d.versions("ids"), ["1"])


class Tokens(Case):
    """Who may train what."""
    FLAGS = ()

    @classmethod
    def setUpClass(cls):
        cls.d = fd.Daemon("--tokens_file={dir}/tokens", wait=False)
        with open(os.path.join(cls.d.dir, "tokens"), "w") as f:
            f.write("reader infer\ntrainer train,infer classes\nother train ids\n")
        cls.d.start()

    def ask(self, token, method, path, *a, **kw):
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return self.d.http(method, path, *a, headers=headers, **kw)

    def test_a_token_without_the_scope(self):
        job = {**fd.class_job(), "training_file": "file-none"}
        for method, path, body in (("POST", "/v1/fine_tuning/jobs", job), ("GET", "/v1/fine_tuning/jobs", None), ("GET", "/v1/files", None),
                                   ("POST", "/v1/fine_tuning/jobs/ftjob-aaaaaaaa/cancel", {}), ("GET", "/v1/fine_tuning/jobs/ftjob-aaaaaaaa/events", None),
                                   ("DELETE", "/v1/files/file-aaaaaaaa", None)):
            for token, status in (("reader", 403), (None, 401), ("nobody", 401)):
                with self.subTest(path=path, token=token):
                    r = self.ask(token, method, path, body)
                    self.assertEqual(r.status_code, status, r.text)
                    self.assertEqual(set(r.json()["error"]), {"message", "type", "param", "code"})

    def test_a_token_for_another_model(self):
        made = self.ask("trainer", "POST", "/v1/files", files={"file": ("t.jsonl", fd.lines(fd.class_rows(40)))}, data={"purpose": "fine-tune"})
        self.assertEqual(made.status_code, 200, made.text)
        job = {**fd.class_job(), "training_file": made.json()["id"]}
        self.assertEqual(self.ask("other", "POST", "/v1/fine_tuning/jobs", job).status_code, 403)
        r = self.ask("trainer", "POST", "/v1/fine_tuning/jobs", job)
        self.assertEqual(r.status_code, 200, r.text)
        path = f"/v1/fine_tuning/jobs/{r.json()['id']}"
        self.assertIn(self.ask("other", "GET", path).status_code, (403, 404))
        self.assertIn(self.ask("other", "POST", path + "/cancel").status_code, (403, 404))
        for _ in range(600):
            status = self.ask("trainer", "GET", path).json()["status"]
            if status in fd.ENDED:
                break
            time.sleep(.05)
        self.assertEqual(status, "succeeded")


if __name__ == "__main__":
    unittest.main()
