"""Makes what the benchmarks run: five SavedModels and the calls to time, with TensorFlow, once.

    python tests/bench/models.py OUT [SUITES]

OUT/trivial/1    y = x / 2 + 2 on a vector of floats
OUT/large/1      a perceptron 64-3584-3584-3584-10, 103 MB of weights
OUT/image/1      the mean of a 224x224x3 image
OUT/towers/1     four equal towers of three convolutions each, on 64 numbers spread to a 32x32 image
OUT/functions/1  700 functions that call one another, 3 MB of graph
OUT/cases.txt    label, model directory, case file of every call: those of these models and, of each model in SUITES/zoo,
                 its first answered golden case and the one of its largest batch (call.h describes the file)
"""
import glob
import itertools
import json
import os
import struct
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

STRING = 7


class Trivial(tf.Module):
    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, name="x")])
    def serve(self, x):
        return {"y": x / 2.0 + 2.0}


class Perceptron(tf.Module):
    def __init__(self, widths):
        super().__init__()
        r = np.random.default_rng(1)
        self.layers = [(tf.Variable(r.standard_normal((m, n)).astype(np.float32) * m ** -0.5), tf.Variable(tf.zeros([n])))
                       for m, n in zip(widths, widths[1:])]

    @tf.function(input_signature=[tf.TensorSpec([None, 64], tf.float32, name="x")])
    def serve(self, x):
        for w, b in self.layers[:-1]:
            x = tf.nn.relu(tf.matmul(x, w) + b)
        w, b = self.layers[-1]
        return {"y": tf.nn.softmax(tf.matmul(x, w) + b)}


class Image(tf.Module):
    @tf.function(input_signature=[tf.TensorSpec([None, 224, 224, 3], tf.float32, name="x")])
    def serve(self, x):
        return {"y": tf.reduce_mean(x, [1, 2, 3])}


class Towers(tf.Module):
    def __init__(self):
        super().__init__()
        r = np.random.default_rng(1)
        widths = [1, 64, 64, 64]
        self.towers = [[tf.Variable(r.standard_normal((3, 3, m, n)).astype(np.float32) * (9 * m) ** -0.5) for m, n in zip(widths, widths[1:])]
                       for _ in range(4)]

    @tf.function(input_signature=[tf.TensorSpec([None, 64], tf.float32, name="x")])
    def serve(self, x):
        image, out = tf.repeat(tf.repeat(tf.reshape(x, [-1, 8, 8, 1]), 4, 1), 4, 2), []
        for tower in self.towers:
            y = image
            for w in tower:
                y = tf.nn.relu(tf.nn.conv2d(y, w, 1, "SAME"))
            out.append(tf.reduce_mean(y, [1, 2]))
        return {"y": tf.concat(out, 1)}


class Functions(tf.Module):
    """Layers of small functions, each with nodes and constants of its own, that call functions of the layer before."""

    def __init__(self, count=700, width=70):
        super().__init__()
        self.weights = [tf.Variable(np.full([16, 16], 0.01 * (i + 1), np.float32)) for i in range(8)]
        made = []
        for i in range(count):
            made.append(self.one(i, made[i - width] if i >= width else None))
        self.last = made[-width:]

    def one(self, i, before):
        def f(x):
            y = before(x) if before is not None else x
            z = tf.nn.relu(tf.matmul(y, self.weights[i % 8]) + np.linspace(i, i + 1, 16, dtype=np.float32))
            rows = tf.shape(z)[0]
            z = tf.reshape(tf.concat([z[:, :8], tf.tanh(z[:, 8:])], 1), [rows, 16])
            return tf.where(z > 0.5, z * (1.0 / (i + 1)), tf.square(z) - float(i))
        return tf.function(f, input_signature=[tf.TensorSpec([None, 16], tf.float32)])

    @tf.function(input_signature=[tf.TensorSpec([None, 16], tf.float32, name="x")])
    def serve(self, x):
        return {"y": tf.add_n([f(x) for f in self.last])}


def save(module, folder):
    if not os.path.exists(folder):
        tf.saved_model.save(module, folder + ".part", signatures={"serving_default": module.serve})
        os.rename(folder + ".part", folder)


def read_inputs(path):
    """The in/ arrays of a golden case; strings as KEY#bytes, KEY#offsets, KEY#shape. None for what is not written here."""
    z, out = np.load(path), {}
    for key in z.files:
        if not key.startswith("in/"):
            continue
        name, _, part = key[3:].partition("#")
        if part == "bytes":
            raw, off = z[key].tobytes(), z["in/" + name + "#offsets"]
            a = np.empty(len(off) - 1, object)
            a[:] = [raw[off[i]:off[i + 1]] for i in range(len(off) - 1)]
            out[name] = a.reshape(z["in/" + name + "#shape"])
        elif part == "":
            out[name] = z[key]
        elif part not in ("offsets", "shape"):
            return None
    return out


def blob(s):
    s = s.encode() if isinstance(s, str) else s
    return struct.pack("i", len(s)) + s


def write_case(path, signature, name, inputs):
    with open(path, "wb") as f:
        f.write(blob(name) + struct.pack("i", len(inputs)))
        for key, a in inputs.items():
            dtype = STRING if a.dtype == object else tf.as_dtype(a.dtype).as_datatype_enum
            f.write(blob(key) + blob(signature.inputs[key].name) + struct.pack(f"ii{a.ndim}q", dtype, a.ndim, *a.shape))
            f.write(struct.pack("i", a.size))
            f.write(b"".join(map(blob, a.reshape(-1))) if dtype == STRING else blob(np.ascontiguousarray(a).tobytes()))
        f.write(struct.pack("i", len(signature.outputs)))
        for key, info in signature.outputs.items():
            f.write(blob(key) + blob(info.name))


def signatures(folder):
    m = saved_model_pb2.SavedModel()
    with open(os.path.join(folder, "saved_model.pb"), "rb") as f:
        m.ParseFromString(f.read())
    return m.meta_graphs[0].signature_def


def answered_cases(suite):
    """(model, case, folder, signature's name, inputs) of every golden case that has an answer, and nothing empty."""
    for listing in sorted(glob.glob(os.path.join(suite, "goldens", "*", "cases.json"))):
        folder = os.path.dirname(listing)
        model = os.path.basename(folder)
        for case in json.load(open(listing)):
            if "error" in case or "file" not in case or "gradient" in case:
                continue
            inputs = read_inputs(os.path.join(folder, case["file"]))
            if inputs is not None and all(a.size > 0 for a in inputs.values()):
                yield model, case["id"], os.path.join(suite, "models", model), case["signature"], inputs


def zoo_cases(suite):
    """Those of answered_cases that are the first of their model, and its largest."""
    for _, rows in itertools.groupby(answered_cases(suite), lambda row: row[0]):
        rows = list(rows)
        largest = max(rows, key=lambda r: sum(a.size for a in r[4].values()))
        yield rows[0]
        if largest is not rows[0] and largest[3] == rows[0][3]:
            yield largest


def main(out, suites):
    os.makedirs(os.path.join(out, "cases"), exist_ok=True)
    save(Trivial(), os.path.join(out, "trivial", "1"))
    save(Perceptron([64, 3584, 3584, 3584, 10]), os.path.join(out, "large", "1"))
    save(Image(), os.path.join(out, "image", "1"))
    save(Towers(), os.path.join(out, "towers", "1"))
    save(Functions(), os.path.join(out, "functions", "1"))
    default = "serving_default"
    rows = [("trivial", "x3", os.path.join(out, "trivial", "1"), default, {"x": np.arange(3, dtype=np.float32)}),
            ("large", "1x64", os.path.join(out, "large", "1"), default, {"x": np.ones([1, 64], np.float32)}),
            ("functions", "1x16", os.path.join(out, "functions", "1"), default, {"x": np.ones([1, 16], np.float32)})]
    zoo = os.path.join(suites, "zoo") if suites else ""
    if os.path.isdir(zoo):
        rows += zoo_cases(zoo)
    with open(os.path.join(out, "cases.txt"), "w") as listing:
        for model, case, folder, name, inputs in rows:
            path = os.path.join(out, "cases", f"{model}.{case}")
            signature = signatures(folder)
            if name in signature and set(inputs) <= set(signature[name].inputs):
                write_case(path, signature[name], name, inputs)
                listing.write(f"{model} {case}\t{os.path.abspath(folder)}\t{os.path.abspath(path)}\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "")
