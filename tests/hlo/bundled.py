"""Writes tests/hlo/bundled: one small SavedModel of JAX functions, a signature each, with TensorFlow's answers.

    python tests/hlo/bundled.py tests/hlo/bundled

For a Python with jax and tensorflow; what it writes is kept, so that a build without JAX tests models of JAX's, too.
"""
import json
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["JAX_TRACEBACK_IN_LOCATIONS_LIMIT"] = "0"   # no paths of this machine's

import jax                      # noqa: E402
import jax.numpy as jnp         # noqa: E402
import numpy as np              # noqa: E402
import tensorflow as tf         # noqa: E402
from jax import lax             # noqa: E402
from jax.experimental import jax2tf   # noqa: E402

R = np.random.RandomState(3)


def f32(*shape):
    return R.standard_normal(shape).astype(np.float32)


A, B, KERNEL, GATES = f32(6, 8), f32(8, 3), f32(3, 3, 2, 4), f32(7, 16)
DN = ("NHWC", "HWIO", "NHWC")


def mlp(x):
    return jax.nn.softmax(jax.nn.gelu(x @ A + 0.1) @ B)


def image(x):
    y = jax.nn.relu(lax.conv_general_dilated(x, KERNEL, (1, 1), "SAME", dimension_numbers=DN))
    return lax.reduce_window(y, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID").mean((1, 2))


def lstm(x):
    def step(state, r):
        h, c = state
        i, f, g, o = jnp.split(jnp.concatenate([r, h], 1) @ GATES, 4, axis=1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h
    zero = jnp.zeros((x.shape[0], 4))
    return jnp.swapaxes(lax.scan(step, (zero, zero), jnp.swapaxes(x, 0, 1))[1], 0, 1)


def index(x, i):
    return jnp.sort(x, axis=1), jnp.take(x, i, axis=0), x.at[i].add(1.0), x.argmax(1), jnp.cumsum(x, axis=0)


def control(x, n):
    y = lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] * 0.5 + x), (0, x))[1]
    return lax.cond(y.sum() > 0, lambda v: v + 1, lambda v: -v, y)


def draw(key):
    return jax.random.uniform(key, (4,)), jax.random.randint(key, (4,), 0, 100)


FUNCTIONS = {   # arguments of each call, and the polymorphic shapes
    "mlp": (mlp, [(f32(3, 6),), (f32(1, 6),)], ["b, 6"]),
    "image": (image, [(f32(2, 6, 6, 2),)], ["b, 6, 6, 2"]),
    "lstm": (lstm, [(f32(2, 4, 3),)], ["b, 4, 3"]),
    "index": (index, [(f32(4, 5), np.array([3, 0, -1], np.int32))], None),
    "control": (control, [(f32(3), np.int32(4)), (-np.abs(f32(3)), np.int32(2))], None),
    "draw": (draw, [(np.array([1, 42], np.uint32),)], None),
}


def signature(args, poly):
    specs = []
    for i, a in enumerate(args):
        dims = [d if t.strip().isdigit() else None for d, t in zip(a.shape, poly[i].split(","))] if poly else a.shape
        specs.append(tf.TensorSpec(dims, a.dtype, name=f"x{i}"))
    return specs


def exported(fn, args, poly):
    converted = jax2tf.convert(fn, polymorphic_shapes=poly, with_gradient=False)

    def call(*inputs):
        return {f"y{i}": y for i, y in enumerate(tf.nest.flatten(converted(*inputs)))}

    return tf.function(call, autograph=False, input_signature=signature(args, poly))


def main():
    out = sys.argv[1]
    model, goldens = os.path.join(out, "models", "jax"), os.path.join(out, "goldens", "jax")
    functions = {name: exported(fn, calls[0], poly) for name, (fn, calls, poly) in FUNCTIONS.items()}
    tf.saved_model.save(tf.Module(), model, signatures=functions)
    loaded = tf.saved_model.load(model)
    os.makedirs(goldens, exist_ok=True)
    cases, arrays = [], {}
    for name, (_, calls, _) in FUNCTIONS.items():
        for i, args in enumerate(calls):
            inputs = {f"x{k}": a for k, a in enumerate(args)}
            answers = loaded.signatures[name](**{n: tf.constant(a) for n, a in inputs.items()})
            file = f"{name}_{i}.npz"
            arrays = {"in/" + n: a for n, a in inputs.items()}
            arrays.update({"out/" + n: a.numpy() for n, a in answers.items()})
            np.savez_compressed(os.path.join(goldens, file), **arrays)
            cases.append({"id": f"{name}_{i}", "signature": name, "file": file})
    with open(os.path.join(goldens, "cases.json"), "w") as f:
        json.dump(cases, f, indent=1)
    os.remove(os.path.join(model, "fingerprint.pb"))


if __name__ == "__main__":
    main()
