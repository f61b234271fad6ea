"""Polymorphic functions: bodies with placeholders of attributes, called in every way TensorFlow has, against TensorFlow itself.

    build/venv/bin/python tests/e2e/functions_test.py

TF1's Defun makes functions of fixed types; the templates are written as protos, which TensorFlow runs too.
"""
import os
import shutil
import tempfile
import unittest

from server import config, serving

import numpy as np
import tensorflow as tf  # noqa: E402
from google.protobuf import text_format  # noqa: E402
from tensorflow.core.framework import function_pb2  # noqa: E402
from tensorflow.core.protobuf import saved_model_pb2  # noqa: E402
from tensorflow.python.eager import context, execute  # noqa: E402
from tensorflow.python.framework import function  # noqa: E402

v1 = tf.compat.v1

TEMPLATES = """
library {
  function {
    signature { name: "Twice" input_arg { name: "x" type_attr: "T" } output_arg { name: "y" type_attr: "T" } attr { name: "T" type: "type" } }
    node_def { name: "add" op: "AddV2" input: "x" input: "x" attr { key: "T" value { placeholder: "T" } } }
    ret { key: "y" value: "add:z:0" }
  }
  function {
    signature { name: "Total" input_arg { name: "xs" type_attr: "T" number_attr: "N" } output_arg { name: "s" type_attr: "T" }
                attr { name: "T" type: "type" } attr { name: "N" type: "int" default_value { i: 2 } } }
    node_def { name: "add" op: "AddN" input: "xs" attr { key: "T" value { placeholder: "T" } } attr { key: "N" value { placeholder: "N" } } }
    node_def { name: "more" op: "AddV2" input: "add:sum:0" input: "xs:1" attr { key: "T" value { placeholder: "T" } } }
    ret { key: "s" value: "more:z:0" }
  }
  function {
    signature { name: "Pass" input_arg { name: "xs" type_list_attr: "Tin" } output_arg { name: "ys" type_list_attr: "Tin" } attr { name: "Tin" type: "list(type)" } }
    node_def { name: "all" op: "IdentityN" input: "xs" attr { key: "T" value { placeholder: "Tin" } } }
    ret { key: "ys" value: "all:output" }
  }
  function {
    signature { name: "Outer" input_arg { name: "x" type_attr: "U" } output_arg { name: "y" type_attr: "U" } attr { name: "U" type: "type" } }
    node_def { name: "named" op: "Twice" input: "x" attr { key: "T" value { placeholder: "U" } } }
    node_def { name: "called" op: "PartitionedCall" input: "named:y:0" attr { key: "Tin" value { list { type: DT_INT32 } } }
               attr { key: "Tout" value { list { type: DT_INT32 } } }
               attr { key: "f" value { func { name: "Twice" attr { key: "T" value { placeholder: "U" } } } } } }
    ret { key: "y" value: "called:output:0" }
  }
  function {
    signature { name: "Apply" input_arg { name: "x" type_attr: "T" } output_arg { name: "y" type_attr: "T" }
                attr { name: "T" type: "type" } attr { name: "types" type: "list(type)" } attr { name: "F" type: "func" } }
    node_def { name: "call" op: "PartitionedCall" input: "x" attr { key: "Tin" value { placeholder: "types" } }
               attr { key: "Tout" value { placeholder: "types" } } attr { key: "f" value { placeholder: "F" } } }
    ret { key: "y" value: "call:output:0" }
  }
  function {
    signature { name: "Below" input_arg { name: "x" type_attr: "T" } output_arg { name: "y" type: DT_BOOL } attr { name: "T" type: "type" } }
    node_def { name: "limit" op: "Const" attr { key: "dtype" value { type: DT_INT32 } }
               attr { key: "value" value { tensor { dtype: DT_INT32 tensor_shape {} int_val: 100 } } } }
    node_def { name: "as" op: "Cast" input: "limit:output:0" attr { key: "SrcT" value { type: DT_INT32 } } attr { key: "DstT" value { placeholder: "T" } } }
    node_def { name: "less" op: "Less" input: "x" input: "as:y:0" attr { key: "T" value { placeholder: "T" } } }
    ret { key: "y" value: "less:z:0" }
  }
}
"""
TWICE = 'func { name: "Twice" attr { key: "T" value { type: %s } } }'
NODES = """
node { name: "by_name" op: "Twice" input: "x" attr { key: "T" value { type: DT_FLOAT } } }
node { name: "by_name_ints" op: "Twice" input: "n" attr { key: "T" value { type: DT_INT32 } } }
node { name: "partitioned" op: "PartitionedCall" input: "x" attr { key: "Tin" value { list { type: DT_FLOAT } } }
       attr { key: "Tout" value { list { type: DT_FLOAT } } } attr { key: "f" value { """ + TWICE % "DT_FLOAT" + """ } } }
node { name: "sum" op: "Total" input: "x" input: "x" input: "by_name" attr { key: "T" value { type: DT_FLOAT } } attr { key: "N" value { i: 3 } } }
node { name: "sum_default" op: "Total" input: "n" input: "n" attr { key: "T" value { type: DT_INT32 } } }
node { name: "pass" op: "Pass" input: "one" input: "n" attr { key: "Tin" value { list { type: DT_FLOAT type: DT_INT32 } } } }
node { name: "passed" op: "Identity" input: "pass:1" attr { key: "T" value { type: DT_INT32 } } }
node { name: "outer" op: "Outer" input: "n" attr { key: "U" value { type: DT_INT32 } } }
node { name: "apply" op: "Apply" input: "x" attr { key: "T" value { type: DT_FLOAT } } attr { key: "types" value { list { type: DT_FLOAT } } }
       attr { key: "F" value { """ + TWICE % "DT_FLOAT" + """ } } }
node { name: "loop" op: "While" input: "one" attr { key: "T" value { list { type: DT_FLOAT } } }
       attr { key: "cond" value { func { name: "Below" attr { key: "T" value { type: DT_FLOAT } } } } }
       attr { key: "body" value { """ + TWICE % "DT_FLOAT" + """ } } attr { key: "output_shapes" value { list {} } } }
node { name: "gradient" op: "SymbolicGradient" input: "x" input: "x" attr { key: "Tin" value { list { type: DT_FLOAT type: DT_FLOAT } } }
       attr { key: "Tout" value { list { type: DT_FLOAT } } } attr { key: "f" value { """ + TWICE % "DT_FLOAT" + """ } } }
node { name: "unbound" op: "PartitionedCall" input: "x" attr { key: "Tin" value { list { type: DT_FLOAT } } }
       attr { key: "Tout" value { list { type: DT_FLOAT } } } attr { key: "f" value { func { name: "Twice" } } } }
"""
AGREE = {"by_name": "x", "by_name_ints": "n", "partitioned": "x", "sum": "x", "sum_default": "n", "passed": "n",
         "outer": "n", "apply": "x", "loop": "x", "defun": "x"}
RECURSIVE = """
node { name: "call" op: "Deeper" input: "x" attr { key: "T" value { type: DT_FLOAT } } }
library { function {
  signature { name: "Deeper" input_arg { name: "x" type_attr: "T" } output_arg { name: "y" type_attr: "T" } attr { name: "T" type: "type" } }
  node_def { name: "call" op: "Deeper" input: "x" attr { key: "T" value { placeholder: "T" } } }
  ret { key: "y" value: "call:y:0" } } }
"""
ENDLESS = """
node { name: "call" op: "More" input: "x" attr { key: "Tin" value { list { type: DT_FLOAT } } } attr { key: "F" value { func { name: "Same" } } } }
library {
  function { signature { name: "Same" input_arg { name: "x" type: DT_FLOAT } output_arg { name: "y" type: DT_FLOAT } }
             node_def { name: "i" op: "Identity" input: "x" attr { key: "T" value { type: DT_FLOAT } } } ret { key: "y" value: "i:output:0" } }
  function {
    signature { name: "More" input_arg { name: "x" type: DT_FLOAT } output_arg { name: "y" type: DT_FLOAT } attr { name: "F" type: "func" } }
    node_def { name: "call" op: "PartitionedCall" input: "x" attr { key: "Tin" value { list { type: DT_FLOAT } } }
               attr { key: "Tout" value { list { type: DT_FLOAT } } }
               attr { key: "f" value { func { name: "More" attr { key: "F" value { func { name: "Same" attr { key: "F" value { placeholder: "F" } } } } } } } } }
    ret { key: "y" value: "call:output:0" } }
}
"""


@function.Defun(tf.float32, func_name="Halve")
def halve(x):
    return x / 2.0


def base_graph():
    """A GraphDef with x float[?], n int32[?], the constant one, and a node that calls a Defun by its name."""
    with tf.Graph().as_default() as g:
        x = v1.placeholder(tf.float32, [None], "x")
        v1.placeholder(tf.int32, [None], "n")
        tf.constant(1.0, name="one")
        tf.identity(halve(x), "defun")
        return g.as_graph_def()


def write_model(where, graph, signatures):
    saved = saved_model_pb2.SavedModel(saved_model_schema_version=1)
    meta = saved.meta_graphs.add()
    meta.meta_info_def.tags.append("serve")
    meta.graph_def.CopyFrom(graph)
    for name, feed in signatures.items():
        s = meta.signature_def[name]
        s.method_name = "tensorflow/serving/predict"
        s.inputs[feed].name, s.inputs[feed].dtype = feed + ":0", 1 if feed == "x" else 3
        s.outputs["y"].name, s.outputs["y"].dtype = name + ":0", s.inputs[feed].dtype
        for info in (s.inputs[feed], s.outputs["y"]):
            info.tensor_shape.unknown_rank = True
    os.makedirs(where)
    with open(os.path.join(where, "saved_model.pb"), "wb") as f:
        f.write(saved.SerializeToString())


def answer_of(graph, name, feeds):
    """What TensorFlow's runtime says. Python's Graph knows no templates, so the nodes become a function that the runtime is given as it is."""
    nodes, done, dtype = {n.name: n for n in graph.node}, set(), 1 if AGREE[name] == "x" else 3
    outputs = {f.signature.name: f.signature.output_arg[0].name for f in graph.library.function}
    main = function_pb2.FunctionDef()
    main.signature.name = "main_" + name
    main.signature.input_arg.add(name="x", type=1)
    main.signature.input_arg.add(name="n", type=3)
    main.signature.output_arg.add(name="r", type=dtype)

    def value(text):
        node, _, port = text.partition(":")
        if node in ("x", "n"):
            return node
        if node not in done:
            done.add(node)
            inputs = [value(i) for i in nodes[node].input]
            copy = main.node_def.add()
            copy.CopyFrom(nodes[node])
            copy.input[:] = inputs
        return f"{node}:{outputs.get(nodes[node].op, 'output')}:{port or 0}"
    main.ret["r"] = value(name)
    ctx = context.context()
    ctx.ensure_initialized()
    for f in [*graph.library.function, main]:
        if not ctx.has_function(f.signature.name):
            ctx.add_function_def(f)
    return execute.execute(main.signature.name.encode(), 1, [tf.constant(feeds["x"]), tf.constant(feeds["n"])], (), ctx)[0].numpy()


class Functions(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.mkdtemp(prefix="tensord-functions.")
        graph = base_graph()
        text_format.Merge(TEMPLATES + NODES, graph)
        write_model(os.path.join(cls.dir, "good", "1"), graph, {**AGREE, "gradient": "x", "unbound": "x"})
        cls.feeds = {"x": np.float32([1, -2.5]), "n": np.int32([3, 2 ** 31 - 1])}
        x, n = cls.feeds.values()
        by_hand = {"partitioned": x + x, "outer": n * 4, "apply": x + x}   # TensorFlow's eager runtime binds no attributes there
        cls.want = {k: by_hand[k] if k in by_hand else answer_of(graph, k, cls.feeds) for k in AGREE}
        for name, text in (("recursive", RECURSIVE), ("endless", ENDLESS)):
            graph = base_graph()
            text_format.Merge(text, graph)
            write_model(os.path.join(cls.dir, name, "1"), graph, {"call": "x"})

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.dir, True)

    def ask(self, d, model, signature, feed="x"):
        return d.post(f"/v1/models/{model}:predict", {"signature_name": signature, "inputs": {feed: self.feeds[feed].tolist()}})

    def test_every_call_answers_as_tensorflow(self):
        for flags in ([], ["--passes_off=all"]):
            with serving(*flags, versions={}, files={"models.config": config(("good", os.path.join(self.dir, "good")))}) as d:
                for signature, feed in AGREE.items():
                    r = self.ask(d, "good", signature, feed)
                    self.assertEqual(r.status_code, 200, r.text)
                    np.testing.assert_array_equal(np.array(r.json()["outputs"], self.want[signature].dtype), self.want[signature], signature)

    def test_what_cannot_run_fails_alone_and_says_why(self):
        models = [(m, os.path.join(self.dir, m)) for m in ("good", "recursive", "endless")]
        with serving("--max_num_load_retries=0", versions={}, files={"models.config": config(*models)}) as d:
            self.assertEqual(self.ask(d, "good", "by_name").status_code, 200)
            r = self.ask(d, "good", "gradient")
            self.assertEqual(r.status_code, 501)
            self.assertIn("Op 'SymbolicGradient' is refused at node 'gradient'", r.json()["error"])
            r = self.ask(d, "good", "unbound")
            self.assertEqual(r.status_code, 400)
            self.assertIn("node 'unbound' (PartitionedCall) calls function 'Twice' without values for all of its 1 attributes", r.json()["error"])
            r = d.get("/v1/models/recursive")
            self.assertIn("function 'Deeper[T=float]' calls itself at node 'call': recursion is not supported", r.text)
            r = d.get("/v1/models/endless")
            self.assertIn("function 'More' is called with a tensor as an attribute, or with attributes of more than 1000 characters", r.text)


if __name__ == "__main__":
    unittest.main()
