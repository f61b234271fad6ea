"""Whole models in JAX that tests/hlo/jax_suite.py exports: rows as in tests/hlo/jax_functions.py, weights as constants of the module."""
import jax
import jax.numpy as jnp
import numpy as np
import tensorflow as tf
from jax import lax
from jax.experimental import jax2tf

from jax_functions import f32, i32, row

DN = ("NHWC", "HWIO", "NHWC")


def weight(*shape):
    return jnp.asarray(f32(*shape) / np.sqrt(np.prod(shape[:-1])).astype(np.float32))


def norm(x, scale, bias):
    mean = x.mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * scale + bias


W = {n: weight(*s) for n, s in {"a": (16, 32), "b": (32, 32), "c": (32, 5), "q": (32, 32), "k": (32, 32), "v": (32, 32), "o": (32, 32), "up": (32, 64),
                                "down": (64, 32), "c1": (3, 3, 3, 8), "c2": (3, 3, 8, 16), "head": (16, 10), "emb": (50, 32), "lx": (12, 64), "lh": (16, 64)}.items()}


def mlp(x):
    h = jax.nn.relu(x @ W["a"] + 0.1)
    return jax.nn.softmax(jax.nn.gelu(h @ W["b"] + 0.2) @ W["c"])


def cnn(x):
    for w in (W["c1"], W["c2"]):
        x = lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=DN)
        x = (x - 0.1) * lax.rsqrt(jnp.float32(0.9) + 1e-3) * 1.2 + 0.05
        x = lax.reduce_window(jax.nn.relu(x), -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    return x.mean((1, 2)) @ W["head"]


def heads(x, w):
    return (x @ w).reshape(x.shape[0], x.shape[1], 4, 8)


def attend(x, mask):
    q, k, v = heads(x, W["q"]), heads(x, W["k"]), heads(x, W["v"])
    s = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(8).astype(np.float32)
    p = jax.nn.softmax(jnp.where(mask[:, None, None, :], s, -1e9))
    y = jnp.einsum("bhqk,bkhd->bqhd", p, v)
    return y.reshape(x.shape) @ W["o"]


def transformer(ids):
    x = W["emb"][ids]
    x = x + attend(norm(x, 1.1, 0.1), ids > 0)
    return x + jax.nn.gelu(norm(x, 0.9, -0.1) @ W["up"]) @ W["down"]


def lstm(x):
    def step(state, r):
        h, c = state
        i, f, g, o = jnp.split(r @ W["lx"] + h @ W["lh"], 4, axis=-1)
        c = jax.nn.sigmoid(f + 1) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h
    zero = jnp.zeros((x.shape[0], 16))
    (h, _), all_h = lax.scan(step, (zero, zero), jnp.swapaxes(x, 0, 1))
    return h, jnp.swapaxes(all_h, 0, 1)


def bag(ids, bags):
    return jax.ops.segment_sum(W["emb"][ids], bags, 4) @ W["b"]


def augment(x, key):
    flip = jax.random.bernoulli(key, 0.5, (x.shape[0], 1, 1, 1))
    x = jnp.where(flip, x[:, :, ::-1], x)
    x = jax.image.resize(x, (x.shape[0], 12, 12, 3), "bilinear")
    return jnp.clip((x - x.mean((1, 2), keepdims=True)) * 1.3 + 0.5, 0, 1)


def beam(logits):
    def step(state, r):
        scores, last = state
        total = scores[:, None] + jax.nn.log_softmax(r)[last]
        best, at = lax.top_k(total.reshape(-1), 3)
        return (best, at % 6), (at // 6, at % 6)
    return lax.scan(step, (jnp.zeros(3), jnp.arange(3)), logits)


def through_tensorflow(x):
    sine = jax2tf.call_tf(lambda v: tf.sin(v) + 1, call_tf_graph=True, output_shape_dtype=jax.ShapeDtypeStruct((3,), np.float32))
    return jnp.cos(sine(x * 2))


row("model_through_tensorflow", through_tensorflow, f32(3))
row("model_mlp", mlp, f32(4, 16), wrt=["x0"])
row("model_mlp_poly", mlp, f32(4, 16), poly=["b, 16"], again=[(f32(9, 16),)], wrt=["x0"])
row("model_cnn", cnn, f32(2, 16, 16, 3), rtol=1e-3, atol=1e-4, wrt=["x0"])
row("model_cnn_poly", cnn, f32(2, 16, 16, 3), poly=["b, 16, 16, 3"], again=[(f32(5, 16, 16, 3),)], rtol=1e-3, atol=1e-4)
row("model_transformer", transformer, i32(0, 50, 2, 7), rtol=1e-3, atol=1e-4)
row("model_transformer_poly", transformer, i32(0, 50, 2, 7), poly=["b, t"], again=[(i32(0, 50, 3, 4),)], rtol=1e-3, atol=1e-4)
row("model_lstm", lstm, f32(3, 6, 12), rtol=1e-3, atol=1e-4, wrt=["x0"])
row("model_lstm_poly", lstm, f32(3, 6, 12), poly=["b, 6, 12"], again=[(f32(5, 6, 12),)], rtol=1e-3, atol=1e-4)
row("model_bag", bag, i32(0, 50, 9), np.sort(i32(0, 4, 9)), rtol=1e-3, atol=1e-4)
row("model_augment", augment, np.abs(f32(2, 8, 8, 3)), np.array([0, 3], np.uint32), rtol=1e-3, atol=1e-4)
row("model_beam", beam, f32(4, 6, 6), rtol=1e-3, atol=1e-4)
row("model_gradient", lambda x, w: jax.grad(lambda v: jnp.sum(jnp.tanh(x @ v) ** 2))(w), f32(4, 5), f32(5, 3))
row("model_train_step", lambda x, y: jax.value_and_grad(lambda w: jnp.mean((jax.nn.relu(x @ w["a"]) @ w["b"] @ w["c"] - y) ** 2))({k: W[k] for k in "abc"}), f32(4, 16), f32(4, 5), rtol=1e-3, atol=1e-4)
row("model_cnn_gradient", lambda x: jax.grad(lambda v: jnp.sum(cnn(v) ** 2))(x), f32(2, 16, 16, 3), rtol=1e-3, atol=1e-4)
