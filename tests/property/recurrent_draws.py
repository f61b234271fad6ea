"""Draws nets of recurrent Keras layers at random, asks TensorFlow for their answers, and writes them as a suite that golden.py runs.

    build/venv/bin/python tests/property/recurrent_draws.py OUT [--draws 30] [--seed N]        then: python tests/golden.py OUT [--passes-off hoist]

A net has one to three layers: LSTM, GRU (its reset before or after the product), SimpleRNN, cells stacked in one loop, either direction or both, with and without bias,
with initial states, unrolled, behind a mask. It is asked for one row and for several, for few steps and for many, and for rows that end early where there is a mask.
"""
import argparse
import json
import os
import random

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")   # TensorFlow's own kernels, whatever the CPU
import numpy as np  # noqa: E402

import draw_seed  # noqa: E402
from draw_suite import put  # noqa: E402

SIZES = ((1, 5), (3, 9), (2, 1), (8, 4))   # rows, steps


class Net:
    """One random net."""

    def __init__(self, tf, seed):
        self.tf, self.seed, self.rng = tf, seed, random.Random(seed)
        self.width, self.masked = self.rng.choice((1, 3, 8)), self.rng.random() < 0.35
        self.steps = self.rng.choice((None, None, None, 4))
        self.model = self.net()
        values = np.random.default_rng(seed)
        for v in self.model.weights:
            v.assign(0.5 * values.standard_normal(v.shape))

    def cell(self):
        layers = self.tf.keras.layers
        units, bias = self.rng.choice((1, 4, 7)), self.rng.random() < 0.8
        return self.rng.choice((lambda: layers.LSTMCell(units, use_bias=bias, unit_forget_bias=False),
                                lambda: layers.GRUCell(units, use_bias=bias, reset_after=self.rng.random() < 0.5),
                                lambda: layers.SimpleRNNCell(units, use_bias=bias, activation=self.rng.choice(("tanh", "relu")))))()

    def layer(self, last):
        layers = self.tf.keras.layers
        how = {"return_sequences": not last or self.rng.random() < 0.5, "unroll": self.steps is not None and self.rng.random() < 0.3}
        units, bias = self.rng.choice((1, 4, 7)), self.rng.random() < 0.8
        make = self.rng.choice((lambda **k: layers.LSTM(units, use_bias=bias, **k), lambda **k: layers.GRU(units, use_bias=bias, **k),
                                lambda **k: layers.GRU(units, use_bias=bias, reset_after=False, **k), lambda **k: layers.SimpleRNN(units, use_bias=bias, **k),
                                lambda **k: layers.RNN([self.cell() for _ in range(2)], **k), lambda **k: layers.RNN(self.cell(), **k)))
        if self.rng.random() < 0.3:
            return layers.Bidirectional(make(**how), merge_mode=self.rng.choice(("concat", "sum", "mul", "ave")))
        return make(go_backwards=self.rng.random() < 0.2, **how)

    def net(self):
        layers = self.tf.keras.layers
        x = i = self.tf.keras.Input((self.steps, self.width))
        if self.masked:
            x = layers.Masking()(x)
        n = self.rng.choice((1, 1, 2, 3))
        for k in range(n):
            x = self.layer(k == n - 1)(x)
        return self.tf.keras.Model(i, x)

    def rows(self, n, steps):
        values = np.random.default_rng((self.seed, n, steps))
        x = values.standard_normal((n, steps, self.width)).astype(np.float32)
        if self.masked:
            for row in x:   # the first step stays: a row of nothing but masked steps has no answer of its own
                row[self.rng.randrange(1, steps + 1):] = 0
        return x

    def write(self, out):
        """The model, and its cases."""
        tf, name = self.tf, f"net{self.seed}"
        call = tf.function(lambda x: {"y": self.model(x)}, input_signature=[tf.TensorSpec((None, self.steps, self.width), tf.float32, name="x")])
        archive = tf.keras.export.ExportArchive()
        archive.track(self.model)
        archive.add_endpoint("serve", call)
        archive.write_out(os.path.join(out, "models", name), verbose=False)
        folder, cases = os.path.join(out, "goldens", name), []
        os.makedirs(folder, exist_ok=True)
        for n, steps in SIZES:
            x, arrays, file = self.rows(n, self.steps or steps), {}, f"{n}x{steps}.npz"
            put(arrays, "in/x", x)
            put(arrays, "out/y", call(tf.constant(x))["y"].numpy())
            np.savez(os.path.join(folder, file), **arrays)
            cases.append({"id": f"{name}.{n}x{steps}", "signature": "serve", "file": file, "rtol": 1e-4, "atol": 1e-5})
        with open(os.path.join(folder, "cases.json"), "w") as f:
            json.dump(cases, f, indent=1)
        return len(cases)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out")
    parser.add_argument("--draws", type=int, default=30)
    draw_seed.add_flag(parser)
    args = parser.parse_args()
    seed = draw_seed.chosen(args.seed)
    draw_seed.say(seed)
    import tensorflow as tf
    n = sum(Net(tf, seed * 1000 + k).write(args.out) for k in range(args.draws))
    print(f"{n} cases of {args.draws} nets in {args.out}")


if __name__ == "__main__":
    main()
