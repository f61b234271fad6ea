"""Gradients of the unseen models: for each signature's first case, those of all its results by all inputs and variables of floating-point dtypes, with random gradients from above.

TensorFlow's answer is a tape's over the loaded signature, with variables by their checkpoint keys; of a SavedModel of TensorFlow 1 that of tf.gradients in a session, with variables by their names.
Written as SUITE/gradients/NAME, which golden.py reads beside SUITE/goldens/NAME. Gradients of many elements are kept as samples and sums.
"""
import json
import os

import numpy as np

from harness import KNOWN, Answers, put

MANY, SAMPLES = 4096, 64


class Signature:
    """What is asked for of one signature: results and sources in TensorFlow's terms, and a function that answers."""

    def __init__(self, inputs, only=None):
        self.inputs, self.only, self.names, self.ups, self.grads = inputs, only, [], {}, {}

    def upstream(self, outputs):
        """Random gradients for the results that have any, and are finite."""
        r = np.random.default_rng(len(self.inputs) + 7)
        for k, y in sorted(outputs.items()):
            y = np.asarray(y)
            if (self.only is None or k in self.only) and floating(y.dtype) and y.size and np.all(np.isfinite(y.astype(np.float64))):
                self.ups[k] = r.normal(0, 1, y.shape).astype(y.dtype)
        return bool(self.ups)

    def keep(self, names, found):
        self.grads = {n: None if g is None else np.asarray(g) for n, g in zip(names, found)}


def floating(dtype):
    return np.dtype(dtype).kind == "f" or np.dtype(dtype).name == "bfloat16"


def trainable(t):
    return t.dtype.base_dtype.is_floating


class Loaded:
    """A SavedModel of TensorFlow 2, loaded as an object."""

    def __init__(self, folder, tags):
        import tensorflow as tf
        self.tf, self.root = tf, tf.saved_model.load(folder, tags=tags)
        self.keys = self.checkpoint_keys(os.path.join(folder, "variables", "variables"))

    def checkpoint_keys(self, path):
        """{id of a variable: its checkpoint key}: the checkpoint's own graph of objects, walked beside the loaded objects."""
        from tensorflow.core.protobuf import trackable_object_graph_pb2
        graph = trackable_object_graph_pb2.TrackableObjectGraph()
        if os.path.exists(path + ".index"):
            graph.ParseFromString(self.tf.train.load_checkpoint(path).get_tensor("_CHECKPOINTABLE_OBJECT_GRAPH"))
        keys, seen, todo = {}, set(), [(0, self.root)] if graph.nodes else []
        while todo:
            i, thing = todo.pop()
            if i in seen:
                continue
            seen.add(i)
            for a in graph.nodes[i].attributes:
                keys[id(thing)] = a.checkpoint_key
            children = thing._trackable_children()
            todo += [(c.node_id, children[c.local_name]) for c in graph.nodes[i].children if c.local_name in children]
        return keys

    def answer(self, key, s):
        tf, f = self.tf, self.root.signatures[key]
        given = {k: tf.constant(v) for k, v in s.inputs.items()}
        sources = {k: t for k, t in given.items() if trainable(t)}
        for v in f.variables:
            if trainable(v) and id(v) in self.keys:
                sources["var:" + self.keys[id(v)]] = v
        with tf.GradientTape() as tape:
            for t in sources.values():
                tape.watch(t)
            out = f(**given)
        if not s.upstream({k: y.numpy() for k, y in out.items() if y.dtype != tf.variant and y.dtype != tf.resource}):
            return False
        found = tape.gradient([out[k] for k in s.ups], list(sources.values()), [tf.constant(v) for v in s.ups.values()])
        s.keep(sources, [None if g is None else tf.convert_to_tensor(g).numpy() for g in found])
        return True

    def close(self):
        pass


class Session:
    """A SavedModel of TensorFlow 1."""

    def __init__(self, folder, tags):
        import tensorflow as tf
        self.tf, self.answers = tf, Answers(folder, tags)

    def answer(self, key, s):
        tf, a = self.tf, self.answers
        signature = a.signatures[key]
        outputs, error = a.run(key, s.inputs)
        if error or not s.upstream(outputs):
            return False
        with a.graph.as_default():
            sources = {k: a.tensor(signature.inputs[k].name) for k in s.inputs}
            sources = {k: t for k, t in sources.items() if trainable(t)}
            for v in tf.compat.v1.global_variables():
                if trainable(v):
                    sources["var:" + v.name.split(":")[0]] = v
            found = tf.gradients([a.tensor(signature.outputs[k].name) for k in s.ups], list(sources.values()), [tf.constant(v) for v in s.ups.values()])
            found = [None if g is None else tf.convert_to_tensor(g) for g in found]
        feed = {a.tensor(signature.inputs[k].name): v for k, v in s.inputs.items()}
        values = iter(a.session.run([g for g in found if g is not None], feed))
        s.keep(sources, [None if g is None else next(values) for g in found])
        return True

    def close(self):
        self.answers.session.close()


def load(folder, tags):
    from tensorflow.core.protobuf import saved_model_pb2
    saved = saved_model_pb2.SavedModel()
    with open(os.path.join(folder, "saved_model.pb"), "rb") as f:
        saved.ParseFromString(f.read())
    return (Loaded if any(m.object_graph_def.nodes for m in saved.meta_graphs) else Session)(folder, tags)


def case_of(name, key, s, file, rtol):
    """The case and its arrays."""
    known = [g for g in s.grads.values() if g is not None and g.size]
    largest = max([float(np.max(np.abs(g[np.isfinite(g)].astype(np.float64)), initial=0)) for g in known], default=0)
    above = max(float(np.max(np.abs(v.astype(np.float64)))) for v in s.ups.values())
    case = {"id": name, "kind": "gradient", "signature": key, "file": file, "target": list(s.ups), "output_gradients": list(s.ups), "wrt": list(s.grads), "rtol": rtol,
            "atol": rtol * (largest + above * 1e-3), "unconnected": [n for n, g in s.grads.items() if g is None], "samples": {}}
    arrays = {}
    for k, v in s.inputs.items():
        put(arrays, "in/" + k, v)
    for k, v in s.ups.items():
        put(arrays, "in/upstream/" + k, v)
    for k, g in s.grads.items():
        if g is not None and g.size > MANY:
            at = np.sort(np.random.default_rng(g.size).choice(g.size, SAMPLES, replace=False))
            case["samples"][k] = {"shape": list(g.shape), "indices": at.tolist()}
            put(arrays, "out/grad_sample/" + k, g.reshape(-1)[at])
            put(arrays, "out/grad_abs_sum/" + k, np.sum(np.abs(g), dtype=np.float64))
        elif g is not None:
            put(arrays, "out/grad/" + k, g)
    return case, arrays


def attempt(model, key, s):
    """None, or why TensorFlow has no answer."""
    try:
        return None if model.answer(key, s) and s.grads else "nothing to differentiate"
    except Exception as e:   # of many kinds: TensorFlow's gradient functions are Python
        return f"{type(e).__name__}: {' '.join(str(e).split())[:300]}"


def asked(model, key, inputs):
    """(the signature as it was answered, or None; why results were left out): when all results together have no answer, those that have one alone."""
    s = Signature(inputs)
    why = attempt(model, key, s)
    if why is None or len(s.ups) < 2:
        return (s if why is None else None), [why] * (why is not None)
    whys, good = [why], []
    for k in sorted(s.ups):
        why = attempt(model, key, Signature(inputs, [k]))
        good += [k] if why is None else []
        whys += [f"{k}: {why}"] if why else []
    s = Signature(inputs, good)
    return (s if good and attempt(model, key, s) is None else None), whys


def write(out, name, meta, firsts, say):
    """The gradient cases of a model. firsts: {signature: its first case's inputs}. Returns how many there are, and notes why others are none."""
    folder, rows, refused = os.path.join(out, "gradients", name), [], []
    os.makedirs(folder, exist_ok=True)
    model = load(os.path.join(out, "models", name), meta.get("tags", ["serve"]))
    for key, inputs in firsts.items():
        label = f"{key}_gradient"
        if not say(label) or f"{name} {label}" in KNOWN:
            refused.append(f"{label}: left out")
            continue
        s, whys = asked(model, key, inputs)
        refused += [f"{label}: {why}" for why in whys]
        if s is None:
            continue
        case, arrays = case_of(label, key, s, f"{len(rows)}.npz", max(1e-3, meta.get("rtol", 0)))
        np.savez(os.path.join(folder, case["file"]), **arrays)
        rows.append(case)
    model.close()
    for file, text in (("cases.json", json.dumps(rows, indent=1)), ("refused.txt", "".join(r + "\n" for r in refused))):
        with open(os.path.join(folder, file), "w") as f:
            f.write(text)
    return len(rows)
