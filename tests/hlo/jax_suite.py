"""Exports JAX functions and models as SavedModels and writes them as a suite (tests/golden.py) with TensorFlow's answers.

    python tests/hlo/jax_suite.py OUT [--only GLOB]

For a Python with jax and tensorflow. Each function goes through jax2tf (native serialization: one node XlaCallModule), is saved, and
is called as TensorFlow loads it; gradients are TensorFlow's of the function's own VJP. Functions that JAX or TensorFlow refuse are
named and counted.
"""
import argparse
import fnmatch
import json
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax                      # noqa: E402
import numpy as np              # noqa: E402
import tensorflow as tf         # noqa: E402
from jax.experimental import jax2tf   # noqa: E402

import jax_functions            # noqa: E402
import jax_models               # noqa: E402,F401


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
    def __init__(self, fn, args, options):
        super().__init__()
        poly = options.get("poly")
        with_gradient = "wrt" in options
        converted = jax2tf.convert(fn, polymorphic_shapes=poly, with_gradient=with_gradient)

        def call(*inputs):
            flat = tf.nest.flatten(converted(*inputs))
            return {f"y{i}": y for i, y in enumerate(flat)}

        self.call = tf.function(call, autograph=False, input_signature=signature(args, poly))


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


def write(out, name, fn, args, options):
    model, goldens = os.path.join(out, "models", name), os.path.join(out, "goldens", name)
    exported = Exported(fn, args, options)
    tf.saved_model.save(exported, model, signatures=exported.call, options=tf.saved_model.SaveOptions(experimental_custom_gradients=True))
    loaded = tf.saved_model.load(model)
    os.makedirs(goldens)
    cases = []
    for i, given in enumerate([args] + options.get("again", [])):
        inputs = {n: np.asarray(a) for n, a in zip(names_of(args), given)}
        case = {"id": f"call_{i}", "file": f"call_{i}.npz", "rtol": options.get("rtol", 1e-4), "atol": options.get("atol", 1e-5)}
        arrays = {"in/" + n: v for n, v in inputs.items()}
        for n, y in loaded.signatures["serving_default"](**{n: tf.constant(v) for n, v in inputs.items()}).items():
            put(arrays, "out/" + n, y.numpy())
        np.savez_compressed(os.path.join(goldens, case["file"]), **arrays)
        cases.append(case)
        if i == 0 and "wrt" in options:
            target, found = gradients(loaded, inputs, options["wrt"])
            case = dict(case, id="gradient", kind="gradient", file="gradient.npz", target=target, wrt=options["wrt"],
                        rtol=max(case["rtol"], 1e-3), atol=max(case["atol"], 1e-4))
            arrays = {"in/" + n: v for n, v in inputs.items()}
            for n, g in found.items():
                put(arrays, "out/grad/" + n, g)
            case["unconnected"] = [n for n in options["wrt"] if n not in found]
            np.savez_compressed(os.path.join(goldens, case["file"]), **arrays)
            cases.append(case)
    with open(os.path.join(goldens, "cases.json"), "w") as f:
        json.dump(cases, f, indent=1)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("out")
    p.add_argument("--only", default="*")
    a = p.parse_args()
    made, refused = 0, []
    for name, fn, args, options in jax_functions.ROWS:
        if not fnmatch.fnmatch(name, a.only):
            continue
        try:
            write(a.out, name, fn, args, options)
            made += 1
        except Exception as e:   # whichever of the two it is that cannot
            refused.append(name)
            print(f"REFUSED {name}: {type(e).__name__}: {str(e)[:300]}", flush=True)
    print(f"made {made} models of JAX functions; {len(refused)} refused by JAX or TensorFlow", flush=True)


if __name__ == "__main__":
    main()
