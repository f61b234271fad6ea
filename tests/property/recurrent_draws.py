"""Draws nets of recurrent Keras layers at random, asks TensorFlow for their answers, and writes them as a suite that golden.py runs.

    build/venv/bin/python tests/property/recurrent_draws.py OUT [--draws 30] [--seed N]        then: python tests/golden.py OUT [--passes-off hoist]

One in four is a loop that only resembles a cell: gates that are none of their own or overlap, other squashes in one of them, another number for 1, an element or a state that is not the next
one, a mask of some of the states, something else that is counted or kept. Most must stay loops, the rest be the same.

One in four is TensorFlow 1's: a cell of tf.nn.rnn_cell or several stacked (MultiRNNCell), in dynamic_rnn, bidirectional_dynamic_rnn or a while_loop over TensorArrays,
with and without sequence_length, peepholes, projections, clipping, its loops as Enter and Exit or as While. The others are Keras's: a net has one to three layers: LSTM, GRU (its reset before or after the product), SimpleRNN, cells stacked in one loop, either direction or both, with and without bias,
with initial states, unrolled, behind a mask. It is asked for one row and for several, for few steps and for many, and for rows that end early, or begin late, where there is a mask.
"""
import argparse
import json
import os
import random

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")   # TensorFlow's own kernels, whatever the CPU
import numpy as np  # noqa: E402

import draw_seed  # noqa: E402
from draw_suite import put, put_answers  # noqa: E402

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
            v.assign(min(0.5, 1.4 / v.shape[0] ** 0.5) * values.standard_normal(v.shape))   # what wide layers round must not grow from step to step

    def cell(self):
        layers = self.tf.keras.layers
        units, bias = self.rng.choice((1, 4, 7, 7, 128)), self.rng.random() < 0.8
        return self.rng.choice((lambda: layers.LSTMCell(units, use_bias=bias, unit_forget_bias=False),
                                lambda: layers.GRUCell(units, use_bias=bias, reset_after=self.rng.random() < 0.5),
                                lambda: layers.SimpleRNNCell(units, use_bias=bias, activation=self.rng.choice(("tanh", "relu", "elu")))))()

    def squashes(self):
        if self.rng.random() < 0.6:
            return {}
        return {"activation": self.rng.choice(("tanh", "relu", "softsign", "sigmoid")), "recurrent_activation": self.rng.choice(("sigmoid", "hard_sigmoid"))}

    def layer(self, last):
        layers = self.tf.keras.layers
        how = {"return_sequences": not last or self.rng.random() < 0.5, "unroll": self.steps is not None and self.rng.random() < 0.3}
        units, bias = self.rng.choice((1, 4, 7, 7, 128)), self.rng.random() < 0.8
        make = self.rng.choice((lambda **k: layers.LSTM(units, use_bias=bias, **self.squashes(), **k), lambda **k: layers.GRU(units, use_bias=bias, **self.squashes(), **k),
                                lambda **k: layers.GRU(units, use_bias=bias, reset_after=False, **self.squashes(), **k), lambda **k: layers.SimpleRNN(units, use_bias=bias, **k),
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
            for row in x:   # a step stays: a row of nothing but masked steps has no answer of its own
                if self.rng.random() < 0.6:
                    row[self.rng.randrange(1, steps + 1):] = 0
                else:
                    row[:self.rng.randrange(steps)] = 0
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


class OldNet:
    """One random net of TensorFlow 1."""

    def __init__(self, tf, seed):
        self.tf, self.seed, self.rng = tf, seed, random.Random(seed)
        self.width = self.rng.choice((1, 3, 8))

    def cell(self):
        from tensorflow.python.keras.layers.legacy_rnn import rnn_cell_impl as cells
        tf, units = self.tf, self.rng.choice((1, 4, 7, 7, 128))
        squash = self.rng.choice((None, None, None, tf.nn.relu, tf.nn.sigmoid, tf.nn.softsign))
        squash = {} if squash is None else {"activation": squash}
        return self.rng.choice((lambda: cells.BasicLSTMCell(units, forget_bias=self.rng.choice((0.0, 1.0)), **squash),
                                lambda: cells.LSTMCell(units, use_peepholes=self.rng.random() < 0.3, cell_clip=self.rng.choice((None, None, 0.5)),
                                                       num_proj=self.rng.choice((None, None, 3)), **squash),
                                lambda: cells.GRUCell(units, **squash), lambda: cells.BasicRNNCell(units, **squash),
                                lambda: cells.MultiRNNCell([cells.BasicLSTMCell(units), cells.GRUCell(5)])))()

    def by_hand(self, x, cell):
        tf = self.tf
        steps = tf.shape(x)[1]
        given, out = tf.TensorArray(tf.float32, steps).unstack(tf.transpose(x, [1, 0, 2])), tf.TensorArray(tf.float32, steps)

        def body(i, state, out):
            e = given.read(i)
            e.set_shape([None, self.width])
            h, state = cell(e, state)
            return i + 1, state, out.write(i, h)

        _, state, out = tf.compat.v1.while_loop(lambda i, *_: i < steps, body, (0, cell.zero_state(tf.shape(x)[0], tf.float32), out))
        return out.stack(), state

    def net(self, x, n):
        nn = self.tf.compat.v1.nn
        how = {"dtype": self.tf.float32, "sequence_length": n if self.rng.random() < 0.5 else None}
        return self.rng.choice((lambda: nn.dynamic_rnn(self.cell(), x, **how), lambda: nn.dynamic_rnn(self.cell(), x, **how),
                                lambda: nn.dynamic_rnn(self.cell(), self.tf.transpose(x, [1, 0, 2]), time_major=True, **how),
                                lambda: nn.bidirectional_dynamic_rnn(self.cell(), self.cell(), x, **how), lambda: self.by_hand(x, self.cell())))()

    def write(self, out):
        """The model, and its cases."""
        tf, v1, name, values = self.tf, self.tf.compat.v1, f"old{self.seed}", np.random.default_rng(self.seed)
        frames = self.rng.random() < 0.7
        (v1.disable_control_flow_v2 if frames else v1.enable_control_flow_v2)()
        folder, cases = os.path.join(out, "goldens", name), []
        os.makedirs(folder, exist_ok=True)
        with tf.Graph().as_default(), v1.Session() as session:
            x, n = v1.placeholder(tf.float32, [None, None, self.width]), v1.placeholder(tf.int32, [None])
            with v1.variable_scope("net", use_resource=self.rng.random() < 0.5):
                outputs = {f"y{i}": tf.identity(y) for i, y in enumerate(tf.nest.flatten(self.net(x, n)))}
            session.run(v1.global_variables_initializer())
            for v in v1.global_variables():
                shape = [int(d) for d in v.shape]
                v.load(min(0.5, 1.4 / shape[0] ** 0.5) * values.standard_normal(shape), session)
            v1.saved_model.simple_save(session, os.path.join(out, "models", name), {"x": x, "n": n}, outputs)
            for rows, steps in SIZES:
                arrays, file = {}, f"{rows}x{steps}.npz"
                fed = {x: values.standard_normal((rows, steps, self.width)).astype(np.float32), n: values.integers(0, steps + 1, rows).astype(np.int32)}
                put(arrays, "in/x", fed[x])
                put(arrays, "in/n", fed[n])
                for key, value in session.run(outputs, fed).items():
                    put(arrays, f"out/{key}", value)
                np.savez(os.path.join(folder, file), **arrays)
                cases.append({"id": f"{name}.{rows}x{steps}", "signature": "serving_default", "file": file, "rtol": 1e-4, "atol": 1e-5})
        v1.enable_control_flow_v2()
        with open(os.path.join(folder, "cases.json"), "w") as f:
            json.dump(cases, f, indent=1)
        return len(cases)


class Near:
    """A loop that resembles a cell."""

    def __init__(self, tf, seed):
        self.tf, self.seed, self.rng = tf, seed, random.Random(seed)
        self.kind, self.units, self.width = self.rng.choice(("lstm", "gru", "plain")), self.rng.choice((1, 2, 5, 64)), 3
        self.odd = self.rng.choice((None, "twice", "squash", "scale", "number", "slice", "state", "item", "mask", "count", "kept", "step", "out", "axis"))
        self.masked = self.odd == "mask" or self.rng.random() < 0.3
        self.gates = {"lstm": 4, "gru": 3, "plain": 1}[self.kind]
        values = np.random.default_rng(seed)
        self.w = (0.7 * values.standard_normal((self.width, self.gates * self.units))).astype(np.float32)
        self.u = (min(0.5, 1.4 / self.units ** 0.5) * values.standard_normal((self.units, self.gates * self.units))).astype(np.float32)
        self.b = values.standard_normal(self.gates * self.units).astype(np.float32)

    def split(self, s):
        n, u = self.gates, self.units
        if self.odd == "slice":   # a part may end a column early: one column of it stands for all
            end = self.rng.choice((n * u, -1)) if u == 2 else self.rng.choice((n * u, n * u, (n - 1) * u + 1))
            return [s[:, k * u:(k + 1) * u] for k in range(n - 1)] + [s[:, (n - 1) * u:end]]
        parts = self.tf.split(s, n, axis=-1)
        if self.odd == "twice" and n > 1:
            parts[self.rng.randrange(n)] = parts[self.rng.randrange(n)]
        return parts

    def squashes(self, n):
        nn, hard = self.tf.nn, lambda slope, offset: lambda x: self.tf.clip_by_value(slope * x + offset, 0.0, 1.0)   # noqa: E731
        gate = self.rng.choice((nn.sigmoid, nn.sigmoid, hard(0.2, 0.5), hard(0.0, 0.25)))
        found = [gate] * n
        if self.odd == "squash":
            found[self.rng.randrange(n)] = self.rng.choice((nn.tanh, hard(0.2, 0.4), hard(0.0, 0.75), lambda x: nn.sigmoid(-x)))
        return found

    def cell(self, x, h, c):
        tf = self.tf
        rng = self.rng = random.Random(self.seed)   # it is traced more than once
        state, one = rng.choice((tf.tanh, tf.tanh, tf.nn.relu if self.kind == "plain" else tf.nn.softsign)), 1.0 if self.odd != "number" else 0.5
        other = c if self.odd == "state" else h
        p, q = tf.matmul(x, self.w) + self.b, tf.matmul(other, self.u)
        p = p * 0.5 if self.odd == "scale" else p
        if self.kind == "plain":
            return state(p + q), c
        if self.kind == "lstm":
            i, f, g, o = self.split(p + q)
            a, b, d = self.squashes(3)
            f = f + tf.ones((1, 1, 1) if self.odd == "axis" else ())
            f = tf.reshape(f, tf.shape(f)[-2:])
            new = b(f) * c + a(i) * state(g)
            return d(o) * state(new), new
        (pz, pr, pn), (qz, qr, qn) = self.split(p), self.split(q)
        a, b = self.squashes(2)
        z, r = a(pz + qz), b(pr + qr)
        return z * other + (one - (r if self.odd == "twice" else z)) * state(pn + r * qn), c

    def net(self, x, n):
        tf, rng = self.tf, random.Random(self.seed)
        rows, steps, first = tf.shape(x)[0], tf.shape(x)[1], rng.choice((0, 0, 1))
        given = tf.TensorArray(tf.float32, steps, element_shape=(None, self.width)).unstack(tf.transpose(x, (1, 0, 2)))
        out = tf.TensorArray(tf.float32, steps, element_shape=(None, self.units), clear_after_read=False)
        zero = tf.zeros((rows, self.units))
        by, at = 2 if self.odd == "step" else 1, rng.choice(("same", "same", "last"))

        def body(i, h, c, more, out):
            e = given.read(steps - 1 - i if self.odd == "item" else i)
            h2, c2 = self.cell(e, h, c)
            counts = tf.expand_dims(i < n, 1)
            if self.masked:
                h2 = tf.where(counts, h2, h)
                c2 = c2 if self.odd == "mask" else tf.where(counts, c2, c)
            more = {"count": more + tf.reduce_sum(c2), "kept": tf.reduce_max(h)}.get(self.odd, more)
            put = c2 if self.odd == "out" else h2
            h2.set_shape((None, self.units))
            c2.set_shape((None, self.units))
            return i + by, h2, c2, more, out.write(i if at == "same" else 0, put) if at == "same" or self.odd != "step" else out
        i, h, c, more, out = tf.while_loop(lambda i, *_: i < steps, body, (first, zero, zero + 0.5, 0.0, out))
        found = {"h": h, "c": c, "more": more, "i": i}
        if at == "same" and first == 0 and by == 1:
            found["all"] = out.stack()
        return found

    def write(self, out):
        """The model, and its cases."""
        tf, name = self.tf, f"near{self.seed}"
        serve = tf.function(self.net, input_signature=[tf.TensorSpec((None, None, self.width), name="x"), tf.TensorSpec((None,), tf.int32, name="n")], autograph=False)
        try:
            tf.saved_model.save(tf.Module(), os.path.join(out, "models", name), signatures={"serve": serve})
        except ValueError:   # shapes that TensorFlow's loops do not take
            return 0
        folder, cases = os.path.join(out, "goldens", name), []
        os.makedirs(folder, exist_ok=True)
        for rows, steps in SIZES:
            values, arrays, file = np.random.default_rng((self.seed, rows)), {}, f"{rows}x{steps}.npz"
            given = values.standard_normal((rows, steps, self.width)).astype(np.float32), values.integers(0, steps + 1, rows).astype(np.int32)
            case = {"id": f"{name}.{rows}x{steps}", "signature": "serve", "file": file, "rtol": 1e-4, "atol": 1e-5}
            put(arrays, "in/x", given[0])
            put(arrays, "in/n", given[1])
            put_answers(tf, case, arrays, lambda: serve(*map(tf.constant, given)))
            np.savez(os.path.join(folder, file), **arrays)
            cases.append(case)
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
    n = sum((Net, Near, OldNet, Net)[k % 4](tf, seed * 1000 + k).write(args.out) for k in range(args.draws))
    print(f"{n} cases of {args.draws} nets in {args.out}")


if __name__ == "__main__":
    main()
