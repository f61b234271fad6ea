"""What a model may touch: links in its folder, as Kubernetes makes them and as an attacker would; FIFOs in place of files.

    build/venv/bin/python tests/e2e/confine_test.py [-v] [Confine.test_...]
"""
import errno
import glob
import os
import shutil
import signal
import tempfile
import time
import unittest

import numpy as np

from messages import tf  # noqa: E402
import finetune_daemon
from server import DAEMON, SANITIZED, Alone, Server, config


SECRET = "a-secret-of-this-host"
RULE = "must stay inside its version's folder"


def make(where):
    words = os.path.join(where, "words.txt")
    with open(words, "w") as f:
        f.write("zero\none\ntwo\n")

    class Reader(tf.Module):
        """read(path string[]) -> the file's text; look(word string[?]) -> its line in words.txt; serving_default(x) -> x * w."""

        def __init__(self, words):
            super().__init__()
            self.w = tf.Variable(np.full([1000], 2.0, np.float32))
            self.table = tf.lookup.StaticHashTable(
                tf.lookup.TextFileInitializer(words, tf.string, tf.lookup.TextFileIndex.WHOLE_LINE, tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER), -1)

        @tf.function(input_signature=[tf.TensorSpec([], tf.string, name="path")])
        def read(self, path):
            return {"text": tf.io.read_file(path)}

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="word")])
        def look(self, word):
            return {"at": self.table.lookup(word)}

        @tf.function(input_signature=[tf.TensorSpec([], tf.string, name="path"), tf.TensorSpec([], tf.int32, name="n")])
        def write(self, path, n):
            saved = tf.raw_ops.SaveV2(prefix=path, tensor_names=["t"], shape_and_slices=[""], tensors=[tf.fill([n], 1.0)])
            with tf.control_dependencies([saved]):
                return {"path": tf.identity(path)}

        @tf.function(input_signature=[tf.TensorSpec([], tf.string, name="text"), tf.TensorSpec([], tf.string, name="to")])
        def double(self, text, to):
            for _ in range(2):
                text = tf.strings.regex_replace(text, "a", to)
            return {"bytes": tf.strings.length(text)}

        @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, name="x")])
        def call(self, x):
            return {"y": x * self.w[0]}

    m = Reader(words)
    tf.saved_model.save(m, f"{where}/plain", signatures={"serving_default": m.call, "read": m.read, "look": m.look, "write": m.write, "double": m.double})
    with open(f"{where}/secret", "w") as f:
        f.write(SECRET + "\n")


class Confine(Alone):
    make = staticmethod(make)

    def model(self, name, changed="", to=None):
        """A copy of the model as version 1 of a new model; the file `changed` is a link to `to`, its own bytes elsewhere by default."""
        base = f"{self.where}/{name}"
        shutil.copytree(f"{self.where}/plain", f"{base}/1")
        if changed:
            os.makedirs(os.path.dirname(f"{base}/1/{changed}"), exist_ok=True)
            if os.path.exists(f"{base}/1/{changed}"):
                shutil.move(f"{base}/1/{changed}", f"{base}.bytes")
            os.symlink(to or f"{base}.bytes", f"{base}/1/{changed}")
        return base

    def serve(self, *names, flags=()):
        d = Server(*flags, versions={}, wait=False, files={"models.config": config(*((n, f"{self.where}/{n}") for n in names))})
        d.start()
        self.addCleanup(d.stop)
        return d

    def state(self, d, name, seconds=30):
        """The state of version 1 and its error, once settled."""
        end = time.time() + seconds
        while True:
            r = d.get(f"/v1/models/{name}")
            v = r.json()["model_version_status"][0] if r.status_code == 200 else {"state": "", "status": {"error_message": r.text}}
            if v["state"] in ("AVAILABLE", "END") or time.time() > end:
                return v["state"], v["status"]["error_message"]
            time.sleep(0.1)

    def works(self, d, name, version_dir=None):
        self.assertEqual(d.post(f"/v1/models/{name}:predict", {"instances": [1.5]}).json(), {"predictions": [3.0]})
        r = d.post(f"/v1/models/{name}:predict", {"signature_name": "look", "inputs": {"word": ["two", "none"]}})
        self.assertEqual(r.json(), {"outputs": [2, -1]})
        if version_dir:
            r = self.read(d, name, f"{version_dir}/assets/words.txt")
            self.assertEqual(r.json(), {"outputs": "zero\none\ntwo\n"})

    def read(self, d, name, path):
        return d.post(f"/v1/models/{name}:predict", {"signature_name": "read", "inputs": {"path": path}})

    def test_a_link_out_of_the_version_is_refused_in_every_file(self):
        data = os.path.basename(glob.glob(f"{self.where}/plain/variables/*data*")[0])
        files = {"pb": "saved_model.pb", "index": "variables/variables.index", "data": f"variables/{data}", "asset": "assets/words.txt",
                 "warmup": "assets.extra/tf_serving_warmup_requests", "triton": "config.pbtxt"}
        for name, path in files.items():
            self.model(name, path, f"{self.where}/secret" if name in ("warmup", "triton") else None)
        self.model("environ", "assets/words.txt", "/proc/self/environ")
        self.model("chain", "assets/words.txt", "again")
        os.symlink("/etc/passwd", f"{self.where}/chain/1/assets/again")
        self.model("good")
        d = self.serve("good", *files, "environ", "chain")
        for name in (*files, "environ", "chain"):
            state, why = self.state(d, name)
            self.assertEqual(state, "END", (name, why))
            self.assertIn(RULE, why, name)
            self.assertIn(files.get(name, "words.txt"), why)
            self.assertNotIn(SECRET, why)
        self.works(d, "good")

    def test_read_file_stays_in_the_version(self):
        base = self.model("reads")
        for name, to in {"environ": "/proc/self/environ", "up": "../../secret", "near": "assets/words.txt", "top": "/"}.items():
            os.symlink(to, f"{base}/1/{name}")
        os.mkfifo(f"{base}/1/fifo")
        d = self.serve("reads")
        self.works(d, "reads", f"{base}/1")
        self.assertEqual(self.read(d, "reads", f"{base}/1/near").json(), {"outputs": "zero\none\ntwo\n"})
        for path in (f"{base}/1/environ", f"{base}/1/up", f"{base}/1/top/etc/passwd", f"{base}/1/fifo", f"{base}/1/../../secret", "/etc/passwd",
                     f"{self.where}/secret", "/proc/self/environ"):
            r = self.read(d, "reads", path)
            self.assertIn(r.status_code, (400, 403, 404), (path, r.text))
            self.assertNotIn(SECRET, r.text)
            self.assertNotIn("root:", r.text)
        self.assertIn(RULE, self.read(d, "reads", f"{base}/1/up").text)

    def test_a_fifo_ends_a_load(self):
        base = self.model("fifo_pb")
        os.remove(f"{base}/1/saved_model.pb")
        os.mkfifo(f"{base}/1/saved_model.pb")
        index = f"{self.model('fifo_index')}/1/variables/variables.index"
        os.remove(index)
        os.mkfifo(index)
        d = self.serve("fifo_pb", "fifo_index")
        for name in ("fifo_pb", "fifo_index"):
            state, why = self.state(d, name)
            self.assertEqual(state, "END", why)
            self.assertIn("not a regular file", why)

    def test_layouts_of_kubernetes_and_linked_versions(self):
        w = self.where

        def publish(mount, entries):
            """entries of the plain model as a projected volume: links into ..data, which is a link to a folder with a date."""
            for name, source in entries.items():
                (shutil.copytree if os.path.isdir(source) else shutil.copy)(source, f"{mount}/..2026_11_22/{name}")
            os.symlink("..2026_11_22", f"{mount}/..data")
            for name in entries:
                os.symlink(f"..data/{name}", f"{mount}/{name}")

        plain = {n: f"{w}/plain/{n}" for n in os.listdir(f"{w}/plain")}
        os.makedirs(f"{w}/k8s_version/1/..2026_11_22")
        publish(f"{w}/k8s_version/1", plain)
        os.makedirs(f"{w}/k8s_model/..2026_11_22")
        publish(f"{w}/k8s_model", {"1": f"{w}/plain"})
        os.makedirs(f"{w}/k8s_beside/..2026_11_22")
        publish(f"{w}/k8s_beside", {"shared": f"{w}/plain"})
        os.mkdir(f"{w}/k8s_beside/1")
        for name in plain:
            os.symlink(f"../..data/shared/{name}", f"{w}/k8s_beside/1/{name}")
        os.makedirs(f"{w}/linked")
        shutil.copytree(f"{w}/plain", f"{w}/store/digest")
        os.symlink(f"{w}/store/digest", f"{w}/linked/1")
        names = ("k8s_version", "k8s_model", "k8s_beside", "linked")
        d = self.serve(*names)
        for name in names:
            self.assertEqual(self.state(d, name), ("AVAILABLE", ""), name)
            self.works(d, name, f"{w}/{name}/1")

    def save(self, d, name, path, mib):
        return d.post(f"/v1/models/{name}:predict", {"signature_name": "write", "inputs": {"path": path, "n": mib << 18}})

    def written(self, d):
        return sum(os.path.getsize(os.path.join(at, f)) for at, _, files in os.walk(f"{d.dir}/state/scratch") for f in files)

    def test_save_signatures_have_a_quota(self):
        self.model("saves")
        d = self.serve("saves", flags=("--scratch_quota=8388608",))
        for i in range(20):  # the same files again and again take no more
            self.assertEqual(self.save(d, "saves", "same", 3).status_code, 200)
        refused = [self.save(d, "saves", f"file{i}", 1) for i in range(12)]
        self.assertEqual(refused[-1].status_code, 429, refused[-1].text)
        self.assertIn("--scratch_quota", refused[-1].text)
        self.assertIn("8388608", refused[-1].text)
        self.assertLessEqual(self.written(d), 8 << 20)
        small = [self.save(d, "saves", f"small{i}/a/b/c", 0) for i in range(1100)]
        self.assertEqual(small[-1].status_code, 429)  # files count, not bytes alone
        self.works(d, "saves")

    def test_the_state_directory_has_a_quota(self):
        for name in ("one", "other"):
            self.model(name)
        d = self.serve("one", "other", flags=("--state_quota=16777216",))
        self.assertEqual(self.save(d, "one", "a", 10).status_code, 200)
        r = self.save(d, "other", "a", 10)
        self.assertEqual(r.status_code, 429)
        self.assertIn("--state_quota", r.text)
        r = d.session.post(f"http://127.0.0.1:{d.rest_port}/v1/files", data={"purpose": "fine-tune"}, files={"file": ("x.csv", b"a,b\n1,2\n" * 1000000)})
        self.assertEqual(r.status_code, 413, r.text)  # as past --upload_quota: no client is to try again
        self.assertIn("--state_quota", r.text)
        shutil.rmtree(f"{d.dir}/state/scratch/one")  # what the operator removes may be used again
        time.sleep(1.1)
        self.assertEqual(self.save(d, "other", "a", 10).status_code, 200)

    def test_a_file_size_limit_ends_nothing(self):
        self.model("limited")
        d = Server(versions={}, wait=False, files={"models.config": config(("limited", f"{self.where}/limited"))})
        d.args = ["bash", "-c", 'ulimit -f 2048; exec "$@"', "-", *d.args]  # 2 MiB
        d.start()
        self.addCleanup(d.stop)
        self.assertEqual(self.save(d, "limited", "small", 1).status_code, 200)
        r = self.save(d, "limited", "large", 4)
        self.assertEqual(r.status_code, 429, r.text)
        self.assertIn("File too large", r.text)
        r = d.session.post(f"http://127.0.0.1:{d.rest_port}/v1/files", data={"purpose": "fine-tune"}, files={"file": ("x.csv", b"a,b\n1,2\n" * 1000000)})
        self.assertGreaterEqual(r.status_code, 400, r.text)
        self.works(d, "limited")
        self.assertEqual(self.save(d, "limited", "small", 1).status_code, 200)

    def test_rewriting_stops_at_the_longest_string(self):
        self.model("strings")
        d = self.serve("strings")
        ask = lambda to: d.post("/v1/models/strings:predict", {"signature_name": "double", "inputs": {"text": "a" * 1000, "to": to}})
        self.assertEqual(ask("ab" * 2).json(), {"outputs": 1000 * (2 * 4 + 2)})
        start = time.time()
        r = ask("a" * 2000)  # to 4 GB
        self.assertEqual(r.status_code, 429, r.text)
        self.assertIn("1073741824", r.text)
        self.assertLess(time.time() - start, 20)
        self.works(d, "strings")

    @unittest.skipIf(SANITIZED, "a sanitizer's end is not possible in a sandbox")
    def test_nothing_leaves_the_sandbox(self):
        base = self.model("boxed")
        library = os.path.join(os.path.dirname(DAEMON), "tests", "op_library", "escape_ops.so")
        os.environ["ESCAPE_TO"] = f"{self.where}/escaped"
        found = {}
        for flags in ((), ("--sandbox",), ("--sandbox", "--max_jobs=0")):
            code, _, text = Server(f"--op_library={library}", *flags, versions={}, wait=False, files={"models.config": config(("boxed", base))}).exits()
            self.assertEqual(code, 2, text)
            line = next(row for row in text.splitlines() if row.startswith("escape: "))
            found[flags] = {k: int(v) for k, v in (pair.split("=") for pair in line.split()[1:])}
        free, boxed, alone = found.values()
        self.assertEqual((free["write"], free["read"], free["exec"], free["connect"], free["datagram"]), (0, 0, 0, errno.ECONNREFUSED, 0))
        for tried in (boxed, alone):
            self.assertEqual((tried["write"], tried["read"]), (errno.EACCES, errno.EACCES))
            self.assertIn(tried["exec"], (errno.EACCES, errno.EPERM))
            self.assertIn(tried["connect"], (errno.EACCES, errno.EPERM))
            self.assertEqual((tried["datagram"], tried["ptrace"], tried["mount"]), (errno.EPERM,) * 3)
        self.assertEqual(alone["exec"], errno.EPERM)

    def test_a_sandboxed_server_serves_and_reloads(self):
        base = self.model("served")
        outside = tempfile.mkdtemp(prefix="tensord-outside.")
        self.addCleanup(shutil.rmtree, outside, True)
        d = self.serve("served", flags=("--sandbox", "--file_system_poll_wait_seconds=1"))
        self.works(d, "served", f"{base}/1")
        self.assertEqual(self.save(d, "served", "mine", 1).status_code, 200)
        shutil.copytree(f"{self.where}/plain", f"{base}/2")
        end = time.time() + 20
        while d.get("/v1/models/served/versions/2").json().get("model_version_status", [{}])[0].get("state") != "AVAILABLE" and time.time() < end:
            time.sleep(0.2)
        self.works(d, "served", f"{base}/2")
        shutil.copytree(f"{self.where}/plain", f"{outside}/1")
        with open(f"{d.dir}/models.config", "w") as f:
            f.write(config(("served", base), ("far", outside)))
        d.proc.send_signal(signal.SIGHUP)
        d.wait_log("outside of what --sandbox lets this server read")
        later = self.model("later")  # beside the other: known by the folder that holds both
        with open(f"{d.dir}/models.config", "w") as f:
            f.write(config(("served", base), ("later", later)))
        d.proc.send_signal(signal.SIGHUP)
        end = time.time() + 20
        while self.state(d, "later", 0)[0] != "AVAILABLE" and time.time() < end:
            time.sleep(0.2)
        self.works(d, "later")

    def test_a_sandboxed_server_trains(self):
        d = finetune_daemon.Daemon("--sandbox")
        self.addCleanup(d.stop)
        url = f"http://127.0.0.1:{d.rest_port}/v1"
        rows = finetune_daemon.lines(finetune_daemon.class_rows(64))
        file = d.session.post(f"{url}/files", data={"purpose": "fine-tune"}, files={"file": ("x.jsonl", rows)}).json()["id"]
        job = d.session.post(f"{url}/fine_tuning/jobs", json={**finetune_daemon.class_job(), "training_file": file}).json()
        end = time.time() + 60
        while job.get("status") not in finetune_daemon.ENDED and time.time() < end:
            time.sleep(0.2)
            job = d.session.get(f"{url}/fine_tuning/jobs/{job['id']}").json()
        self.assertEqual(job["status"], "succeeded", job)
        self.assertTrue(os.path.exists(f"{d.base('classes')}/2/saved_model.pb"))


if __name__ == "__main__":
    unittest.main()
