"""Writes draws as a suite: TensorFlow's answers, a SavedModel that holds a signature a draw, and cases.json beside the arrays.

The SavedModel is of the first kind (a graph with placeholders, no object graph): building it costs a millisecond a draw, tracing a function ten times that. A draw's
placeholders mostly have unknown shapes; at times the shapes are known, or an argument is a constant of the graph, which is what plans and constant folding see. The answer is always
of the op run eagerly; of a program, of its traced function; of an op that newer graphs may not hold, of a session on a graph of an old enough version.
"""
import json
import os
from collections import Counter

import numpy as np

from draw_source import quantized

CODES = {1: "CANCELLED", 2: "UNKNOWN", 3: "INVALID_ARGUMENT", 5: "NOT_FOUND", 6: "ALREADY_EXISTS", 7: "PERMISSION_DENIED", 8: "RESOURCE_EXHAUSTED", 9: "FAILED_PRECONDITION",
         10: "ABORTED", 11: "OUT_OF_RANGE", 12: "UNIMPLEMENTED", 13: "INTERNAL", 15: "DATA_LOSS"}
VAGUE = ("UNKNOWN", "INTERNAL")   # TensorFlow's codes for what it did not foresee: INVALID_ARGUMENT does as well
CANNOT = ("Could not find device for node", "No OpKernel was registered", "Could not find valid device for node", "No unary variant",
          "Only ranks up to", "Unsupported data type: q", "rank not in [", "Unhandled dimensions",
          "only supports NHWC", "only support NHWC", "do not yet support dilation rates", "only supports dilated rates of 1", "filter_size does not have enough elements", "Gradients for grouped convolutions are not supported")   # TensorFlow has no kernel for the draw: ours may do better
LOOSE = {"bfloat16": (3e-2, 3e-2), "float16": (6e-3, 6e-3), "complex64": (1e-4, 2e-5), "float32": (1e-4, 2e-5), "float64": (1e-8, 1e-10), "complex128": (1e-8, 1e-10)}


def put(arrays, key, value):
    a = np.asarray(value)
    if a.dtype.kind in "OSU":
        items = [x if isinstance(x, bytes) else str(x).encode() for x in a.reshape(-1).tolist()]
        arrays[key + "#bytes"] = np.frombuffer(b"".join(items), np.uint8)
        arrays[key + "#offsets"] = np.cumsum([0] + [len(x) for x in items]).astype(np.int64)
        arrays[key + "#shape"] = np.array(a.shape, np.int64)
    elif a.dtype.name == "bfloat16":
        arrays[key + "#bf16"] = a.view(np.uint16)
    else:
        arrays[key] = a


def put_answers(tf, case, arrays, answers):
    """answers(), by name, among the arrays; where TensorFlow refuses the inputs, the case is to fail as well."""
    try:
        for name, y in answers().items():
            put(arrays, "out/" + name, y.numpy())
    except tf.errors.InvalidArgumentError as e:
        case["error"] = {"code": ["INVALID_ARGUMENT"], "contains": [], "tensorflow": e.message[:300]}


def array_of(tensor):
    """A tensor's value; of a scalar string numpy alone would cut the NUL bytes at the end."""
    value = tensor.numpy()
    return np.array(value, object) if isinstance(value, bytes) else np.asarray(value)


def flatten(inputs):
    """Arguments of a signature: a list argument becomes NAME__0, NAME__1 ..."""
    flat = {}
    for name, value in inputs.items():
        if isinstance(value, list):
            flat.update({f"{name}__{i}": np.asarray(v) for i, v in enumerate(value)})
        else:
            flat[name] = np.asarray(value)
    return flat


def gathered(inputs, flat):
    """Flat arguments as the op takes them."""
    return {n: [flat[f"{n}__{i}"] for i in range(len(v))] if isinstance(v, list) else flat[n] for n, v in inputs.items()}


def parts_of(result):
    """A raw op's result as a list; an op without outputs has none."""
    if result is None or type(result).__name__ == "Operation":
        return []
    flat = []
    for r in result if isinstance(result, (list, tuple)) else [result]:
        flat += r if isinstance(r, list) else [r]
    return flat


def graph_of(tf, version):
    """An empty graph; of an older version of GraphDef, if one is given."""
    graph = tf.Graph()
    if version:
        old = tf.compat.v1.GraphDef()
        old.versions.producer = version
        with graph.as_default():
            tf.graph_util.import_graph_def(old)
    return graph


class Draw:
    """One draw: its arguments, how it is called, and TensorFlow's answer."""

    def __init__(self, tf, op, seed, source, draw):
        from tensorflow.python.framework import op_def_registry
        self.tf, self.op, self.seed, self.source = tf, op, seed, source
        self.inputs, self.attrs, *rest = draw(source)
        self.options, self.flat, self.outputs, self.code, self.function = rest[0] if rest else {}, flatten(self.inputs), None, None, None
        self.drawn, gone = self.attrs, op_def_registry.get(op).deprecation.version if op_def_registry.get(op) else 0
        if not callable(self.attrs) and not gone and source.chance(0.06):
            self.attrs = quantized(op, self.inputs, self.attrs)
        self.program = callable(self.attrs)
        self.version = 0 if self.program or not gone else gone - 1   # of the last graphs that may hold it

    def call(self, flat):
        args = gathered(self.inputs, flat)
        return parts_of(self.attrs(**args) if self.program else getattr(self.tf.raw_ops, self.op)(**args, **self.attrs))

    def traced(self, known):
        tf = self.tf
        specs = {n: tf.TensorSpec(v.shape if known else None, tf.string if v.dtype == object else v.dtype, name=n) for n, v in self.flat.items()}
        return tf.function(lambda **flat: self.call(flat), autograph=False).get_concrete_function(**specs)

    def answer(self):
        """Asks TensorFlow. False when it has no kernel for the draw, or cannot trace it."""
        tf = self.tf
        try:
            if self.program:
                self.function = self.traced(self.source.chance(0.3))
            given = {n: tf.constant(v) for n, v in self.flat.items()}
            if self.version:
                self.outputs = self.session_answer()
            else:
                result = self.function(**given) if self.program else self.call(given)
                self.outputs = [array_of(p) for p in parts_of(result)]
        except tf.errors.OpError as e:
            self.code, self.says = CODES.get(e.error_code, "UNKNOWN"), e.message
            return self.code != "UNIMPLEMENTED" and not any(text in e.message for text in CANNOT)
        except UnicodeDecodeError:
            self.code, self.says = "INVALID_ARGUMENT", ""   # the error's text holds bytes that are no UTF-8: Python loses the error over it
        except (ValueError, TypeError, NotImplementedError):
            if not self.program and not self.outputs:
                raise
            return False
        return True

    def session_answer(self):
        graph = graph_of(self.tf, self.version)
        asked, tensors = self.build(graph, "x", "open")
        with self.tf.compat.v1.Session(graph=graph) as session:
            return [np.asarray(v) for v in session.run(list(tensors.values()), {t: self.flat[n] for n, t in asked.items()})]

    def place(self, graphs, name):
        """Puts the draw into the graph; (placeholders, results) by name, or None when TensorFlow refuses to build it."""
        if self.version not in graphs:
            graphs[self.version] = graph_of(self.tf, self.version)
        graph = graphs[self.version]
        kinds = [self.source.one(["open", "open", "known", "constant"]), "open"]
        for k, kind in enumerate(kinds):
            try:
                return self.build(graph, f"{name}{'_' * k}", kind)
            except (ValueError, TypeError, self.tf.errors.OpError):
                continue
        return None

    def build(self, graph, name, kind):
        tf, v1 = self.tf, self.tf.compat.v1
        with graph.as_default(), tf.name_scope(name):
            flat, asked = {}, {}
            for i, (n, v) in enumerate(self.flat.items()):
                dtype = tf.string if v.dtype == object else tf.as_dtype(v.dtype)
                if kind == "constant" and (i or len(self.flat) == 1):
                    flat[n] = tf.constant(v, dtype)
                    continue
                flat[n] = asked[n] = v1.placeholder(dtype, v.shape if kind == "known" else None, n.replace("_", "u", 1) if n[0] == "_" else n)
            parts = parts_of(self.function(**flat)) if self.program else self.call(flat)
            tensors = {f"y{i}": p for i, p in enumerate(parts)}
        self.asked = asked
        return asked, tensors

    def case(self, key, folder):
        """Writes the arrays of the case; the case."""
        outputs = {f"y{i}": v for i, v in enumerate(self.outputs or [])}
        dtypes = [a.dtype.name for a in list(self.flat.values()) + list(outputs.values())]
        again = f"build/venv/bin/python tests/property/op_draws.py OUT --draw {self.op}.{self.seed}"
        case = {"id": f"{key}.{self.seed}", "signature": key, "file": key + ".npz", "again": again}
        loose = [LOOSE[d] for d in LOOSE if d in dtypes]
        if loose:
            case["rtol"], case["atol"] = loose[0]
        case.update({k: v for k, v in self.options.items() if k != "errors"})
        if self.code:
            more = ["INVALID_ARGUMENT"] if self.code in VAGUE else []
            case["error"] = {"code": [self.code] + more + self.options.get("errors", []), "contains": [], "tensorflow": self.says[:300]}
        arrays = {}
        for n in self.asked:
            put(arrays, "in/" + n, self.flat[n])
        for n, v in outputs.items():
            put(arrays, "out/" + n, v)
        np.savez(os.path.join(folder, case["file"]), **arrays)
        return case


def write_graphs(tf, graphs, signatures, folder, saver=None):
    """One SavedModel of the nodes of all graphs. saver: the SaverDef of its variables."""
    from tensorflow.core.protobuf import saved_model_pb2
    model = saved_model_pb2.SavedModel(saved_model_schema_version=1)
    meta = model.meta_graphs.add()
    meta.meta_info_def.tags.append("serve")
    meta.meta_info_def.tensorflow_version = tf.__version__
    for graph in graphs.values():
        meta.graph_def.MergeFrom(graph.as_graph_def())
    if saver:
        meta.saver_def.CopyFrom(saver)
    for key, sides in signatures.items():
        signature = meta.signature_def[key]
        signature.method_name = "tensorflow/serving/predict"
        for into, tensors in zip((signature.inputs, signature.outputs), sides):
            for name, t in tensors.items():
                into[name].name, into[name].dtype = t.name, t.dtype.as_datatype_enum
                into[name].tensor_shape.CopyFrom(t.shape.as_proto())
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "saved_model.pb"), "wb") as f:
        f.write(model.SerializeToString())


def write_model(out, name, rows, families, say):
    """One SavedModel with a signature for each (op, seed), and its cases. Returns the number of cases, and why how many draws became none."""
    import tensorflow as tf
    from draw_source import Source
    graphs, signatures, cases, lost = {}, {}, [], Counter()
    folder = os.path.join(out, "goldens", name)
    os.makedirs(folder, exist_ok=True)
    for k, (op, seed) in enumerate(rows):
        say(op, seed)
        draw, key = Draw(tf, op, seed, Source(seed, op), families.draws[op]), f"{op}_{k}"
        known = families.known.get(op)
        if known and known[0](draw.inputs, draw.drawn):
            lost["differ as is meant (KNOWN)"] += 1
            continue
        if not draw.answer():
            lost["TensorFlow cannot answer"] += 1
            continue
        signature = draw.place(graphs, key.lstrip("_"))
        if signature is None:
            lost["no model can hold"] += 1
            continue
        signatures[key] = signature
        cases.append(draw.case(key, folder))
    write_graphs(tf, graphs, signatures, os.path.join(out, "models", name))
    with open(os.path.join(folder, "cases.json"), "w") as f:
        json.dump(cases, f, indent=1)
    return len(cases), lost
