"""Makes the SavedModels of tests/gpu/bench, with TensorFlow: DIR/NAME in float32 and DIR/NAME.bf16, whose variables and arithmetic are bfloat16.

    build/venv/bin/python tests/gpu/bench/make.py DIR [--size full|tiny] [--only NAME,..]

What is there already is left. Their checkpoints pack well (weights.py).
"""
import argparse
import os
import shutil
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(1, os.path.dirname(os.path.abspath(__file__)))

import keras  # noqa: E402
from keras import layers as L, ops  # noqa: E402

import nets  # noqa: E402
import weights  # noqa: E402


class Positions(L.Layer):
    """Adds a row of a table to each place."""

    def __init__(self, rows, **kw):
        super().__init__(**kw)
        self.rows = rows

    def build(self, shape):
        self.table = self.add_weight(shape=(self.rows, shape[-1]), name="table")

    def call(self, x):
        return x + self.table[:x.shape[1]]


class Keras:
    """Layers, each with its weights."""

    @staticmethod
    def layer(layer, given, *arrays, **kw):
        y = layer(*given, **kw)
        layer.set_weights(list(arrays))
        return y

    def conv(self, x, name, out, side, stride=1):
        """out None: one filter for each channel."""
        has = x.shape[-1]
        if side > 1:
            x = L.ZeroPadding2D(side // 2)(x)
        kw = {"strides": stride, "padding": "valid", "use_bias": False, "name": name}
        if out is None:
            return self.layer(L.DepthwiseConv2D(side, **kw), [x], weights.kernel(name, (side, side, has, 1), side * side, 1.4))
        return self.layer(L.Conv2D(out, side, **kw), [x], weights.kernel(name, (side, side, has, out), side * side * has, 1.4))

    def norm(self, x, name, gain=1.0):
        return self.layer(L.BatchNormalization(epsilon=nets.EPSILON, name=name), [x], *weights.batch_norm(name, x.shape[-1], gain))

    def layer_norm(self, x, name):
        return self.layer(L.LayerNormalization(epsilon=1e-6, name=name), [x], *weights.layer_norm(name, x.shape[-1]))

    def dense(self, x, name, out):
        has = x.shape[-1]
        return self.layer(L.Dense(out, name=name), [x], weights.kernel(name, (has, out), has), weights.bias(name + "/bias", out))

    def embed(self, ids, name, n, width):
        return self.layer(L.Embedding(n, width, name=name), [ids], weights.between(name, (n, width), -1, 1))

    def positions(self, x, name, n):
        return self.layer(Positions(n, name=name), [x], weights.between(name, (n, x.shape[-1]), -1, 1))

    def attention(self, x, mask, name, heads):
        width = x.shape[-1]
        parts = []
        for part in ("query", "key", "value"):
            parts += [weights.kernel(f"{name}_{part}", (width, width), width).reshape(width, heads, -1), weights.bias(f"{name}_{part}/bias", width).reshape(heads, -1)]
        parts += [weights.kernel(name + "_out", (width, width), width).reshape(heads, -1, width), weights.bias(name + "_out/bias", width)]
        seen = L.Lambda(lambda m: ops.cast(m[:, None, :], "bool"), output_shape=(1, x.shape[1]), dtype="float32")(mask)
        return self.layer(L.MultiHeadAttention(heads, width // heads, name=name), [x, x], *parts, attention_mask=seen)

    def lstm(self, x, name, units):
        return self.layer(L.LSTM(units, return_sequences=True, recurrent_initializer="zeros", name=name), [x], *weights.lstm(name, x.shape[-1], units))

    def relu(self, x):
        return L.ReLU()(x)

    def relu6(self, x):
        return L.ReLU(6.0)(x)

    def gelu(self, x):
        return L.Activation("gelu")(x)

    def tanh(self, x):
        return L.Activation("tanh")(x)

    def add(self, x, y):
        return L.Add()([x, y])

    def max_pool(self, x):
        return L.MaxPooling2D(3, 2, padding="valid")(L.ZeroPadding2D(1)(x))

    def mean(self, x):
        return L.GlobalAveragePooling2D()(x)

    def first(self, x):
        return x[:, 0]

    def last(self, x):
        return x[:, -1]


def build(name, size, policy):
    keras.backend.clear_session()
    keras.config.set_dtype_policy(policy)
    given = {k: keras.Input(a.shape[1:], dtype=str(a.dtype), name=k) for k, a in nets.inputs(name, size, 1).items()}
    outputs = nets.NETS[name](Keras(), nets.SIZES[size][name], **given)
    return keras.Model(given, {k: L.Activation("linear", dtype="float32", name=k)(v) for k, v in outputs.items()})


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("dir")
    ap.add_argument("--size", default="full", choices=list(nets.SIZES))
    ap.add_argument("--only", default=",".join(nets.NAMES))
    args = ap.parse_args()
    os.makedirs(args.dir, exist_ok=True)
    for name in args.only.split(","):
        for policy, end in (("float32", ""), ("bfloat16", ".bf16")):
            folder = os.path.join(args.dir, name + end, "1")
            if not os.path.exists(folder):
                shutil.rmtree(folder + ".part", ignore_errors=True)
                build(name, args.size, policy).export(folder + ".part", verbose=False)
                os.rename(folder + ".part", folder)
                print(name + end, flush=True)


if __name__ == "__main__":
    main()
