"""KServe v2 over REST, driven by unmodified tritonclient.http and, where a client cannot go wrong by itself, by hand.

    build/venv/bin/python tests/e2e/v2_rest_test.py [-v] [TestCase.test]      $TENSORD: the daemon (default build/tensord)

Needs `pip install tensorflow-cpu tritonclient[http]`. The models are made once, under build/e2e.
"""
import json
import sys
import threading
import unittest

import numpy as np
import tritonclient.http as triton
from tritonclient.utils import InferenceServerException

import v2_server
from v2_server import TYPES, Daemon, fp32, setUpModule, tensor  # noqa: F401

LENGTH = "Inference-Header-Content-Length"


class Case(v2_server.Case):
    FLAGS = ("--max_request_bytes=33554432",)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.c = cls.d.rest

    def refused(self, body, status, *words, path="/v2/models/half/infer", headers=None, method="POST"):
        got, _, data = self.d.call(method, path, body, headers)
        text = json.loads(data)["error"]
        self.assertEqual(got, status, text)
        for w in words:
            self.assertIn(w, text)


class Server(Case):
    def test_health_and_metadata(self):
        self.assertTrue(self.c.is_server_live())
        self.assertTrue(self.c.is_server_ready())
        meta = self.c.get_server_metadata()
        self.assertEqual(meta["name"], "tensord")
        self.assertIn("binary_tensor_data", meta["extensions"])

    def test_models(self):
        self.assertTrue(self.c.is_model_ready("half"))
        self.assertTrue(self.c.is_model_ready("half", "1"))
        self.assertFalse(self.c.is_model_ready("half", "9"))
        self.assertFalse(self.c.is_model_ready("none"))
        meta = self.c.get_model_metadata("half")
        self.assertEqual(meta["versions"], ["1", "2"])
        self.assertEqual(meta["platform"], "tensorflow_savedmodel")
        self.assertEqual(meta["inputs"], [{"name": "x", "datatype": "FP32", "shape": [-1]}])
        self.assertEqual(meta["outputs"], [{"name": "y", "datatype": "FP32", "shape": [-1]}])
        two = self.c.get_model_metadata("half:two", "1")
        self.assertEqual([(t["name"], t["datatype"]) for t in two["inputs"]], [("a", "FP32"), ("b", "INT64")])
        types = {t["name"]: t["datatype"] for t in self.c.get_model_metadata("types")["inputs"]}
        self.assertEqual(types, {name: v2 for name, v2, _ in TYPES})
        config = self.c.get_model_config("half")
        self.assertEqual((config["name"], config["max_batch_size"], config["input"][0]["data_type"]), ("half", 0, "TYPE_FP32"))
        with self.fails(404, "Request for unknown model: 'none' is not found"):
            self.c.get_model_metadata("none")
        with self.fails(400, "none"):
            self.c.get_model_metadata("half:none")

    def test_statistics(self):
        count = lambda: self.c.get_inference_statistics("half", "2")["model_stats"][0]
        before = count()
        self.c.infer("half", [fp32("x", [1])])
        after = count()
        self.assertEqual(after["inference_count"], before["inference_count"] + 1)
        self.assertGreater(after["inference_stats"]["compute_infer"]["ns"], before["inference_stats"]["compute_infer"]["ns"])
        self.assertEqual({s["name"] for s in self.c.get_inference_statistics()["model_stats"]}, {"half", "types"})

    def test_paths_and_methods(self):
        for method, path, status in (("GET", "/v2/nothing", 404), ("GET", "/v2/models/half/versions/x", 404), ("DELETE", "/v2", 405),
                                     ("GET", "/v2/models/half/infer", 405), ("POST", "/v2/models/half", 405),
                                     ("GET", "/v2/models/half/versions/99999999999999999999", 400), ("GET", "/v2/models/half/versions/0", 404)):
            got, _, data = self.d.call(method, path)
            self.assertEqual(got, status, path)
            self.assertIn("error", json.loads(data))
        for method, path, allow in (("GET", "/v2/models/half/infer", "POST"), ("POST", "/v2/models/half", "GET, HEAD"), ("PUT", "/v2/logging", "GET, HEAD, POST"),
                                    ("POST", "/healthz", "GET, HEAD")):
            got, headers, data = self.d.call(method, path)
            self.assertEqual((got, headers["Allow"], json.loads(data)["error"]), (405, allow, f"Method Not Allowed: {method} {path}, want {allow}"))

    def test_a_target_with_its_host_in_front(self):
        for host in ("http://some.host:80", "HTTPS://other"):
            self.assertEqual(self.d.call("GET", host + "/v2/health/live")[0], 200)
        for path in ("http://some.host", "http://some.host?/v2", "ftp://some.host/v2"):
            self.assertEqual(self.d.call("GET", path)[0], 404)

    def test_load_balancers_ask_for_the_head_only(self):
        for path in ("/healthz", "/readyz", "/metrics", "/v2/health/ready", "/v2/models/half/ready"):
            got, headers, data = self.d.call("HEAD", path)
            self.assertEqual((got, data), (200, b""), path)
            self.assertGreater(int(headers["Content-Length"]), 0)
        self.assertEqual(self.d.call("HEAD", "/v2/models/none/ready")[0], 404)


class Infer(Case):
    def test_binary_and_json_both_ways(self):
        for binary_in in (False, True):
            for outputs in (None, [triton.InferRequestedOutput("y", binary_data=False)], [triton.InferRequestedOutput("y", binary_data=True)]):
                r = self.c.infer("half", [fp32("x", [1, 2, 3], binary_in)], request_id="id \u00e9\"", outputs=outputs)
                np.testing.assert_array_equal(r.as_numpy("y"), np.float32([3.5, 4, 4.5]))
                head = r.get_response()
                self.assertEqual((head["model_name"], head["model_version"], head["id"]), ("half", "2", "id \u00e9\""))
                self.assertEqual("data" in r.get_output("y"), outputs is not None and not outputs[0]._binary)

    def test_versions_and_signatures(self):
        x = fp32("x", [2])
        self.assertEqual(self.c.infer("half", [x], model_version="1").as_numpy("y").tolist(), [3.0])
        ins = [fp32("a", [1, 2]), tensor("b", np.int64([10, -20]), "INT64")]
        for how in ({"parameters": {"signature_name": "two"}}, {}):
            name = "half" if how else "half:two"
            r = self.c.infer(name, ins, **how)
            self.assertEqual(r.as_numpy("sum").tolist(), [11.0, -18.0])
            self.assertEqual(r.as_numpy("text").tolist(), [b"10", b"-20"])
        r = self.c.infer("half:two", ins, outputs=[triton.InferRequestedOutput("text", binary_data=False), triton.InferRequestedOutput("kept")])
        self.assertEqual([o["name"] for o in r.get_response()["outputs"]], ["text", "kept"])
        self.assertEqual(r.as_numpy("text").tolist(), ["10", "-20"])
        self.assertEqual(r.as_numpy("kept").tolist(), [10, -20])
        with self.fails(400, "name two signatures"):
            self.c.infer("half:two", ins, parameters={"signature_name": "serving_default"})

    def test_every_type_in_binary(self):
        r = self.c.infer("types", [tensor(n, v, t) for n, t, v in TYPES])
        for n, t, v in TYPES:
            out = r.get_output(f"out_{n}")
            self.assertEqual((out["datatype"], out["shape"]), (t, [2]))
            self.assertEqual(r.as_numpy(f"out_{n}").tolist(), v.tolist(), n)

    def test_every_type_in_json(self):
        values = [(n, t, [x.decode() for x in v] if t == "BYTES" else v.tolist()) for n, t, v in TYPES]
        body = {"inputs": [{"name": n, "shape": [2], "datatype": t, "data": v} for n, t, v in values]}
        status, headers, data = self.d.call("POST", "/v2/models/types/infer", body)
        self.assertEqual((status, headers["Content-Type"], headers[LENGTH]), (200, "application/json", None), data)
        got = {o["name"]: o for o in json.loads(data)["outputs"]}
        for n, t, v in values:
            self.assertEqual(np.float32(got[f"out_{n}"]["data"]).tolist() if t == "FP32" else got[f"out_{n}"]["data"],
                             np.float32(v).tolist() if t == "FP32" else v, n)

    def test_empty_tensors(self):
        for binary in (False, True):
            r = self.c.infer("half", [fp32("x", [], binary)], outputs=[triton.InferRequestedOutput("y", binary_data=binary)])
            self.assertEqual(r.as_numpy("y").shape, (0,))
        for header in ({}, {LENGTH: "0"}):   # binary outputs without a byte are no binary answer
            head = {"inputs": [{"name": "x", "shape": [0], "datatype": "FP32", "data": []}], "parameters": {"binary_data_output": True}}
            status, headers, data = self.d.call("POST", "/v2/models/half/infer", b"" if header else head, header)
            self.assertEqual((status, headers["Content-Type"], headers[LENGTH]), (200, "application/json", None), data)
            self.assertEqual(json.loads(data)["outputs"][0]["parameters"], {"binary_data_size": 0})
        status, _, data = self.d.call("POST", "/v2/models/types:text/infer", {"inputs": [{"name": "s", "shape": [0], "datatype": "BYTES", "data": []}]})
        self.assertEqual((status, json.loads(data)["outputs"][0]["data"]), (200, []), data)

    def test_nested_data_and_numbers_that_json_lacks(self):
        body = {"inputs": [{"name": "x", "shape": [2, 4], "datatype": "FP32", "data": [[1, 2, 3, 4], [5, 6, 7, float("nan")]]}]}
        status, _, data = self.d.call("POST", "/v2/models/types%3Arows/infer", body)
        self.assertEqual(status, 200, data)
        out = {o["name"]: o for o in json.loads(data)["outputs"]}
        self.assertEqual((out["scores"]["shape"], out["scores"]["data"][:7]), ([2, 4], [2, 4, 6, 8, 10, 12, 14]))
        self.assertTrue(np.isnan(out["scores"]["data"][7]))

    def test_strings_that_are_no_text(self):
        s = tensor("s", np.array([b"a\x00b", b"\xfe"], dtype=object), "BYTES")
        r = self.c.infer("types:text", [s])
        self.assertEqual(r.as_numpy("upper").tolist(), [b"A\x00B", b"\xfe"])
        self.assertEqual(r.as_numpy("blob").tolist(), [b"\xffa\x00b", b"\xff\xfe"])
        r = self.c.infer("types:text", [s], outputs=[triton.InferRequestedOutput("upper", binary_data=False)])
        self.assertEqual(r.get_output("upper")["data"], ["A\u0000B", {"b64": "/g=="}])

    def test_classification(self):
        x = fp32("x", [[1, 4, 3, 2], [8, 5, 8, 7]])
        r = self.c.infer("types:rows", [x], outputs=[triton.InferRequestedOutput("scores", class_count=2), triton.InferRequestedOutput("best", class_count=9)])
        self.assertEqual(r.get_output("scores")["datatype"], "BYTES")
        self.assertEqual(r.as_numpy("scores").tolist(), [[b"8.000000:1", b"6.000000:2"], [b"16.000000:0", b"16.000000:2"]])
        self.assertEqual(r.as_numpy("best").tolist(), [b"1:0", b"0:1"])
        with self.fails(400, "class result not available for output due to unsupported type 'BYTES'"):
            self.c.infer("types:text", [tensor("s", np.array([b"a"], dtype=object), "BYTES")], outputs=[triton.InferRequestedOutput("upper", class_count=1)])

    def test_compressed_requests(self):
        x = fp32("x", np.zeros(1000))
        for how in ("gzip", "deflate"):
            r = self.c.infer("half", [x], request_compression_algorithm=how, response_compression_algorithm=how)
            self.assertEqual(r.as_numpy("y").tolist(), [3.0] * 1000)

    def test_raw_bodies(self):
        call = lambda path, body: self.d.call("POST", path, body, {LENGTH: "0"})
        status, headers, data = call("/v2/models/half/infer", np.float32([1, 2]).tobytes())
        self.assertEqual(status, 200, data)
        n = int(headers[LENGTH])
        self.assertEqual(json.loads(data[:n])["outputs"][0]["parameters"], {"binary_data_size": 8})
        self.assertEqual(np.frombuffer(data[n:], np.float32).tolist(), [3.5, 4.0])
        status, headers, data = call("/v2/models/types:rows/infer", np.float32([[1, 2, 3, 9]]).tobytes())
        self.assertEqual(json.loads(data[:int(headers[LENGTH])])["outputs"][1]["shape"], [1, 4])
        status, headers, data = call("/v2/models/types:text/infer", b"whole\x00body")
        self.assertTrue(data.endswith(b"\x0a\x00\x00\x00WHOLE\x00BODY"), data)
        self.refused(b"123", 400, "cannot be deduced from 3 bytes", headers={LENGTH: "0"})
        self.refused(b"1234", 400, "must have one input, it has 2", path="/v2/models/half:two/infer", headers={LENGTH: "0"})

    def test_a_large_tensor_goes_both_ways(self):
        x = np.arange(4_000_000, dtype=np.float32)
        np.testing.assert_array_equal(self.c.infer("half", [fp32("x", x)]).as_numpy("y"), x / 2 + 3)

    def test_many_at_once(self):
        c = triton.InferenceServerClient(f"127.0.0.1:{self.d.rest_port}", concurrency=16)
        waiting = [c.async_infer("half", [fp32("x", [i])]) for i in range(300)]
        self.assertEqual([w.get_result().as_numpy("y")[0] for w in waiting], [i / 2 + 3 for i in range(300)])
        c.close()


class Wrong(Case):
    def test_wrong_models_inputs_and_outputs(self):
        x = fp32("x", [1])
        with self.fails(404, "Request for unknown model: 'none' is not found"):
            self.c.infer("none", [x])
        with self.fails(404, "Request for unknown model: 'half' version 7 is not found"):
            self.c.infer("half", [x], model_version="7")
        with self.fails(400, 'Serving signature key "none" not found.'):
            self.c.infer("half", [x], parameters={"signature_name": "none"})
        with self.fails(400, "Got input(s) ['z']", "missing required input(s) ['x']"):
            self.c.infer("half", [fp32("z", [1])])
        with self.fails(400, "input 'x' already exists in request"):
            self.c.infer("half", [x, x])
        with self.fails(400, "was expected to be a float tensor but is a double tensor"):
            self.c.infer("half", [tensor("x", np.float64([1]), "FP64")])
        with self.fails(400, "output tensor alias not found in signature: z"):
            self.c.infer("half", [x], outputs=[triton.InferRequestedOutput("z")])
        shared = triton.InferInput("x", [1], "FP32")
        shared.set_shared_memory("region", 4)
        with self.fails(404, "Unable to find shared memory region: 'region'"):
            self.c.infer("half", [shared])
        with self.fails(413, "larger than max_request_bytes"):
            self.c.infer("half", [fp32("x", np.zeros(9 << 20))])

    def test_wrong_json(self):
        one = lambda **change: {"inputs": [{**{"name": "x", "shape": [2], "datatype": "FP32", "data": [1, 2]}, **change}]}
        self.refused(b"", 400, "JSON Parse error", "The document is empty.")
        self.refused(b"[]", 400, "JSON Parse error")
        self.refused(b'{"inputs": 5}', 400, "'inputs' must be a JSON list")
        self.refused(b'{"inputs": [}', 400)
        self.refused(b'{"inputs": [{"name":"x","shape":[1],"datatype":"FP32","data":[1,]}]}', 400, "JSON Parse error")
        self.refused(b'{"inputs": []} {}', 400, "must not be followed")
        self.refused({}, 400, "expected 1 inputs but got 0 inputs for model 'half'. Got input(s) [], but missing required input(s) ['x']")
        x = {"name": "x", "shape": [1], "datatype": "FP32", "data": [1]}
        self.refused({"inputs": [{**x, "name": "q"}]}, 400, "expected 1 inputs but got 1 inputs for model 'half'. Got input(s) ['q'], but missing required input(s) ['x']")
        self.refused({"inputs": [x, {**x, "name": "q"}]}, 400, "unexpected inference input 'q' for model 'half'")
        self.refused({"inputs": [{**x, "shape": [4294967296, 4294967296]}]}, 400, "has more than 2^63 elements")
        self.refused({"inputs": [x]}, 415, "Content-Encoding 'br' is not supported", headers={"Content-Encoding": "br"})
        self.assertEqual(self.d.call("POST", "/v2/models/half/infer", {}, {"Content-Encoding": "br"})[1]["Accept-Encoding"], "gzip, deflate")
        self.assertEqual(self.d.call("POST", "/v2/models/half/infer", {"inputs": [x]}, {"Content-Encoding": "identity"})[0], 200)
        self.assertEqual(self.d.call("OPTIONS", "/v2/models/half/infer", b"", {"Origin": "http://here"})[0], 200)
        self.assertEqual(self.d.call("OPTIONS", "/v2/models/half/infer")[0], 400)
        self.refused({"id": 5}, 400, "'id' must be a JSON string")
        self.refused({"id": "7\0"}, 400, "text '7...' holds a NUL byte")
        self.refused({"inputs": [x]}, 404, "Request for unknown model: 'half%00' is not found", path="/v2/models/half%00/infer")
        self.refused({"parameters": {"binary_data_output": 1}}, 400, "'binary_data_output' must be true or false, not 1")
        self.refused({"parameters": {"timeout": "soon"}}, 400, "'timeout' must be a whole number, 0 or more, not \"soon\"")
        self.refused(one(data=[1, 2, 3]), 400, "input 'x'", "'data' has 3 values, shape [2] has 2 elements")
        self.refused(one(data=["1", "2"]), 400, "input 'x'", 'Value: "1" Type: String is not of expected type: float')
        self.refused(one(data=[1, True]), 400, "Type: Boolean")
        self.refused(one(datatype="FP31"), 400, "datatype 'FP31' is unknown")
        self.refused(one(datatype="INT8", data=[1, 128]), 400, "was expected to be a float tensor but is a int8 tensor")
        self.refused(one(shape=[-1]), 400, "input 0, x: a size in its 'shape' must be a whole number, 0 or more, not -1")
        self.refused(one(shape=[2**62, 2**62]), 400, "input 'x'")
        self.refused(one(shape=[1] * 40), 400, "more than 12 dimensions")
        self.refused(one(parameters={"binary_data_size": 8}), 400, "exclude each other")
        self.refused({"inputs": [{"name": "x", "datatype": "FP32", "data": [1]}]}, 400, "input 'x' has no 'shape'")
        self.refused({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1]}]}, 400, "neither 'data' nor")
        self.refused(b'{"inputs":' + b"[" * 100000, 400)
        self.refused({"inputs": [{"name": "", "shape": [0], "datatype": "FP32", "data": []}] * 5000}, 400, "more than 4096 inputs")

    def test_wrong_binary(self):
        def refused(size, tail, *words, length=None, datatype="FP32", model="half", name="x"):
            head = json.dumps({"inputs": [{"name": name, "shape": [2], "datatype": datatype, "parameters": {"binary_data_size": size}}]}).encode()
            self.refused(head + tail, 400, *words, headers={LENGTH: str(len(head)) if length is None else length}, path=f"/v2/models/{model}/infer")
        refused(8, b"1234567", "unexpected size for input 'x', expecting 1 additional bytes")
        refused(8, b"123456789", "unexpected additional input data for model", "1 bytes")
        refused(7, b"1234567", "input byte size mismatch for input 'x'")
        refused(8, b"12345678", LENGTH, length="100000")
        for length in ("-1", "", "5x", "0x10", "1e2", "9" * 30):
            refused(8, b"12345678", LENGTH, length=length)
        refused(8, b"12345678", "JSON Parse error", length="20")
        refused(8, b"\xff\xff\xff\xff1234", "element 0 of its BYTES is cut short", datatype="BYTES", model="types:text", name="s")
        refused(2**70, b"12345678", "must be a whole number")


class Repository(unittest.TestCase):
    def test_index_load_and_unload(self):
        d = Daemon(versions=(1,))
        c = d.rest
        try:
            index = lambda: {(m["name"], m["version"]): m["state"] for m in c.get_model_repository_index()}
            self.assertEqual(index(), {("half", "1"): "READY", ("types", "1"): "READY"})
            d.add("half", 2)
            c.load_model("half")
            self.assertEqual(index()["half", "2"], "READY")
            c.unload_model("half")
            self.assertFalse(c.is_model_ready("half"))
            self.assertTrue(c.is_server_ready())
            self.assertIn(index()["half", "2"], ("UNLOADING", "UNAVAILABLE"))
            status, _, data = d.call("POST", "/v2/repository/index", {"ready": True})
            self.assertEqual([m["name"] for m in json.loads(data)], ["types"])
            threading.Event().wait(1.5)   # polling does not bring it back
            self.assertFalse(c.is_model_ready("half"))
            c.load_model("half")
            self.assertEqual(c.infer("half", [fp32("x", [0])]).as_numpy("y").tolist(), [3.0])
            for body, words in ((b"[", "JSON Parse error"), ({"parameters": 5}, "'parameters' must be an object"),
                                ({"parameters": {"x": 1, "unload_dependents": "true"}}, "unload parameter 'unload_dependents' must be true or false")):
                status, _, data = d.call("POST", "/v2/repository/models/half/unload", body)
                self.assertEqual(status, 400, body)
                self.assertIn("failed to unload 'half': " + words, json.loads(data)["error"])
            self.assertEqual(d.call("POST", "/v2/repository/index", {"ready": 1})[0], 400)
            for path in ("index", "models/half/load", "models/half/unload"):
                status, _, data = d.call("POST", "/v2/repository/other/" + path)
                self.assertEqual((status, json.loads(data)["error"]), (501, "'repository_name' specification is not supported"))
            self.assertTrue(c.is_model_ready("half"))
            for call, words in ((lambda: c.load_model("none"), "failed to load 'none'"), (lambda: c.unload_model("none"), "failed to unload 'none'")):
                with self.assertRaisesRegex(Exception, words) as e:
                    call()
                self.assertEqual(e.exception.status(), "404")
        finally:
            self.assertEqual(d.stop(), 0)


if __name__ == "__main__":
    unittest.main()
