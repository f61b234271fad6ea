"""Makes tests/op_library/model/1: a TF1 SavedModel of the example library's ops, which TensorFlow itself does not know.

    build/venv/bin/python tests/op_library/make_model.py

The graph is made of stand-ins of ops that TensorFlow has, which are then renamed in the file's protos.

    serving_default(x float[?]) -> y, values, indices     ints(n int64[?]) -> m     text(s string[?]) -> t
    bad_range(x float[?]) -> y     wrong_type(h half[?]) -> y     matrix(x float[?]) -> y      broken(x float[?]) -> y
"""
import os

import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

v1, info = tf.compat.v1, tf.compat.v1.saved_model.build_tensor_info
HERE = os.path.dirname(os.path.abspath(__file__))
CLIP, WITHIN, TAG = "TensordExampleClipScale", "TensordExampleWithin", "TensordExampleTag"


def become(node, op, dtype=None, **floats):
    node.op = op
    node.attr.clear()
    if dtype is not None:
        node.attr["T"].type = dtype
    for name, value in floats.items():
        node.attr[name].f = value


def main():
    with tf.Graph().as_default() as graph:
        x, n = v1.placeholder(tf.float32, [None], "x"), v1.placeholder(tf.int64, [None], "n")
        s, h = v1.placeholder(tf.string, [None], "s"), v1.placeholder(tf.float16, [None], "h")
        y = tf.multiply(tf.identity(x, "clip"), 1.0, "y")
        v, i = v1.raw_ops.Unique(x=x, out_idx=tf.int64, name="within")
        outs = {"serving_default": ({"x": x}, {"y": y, "values": tf.identity(v, "values"), "indices": tf.identity(i, "indices")}),
                "ints": ({"n": n}, {"m": tf.identity(n, "clip_ints")}),
                "text": ({"s": s}, {"t": tf.identity(s, "tag")}),
                "bad_range": ({"x": x}, {"y": tf.identity(x, "bad_range")}),
                "wrong_type": ({"h": h}, {"y": tf.identity(h, "wrong_type")}),
                "matrix": ({"x": x}, {"y": tf.identity(tf.reshape(x, [1, -1]), "matrix")}),
                "broken": ({"x": x}, {"y": tf.identity(x, "broken")})}
        saved = saved_model_pb2.SavedModel(saved_model_schema_version=1)
        meta = saved.meta_graphs.add()
        meta.meta_info_def.tags.append("serve")
        meta.graph_def.CopyFrom(graph.as_graph_def())
        for key, (ins, results) in outs.items():
            meta.signature_def[key].CopyFrom(v1.saved_model.build_signature_def(
                {k: info(t) for k, t in ins.items()}, {k: info(t) for k, t in results.items()}, "tensorflow/serving/predict"))
    nodes = {node.name: node for node in meta.graph_def.node}
    become(nodes["clip"], CLIP, tf.float32.as_datatype_enum, low=-1, high=2, scale=10)
    become(nodes["clip_ints"], CLIP, tf.int64.as_datatype_enum, low=-1, high=2)
    become(nodes["bad_range"], CLIP, tf.float32.as_datatype_enum, low=2, high=-1)
    become(nodes["wrong_type"], CLIP, tf.float16.as_datatype_enum, low=-1, high=2)
    become(nodes["within"], WITHIN, low=0, high=1)
    become(nodes["matrix"], WITHIN, low=0, high=1)
    become(nodes["tag"], TAG)
    become(nodes["broken"], "TensordBad", tf.float32.as_datatype_enum)
    os.makedirs(os.path.join(HERE, "model", "1"), exist_ok=True)
    with open(os.path.join(HERE, "model", "1", "saved_model.pb"), "wb") as f:
        f.write(saved.SerializeToString(deterministic=True))


if __name__ == "__main__":
    main()
