"""Gradients over the wires with unmodified clients: what they are, what is wrong to ask, tokens, shared batches, deadlines, reloads,
how many are kept, the debugger, and tensorctl.

    build/venv/bin/python tests/e2e/gradient_test.py [-v] [TestCase.test]      $TENSORD: the daemon (default build/tensord)
"""
import concurrent.futures
import json
import os
import subprocess
import sys
import threading
import time
import unittest

import numpy as np
import requests

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import server  # noqa: E402
from server import CODE, PATIENCE, Case, serving  # noqa: E402
import tensorflow as tf  # noqa: E402
from google.protobuf import descriptor_pool, message_factory  # noqa: E402
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase  # noqa: E402

GRADIENTS = {"versions": {"gradients": (1,)}}
TENSORCTL = os.path.join(os.path.dirname(server.DAEMON), "tensorctl")
X = np.float32([[1, -2, 0.5, 3], [0, 1, 2, -1]])


def reference():
    """The model as TensorFlow loads it."""
    if not hasattr(reference, "m"):
        reference.m = tf.saved_model.load(os.path.join(server.MODELS, "gradients", "1"))
    return reference.m


def tape(signature, target, inputs, by=(), variables=(), seed=None):
    m = reference()
    values = {k: tf.constant(v) for k, v in inputs.items()}
    wanted = [{"dense/kernel": m.dense.kernel, "dense/bias": m.dense.bias, "p": m.p, "q": m.q}[v] for v in variables]
    with tf.GradientTape() as t:
        t.watch(list(values.values()))
        y = m.signatures[signature](**values)[target]
    got = t.gradient(y, [values[k] for k in by] + wanted, output_gradients=seed)
    return [None if g is None else g.numpy() for g in got]


class Stub:
    """tensord.v1.Debug.Gradient, made of what the server's reflection says."""

    def __init__(self, channel):
        pool = descriptor_pool.DescriptorPool(ProtoReflectionDescriptorDatabase(channel))
        method = pool.FindServiceByName("tensord.v1.Debug").methods_by_name["Gradient"]
        self.request, self.response = (message_factory.GetMessageClass(d) for d in (method.input_type, method.output_type))
        self.call = channel.unary_unary("/tensord.v1.Debug/Gradient", lambda m: m.SerializeToString(), self.response.FromString)

    def ask(self, model, inputs, target, wrt, signature="", output_gradients=None, vector=None, **fields):
        q = self.request(target=target, wrt=wrt, **fields)
        q.model_spec.name, q.model_spec.signature_name = model, signature
        for to, values in ((q.inputs, inputs), (q.output_gradients, output_gradients or {}), (q.vector, vector or {})):
            for k, v in values.items():
                to[k].CopyFrom(to[k].FromString(tf.make_tensor_proto(v).SerializeToString()))
        return q

    def gradient(self, *args, timeout=30, metadata=None, **kw):
        r = self.call(self.ask(*args, **kw), timeout=timeout, metadata=metadata)
        read = lambda tensors: {k: tf.make_ndarray(parse(v)) for k, v in tensors.items()}
        return read(r.gradients), list(r.unconnected), read(r.outputs)


def parse(tensor):
    from tensorflow.core.framework import tensor_pb2
    return tensor_pb2.TensorProto.FromString(tensor.SerializeToString())


class Gradients(Case):
    OPTIONS = GRADIENTS

    def gradient(self, body, status=200, *words, model="gradients"):
        return self.answers(self.d.post(f"/v1/models/{model}:gradient", body), status, *words)

    def functions(self, signature="serving_default"):
        rows = self.d.get("/v1/models/gradients/functions").json()["functions"]
        return next(f for f in rows if f["name"] == signature)["gradients"]


class Rest(Gradients):
    def test_by_inputs_and_weights(self):
        r = self.gradient({"inputs": {"x": X.tolist()}, "target": "probs", "wrt": ["x", "var:dense/kernel"],
                           "output_gradients": {"probs": [[1, 0, 0], [0, 2, -1]]}}).json()
        want = tape("serving_default", "probs", {"x": X}, ["x"], ["dense/kernel"], tf.constant([[1.0, 0, 0], [0, 2, -1]]))
        self.assertEqual(list(r), ["gradients", "outputs"])
        self.assertEqual(list(r["gradients"]), ["x", "var:dense/kernel"])
        np.testing.assert_allclose(r["gradients"]["x"], want[0], 1e-4, 1e-6)
        np.testing.assert_allclose(r["gradients"]["var:dense/kernel"], want[1], 1e-4, 1e-6)
        np.testing.assert_allclose(r["outputs"]["probs"], reference().signatures["serving_default"](x=tf.constant(X))["probs"], 1e-4)
        self.assertEqual(np.shape(r["outputs"]["label"]), (2,))

    def test_names_of_variables(self):
        want = tape("loss", "loss", {"x": X, "t": np.int64([0, 2])}, [], ["dense/kernel", "dense/bias"])
        ask = lambda *wrt: self.gradient({"signature_name": "loss", "inputs": {"x": X.tolist(), "t": [0, 2]}, "target": "loss", "wrt": list(wrt)}).json()["gradients"]
        for name in ("var:dense/kernel", "var:dense/kernel:0", "var:dense/kernel/.ATTRIBUTES/VARIABLE_VALUE"):
            g = ask(name)
            self.assertEqual(list(g), [name])
            np.testing.assert_allclose(g[name], want[0], 1e-4, 1e-6)
        g = ask("var:dense/*")
        self.assertEqual(sorted(g), ["var:dense/bias", "var:dense/kernel"])
        np.testing.assert_allclose(g["var:dense/bias"], want[1], 1e-4, 1e-6)
        g = ask("var:*")   # neither the frozen one nor the integer
        self.assertEqual(sorted(g), ["var:dense/bias", "var:dense/kernel", "var:p", "var:q"])
        self.assertIsNone(g["var:p"])
        self.assertIsNotNone(ask("var:scale")["var:scale"])
        self.assertEqual(list(ask("x", "var:dense/bias", "x", "var:dense/b*")), ["x", "var:dense/bias"])

    def test_rows_and_a_lone_name(self):
        want = tape("serving_default", "probs", {"x": X}, ["x"], [], tf.constant([[1.0, 0, 0], [1, 0, 0]]))
        r = self.gradient({"instances": X.tolist(), "target": "probs", "wrt": "x", "output_gradients": {"probs": [[1, 0, 0]] * 2}}).json()
        np.testing.assert_allclose(r["gradients"]["x"], want[0], 1e-4, 1e-6)

    def test_several_targets_and_seeds_for_some(self):
        body = {"signature_name": "pair", "inputs": {"x": [1, 2], "z": [3, 4]}, "target": ["a", "b"], "wrt": ["x", "z"]}
        self.assertEqual(self.gradient(body).json()["gradients"], {"x": [4.0, 8.0], "z": [15.0, 15.0]})
        g = self.gradient({**body, "output_gradients": {"b": [1, 10]}}).json()["gradients"]
        self.assertEqual(g, {"x": [4.0, 8.0], "z": [15.0, 150.0]})

    def test_kinds(self):
        x = np.float32([[1, 2, 3, 4]])
        body = {"signature_name": "loss", "inputs": {"x": x.tolist(), "t": [1]}, "target": "loss", "wrt": ["var:dense/bias"]}
        m = reference()
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                y = m.signatures["loss"](x=tf.constant(x), t=tf.constant([1], tf.int64))["loss"]
            g = inner.gradient(y, m.dense.bias)
        want = outer.jacobian(g, m.dense.bias).numpy()
        got = np.array(self.gradient({**body, "kind": "hessian"}).json()["gradients"]["var:dense/bias"])
        np.testing.assert_allclose(got, want, 1e-4, 1e-5)
        v = np.float32([1, -2, 0.5])
        got = self.gradient({**body, "kind": "hvp", "vector": {"var:dense/bias": v.tolist()}}).json()["gradients"]["var:dense/bias"]
        np.testing.assert_allclose(got, want @ v, 1e-4, 1e-5)
        with tf.GradientTape() as t:
            t.watch(z := tf.constant(X))
            y = m.signatures["serving_default"](x=z)["probs"]
        want = t.jacobian(y, z).numpy()
        r = self.gradient({"inputs": {"x": X.tolist()}, "target": "probs", "wrt": ["x", "var:p"], "kind": "jacobian", "unconnected": "zero"}).json()["gradients"]
        np.testing.assert_allclose(r["x"], want, 1e-4, 1e-5)
        self.assertEqual(np.shape(r["var:p"]), (2, 3))
        pair = {"signature_name": "pair", "inputs": {"x": [1, 2], "z": [3, 4]}, "target": "a", "kind": "hessian"}
        for source in ("x", "z", "var:dense/bias"):
            self.gradient({**pair, "wrt": source}, 400, "a hessian is of one number, but the target 'a' has shape [2]")

    def test_unconnected(self):
        body = {"signature_name": "pair", "inputs": {"x": [1, 2], "z": [3, 4]}, "target": "a", "wrt": ["z", "var:q", "var:dense/bias"]}
        want = tape("pair", "a", {"x": np.float32([1, 2]), "z": np.float32([3, 4])}, ["z"], ["q", "dense/bias"])
        g = self.gradient(body).json()["gradients"]   # z and q lead to another output of the same function: zeros, as a tape has it
        self.assertEqual([g["z"], g["var:q"], g["var:dense/bias"]], [want[0].tolist(), float(want[1]), want[2]])
        self.assertIsNone(g["var:dense/bias"])
        g = self.gradient({**body, "unconnected": "zero"}).json()["gradients"]
        self.assertEqual(g["var:dense/bias"], [0.0, 0.0, 0.0])

    def test_values_beyond_json(self):
        body = {"signature_name": "root", "inputs": {"x": [1.0, 0.0, 4.0]}, "target": "y", "wrt": "x"}
        g = json.loads(self.gradient(body).text)["gradients"]["x"]
        self.assertEqual((g[0], g[2]), (0.5, 0.25))
        self.assertTrue(np.isnan(g[1]))
        g = self.gradient({"signature_name": "half", "inputs": {"x": [1.5, -2]}, "target": "y", "wrt": "x"}).json()["gradients"]["x"]
        self.assertEqual(g, [3.0, -4.0])
        self.gradient({"signature_name": "complex", "inputs": {"x": [1]}, "target": "y", "wrt": "x"}, 501, "complex64")

    def test_recompute_answers_the_same(self):
        body = {"inputs": {"x": X.tolist()}, "target": "probs", "wrt": ["x"], "output_gradients": {"probs": [[1, 0, 0], [0, 2, -1]]}}
        self.assertEqual(self.gradient(body).json()["gradients"], self.gradient({**body, "recompute": True}).json()["gradients"])

    def test_what_is_wrong_to_ask(self):
        good = {"inputs": {"x": X.tolist()}, "target": "probs", "wrt": ["x"]}
        pair = {"signature_name": "pair", "inputs": {"x": [1], "z": [2]}, "target": "a", "wrt": ["x"]}
        for change, words in (
                ({"target": "none"}, ["target 'none' is no output", "label, probs"]),
                ({"target": []}, ["needs a target", "label, probs"]),
                ({"target": 7}, ["'target' must be a string or a list of strings"]),
                ({"target": ["probs", "probs"]}, ["listed twice"]),
                ({"target": "label"}, ["target 'label' is int64", "floating-point or complex"]),
                ({"wrt": "none"}, ["source 'none' is no input", "its inputs are: x", "var:NAME"]),
                ({"wrt": []}, ["wrt is empty"]),
                ({"wrt": ["x", 1]}, ["'wrt' must be a string or a list of strings"]),
                ({"wrt": "var:none"}, ["no variable 'none'", "dense/kernel"]),
                ({"wrt": "var:none*"}, ["matches 'none*'", "dense/kernel"]),
                ({"kind": "derivative"}, ["kind is 'derivative'", "jacobian"]),
                ({"kind": 1}, ["'kind' must be a string"]),
                ({"kind": "hvp"}, ["kind 'hvp' needs a vector for each source", "'x'"]),
                ({"vector": {"x": X.tolist()}}, ["vector is given, but kind 'gradient' takes none"]),
                ({"kind": "hvp", "vector": {"x": X.tolist(), "y": [1]}}, ["vector has 'y', which is no source"]),
                ({"output_gradients": {"label": [1, 1]}}, ["output_gradients has 'label', which is no target"]),
                ({"output_gradients": {"probs": [[1, 1, 1]]}}, ["output_gradients for 'probs' have shape [1,3]", "[2,3]"]),
                ({"output_gradients": {"probs": [["a"]]}}, ["'output_gradients'"]),
                ({"output_gradients": [1]}, ["'output_gradients' must be an object"]),
                ({"kind": "jacobian", "output_gradients": {"probs": [[1, 1, 1]] * 2}}, ["output_gradients are given", "'jacobian' takes none"]),
                ({"unconnected": "zeros"}, ["'unconnected' is \"zeros\"", "\"none\" or \"zero\""]),
                ({"recompute": "yes"}, ["'recompute' must be true or false"]),
                ({"inputs": {"y": [1]}}, ["Missing named input: x"]),
                ({"signature_name": "none"}, ["not found in signature def"])):
            self.gradient({**good, **change}, 400, *words)
        self.gradient({**pair, "kind": "jacobian", "target": ["a", "b"]}, 400, "kind 'jacobian' is of one target", "a, b")
        self.gradient({"signature_name": "lu", "inputs": {"x": [[1, 2], [3, 4]]}, "target": "y", "wrt": "x"}, 501, "no gradient is defined", "Lu")
        self.gradient(good, 404, "Servable not found", model="none")
        self.answers(self.d.post("/v1/models/gradients/versions/9:gradient", good), 404)
        for text, words in (("", "empty"), ("[]", "must be an object"), ('{"inputs": {"x": [[1', "JSON"), ('{"wrt": "x", "wrt": "x"}', "'wrt' is given twice")):
            self.answers(self.d.post("/v1/models/gradients:gradient", data=text), 400, words)
        self.assertEqual(self.d.get("/v1/models/gradients:gradient").status_code, 400)
        self.gradient(good)

    def test_functions_lists_what_is_kept(self):
        self.gradient({"signature_name": "pair", "inputs": {"x": [1], "z": [2]}, "target": ["b", "a"], "wrt": ["z"]})
        g = [g for g in self.functions("pair") if g["target"] == ["b", "a"]][0]
        self.assertEqual((g["kind"], g["wrt"], g["recompute"], g["traces"]), ("gradient", ["z"], False, 1))
        self.assertGreater(g["bytes"], g["concrete"][0]["bytes"])
        self.assertEqual(g["concrete"][0]["calls"], "1")
        self.assertIn("gradient/z: float32", g["signature"])

    def test_it_is_counted(self):
        self.gradient({"inputs": {"x": X.tolist()}, "target": "probs", "wrt": ["x"]})
        text = self.d.get("/metrics").text
        self.assertRegex(text, r':tensorflow:serving:request_latency_count\{model_name="gradients",API="gradient",entrypoint="REST"\} \d')
        self.assertRegex(text, r':tensorflow:serving:runtime_latency_count\{model_name="gradients",API="Gradient"')


class Parts(Gradients):
    OPTIONS = {"versions": {"parts": (1,)}}

    def test_a_variable_in_parts_is_one_source(self):
        x = np.arange(14, dtype=np.float32).reshape(2, 7)
        ask = lambda *wrt, **kw: self.gradient({"inputs": {"x": x.tolist()}, "target": "y", "wrt": list(wrt), **kw}, model="parts").json()["gradients"]
        whole = np.repeat(x.sum(0)[:, None], 3, 1)
        np.testing.assert_allclose(ask("var:layer/w")["var:layer/w"], whole)
        np.testing.assert_allclose(ask("var:layer/w/part_1")["var:layer/w/part_1"], whole[3:5])
        self.assertEqual(sorted(ask("var:*")), ["var:layer/b", "var:layer/w"])
        self.assertEqual(sorted(ask("var:layer/w*")), ["var:layer/w"])
        g = ask("var:*part_?")
        self.assertEqual(sorted(g), ["var:layer/w/part_0", "var:layer/w/part_1", "var:layer/w/part_2"])
        np.testing.assert_allclose(np.concatenate([g[k] for k in sorted(g)]), whole)
        self.assertIsNone(ask("var:frozen")["var:frozen"])
        self.assertEqual(ask("var:frozen", unconnected="zero")["var:frozen"], [0, 0, 0])
        self.gradient({"inputs": {"x": x.tolist()}, "target": "y", "wrt": "var:layer/w", "kind": "hvp", "vector": {"var:layer/w": whole.tolist()}}, 501,
                      "'var:layer/w' is a variable in 3 parts", "var:layer/w/part_0", model="parts")


class Grpc(Gradients):
    def setUp(self):
        self.stub = Stub(self.d.channel)

    def test_by_inputs_and_weights(self):
        seed = np.float32([[1, 0, 0], [0, 2, -1]])
        g, none, out = self.stub.gradient("gradients", {"x": X}, ["probs"], ["x", "var:dense/*"], output_gradients={"probs": seed})
        want = tape("serving_default", "probs", {"x": X}, ["x"], ["dense/kernel", "dense/bias"], tf.constant(seed))
        self.assertEqual((sorted(g), none, sorted(out)), (["var:dense/bias", "var:dense/kernel", "x"], [], ["label", "probs"]))
        for name, w in zip(("x", "var:dense/kernel", "var:dense/bias"), want):
            self.assertEqual(g[name].dtype, np.float32)
            np.testing.assert_allclose(g[name], w, 1e-4, 1e-6)

    def test_unconnected_and_dtypes(self):
        pair = ("gradients", {"x": np.float32([1, 2]), "z": np.float32([3, 4])}, ["a"], ["x", "var:dense/bias"])
        g, none, _ = self.stub.gradient(*pair, signature="pair")
        self.assertEqual((list(g), none), (["x"], ["var:dense/bias"]))
        g, none, _ = self.stub.gradient(*pair, signature="pair", unconnected="zero")
        self.assertEqual((g["var:dense/bias"].tolist(), none), ([0, 0, 0], []))
        z = np.complex64([1 + 2j, -3j])
        g, _, _ = self.stub.gradient("gradients", {"x": z}, ["y"], ["x"], signature="complex")
        np.testing.assert_allclose(g["x"], tape("complex", "y", {"x": z}, ["x"])[0])
        self.assertEqual(g["x"].dtype, np.complex64)
        g, _, _ = self.stub.gradient("gradients", {"x": np.float16([1.5])}, ["y"], ["x"], signature="half")
        self.assertEqual((g["x"].dtype, g["x"].tolist()), (np.float16, [3.0]))

    def test_what_is_wrong_to_ask(self):
        ask = lambda inputs={"x": X}, target=("probs",), wrt=("x",), **kw: self.stub.gradient("gradients", inputs, list(target), list(wrt), **kw)
        for words, kw in ((["target 'none' is no output"], {"target": ["none"]}),
                          (["wrt is empty"], {"wrt": []}),
                          (["kind is 'x'"], {"kind": "x"}),
                          (["'unconnected' is \"x\""], {"unconnected": "x"}),
                          (["output_gradients has 'label'"], {"output_gradients": {"label": np.int64([1, 1])}}),
                          (["was expected to be a float tensor but is a double tensor"], {"output_gradients": {"probs": np.ones((2, 3))}}),
                          (["input size does not match signature"], {"inputs": {}})):
            with self.fails(CODE.INVALID_ARGUMENT, *words):
                ask(**kw)
        with self.fails(CODE.FAILED_PRECONDITION, 'Serving signature key "none" not found'):
            ask(signature="none")
        with self.fails(CODE.UNIMPLEMENTED, "no gradient is defined", "Lu"):
            self.stub.gradient("gradients", {"x": np.eye(2, dtype=np.float32)}, ["y"], ["x"], signature="lu")
        with self.fails(CODE.NOT_FOUND, "Servable not found"):
            self.stub.gradient("none", {}, ["y"], ["x"])
        with self.fails(CODE.INVALID_ARGUMENT):
            self.d.channel.unary_unary("/tensord.v1.Debug/Gradient")(b"\x1a\xff\xff\xff\xff\x0f", timeout=10)
        ask()


class Tokens(Gradients):
    FLAGS = ("--tokens_file={dir}/tokens",)
    OPTIONS = {**GRADIENTS, "files": {"tokens": "in infer\ngrad gradient\nother gradient other*\nboss manage,debug\n"}}

    def test_scopes(self):
        by_input = {"inputs": {"x": X.tolist()}, "target": "probs", "wrt": ["x"]}
        by_weight = {**by_input, "wrt": ["x", "var:dense/kernel"]}
        for token, body, status in (("in", by_input, 200), ("in", by_weight, 403), ("grad", by_input, 200), ("grad", by_weight, 200),
                                    ("other", by_weight, 403), ("boss", by_input, 403), ("boss", by_weight, 403), ("none", by_input, 401)):
            r = self.d.post("/v1/models/gradients:gradient", body, headers={"authorization": f"Bearer {token}"})
            self.assertEqual(r.status_code, status, f"{token}: {r.text}")
        r = self.d.post("/v1/models/gradients:gradient", by_weight, headers={"authorization": "Bearer in"})
        self.assertIn("lacks the scope 'gradient'", r.json()["error"])
        r = self.d.post("/v1/models/gradients:gradient", by_input, headers={"authorization": "Bearer boss"})
        self.assertIn("lacks the scope 'infer' or 'gradient'", r.json()["error"])
        self.assertEqual(self.d.post("/v1/models/gradients:gradient", by_input).status_code, 401)
        self.assertEqual(self.d.post("/v1/models/gradients:predict", {"instances": X.tolist()}, headers={"authorization": "Bearer grad"}).status_code, 403)

    def test_scopes_over_grpc(self):
        with serving(**GRADIENTS) as open_server:   # this one's reflection wants no token
            stub = Stub(open_server.channel)
        stub.call = self.d.channel.unary_unary("/tensord.v1.Debug/Gradient", lambda m: m.SerializeToString(), stub.response.FromString)
        ask = lambda token, wrt: stub.gradient("gradients", {"x": X}, ["probs"], wrt, metadata=[("authorization", f"Bearer {token}")])
        ask("in", ["x"])
        ask("grad", ["x", "var:dense/bias"])
        with self.fails(CODE.PERMISSION_DENIED, "lacks the scope 'gradient'"):
            ask("in", ["x", "var:dense/bias"])
        with self.fails(CODE.PERMISSION_DENIED, "not for model 'gradients'"):
            ask("other", ["var:dense/bias"])
        with self.fails(CODE.PERMISSION_DENIED, "'infer' or 'gradient'"):
            ask("boss", ["x"])


class Batches(Case):
    FLAGS = ("--lanes=1",)
    OPTIONS = {"versions": {"batching": (1,)}}

    def setUp(self):
        self.stub = Stub(self.d.channel)

    def many(self, ask, n):
        with concurrent.futures.ThreadPoolExecutor(24) as pool:
            return list(pool.map(ask, range(n)))

    def batches(self):
        stats = self.d.get("/v2/models/batching/stats").json()["model_stats"][0]
        return {int(b["batch_size"]): int(b["compute_infer"]["count"]) for b in stats["batch_stats"]}

    def test_by_inputs_share_batches(self):
        x = np.random.default_rng(1).standard_normal((160, 1, 256)).astype(np.float32)
        seed = np.random.default_rng(2).standard_normal((160, 1, 256)).astype(np.float32)
        ask = lambda i: self.stub.gradient("batching", {"x": x[i]}, ["y"], ["x"], output_gradients={"y": seed[i]})[0]["x"]
        want = self.stub.gradient("batching", {"x": x[:, 0]}, ["y"], ["x"], output_gradients={"y": seed[:, 0]})[0]["x"]
        alone = ask(0)
        self.assertEqual(alone.shape, (1, 256))
        before = self.batches()
        got = self.many(ask, len(x))
        ran = {n: c - before.get(n, 0) for n, c in self.batches().items() if c > before.get(n, 0)}
        np.testing.assert_allclose(np.concatenate(got), want, rtol=1e-3, atol=1e-5)
        self.assertGreater(max(ran), 1, "no gradients ran together")
        self.assertEqual(sum(n * c for n, c in ran.items()), len(x))

    def test_by_weights_run_alone(self):
        x = np.random.default_rng(3).standard_normal((60, 2, 256)).astype(np.float32)
        ask = lambda i: self.stub.gradient("batching", {"x": x[i]}, ["y"], ["x", "var:weights/.ATTRIBUTES/VARIABLE_VALUE"])
        ask(0)
        before = self.batches()
        got = self.many(ask, len(x))
        ran = {n: c - before.get(n, 0) for n, c in self.batches().items() if c > before.get(n, 0)}
        self.assertEqual(ran, {2: 60})
        np.testing.assert_allclose(got[7][0]["x"], ask(7)[0]["x"], rtol=1e-3, atol=1e-5)
        self.assertTrue(self.d.wait_log("signature 'serving_default: gradient of y by x, var:weights"))

    def test_deadline_and_leaving(self):
        x = np.zeros((20000, 256), np.float32)
        with self.fails(CODE.DEADLINE_EXCEEDED):
            self.stub.gradient("batching", {"x": x}, ["y"], ["x"], timeout=0.3)
        with serving("--lanes=1", versions={"batching": (1,)}) as d:
            d.session.headers["X-Request-Timeout"] = "0.3"
            r = d.post("/v1/models/batching:gradient", {"inputs": {"x": x[:8000].tolist()}, "target": "y", "wrt": "x"})
            self.assertEqual(r.status_code, 504, r.text[:300])
            call = Stub(d.channel)
            running = call.call.future(call.ask("batching", {"x": x}, ["y"], ["x"]))
            time.sleep(0.3)
            started = time.time()
            running.cancel()
            call.gradient("batching", {"x": x[:1]}, ["y"], ["x"])   # the lane is free again soon
            self.assertLess(time.time() - started, 3 * PATIENCE)


class Kept(Gradients):
    FLAGS = ("--lanes=2",)

    def test_asked_by_many_at_once_it_is_made_once(self):
        body = {"inputs": {"x": X.tolist()}, "target": "probs", "wrt": ["var:dense/kernel", "x", "var:dense/bias"]}
        go = threading.Barrier(16)
        def ask(_):
            go.wait()
            return requests.post(f"http://127.0.0.1:{self.d.rest_port}/v1/models/gradients:gradient", json=body, timeout=30).text
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            texts = list(pool.map(ask, range(16)))
        self.assertEqual(len(set(texts)), 1, set(texts))
        mine = [g for g in self.functions() if g["wrt"] == body["wrt"]]
        self.assertEqual((len(mine), mine[0]["traces"]), (1, 1))
        # Runs begun: one that the thread of a connection had no more time for is begun again by a worker.
        self.assertIn(int(mine[0]["concrete"][0]["calls"]), range(16, 33))

    def test_the_least_recently_used_goes(self):
        names = ["x", "var:dense/kernel", "var:dense/bias", "var:scale", "var:p", "var:q"]
        asks = [[a, b, c] for a in names for b in names for c in names if len({a, b, c}) == 3]
        self.assertGreater(len(asks), 100)
        first = {"inputs": {"x": X.tolist()}, "target": "probs", "wrt": ["x"]}
        want = self.gradient(first).json()
        def ask(wrt):
            r = requests.post(f"http://127.0.0.1:{self.d.rest_port}/v1/models/gradients:gradient",
                              json={"inputs": {"x": X.tolist()}, "target": "probs", "wrt": wrt}, timeout=30)
            return r.json()["gradients"]
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            got = list(pool.map(ask, asks))
        for wrt, g in zip(asks, got):
            self.assertEqual(list(g), wrt)
        kept = [g["wrt"] for g in self.functions()]
        self.assertEqual(len(kept), 64)
        self.assertNotIn(["x"], kept)
        self.assertEqual(self.gradient(first).json(), want)
        self.assertIn(["x"], [g["wrt"] for g in self.functions()])

    def test_a_version_goes_while_gradients_are_asked(self):
        with serving("--file_system_poll_wait_seconds=1", versions={"half": (1,)},
                     labels="") as d:
            stop, wrong, n = threading.Event(), [], [0]
            def ask(k):
                session = requests.Session()
                wrts = (["x"], ["var:scale"], ["x", "var:shift"], ["var:*"])
                while not stop.is_set():
                    r = session.post(f"http://127.0.0.1:{d.rest_port}/v1/models/half:gradient",
                                     json={"inputs": {"x": [2.0]}, "target": "y", "wrt": wrts[(k + n[0]) % 4]}, timeout=30)
                    n[0] += 1
                    if r.status_code != 200 or r.json()["outputs"]["y"] not in ([3.0], [4.0]):
                        wrong.append(r.text)
            threads = [threading.Thread(target=ask, args=(k,)) for k in range(6)]
            for t in threads:
                t.start()
            for _ in range(4):
                d.add("half", 2)
                self.answers(d.post("/v1/models/half:reload"), 200)
                time.sleep(0.3)
                os.remove(os.path.join(d.base("half"), "2"))
                self.answers(d.post("/v1/models/half:reload"), 200)
                time.sleep(0.2)
            stop.set()
            for t in threads:
                t.join()
            self.assertEqual(wrong[:3], [])
            self.assertGreater(n[0], 100)


class Debug(Gradients):
    FLAGS = ("--enable_debug_api",)

    def debug(self, body):
        return json.loads(self.d.post("/v1/models/gradients:debug", body).text)

    def test_the_first_nan_of_a_backward_pass(self):
        body = {"signature_name": "root", "inputs": {"x": [1.0, 0.0]}, "gradient": {"target": "y", "wrt": "x"}}
        doc = self.debug({**body, "watch": ["gradients/*"]})
        self.assertEqual(doc["error"], None)
        self.assertTrue(np.isnan(doc["outputs"]["gradient/x"][1]))
        self.assertTrue(doc["nodes"])
        self.assertTrue(all(n["name"].startswith("gradients/") for n in doc["nodes"]))
        bad = next(n for n in doc["nodes"] if any(o.get("nan", 0) or o.get("inf", 0) for o in n["outputs"]))
        doc = self.debug({**body, "stop_on_nonfinite": True})
        self.assertIn(f"node '{bad['name']}'", doc["stopped"])
        self.assertRegex(doc["stopped"], r"node 'gradients/.*Pow/")
        forward = self.debug({**body, "gradient": {"target": "y", "wrt": "x"}, "inputs": {"x": [1.0, 4.0]}, "stop_on_nonfinite": True})
        self.assertIsNone(forward["stopped"])

    def test_compared_and_placed(self):
        ask = {"inputs": {"x": X.tolist()}, "gradient": {"target": "probs", "wrt": ["x", "var:dense/*"], "output_gradients": {"probs": [[1, 0, 0], [0, 1, 0]]}}}
        doc = self.debug({**ask, "mode": "compare"})
        self.assertEqual((doc["first_difference"], doc["error"]), (None, None))
        self.assertGreater(doc["compared_nodes"], 5)
        want = tape("serving_default", "probs", {"x": X}, ["x"], [], tf.constant([[1.0, 0, 0], [0, 1, 0]]))
        np.testing.assert_allclose(doc["outputs"]["gradient/x"], want[0], 1e-4, 1e-6)
        doc = self.debug({"mode": "placement", "gradient": ask["gradient"]})
        self.assertTrue(any(n["name"].startswith("gradients/") and n["placed"] == "step" for n in doc["nodes"]))
        for change, words in (({"target": "none", "wrt": "x"}, "is no output"), ("x", "'gradient' must be an object"), ({"target": 1}, "'target' must be")):
            self.answers(self.d.post("/v1/models/gradients:debug", {"inputs": {"x": X.tolist()}, "gradient": change}), 400, words)


class Tensorctl(Gradients):
    def test_inspect_says_by_what_an_output_can_be_differentiated(self):
        p = subprocess.run([TENSORCTL, "inspect", os.path.join(server.MODELS, "gradients", "1")], capture_output=True, text=True, timeout=60)
        self.assertEqual(p.returncode, 0, p.stderr)
        said = {k: v["gradients"] for k, v in json.loads(p.stdout)["signatures"].items()}
        self.assertEqual(said["pair"], {"a": {"differentiable": True, "inputs": ["x"], "variables": 1}, "b": {"differentiable": True, "inputs": ["z"], "variables": 1}})
        self.assertEqual(said["loss"], {"loss": {"differentiable": True, "inputs": ["x"], "variables": 3}})
        self.assertEqual(said["serving_default"]["label"], {"differentiable": False, "why": "int64"})
        lu = said["lu"]["y"]
        self.assertEqual((lu["differentiable"], lu["blocked_inputs"], lu["blocked_variables"]), (False, ["x"], 0))
        self.assertIn("(Lu) in function", lu["why"])
        self.gradient({"signature_name": "lu", "inputs": {"x": [[1, 2], [3, 4]]}, "target": "y", "wrt": "x"}, 501, lu["why"])

    def run_ctl(self, *args):
        return subprocess.run([TENSORCTL, "gradient", *args], capture_output=True, text=True, timeout=60)

    def test_of_a_server_and_of_a_directory(self):
        ask = ["--signature", "pair", "--inputs", "x=[1,2];z=[3,4]", "--target", "a", "--target", "b", "--wrt", "x", "--wrt", "var:q", "--wrt", "var:dense/bias",
               "--output-gradients", "b=[1,10]"]
        want = {"x": [4.0, 8.0], "var:q": 129.0, "var:dense/bias": None}
        for where in (["gradients", "--server", f"127.0.0.1:{self.d.port}"], ["--dir", os.path.join(server.MODELS, "gradients", "1")]):
            p = self.run_ctl(*where, *ask, "--json")
            self.assertEqual(p.returncode, 0, p.stderr)
            self.assertEqual(json.loads(p.stdout)["gradients"], want)
            p = self.run_ctl(*where, *ask)
            self.assertIn("gradient by x: float[2] = [4.0, 8.0]", p.stdout)
            self.assertIn("gradient by var:dense/bias: nothing leads to it", p.stdout)
            p = self.run_ctl(*where, *ask, "--unconnected", "zero", "--json")
            self.assertEqual(json.loads(p.stdout)["gradients"]["var:dense/bias"], [0, 0, 0])
            p = self.run_ctl(*where, *ask[:-2], "--wrt", "none")
            self.assertEqual(p.returncode, 1)
            self.assertIn("INVALID_ARGUMENT: source 'none' is no input", p.stderr)
        self.assertEqual(self.run_ctl("--target", "a").returncode, 2)
        self.assertEqual(self.run_ctl("gradients", "--nothing").returncode, 2)


if __name__ == "__main__":
    unittest.main()
