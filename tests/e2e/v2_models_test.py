"""The models of KServe v2: repository control, its own ports, and the config.pbtxt beside a model; driven by unmodified tritonclient.

    build/venv/bin/python tests/e2e/v2_models_test.py [-v] [TestCase.test]      $TENSORD: the daemon (default build/tensord)
"""
import contextlib
import os
import re
import shutil
import tempfile
import time
import unittest

import numpy as np
import tritonclient.grpc as tg
import tritonclient.http as th
from tritonclient.grpc import service_pb2

import server

from v2_server import MODELS, Case, Daemon, setUpModule, value  # noqa: F401


class Repository(unittest.TestCase):
    fails = Case.fails

    def test_both_wires_load_and_unload(self):
        d = Daemon(versions=(1,))
        try:
            index = lambda: {(m.name, m.version): m.state for m in d.grpc.get_model_repository_index().models}
            self.assertEqual(index(), {("half", "1"): "READY", ("types", "1"): "READY"})
            d.add("half", 2)
            d.grpc.load_model("half")
            self.assertEqual(index()["half", "2"], "READY")
            d.grpc.unload_model("half")
            self.assertFalse(d.rest.is_model_ready("half"))
            self.assertIn(index()["half", "2"], ("UNLOADING", "UNAVAILABLE"))
            self.assertEqual([m["state"] for m in d.rest.get_model_repository_index()][2:], ["READY"])
            ready = d.grpc._client_stub.RepositoryIndex(service_pb2.RepositoryIndexRequest(ready=True))
            self.assertEqual([m.name for m in ready.models], ["types"])
            d.rest.load_model("half")
            self.assertEqual(d.grpc.infer("half", [value(tg, "x", [0])]).as_numpy("y").tolist(), [3.0])
            for c in (d.grpc, d.rest):
                with self.fails(404, "failed to load 'none'"):
                    c.load_model("none")
                with self.fails(404, "failed to unload 'none'"):
                    c.unload_model("none")
            with self.assertRaises(Exception) as e:
                d.grpc._client_stub.RepositoryIndex(service_pb2.RepositoryIndexRequest(repository_name="r"))
            self.assertEqual((e.exception.code().name, e.exception.details()), ("UNIMPLEMENTED", "'repository_name' specification is not supported"))
        finally:
            self.assertEqual(d.stop(), 0)


class Directory(unittest.TestCase):
    """Triton's command line: models are the folders of a repository."""
    fails = Case.fails

    def setUp(self):
        self.root = tempfile.mkdtemp(prefix="tensord-e2e.")
        self.addCleanup(shutil.rmtree, self.root, True)
        self.add("half", {"1": "half/1", "2": "half/2"})
        self.add("types", {"1": "types/1"})
        with open(os.path.join(self.root, "half", "config.pbtxt"), "w") as f:
            f.write("version_policy { all {} } max_batch_size: 3")
        os.mkdir(os.path.join(self.root, ".git"))
        with open(os.path.join(self.root, "README"), "w"):
            pass

    def add(self, name, versions):
        for version, model in versions.items():
            os.makedirs(os.path.join(self.root, name, version))
            os.symlink(os.path.join(MODELS, model), os.path.join(self.root, name, version, "model.savedmodel"))

    @contextlib.contextmanager
    def daemon(self, *flags):
        d = Daemon("--model_config_file=", "--model-repository", self.root, "--http-port=auto", "--grpc-port", "auto", "--allow-http=true",
                   "--strict-readiness=true", "--log-verbose", "0", *flags)
        try:
            yield d, lambda: {(m.name, m.version) for m in d.grpc.get_model_repository_index().models if m.state == "READY"}
        finally:
            self.assertEqual(d.stop(), 0)

    BOTH = {("half", "1"), ("half", "2"), ("types", "1")}

    def test_every_folder_is_a_model(self):
        with self.daemon() as (d, ready):
            self.assertEqual(ready(), self.BOTH)
            self.assertEqual(d.rest.get_model_config("half")["max_batch_size"], 3)
            self.assertEqual(d.rest.infer("half", [value(th, "x", [1])], model_version="1").as_numpy("y").tolist(), [2.5])
            with self.fails(404, "failed to load 'late'"):
                d.rest.load_model("late")
            self.add("late", {"4": "half/1"})
            d.rest.load_model("late")
            self.assertEqual(ready(), self.BOTH | {("late", "4")})
            for name in ("..", ".git", "README", "late/4"):
                with self.fails(404, "failed to load"):
                    d.grpc.load_model(name)

    def test_models_load_by_command(self):
        with self.daemon("--model-control-mode=explicit", "--load-model=half") as (d, ready):
            self.assertTrue(d.rest.is_server_ready())
            self.assertEqual(ready(), self.BOTH - {("types", "1")})
            self.assertFalse(d.grpc.is_model_ready("types"))
            d.grpc.load_model("types")
            d.rest.unload_model("half")
            self.assertEqual(ready(), {("types", "1")})
        with self.daemon("--model-control-mode=explicit") as (d, ready):
            self.assertEqual(ready(), set())
        with self.daemon("--model-control-mode=explicit", "--load-model=*") as (d, ready):
            self.assertEqual(ready(), self.BOTH)

    def test_folders_come_and_go(self):
        with self.daemon("--model-control-mode=poll", "--repository-poll-secs=1") as (d, ready):
            self.add("late", {"4": "half/1"})
            for change, want in ((lambda: None, self.BOTH | {("late", "4")}), (lambda: shutil.rmtree(os.path.join(self.root, "late")), self.BOTH)):
                change()
                for _ in range(400):
                    if ready() == want:
                        break
                    time.sleep(0.02)
                self.assertEqual(ready(), want)

    def test_wrong_directories_end_the_start(self):
        for flags, words in ((("--model-repository=/nowhere",), "--model_repository: model repository /nowhere: No such file or directory"),
                             (("--model-repository=" + self.root,) * 2, "Illegal to list model")):
            s = server.Server("--model_config_file=", *flags, wait=False)
            code, _, err = s.exits()
            self.assertEqual(code, 2)
            self.assertIn(words, err)


class Ports(unittest.TestCase):
    def test_kserves_own_ports_serve_the_same(self):
        d = Daemon("--kserve_rest_port=auto", "--kserve_grpc_port=auto")
        try:
            grpc, rest = (int(n) for n in re.search(r"kserve_grpc_port=(\d+) kserve_rest_port=(\d+)", "".join(d.log)).groups())
            self.assertEqual(len({grpc, rest, d.rest_port, d.port}), 4)
            for lib, port in ((th, rest), (tg, grpc)):
                with contextlib.closing(lib.InferenceServerClient(f"127.0.0.1:{port}")) as c:
                    self.assertEqual(c.infer("half", [value(lib, "x", [1])]).as_numpy("y").tolist(), [3.5])
            for c in (d.rest, d.grpc):
                self.assertTrue(c.is_server_live())
        finally:
            self.assertEqual(d.stop(), 0)


class Configured(unittest.TestCase):
    """A model with a config.pbtxt, changed and loaded again."""
    fails = Case.fails

    CONFIG = """
        name: "half" platform: "tensorflow_savedmodel" max_batch_size: 4   # rows
        input [ { name: "x" data_type: TYPE_FP32 dims: [] } ]
        output { name: "y" data_type: TYPE_FP32 label_filename: "labels.txt" }
        dynamic_batching { preferred_batch_size: [ 2, 4 ] max_queue_delay_microseconds: 100
                           priority_queue_policy { key: 1 value { max_queue_size: 7 timeout_action: DELAY } } }
        instance_group [ { count: 2 kind: KIND_CPU } ]
        parameters { key: "mine" value { string_value: "x" } }
        optimization { execution_accelerators { cpu_execution_accelerator { name: "openvino" } } }
        model_warmup { name: "w" batch_size: 2 count: 3 inputs { key: "x" value { data_type: TYPE_FP32 random_data: true } } }
    """

    @classmethod
    def setUpClass(cls):
        cls.d = Daemon(versions=(2,))
        cls.write("labels.txt", "low\nhigh\r\n")

    @classmethod
    def tearDownClass(cls):
        assert cls.d.stop() == 0

    @classmethod
    def write(cls, name, text, mode="w"):
        path = os.path.join(cls.d.base("half"), name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, mode) as f:
            f.write(text)

    def reload(self, config):
        self.write("config.pbtxt", config)
        self.d.grpc.unload_model("half")
        self.d.grpc.load_model("half")

    def test_it_is_honoured_and_answered(self):
        self.reload(self.CONFIG)
        http, grpc = self.d.rest.get_model_config("half"), self.d.grpc.get_model_config("half").config
        self.assertEqual((http["max_batch_size"], grpc.max_batch_size), (4, 4))
        self.assertEqual((http["dynamic_batching"]["preferred_batch_size"], list(grpc.dynamic_batching.preferred_batch_size)), ([2, 4], [2, 4]))
        self.assertEqual(http["dynamic_batching"]["priority_queue_policy"]["1"]["timeout_action"], "DELAY")
        self.assertEqual((http["parameters"], http["instance_group"][0]["count"]), ({"mine": {"string_value": "x"}}, 2))
        self.assertEqual((http["version_policy"], grpc.version_policy.WhichOneof("policy_choice")), ({"all": {}}, "all"))   # the server's own
        self.assertEqual(http["optimization"]["execution_accelerators"]["cpu_execution_accelerator"][0]["name"], "openvino")
        self.assertEqual(grpc.optimization.execution_accelerators.cpu_execution_accelerator[0].name, "openvino")
        self.assertEqual((grpc.backend, grpc.input[0].name, grpc.output[0].label_filename), ("tensorflow", "x", "labels.txt"))
        # what it lists are the tensors of the default signature; one without rows has no batches
        two, slow = self.d.rest.get_model_config("half:two"), self.d.rest.get_model_config("half:slow")
        self.assertEqual(([t["name"] for t in two["input"]], [t["name"] for t in two["output"]]), (["a", "b"], ["kept", "sum", "text"]))
        self.assertEqual((two["max_batch_size"], two["input"][0]["dims"], two["parameters"]), (4, [], http["parameters"]))
        self.assertEqual((slow["max_batch_size"], slow["input"][0]["name"], "dynamic_batching" in slow), (0, "n", False))
        for lib, c in ((th, self.d.rest), (tg, self.d.grpc)):
            self.assertEqual(c.infer("half", [value(lib, "x", [1] * 4)]).as_numpy("y").shape, (4,))
            with self.fails(400, "inference request batch-size must be <= 4 for 'half'"):
                c.infer("half", [value(lib, "x", [1] * 5)])
            with self.fails(400, "unexpected shape for input 'x' for model 'half'. Expected [-1], got [2,1]. NOTE: Setting a non-zero max_batch_size"):
                c.infer("half", [value(lib, "x", [[1], [2]])])
            with self.fails(400, "missing required input(s) ['x']"):
                c.infer("half", [value(lib, "z", [1])])
            r = c.infer("half", [value(lib, "x", [1, 5, 3])], outputs=[lib.InferRequestedOutput("y", class_count=3)])
            self.assertEqual(r.as_numpy("y").tolist(), [b"5.500000:1:high", b"4.500000:2", b"3.500000:0:low"])

    def test_warm_up_reads_files(self):
        self.write("warmup/x", np.float32([1, 2]).tobytes(), "wb")
        self.reload(self.CONFIG.replace("random_data: true", 'input_data_file: "x"'))
        with self.fails(503, "config.pbtxt: model_warmup 'w'", "input byte size mismatch for input 'x'"):
            self.reload(self.CONFIG.replace("random_data: true", 'input_data_file: "x"').replace("batch_size: 2 count", "batch_size: 3 count"))
        with self.fails(503, "must lie below warmup/"):
            self.reload(self.CONFIG.replace("random_data: true", 'input_data_file: "../x"'))

    def test_wrong_ones_fail_the_load(self):
        change = lambda a, b: self.CONFIG.replace(a, b)
        for config, words in (
                ("max_batch_size: many", "Error parsing text-format inference.ModelConfig"),
                (change('"tensorflow_savedmodel"', '"onnxruntime_onnx"'), "platform 'onnxruntime_onnx' is not served"),
                (change('name: "x" data_type', 'name: "q" data_type'), "unexpected inference input 'q'"),
                (change('"x" data_type: TYPE_FP32', '"x" data_type: TYPE_INT8'), "input 'x' has type"),
                (change("dims: []", "dims: [ 3 ]"), "input 'x' has shape"),
                (change("max_batch_size: 4 ", "max_batch_size: -1 "), "max_batch_size -1 must be 0 or more"),
                (change("[ 2, 4 ]", "[ 2, 5 ]"), "preferred size 5 must be in 1 .. max_batch_size (4)"),
                (change("labels.txt", "none.txt"), "none.txt"),
                (change("max_batch_size: 4", "max_batchsize: 4 max_batch_size: 4"), 'has no field named "max_batchsize"'),
                (change("preferred_batch_size:", "preferred_size: 1 preferred_batch_size:"), '"inference.ModelDynamicBatching" has no field named "preferred_size"'),
                (self.CONFIG + "sequence_batching { direct {} }", "sequence_batching"),
                (self.CONFIG + "batch_input { kind: BATCH_ELEMENT_COUNT }", "batch_input"),
                (self.CONFIG + "ensemble_scheduling {}", "ensemble_scheduling"),
                (self.CONFIG + "model_transaction_policy { decoupled: true }", "decoupled")):
            with self.fails(503, "failed to load 'half'", "config.pbtxt", words):
                self.reload(config)
        self.reload(self.CONFIG)

    def test_its_version_policy_counts(self):
        root = tempfile.mkdtemp(prefix="tensord-e2e.")
        for v in (1, 2):
            os.symlink(os.path.join(MODELS, "half", str(v)), os.path.join(root, str(v)))
        served = lambda: [m["version"] for m in self.d.rest.get_model_repository_index() if m["name"] == "half" and m["state"] == "READY"]
        d = self.d
        self.__class__.d = Daemon("--model_name=half", f"--model_base_path={root}", "--model_config_file=")
        try:
            self.assertEqual(served(), ["2"])
            for policy, versions in (("all {}", ["2", "1"]), ("specific { versions: 1 }", ["1"]), ("latest { num_versions: 1 }", ["2"])):
                with open(os.path.join(root, "config.pbtxt"), "w") as f:
                    f.write("version_policy { " + policy + " }")
                self.d.rest.load_model("half")
                self.assertEqual(next(iter(self.d.rest.get_model_config("half")["version_policy"])), policy.split()[0])
                for _ in range(200):   # the old ones go after the new ones are there
                    if served() == versions:
                        break
                    time.sleep(0.02)
                self.assertEqual(served(), versions)
        finally:
            code, self.__class__.d = self.d.stop(), d
            shutil.rmtree(root)
        self.assertEqual(code, 0)


if __name__ == "__main__":
    unittest.main()
