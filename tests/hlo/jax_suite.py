"""Exports JAX functions and models as SavedModels and writes them as a suite (tests/golden.py) with TensorFlow's answers.

    python tests/hlo/jax_suite.py OUT [--only GLOB]

For a Python with jax and tensorflow. Each function goes through jax2tf (native serialization: one node XlaCallModule), is saved, and
is called as TensorFlow loads it; gradients are TensorFlow's of the function's own VJP. Functions that JAX or TensorFlow refuse are
named and counted; where only the loaded model is refused, JAX's own answer is taken.
"""
import argparse
import fnmatch
import json
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

try:
    import jax                  # noqa: F401
except ImportError:
    print("SKIPPED 1 suite of models exported from JAX: this Python has no jax")
    raise SystemExit(0)

import numpy as np              # noqa: E402
import tensorflow as tf         # noqa: E402
from jax.experimental import jax2tf   # noqa: E402
from jax._src.interpreters import mlir as jax_mlir   # noqa: E402
from jaxlib.mlir import ir      # noqa: E402
from jaxlib.mlir.dialects import stablehlo   # noqa: E402
from tensorflow.compiler.tf2xla.python import xla as tfxla   # noqa: E402

import jax_functions            # noqa: E402
import jax_models               # noqa: E402,F401
import jax_texts                # noqa: E402


def put(arrays, key, value):
    if value.dtype.name == "bfloat16":
        arrays[key + "#bf16"] = value.view(np.uint16)
    else:
        arrays[key] = value


def names_of(args):
    return [f"x{i}" for i in range(len(args))]


def signature(args, poly):
    """Specs of the arguments; a dimension that the polymorphic shape names is unknown."""
    specs = []
    for name, a, p in zip(names_of(args), args, poly or [None] * len(args)):
        dims = [d if t.strip().isdigit() else None for d, t in zip(a.shape, p.split(","))] if p else a.shape
        specs.append(tf.TensorSpec(dims, a.dtype, name=name))
    return specs


class Exported(tf.Module):
    def __init__(self, fn, args, options, with_gradient):
        super().__init__()
        poly = options.get("poly")
        converted = jax2tf.convert(fn, polymorphic_shapes=poly, with_gradient=with_gradient)

        def call(*inputs):
            flat = tf.nest.flatten(converted(*inputs))
            return {f"y{i}": y for i, y in enumerate(flat)}

        self.call = tf.function(call, autograph=False, input_signature=signature(args, poly))


def save(fn, args, options, path, with_gradient):
    exported = Exported(fn, args, options, with_gradient)
    tf.saved_model.save(exported, path, signatures=exported.call,
                        options=tf.saved_model.SaveOptions(experimental_custom_gradients=with_gradient))


def gradients(loaded, inputs, wrt):
    """Of the sum of the first result that is a float, for each of wrt: TensorFlow's."""
    given = {n: tf.constant(v) for n, v in inputs.items()}
    with tf.GradientTape() as tape:
        tape.watch([given[n] for n in wrt])
        out = loaded.signatures["serving_default"](**given)
        target = next(n for n in sorted(out, key=lambda n: int(n[1:])) if out[n].dtype.is_floating)
        total = tf.reduce_sum(out[target])
    found = tape.gradient(total, [given[n] for n in wrt])
    return target, {n: g.numpy() for n, g in zip(wrt, found) if g is not None}


def answers(loaded, fn, inputs):
    """TensorFlow's; JAX's own where TensorFlow is older than what JAX wrote."""
    try:
        out = loaded.signatures["serving_default"](**{n: tf.constant(v) for n, v in inputs.items()})
        return {n: y.numpy() for n, y in out.items()}, "TensorFlow"
    except tf.errors.InvalidArgumentError as e:
        if "Cannot deserialize computation" not in e.message:
            raise
    return {f"y{i}": np.asarray(y) for i, y in enumerate(tf.nest.flatten(fn(*inputs.values())))}, "JAX"


class Cases:
    """The cases of one model."""

    def __init__(self, out, name, options):
        self.folder, self.cases = os.path.join(out, "goldens", name), []
        self.options = options
        os.makedirs(self.folder)

    def add(self, name, inputs, outputs, loosest=1, **more):
        case = {"id": name, "file": name + ".npz", "rtol": self.options.get("rtol", 1e-4) * loosest, "atol": self.options.get("atol", 1e-5) * loosest}
        arrays = {}
        for key, value in [("in/" + n, v) for n, v in inputs.items()] + [("out/" + n, v) for n, v in outputs.items()]:
            put(arrays, key, value)
        np.savez_compressed(os.path.join(self.folder, case["file"]), **arrays)
        self.cases.append(dict(case, **more))

    def close(self):
        with open(os.path.join(self.folder, "cases.json"), "w") as f:
            json.dump(self.cases, f, indent=1)


def write(out, name, fn, args, options):
    """The model with JAX's own gradient, and, where there is one, NAME_lowered without: its ops are differentiated."""
    path, wrt = os.path.join(out, "models", name), options.get("wrt")
    save(fn, args, options, path, wrt is not None)
    loaded = tf.saved_model.load(path)
    cases = Cases(out, name, options)
    for i, given in enumerate([args] + options.get("again", [])):
        inputs = {n: np.asarray(a) for n, a in zip(names_of(args), given)}
        found, whose = answers(loaded, fn, inputs)
        cases.add(f"call_{i}", inputs, found, note=f"{whose}'s answer")
    if wrt is not None:
        inputs = {n: np.asarray(a) for n, a in zip(names_of(args), args)}
        target, found = gradients(loaded, inputs, wrt)
        gradient = dict(kind="gradient", target=target, wrt=wrt, unconnected=[n for n in wrt if n not in found], loosest=10)
        cases.add("gradient", inputs, {"grad/" + n: g for n, g in found.items()}, **gradient)
        save(fn, args, options, path + "_lowered", False)
        lowered = Cases(out, name + "_lowered", options)
        lowered.add("gradient", inputs, {"grad/" + n: g for n, g in found.items()}, **gradient)
        lowered.close()
    cases.close()


class Text(tf.Module):
    """A program in StableHLO's text, as a node XlaCallModule that is written here."""

    def __init__(self, body, args, options):
        super().__init__()
        platforms = options.get("platforms", ["CPU"])
        with jax_mlir.make_ir_context():
            module = ir.Module.parse(body)
            results = [t for op in module.body for t in ir.FunctionType(ir.TypeAttr(op.attributes["function_type"]).value).results]
            shapes = [ir.RankedTensorType(t).shape for t in results]
            kinds = [{"f32": tf.float32, "i32": tf.int32, "i1": tf.bool}[str(ir.RankedTensorType(t).element_type)] for t in results]
            artifact = stablehlo.serialize_portable_artifact_str(body, "1.8.0")

        def call(*inputs):
            made = tfxla.call_module(inputs, version=9, module=artifact, Sout=shapes, Tout=kinds, platforms=platforms)
            return {f"y{i}": y for i, y in enumerate(made)}

        self.call = tf.function(call, autograph=False, input_signature=signature(args, None))


def write_text(out, name, body, args, options):
    path = os.path.join(out, "models", name)
    module = Text(body, args, options)
    tf.saved_model.save(module, path, signatures=module.call)
    inputs = {n: np.asarray(a) for n, a in zip(names_of(args), args)}
    cases = Cases(out, name, options)
    cases.add("call", inputs, answers(tf.saved_model.load(path), None, inputs)[0])
    cases.close()


def write_keras(out, name, make):
    path = os.path.join(out, "models", name)
    model, x = make()
    model.export(path, format="tf_saved_model", verbose=False)
    loaded = tf.saved_model.load(path)
    called = loaded.signatures["serving_default"]
    argument = next(iter(called.structured_input_signature[1]))
    cases = Cases(out, name, {"rtol": 1e-3, "atol": 1e-4})
    for n in (4, 1, 3):
        answer = called(**{argument: tf.constant(x[:n])})
        cases.add(f"rows_{n}", {argument: x[:n]}, {k: y.numpy() for k, y in answer.items()})
    cases.close()


def keras_rows():
    try:
        import jax_keras
    except ImportError:
        print("SKIPPED 2 models of Keras: this Python has no Keras 3")
        return []
    return [(name, make, None, None) for name, make in jax_keras.MODELS.items()]


def write_row(out, name, what, args, options):
    if args is None:
        write_keras(out, name, what)
    elif isinstance(what, str):
        write_text(out, name, what, args, options)
    else:
        write(out, name, what, args, options)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("out")
    p.add_argument("--only", default="*")
    a = p.parse_args()
    made, refused = 0, []
    for name, what, args, options in jax_functions.ROWS + jax_texts.TEXTS + keras_rows():
        if not fnmatch.fnmatch(name, a.only):
            continue
        try:
            write_row(a.out, name, what, args, options)
            made += 1
        except Exception as e:   # whichever of the two it is that cannot
            refused.append(name)
            print(f"REFUSED {name}: {type(e).__name__}: {str(e)[:300]}", flush=True)
    print(f"made {made} models of JAX functions; {len(refused)} refused by JAX or TensorFlow", flush=True)


if __name__ == "__main__":
    main()
