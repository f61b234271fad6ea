"""Loads that bring a configuration or files of the model (KServe v2's model repository extension), driven by unmodified
tritonclient over HTTP and gRPC; and what is wrong with such requests.

    build/venv/bin/python tests/e2e/v2_load_test.py [-v] [TestCase.test]      $TENSORD: the daemon (default build/tensord)
"""
import base64
import json
import os
import threading
import time
import unittest

import tritonclient.grpc as tg
import tritonclient.http as th
from tritonclient.grpc import service_pb2
from tritonclient.utils import InferenceServerException

from v2_server import MODELS, Case, Daemon, setUpModule, value  # noqa: F401

LOAD = "/v2/repository/models/{}/load"


def files(model, version, at, inner=""):
    """The files of a test model, as load_model wants them, for version `at`."""
    root = os.path.join(MODELS, model, str(version))
    found = {}
    for folder, _, names in os.walk(root):
        for name in names:
            path = os.path.join(folder, name)
            with open(path, "rb") as f:
                found[f"file:{at}/{inner}{os.path.relpath(path, root)}"] = f.read()
    return found


class Load(Case):
    @classmethod
    def setUpClass(cls):
        cls.d = Daemon(versions=(1,))
        cls.wires = ((th, cls.d.rest), (tg, cls.d.grpc))
        cls.uploads = os.path.join(cls.d.dir, "state", "uploads")

    @classmethod
    def tearDownClass(cls):
        code = cls.d.proc.poll() or cls.d.stop()
        assert code == 0, f"exit {code}: {''.join(cls.d.log[-5:])}"

    def ask(self, model, x, version=""):
        return self.d.grpc.infer(model, [value(tg, "x", x)], model_version=version).as_numpy("y").tolist()

    def config(self, model="half"):
        return self.d.rest.get_model_config(model)

    def left(self, want):
        """How many uploads are on disk, once these are `want`: versions go after the call that replaced them has returned."""
        count = lambda: len(os.listdir(self.uploads)) if os.path.isdir(self.uploads) else 0
        for _ in range(250):
            if count() == want:
                break
            time.sleep(0.02)
        return count()

    def test_a_configuration_counts_until_the_next_load(self):
        text = json.dumps({"name": "half", "maxBatchSize": 3, "backend": "tensorflow", "default_model_filename": None,
                           "parameters": {"mine": {"string_value": "x"}}, "instance_group": [{"count": "2", "kind": "KIND_CPU"}],
                           "dynamic_batching": {"preferred_batch_size": [2, 3], "max_queue_delay_microseconds": "100",
                                                "priority_queue_policy": {"1": {"max_queue_size": 7, "timeout_action": "delay"}}}})
        for lib, c in self.wires:
            c.load_model("half", config=text)
            got = self.config()
            self.assertEqual((got["max_batch_size"], got["instance_group"][0]["count"], got["parameters"]), (3, 2, {"mine": {"string_value": "x"}}))
            self.assertEqual(got["dynamic_batching"]["priority_queue_policy"]["1"]["timeout_action"], "DELAY")
            with self.fails(400, "inference request batch-size must be <= 3 for 'half'"):
                c.infer("half", [value(lib, "x", [1] * 4)])
            c.load_model("half")
            self.assertEqual((self.config()["max_batch_size"], len(self.ask("half", [1] * 4))), (0, 4))
        self.assertEqual(self.left(0), 0)
        log = "".join(self.d.log)
        self.assertIn("Successfully loaded servable version {name: half version: 1}", log)
        self.assertNotIn("no such file", log)

    def test_a_wrong_configuration_leaves_what_serves(self):
        for _, c in self.wires:
            for config, status, words in (
                    ("{", 400, "Error parsing JSON inference.ModelConfig: JSON Parse error"),
                    ('{"max_batch_size": "many"}', 400, "field 'max_batch_size': a number is wanted"),
                    ('{"max_batch_size": 4000000000}', 400, "field 'max_batch_size': a whole number in range is wanted"),
                    ('{"instance_group": {}}', 400, "field 'instance_group': a list is wanted"),
                    ('{"instance_group": [{"kind": "KIND_TPU"}]}', 400, "'KIND_TPU' is no value of inference.ModelInstanceGroup.Kind"),
                    ('{"input": [{"dims": [[1]]}]}', 400, "field 'dims': a number is wanted"),
                    ('{"name": 1}', 400, "field 'name': a string is wanted"),
                    ("{} {}", 400, "text behind the object"),
                    ('{"platform": "onnxruntime_onnx"}', 503, "config: platform 'onnxruntime_onnx' is not served"),
                    ('{"max_batch_size": -1}', 503, "config: max_batch_size -1 must be 0 or more"),
                    ('{"max_batchsize": 4}', 503, 'Message type "inference.ModelConfig" has no field named "max_batchsize"'),
                    ('{"input": [{"name": "q"}]}', 503, "config: unexpected inference input 'q'")):
                with self.fails(status, "failed to load 'half'", words):
                    c.load_model("half", config=config)
                self.assertEqual((self.config()["max_batch_size"], self.ask("half", [1])), (0, [2.5]))
        self.assertTrue(self.d.rest.is_model_ready("half", "1"))

    def test_files_stand_for_the_models_folder(self):
        for lib, c in self.wires:
            c.load_model("half", config='{"version_policy": {"all": {}}}', files={**files("half", 2, 5), **files("half", 1, 7)})
            self.assertEqual([self.ask("half", [1], v) for v in ("5", "7", "")], [[3.5], [2.5], [2.5]])
            with self.fails(404, "'half' version 1 is not found"):
                c.infer("half", [value(lib, "x", [1])], model_version="1")
            self.assertEqual(self.left(1), 1)
            c.load_model("half", config="{}")
            self.assertEqual((self.ask("half", [1], "1"), self.left(0)), ([2.5], 0))
            with self.fails(404, "'half' version 5 is not found"):
                c.infer("half", [value(lib, "x", [1])], model_version="5")

    def test_a_new_model_comes_and_goes_with_its_files(self):
        for _, c in self.wires:
            c.load_model("fresh", config='{"backend": "tensorflow", "max_batch_size": 2}', files=files("half", 2, 1, "model.savedmodel/"))
            self.assertEqual((self.ask("fresh", [1]), self.config("fresh")["max_batch_size"]), ([3.5], 2))
            self.assertEqual(self.d.call("GET", "/v1/models/fresh")[0], 200)
            with self.fails(400, "its files must come with the command", code="FAILED_PRECONDITION"):
                c.load_model("fresh")
            self.assertEqual(self.ask("fresh", [1]), [3.5])
            c.unload_model("fresh")
            self.assertFalse(c.is_model_ready("fresh"))
            self.assertNotIn("READY", [m["state"] for m in self.d.rest.get_model_repository_index() if m["name"] == "fresh"])
            self.assertEqual(self.left(0), 0)
            with self.fails(404, "failed to load 'fresh'"):
                c.load_model("fresh")

    def test_wrong_files_change_nothing(self):
        good = files("half", 2, 2)
        for _, c in self.wires:
            with self.fails(400, "failed to load 'half'", "failed to poll from model repository", "'config' must be there too"):
                c.load_model("half", files=good)
            for path in ("../1/x", "1/../../x", "/etc/x", "1//x", "1/", "", ".", "1/./x", "a/" * 20 + "x", "1/" + "n" * 300):
                with self.fails(400, "failed to load 'half'", "the path must stay in the model's directory"):
                    c.load_model("half", config="{}", files={**good, "file:" + path: b"x"})
            for path in ("2/saved_model.pb/x",):
                with self.fails(400, "failed to load 'half'", "another one of the request has this path"):
                    c.load_model("half", config="{}", files={**good, "file:" + path: b"x"})
            with self.fails(400, "the files hold no version"):
                c.load_model("half", config="{}", files={"file:labels.txt": b"x"})
            with self.fails(503, "{name: half version: 3} due to error"):
                c.load_model("half", config="{}", files={"file:3/saved_model.pb": b"\xff\xff"})
            with self.fails(503, "{name: half version: 1} due to error"):
                c.load_model("half", config="{}", files={"file:1/saved_model.pb": b""})
            with self.fails(503, "{name: new version: 3} due to error"):
                c.load_model("new", config="{}", files={"file:3/saved_model.pb": b"\xff\xff"})
            for name in ("..", "a b") + (("a:b",) if c is self.d.grpc else ()):
                with self.fails(400, "cannot name a new model"):
                    c.load_model(name, config="{}", files=good)
            self.assertEqual((self.ask("half", [1]), self.left(0), self.d.rest.is_model_ready("new")), ([2.5], 0, False))

    def test_what_serves_goes_on_while_files_of_its_number_fail(self):
        over, bad = threading.Event(), []

        def ask():
            own = tg.InferenceServerClient(f"127.0.0.1:{self.d.port}")
            while not over.is_set():
                try:
                    if own.infer("half", [value(tg, "x", [1])]).as_numpy("y").tolist() != [2.5]:
                        bad.append("another answer")
                except InferenceServerException as e:
                    bad.append(str(e))
            own.close()
        asking = threading.Thread(target=ask)
        asking.start()
        try:
            for _ in range(10):
                for wrong in (b"", b"\xff\xff"):
                    with self.fails(503, "{name: half version: 1} due to error"):
                        self.d.rest.load_model("half", config="{}", files={"file:1/saved_model.pb": wrong})
        finally:
            over.set()
            asking.join(60)
        self.assertEqual(bad, [])

    def test_wrong_requests(self):
        def post(text, status, *words, model="half"):
            got, _, body = self.d.call("POST", LOAD.format(model), text)
            self.assertEqual(got, status, body)
            for w in words:
                self.assertIn(w, json.loads(body)["error"])
        file = base64.b64encode(b"x").decode()
        post({"parameters": {"config": "{}", "file:1/x": "=not base64="}}, 400, "failed to load 'half'", "file '1/x': failed to decode base64")
        post({"parameters": {"config": {}}}, 400, "attempt to access JSON non-string as string")
        post({"parameters": {"config": "{}", "file:1/x": 7}}, 400, "attempt to access JSON non-string as string")
        post({"parameters": {"other": "x"}}, 500, "unrecognized load parameter 'other'")
        post({"parameters": []}, 400, "'parameters' must be an object")
        post(b'{"parameters": {"config": "{}", "config": "{}"}}', 400, "'config' is there twice")
        post(b'{"parameters": {"config": "{}", "file:1/x": "eA==", "file:1/x": "eA=="}}', 400, "another one of the request has this path")
        post(b'{"parameters": {"config": "{}", "file:1/a\\u0000b": "eA=="}}', 400, "holds a NUL byte")
        post(b'{"parameters": {"config": "{}"', 400, "JSON Parse error")
        # files may come before the configuration, and '/' may be escaped
        post('{"parameters": {"file:1\\/x": "%s", "config": "{}"}}'.encode().replace(b"%s", file.encode()), 503, "due to error")
        post({"parameters": {}}, 200)

        stub = self.d.grpc._client_stub
        def refused(code, words, **parameters):
            request = service_pb2.RepositoryModelLoadRequest(model_name="half")
            for key, (kind, v) in parameters.items():
                setattr(request.parameters[key.replace("__", ":")], kind, v)
            with self.assertRaises(Exception) as e:
                stub.RepositoryModelLoad(request)
            self.assertEqual(e.exception.code().name, code)
            self.assertIn(words, e.exception.details())
        refused("INVALID_ARGUMENT", "invalid value type for load parameter 'config', expected string_param", config=("bytes_param", b"{}"))
        refused("INVALID_ARGUMENT", "invalid value type for load parameter 'file:1', expected bytes_param", config=("string_param", "{}"), file__1=("string_param", "x"))
        refused("INVALID_ARGUMENT", "expected string_param", config=("int64_param", 3))
        refused("INTERNAL", "unrecognized load parameter 'other'", other=("bool_param", True))
        unload = service_pb2.RepositoryModelUnloadRequest(model_name="half")
        unload.parameters["unload_dependents"].string_param = "true"
        with self.assertRaises(Exception) as e:
            stub.RepositoryModelUnload(unload)
        self.assertEqual(e.exception.code().name, "INVALID_ARGUMENT")
        self.assertIn("invalid value type for 'unload_dependents' parameter, expected bool_param.", e.exception.details())
        self.assertEqual(self.ask("half", [1]), [2.5])

    def test_requests_go_on_while_it_is_loaded_again(self):
        stop, wrong = threading.Event(), []
        def run():
            with tg.InferenceServerClient(f"127.0.0.1:{self.d.port}") as c:
                while not stop.is_set():
                    try:
                        y = c.infer("half", [value(tg, "x", [1])]).as_numpy("y").tolist()
                        if y not in ([2.5], [3.5]):
                            wrong.append(y)
                    except Exception as e:  # noqa: BLE001
                        wrong.append(e)
        t = threading.Thread(target=run)
        t.start()
        for i in range(10):
            self.d.grpc.load_model("half", config="{}", files=files("half", 1 + i % 2, 1))
            self.assertEqual(self.ask("half", [1]), [[2.5], [3.5]][i % 2])
        self.d.grpc.load_model("half")
        stop.set()
        t.join()
        self.assertEqual((wrong, self.ask("half", [1])), ([], [2.5]))

    def test_files_that_changed_are_loaded_again(self):
        here = os.path.join(self.d.base("half"), "1")

        def becomes(version):  # at once: who looks for versions never finds it gone
            os.symlink(os.path.join(MODELS, "half", version), here + ".new")
            os.replace(here + ".new", here)
        becomes("2")
        try:
            self.assertEqual(self.ask("half", [1]), [2.5])
            self.d.rest.load_model("half")
            self.assertEqual(self.ask("half", [1]), [3.5])
        finally:
            becomes("1")
            self.d.rest.load_model("half")
        self.assertEqual(self.ask("half", [1]), [2.5])


class Exit(unittest.TestCase):
    def test_uploads_go_with_the_process_or_the_next_one(self):
        d = Daemon(versions=(1,))
        uploads = os.path.join(d.dir, "state", "uploads")
        d.grpc.load_model("fresh", config="{}", files=files("half", 2, 1))
        self.assertEqual(len(os.listdir(uploads)), 1)
        os.makedirs(os.path.join(uploads, "dead", "1"))      # as of a process that died
        other = Daemon("--state_dir=" + os.path.join(d.dir, "state"), versions=(1,))
        self.assertEqual(len(os.listdir(uploads)), 1)        # the living one's stays
        self.assertEqual(d.grpc.infer("fresh", [value(tg, "x", [1])]).as_numpy("y").tolist(), [3.5])
        self.assertEqual(other.stop(), 0)
        d.grpc.close()
        d.rest.close()
        d.proc.terminate()
        self.assertEqual((d.proc.wait(20), os.listdir(uploads)), (0, []))
        d.stop()


if __name__ == "__main__":
    unittest.main()
