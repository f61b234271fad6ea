"""Versions and their folders: taken when complete, never without their weights, withdrawn when damaged, healed when restored.

    build/venv/bin/python tests/e2e/versions_test.py [-v] [Folders.test_...]
"""
import os
import shutil
import time
import unittest

import server
from server import MODELS, Case, Server, config, serving

HALF = os.path.join(MODELS, "half")
DATA, INDEX = "variables/variables.data-00000-of-00001", "variables/variables.index"


def state(d, model, version):
    r = d.get(f"/v1/models/{model}")
    rows = {v["version"]: v for v in r.json().get("model_version_status", [])}
    return rows.get(str(version), {"state": "NONE", "status": {"error_code": "", "error_message": ""}})


def until(what, seconds=15):
    end = time.time() + seconds
    while time.time() < end:
        if what():
            return True
        time.sleep(0.02)
    return False


class Folders(Case):
    """One model, "m", in a folder that each test fills."""

    @classmethod
    def setUpClass(cls):
        server.models()

    @classmethod
    def tearDownClass(cls):
        pass

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
        self.assertLess(time.time() - written, 5)
        self.assertNotEqual(self.value(), before)

    def test_also_at_the_start(self):
        d = self.serve(first=False)
        self.copy(1, "saved_model.pb", INDEX)
        shutil.copytree(f"{HALF}/2", f"{d.dir}/m/2")
        os.truncate(f"{d.dir}/m/2/{DATA}", os.path.getsize(f"{HALF}/2/{DATA}") - 1)
        started = time.time()
        d.start()                                  # "ready" is said, and says that nothing is served
        self.assertLess(time.time() - started, 10)
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


if __name__ == "__main__":
    unittest.main()
