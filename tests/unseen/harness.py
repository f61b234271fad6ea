"""The frame of the unseen models: a register of makers, TensorFlow's answers, and the suite they are written as.

A maker is a function of one argument, the folder to save into; it saves a SavedModel there in whatever way its users do and yields cases (case() below). TensorFlow
answers each case in a session on the loaded SavedModel, fed and fetched by the names of the signature: what TensorFlow Serving does, no Python shape
checks in between. Of the first case of each signature more are made: rows repeated, no rows, NaN and infinities, one axis longer, one axis less.
"""
import json
import os

import numpy as np

CODES = {1: "CANCELLED", 2: "UNKNOWN", 3: "INVALID_ARGUMENT", 4: "DEADLINE_EXCEEDED", 5: "NOT_FOUND", 6: "ALREADY_EXISTS", 7: "PERMISSION_DENIED", 8: "RESOURCE_EXHAUSTED",
         9: "FAILED_PRECONDITION", 10: "ABORTED", 11: "OUT_OF_RANGE", 12: "UNIMPLEMENTED", 13: "INTERNAL", 15: "DATA_LOSS"}
KNOWN = {   # what is known to differ, and why
    "grappler_bait serving_default_0_nonfinite": "TensorFlow's optimiser turns not (a > b) into a <= b, also for NaN",
    "image_colour serving_default_0_nonfinite": "AdjustHue of a colour with a NaN, and casts of NaN to integers",
    "stateless_random images_6_nonfinite": "AdjustHue of a colour with a NaN",
    "frozen_resource serving_default_0_nonfinite": "oneDNN's Relu6 behind a convolution makes 0 of NaN",
    "suppression serving_default_0_nonfinite": "the order of NaN in a sort",
    "pointnet_dynamic serving_default_0_nonfinite": "the order of NaN in TopKV2",
    "special_doubles serving_default_0_nonfinite": "betainc of infinite parameters",
    "special_functions edges": "polygamma of order 100 leaves float's range",
    "ctc serving_default_0_wide_logits": "equal scores of two beams: which is first",
    "ctc loss_10_nonfinite": "CTCLoss of NaN",
    "deep_and_ranked serving_default_gradient": "TensorFlow hands zeros to the results that are not asked for: times their infinite derivatives NaN",
    "nan_elements serving_default_gradient": "as deep_and_ranked",
}
LOOSE = {"bfloat16": (5e-2, 5e-2), "float16": (1e-2, 1e-2)}
ALIKE = {"INVALID_ARGUMENT", "OUT_OF_RANGE", "FAILED_PRECONDITION", "INTERNAL", "UNKNOWN"}   # how TensorFlow's kernels and its fused forms call one and the same mistake
CANNOT = ("depth must be evenly divisible", "Fused implementation", "do not yet support", "only supports NHWC", "Gradients for grouped convolutions", "No algorithm worked", "No unary variant")   # TensorFlow has no kernel: ours may do better
MAKERS = {}
F, I, J, B, S, D = "float32", "int32", "int64", "bool", "string", "float64"


def model(*plain, **meta):
    """Registers a maker: @model, or @model(rtol=1e-3, vary=False ...). vary=False: only the cases it yields."""
    def put(maker):
        MAKERS[maker.__name__] = (maker, meta)
        return maker
    return put(plain[0]) if plain else put


def case(inputs=None, signature="serving_default", **meta):
    return {"inputs": {k: array_of(v) for k, v in (inputs or {}).items()}, "signature": signature, **meta}


def array_of(value):
    """numpy's array; strings as objects, which keep their NUL bytes."""
    if isinstance(value, (bytes, str)):
        return np.array(value, object)
    if isinstance(value, list) and any(isinstance(x, (bytes, str)) for x in value):
        return np.array(value, object)
    a = np.asarray(value)
    return a.astype(object) if a.dtype.kind in "SU" else a


def floats(seed, *shape, low=-1.0, high=1.0, dtype=np.float32):
    return np.random.default_rng(seed).uniform(low, high, shape).astype(dtype)


def ints(seed, *shape, high=10, low=0, dtype=np.int32):
    return np.random.default_rng(seed).integers(low, high, shape).astype(dtype)


def varied(first, open_axes):
    """Cases made from a signature's first one. open_axes: by input, the axes whose size the signature leaves open."""
    rows = {k for k, axes in open_axes.items() if 0 in axes and first["inputs"][k].ndim}
    if rows and rows == set(first["inputs"]):
        yield "repeat", {k: np.concatenate([v, v[::-1], v]) for k, v in first["inputs"].items()}
        yield "none", {k: v[:0] for k, v in first["inputs"].items()}
        yield "one", {k: v[:1] for k, v in first["inputs"].items()}
    wild = {k: wild_floats(v) for k, v in first["inputs"].items()}
    if any(wild[k] is not v for k, v in first["inputs"].items()):
        yield "nonfinite", wild
    for k, v in first["inputs"].items():
        if v.ndim and v.size:
            yield f"wide_{k}", {**first["inputs"], k: np.concatenate([v, v[..., :1]], -1)}
            yield f"flat_{k}", {**first["inputs"], k: v.reshape(-1) if v.ndim > 1 else v[0]}


def wild_floats(v):
    if v.dtype.name not in ("float16", "float32", "float64", "bfloat16") or v.size < 3:
        return v
    w = v.copy()
    w.reshape(-1)[[0, v.size // 2, v.size - 1]] = [np.nan, np.inf, -np.inf]
    return w


class Answers:
    """A SavedModel in a TensorFlow session."""

    def __init__(self, folder, tags):
        import tensorflow as tf
        self.tf, self.graph = tf, tf.Graph()
        v1 = tf.compat.v1
        self.session = v1.Session(graph=self.graph)
        with self.graph.as_default():
            meta = v1.saved_model.load(self.session, tags, folder)
        self.signatures = {k: s for k, s in meta.signature_def.items() if not k.startswith("__")}
        self.session._extend_graph() if hasattr(self.session, "_extend_graph") else None

    def tensor(self, name):
        return self.graph.get_tensor_by_name(name)

    def open_axes(self, key):
        dims = {k: t.tensor_shape for k, t in self.signatures[key].inputs.items()}
        return {k: {0, 1} if d.unknown_rank else {i for i, x in enumerate(d.dim) if x.size < 0} for k, d in dims.items()}

    def run(self, key, inputs):
        """(outputs, None) or (None, (code, text))."""
        s = self.signatures[key]
        names = sorted(s.outputs)
        feed = {self.tensor(s.inputs[k].name)._as_tf_output(): v for k, v in inputs.items()}
        try:
            values = self.session._call_tf_sessionrun(None, feed, [self.tensor(s.outputs[k].name)._as_tf_output() for k in names], [], None)
            return dict(zip(names, values)), None
        except self.tf.errors.OpError as e:
            return None, (CODES.get(e.error_code, "UNKNOWN"), e.message)
        except UnicodeDecodeError:
            return None, ("INVALID_ARGUMENT", "")


def put(arrays, key, value):
    a = np.asarray(value)
    if a.dtype.kind in "OSU":
        items = [x if isinstance(x, bytes) else str(x).encode() for x in (a.reshape(-1).tolist() if a.ndim else [value if isinstance(value, bytes) else a.item()])]
        arrays[key + "#bytes"] = np.frombuffer(b"".join(items), np.uint8)
        arrays[key + "#offsets"] = np.cumsum([0] + [len(x) for x in items]).astype(np.int64)
        arrays[key + "#shape"] = np.array(a.shape, np.int64)
    elif a.dtype.name == "bfloat16":
        arrays[key + "#bf16"] = a.view(np.uint16)
    else:
        arrays[key] = a


class Suite:
    """One model's cases, answered and written."""

    def __init__(self, out, name, meta, say):
        self.name, self.folder, self.meta, self.say = name, os.path.join(out, "goldens", name), meta, say
        os.makedirs(self.folder, exist_ok=True)
        self.answers = Answers(os.path.join(out, "models", name), meta.get("tags", ["serve"]))
        self.rows, self.seen, self.skipped = [], set(), 0

    def typed(self, c):
        """The case with its numbers in the signature's dtypes: lists in a maker's source have none."""
        declared = self.answers.signatures[c["signature"]].inputs
        of = {k: self.answers.tf.as_dtype(declared[k].dtype).as_numpy_dtype for k in c["inputs"] if k in declared}
        return {**c, "inputs": {k: v if v.dtype == object or c.get("raw") else v.astype(of.get(k, v.dtype)) for k, v in c["inputs"].items()}}

    def add(self, c):
        key, c = c["signature"], self.typed(c)
        first, self.seen = key not in self.seen, self.seen | {key}
        name = c.get("id", f"{key}_{len(self.rows)}")
        self.write(name, c)
        if first and self.meta.get("vary", True) and "error" not in c:
            for kind, inputs in varied(c, self.answers.open_axes(key)):
                self.write(f"{name}_{kind}", {**c, "inputs": inputs}, kind)

    def write(self, name, c, kind=None):
        if not self.say(name) or f"{self.name} {name}" in KNOWN or (kind and any(kind.startswith(k) for k in self.meta.get("skip", ()))):
            self.skipped += 1
            return
        outputs, error = ({}, None) if "error" in c else self.answers.run(c["signature"], c["inputs"])
        if error and (error[0] == "UNIMPLEMENTED" or any(text in error[1] for text in CANNOT)):
            self.skipped += 1
            return
        row = {"id": name, "signature": c["signature"], **{k: v for k, v in self.meta.items() if k in ("rtol", "atol", "shape_only", "stateful")},
               **{k: v for k, v in c.items() if k in ("error", "rtol", "atol", "shape_only", "stateful", "request")}}
        if error and not self.rows:
            print(f"  {name}: the first case fails: {' '.join(error[1].split())[:200]}", flush=True)
        if error:
            codes = sorted(ALIKE) if error[0] in ALIKE else [error[0]]
            row["error"] = {"code": codes, "contains": [], "tensorflow": error[0] + ": " + error[1][:300]}
        dtypes = [np.asarray(a).dtype.name for a in list(c["inputs"].values()) + list((outputs or {}).values())]
        loose = [LOOSE[d] for d in LOOSE if d in dtypes]
        if loose:
            row.setdefault("rtol", loose[0][0]), row.setdefault("atol", loose[0][1])
        arrays = {}
        for side, tensors in (("in/", c["inputs"]), ("out/", outputs or {})):
            for k, v in tensors.items():
                put(arrays, side + k, v)
        if arrays:
            row["file"] = f"{len(self.rows)}.npz"
            np.savez(os.path.join(self.folder, row["file"]), **arrays)
        self.rows.append(row)

    def close(self):
        with open(os.path.join(self.folder, "cases.json"), "w") as f:
            json.dump(self.rows, f, indent=1)
        with open(os.path.join(self.folder, "skipped.txt"), "w") as f:
            f.write(f"{self.skipped}\n")
        self.answers.session.close()


class Lazy:
    """A module that is imported when something of it is asked for: makers are listed without TensorFlow."""

    def __init__(self, name):
        self.__dict__["name"] = name

    def __getattr__(self, key):
        import importlib
        return getattr(importlib.import_module(self.__dict__["name"]), key)


def shake(net, seed=1):
    """Weights as if trained: no zeros, no ones, variances positive."""
    r = np.random.default_rng(seed)
    for w in net.weights:
        name, dtype = w.name, str(getattr(w.dtype, "name", w.dtype))
        if not dtype.endswith(("float32", "float64", "float16")) or "seed" in name or "random" in name:
            continue
        v = np.asarray(w.numpy() if hasattr(w, "numpy") else w)
        low = "variance" in name
        w.assign(np.abs(v) + r.uniform(0.1, 0.5, v.shape) if low else v + r.normal(0, 0.1, v.shape))
    return net


def last_dims(folder):
    """The inputs of serving_default as they were saved, whatever names Keras gave them: name: size of the last axis."""
    from tensorflow.core.protobuf import saved_model_pb2
    saved = saved_model_pb2.SavedModel()
    with open(os.path.join(folder, "saved_model.pb"), "rb") as f:
        saved.ParseFromString(f.read())
    signature = saved.meta_graphs[0].signature_def["serving_default"]
    return {k: t.tensor_shape.dim[-1].size for k, t in signature.inputs.items()}


def save(folder, functions, module=None):
    """A tf.Module of functions: {signature: (function, {argument: (shape, dtype)})}."""
    import tensorflow as tf
    module = module or tf.Module()
    concrete = {}
    for name, (fn, specs) in functions.items():
        f = tf.function(fn)
        setattr(module, "f_" + "".join(c if c.isalnum() else "_" for c in name), f)
        concrete[name] = f.get_concrete_function(**{k: tf.TensorSpec(s, d, name=k) for k, (s, d) in specs.items()})
    tf.saved_model.save(module, folder, signatures=concrete)
