"""Draws small graphs at random, asks TensorFlow for their gradients by all inputs and variables, and writes them as a suite that golden.py runs.

    build/venv/bin/python tests/property/grad_graphs.py OUT [--draws 40] [--seed N] [--only K,...]     then: python tests/golden.py OUT

A graph makes ten to forty moves, those of rows_draw.py and more: branches, switches, loops in loops, calls, scans, custom gradients, reads of variables anywhere in them, dense
and by rows. It has one to three inputs, two to four variables and one to three results, whose gradients from above are random, mostly. A graph whose values or gradients are not
finite, or are large, is drawn again: kinks apart, float32 then decides the answer.
"""
import argparse
import json
import os
import random
import subprocess
import sys

os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")   # TensorFlow's own kernels, whatever the CPU
import numpy as np  # noqa: E402

import draw_seed  # noqa: E402

A_MODEL, LARGEST, TRIES = 20, 1e4, 20


def tf_and_moves():
    """TensorFlow, rows_draw, which needs it, and the moves of this file."""
    import tensorflow as tf
    import rows_draw

    class Graph(rows_draw.Draw):
        """One function while it is made. Of its variables some are among the values, all are read by moves."""

        def __init__(self, rng, inputs, variables):
            self.variables = variables
            super().__init__(rng, inputs[0], [*inputs[1:], *(v.read_value() for v in variables if rng.random() < 0.5)])

        def new(self):
            self.t, self.u = self.pick(self.values[-4:]), self.pick(self.values)
            self.w = self.pick(self.variables)
            self.rank = self.t.shape.rank
            self.axis = self.rng.randrange(max(self.rank, 1))
            y = self.pick(moves)(self)
            if y.dtype != tf.float32 or y.shape.rank is None or y.shape.rank > 4:
                raise ValueError("not a value to go on with")
            if self.rng.random() < 0.3:
                y = tf.tanh(y)
            self.values.append(y)

        def small(self):
            """A function of two values of one shape, which may read a variable."""
            w = self.pick(self.variables)
            return self.pick((lambda a, b: tf.sin(a) * b, lambda a, b: a * 0.5 + b, lambda a, b: tf.tanh(a + tf.reduce_mean(w)), lambda a, b: a - b * tf.reduce_sum(w) * 0.1, lambda a, b: b,
                              lambda a, b: a * tf.sigmoid(b), lambda a, b: tf.stop_gradient(a) * b, lambda a, b: tf.where(a > b, a * 0.3, b)))

    def loop(d):
        t, u, f, g = d.t, tf.reduce_mean(d.u), d.small(), d.small()
        n = d.pick((lambda: d.n % 4, lambda: tf.constant(d.rng.randrange(4)), lambda: tf.cast(u > 0, tf.int32) * 2 + 1))()
        inner = lambda a: tf.while_loop(lambda j, b: j < 2, lambda j, b: (j + 1, g(b, t)), [0, a], maximum_iterations=d.pick((None, 3)))[1]
        deep = d.pick((False, False, True))
        return tf.while_loop(lambda i, a: i < n, lambda i, a: (i + 1, f(inner(a) if deep else a, t * u)), [0, t], maximum_iterations=d.pick((None, None, 2)))[1]

    def collected(d):
        """Values of a loop, kept in a TensorArray."""
        t, f = d.t, d.small()

        def body(i, a, kept):
            a = f(a, t)
            return i + 1, a, kept.write(i, a)
        kept = tf.TensorArray(tf.float32, size=3, element_shape=t.shape)
        return tf.while_loop(lambda i, a, kept: i < 3, body, [0, t, kept])[2].stack()

    def branch(d):
        t, u, f, g, h = d.t, d.u, d.small(), d.small(), d.small()
        when = d.pick((lambda: tf.reduce_sum(t) > 0, lambda: tf.reduce_mean(u) > 0.1, lambda: d.n > 4))()
        nested = d.pick((False, True))
        return tf.cond(when, lambda: tf.cond(tf.size(t) > 9, lambda: f(t, t), lambda: h(t, t * 0.5)) if nested else f(t, t * tf.reduce_mean(u)), lambda: g(t, t))

    def switch(d):
        t, fs = d.t, [d.small() for _ in range(3)]
        return tf.switch_case(tf.math.floormod(d.n, 4), [(lambda f: lambda: f(t, t * 0.7))(f) for f in fs])

    def call(d):
        f, g = d.small(), d.small()
        inner = tf.function(f, autograph=False)
        return d.pick((inner, tf.function(lambda a, b: g(inner(a, b), b), autograph=False)))(d.t, d.t * 0.9)

    def loop_of_branches(d):
        t, f, g, fn = d.t, d.small(), d.small(), None
        fn = tf.function(lambda i, a: tf.cond(i % 2 == 0, lambda: f(a, t), lambda: g(a, t)), autograph=False)
        return tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, fn(i, a)), [0, t])[1]

    @tf.custom_gradient
    def own(x):
        return tf.sin(x), lambda dy: dy * tf.cos(x) * 2.0

    def rows_of_variable(d):
        w = d.pick([w for w in d.variables if w.shape.rank == 2])
        i = tf.math.floormod(tf.range(d.n * 2), w.shape[0])
        return d.pick((lambda: tf.gather(w, i), lambda: tf.nn.embedding_lookup(w, i), lambda: tf.gather_nd(w, i[:, None]), lambda: tf.gather(w, i[:d.n])))()

    def parts(d):
        side = tf.cast(tf.range(tf.shape(d.t)[0]) % 2, tf.int32)
        a, b = tf.dynamic_partition(d.t, side, 2)
        places = tf.dynamic_partition(tf.range(tf.shape(d.t)[0]), side, 2)
        return tf.dynamic_stitch(places, [a * 2.0, tf.sin(b)])

    def over_rows(d):
        f = d.small()
        return d.pick((lambda: tf.map_fn(lambda r: f(r, r * 0.5), d.t), lambda: tf.scan(lambda a, r: f(a * 0.5, r), d.t), lambda: tf.foldl(lambda a, r: f(a, r), d.t)))()

    unary = (tf.tanh, tf.sin, tf.sigmoid, tf.nn.softplus, lambda x: tf.exp(-x * x), lambda x: tf.sqrt(1.0 + x * x), lambda x: tf.math.log1p(x * x), tf.nn.relu, tf.nn.elu, tf.abs,
             tf.nn.leaky_relu, tf.square, tf.math.erf, lambda x: x / (1.0 + tf.abs(x)), tf.nn.gelu, own, tf.stop_gradient, tf.identity, lambda x: tf.clip_by_value(x, -0.5, 0.9))
    binary = (tf.subtract, tf.minimum, tf.math.squared_difference, lambda a, b: a / (1.5 + tf.square(b)), tf.multiply, tf.add, lambda a, b: tf.math.atan2(a, b + 3.0),
              lambda a, b: tf.where(a > b, a, b * 0.5), lambda a, b: tf.add_n([a, b, a]))
    dense = (lambda d: d.t + d.w, lambda d: tf.matmul(d.t, d.w) * 0.5, lambda d: tf.einsum("...i,ij->...j", d.t, d.w) * 0.5, lambda d: d.t * tf.reduce_mean(d.w), lambda d: tf.nn.bias_add(d.t, d.w),
             lambda d: tf.matmul(d.w, d.t) * 0.5, lambda d: tf.concat([d.t, d.w], 0))
    apply_unary, apply_binary = lambda d: d.pick(unary)(d.t), lambda d: d.pick(binary)(d.t, d.u)
    more = [apply_unary] * 7 + [apply_binary] * 5 + [lambda d: d.pick(dense)(d)] * 5 + [rows_of_variable] * 2 + [loop, branch, call] * 2 + [
        collected, switch, loop_of_branches, parts, over_rows,
        lambda d: tf.nn.log_softmax(d.t), lambda d: tf.sort(d.t, d.axis), lambda d: tf.math.top_k(d.t, 2).values, lambda d: tf.math.reduce_logsumexp(d.t, d.axis, keepdims=True),
        lambda d: tf.math.segment_sum(d.t, tf.range(tf.shape(d.t)[0]) // 2), lambda d: tf.math.reduce_prod(d.t, d.axis), lambda d: tf.math.reduce_std(d.t, d.axis, keepdims=True),
        lambda d: tf.linalg.band_part(d.t, 1, 0), lambda d: d.t[..., ::2], lambda d: d.t[1:], lambda d: tf.broadcast_to(d.t, tf.shape(d.t + d.u)),
        lambda d: tf.scatter_nd(tf.range(tf.shape(d.t)[0])[:, None], d.t, tf.shape(tf.concat([d.t, d.t], 0))), lambda d: tf.cast(tf.cast(d.t, tf.float64) * 0.5, tf.float32),
        lambda d: tf.tensor_scatter_nd_add(d.t, [[0]], d.t[:1]), lambda d: tf.linalg.norm(d.t + 0.1, axis=-1, keepdims=True), lambda d: tf.identity_n([d.t, d.u])[0],
        lambda d: tf.reduce_max(d.t, d.axis), lambda d: tf.nn.l2_normalize(d.t + 0.2, -1), lambda d: tf.meshgrid(d.t[0], d.t[0])[0],
    ]
    moves = list(rows_draw.MOVES) + more
    return tf, Graph


def build(Graph, rng, inputs, variables, every=False):
    """The results: of the last values, floats all; or `every` value."""
    g = Graph(rng, inputs, variables)
    wanted = len(g.values) + rng.randrange(10, 41)
    for _ in range(200):
        if len(g.values) >= wanted:
            break
        try:
            g.new()
        except Exception:   # of many kinds: the next move may do
            pass
    last = g.values if every else g.values[-rng.randrange(1, 4):]
    return {f"y{i}": y for i, y in enumerate(last)}


class Drawn:
    """A graph as a function with its variables, TensorFlow's answer, and what was given."""

    def __init__(self, tf, Graph, seed):
        rng, r = random.Random(seed), np.random.default_rng(seed)
        self.tf, self.seed = tf, seed
        self.variables = [tf.Variable(r.normal(0, 0.7, rng.choice(([4, 4], [4], [2, 4], [3, 2], [], [5, 4]))).astype("float32"), name=f"w{seed}_{i}") for i in range(rng.randrange(1, 4))]
        self.variables.append(tf.Variable(r.normal(0, 0.7, [4, 4]).astype("float32"), name=f"w{seed}_last"))
        inner = [rng.choice(([4], [4], [3, 4], [2])) for _ in range(rng.randrange(1, 4))]
        specs = [tf.TensorSpec([None, *sizes] if rng.random() < 0.7 else [4, *sizes], tf.float32, name=f"x{i}") for i, sizes in enumerate(inner)]
        state = rng.getstate()
        traced = lambda *how: tf.function(lambda *inputs: build(Graph, rng, inputs, self.variables, *how), input_signature=specs, autograph=False).get_concrete_function()
        self.every = lambda *inputs: (rng.setstate(state), traced(True))[1](*inputs)
        self.function = traced()
        rows = 4 if any(s.shape[0] for s in specs) else rng.choice((2, 4, 6))
        self.inputs = {f"x{i}": r.normal(0, 1, [rows, *sizes]).astype("float32") for i, sizes in enumerate(inner)}
        self.seeded, self.r = rng.random() < 0.8, r

    def answer(self):
        """True when TensorFlow's values and gradients are of a size that can be compared."""
        tf = self.tf
        given = {k: tf.constant(v) for k, v in self.inputs.items()}
        with tf.GradientTape() as tape:
            tape.watch(list(given.values()))
            out = self.function(*given.values())
        if max((int(tf.size(y)) for y in out.values()), default=0) > 5000 or not out:
            return False
        self.ups = {k: self.r.normal(0, 1, y.shape).astype("float32") for k, y in out.items()} if self.seeded else {}
        found = tape.gradient(list(out.values()), list(given.values()) + self.variables, [tf.constant(v) for v in self.ups.values()] or None)
        names = list(given) + ["var:" + v.name.split(":")[0] for v in self.variables]
        self.grads = {n: g if g is None else tf.convert_to_tensor(g).numpy() for n, g in zip(names, found)}
        self.outputs = {k: y.numpy() for k, y in out.items()}
        values = [v for v in list(self.grads.values()) + list(self.outputs.values()) if v is not None and v.size]
        self.every(*given.values())   # TensorFlow prunes what nothing needs, in loops too: that would go without its error
        return any(g is not None and np.any(g) for g in self.grads.values()) and all(np.all(np.isfinite(v)) and np.max(np.abs(v)) < LARGEST for v in values)

    def case(self, key, folder):
        largest = max(float(np.max(np.abs(g), initial=0)) for g in self.grads.values() if g is not None)
        case = {"id": f"{key}.{self.seed}", "kind": "gradient", "signature": key, "file": key + ".npz", "target": list(self.outputs), "wrt": list(self.grads), "rtol": 1e-3, "atol": 1e-3 * (largest + 1e-3),
                "none_or_zero": [n for n, g in self.grads.items() if g is not None and not np.any(g)],   # a way that leads nowhere: seen or not
                "unconnected": [n for n, g in self.grads.items() if g is None], "again": f"build/venv/bin/python tests/property/grad_graphs.py OUT --only {self.seed}"}
        arrays = {**{"in/" + k: v for k, v in self.inputs.items()}, **{"in/upstream/" + k: v for k, v in self.ups.items()},
                  **{"out/grad/" + k: g for k, g in self.grads.items() if g is not None}}
        np.savez(os.path.join(folder, case["file"]), **arrays)
        return case


def drawn(tf, Graph, seed, left_out):
    """A graph with an answer, of the seed or of one in its place. Says which it is at, for when TensorFlow's process ends over it."""
    for k in range(TRIES):
        this = seed + k * 10**9
        if this in left_out:
            continue
        print("at", this, flush=True)
        try:
            graph = Drawn(tf, Graph, this)
            if graph.answer():
                return graph
        except Exception as e:   # TensorFlow's gradient functions are Python
            print(f"{this}: {type(e).__name__} {' '.join(str(e).split())[:200]}", file=sys.stderr)
    return None


def write_model(out, name, seeds, left_out):
    """One SavedModel of graphs. Returns how many there are."""
    tf, Graph = tf_and_moves()
    folder, module, cases, signatures = os.path.join(out, "goldens", name), tf.Module(), [], {}
    os.makedirs(folder, exist_ok=True)
    for seed in seeds:
        graph = drawn(tf, Graph, seed, left_out)
        if graph is None:
            continue
        key = f"graph_{len(cases)}"
        for v in graph.variables:
            setattr(module, v.name.split(":")[0], v)
        signatures[key] = graph.function
        cases.append(graph.case(key, folder))
    tf.saved_model.save(module, os.path.join(out, "models", name), signatures=signatures)
    with open(os.path.join(folder, "cases.json"), "w") as f:
        json.dump(cases, f, indent=1)
    return len(cases)


def child(out, name, seeds):
    """(graphs, [seeds that ended TensorFlow's process]) of one model, in a process of its own: TensorFlow keeps every function it has traced."""
    ended = []
    while True:
        command = [sys.executable, os.path.abspath(__file__), out, "--model", name, "--only", ",".join(seeds), "--left-out", ",".join(ended)]
        said = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        words = [line.split() for line in said.stdout.splitlines()]
        done, at = ([w[1] for w in words if w[:1] == [key]] for key in ("graphs", "at"))
        if done:
            return int(done[0]), ended
        if said.returncode > 0 or not at or len(ended) > 20:
            raise SystemExit(f"grad_graphs: drawing failed at {at[-1:]}")
        ended.append(at[-1])


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("out")
    p.add_argument("--draws", type=int, default=40)
    draw_seed.add_flag(p)
    p.add_argument("--only", default="", help="the graphs of these seeds, with commas between")
    p.add_argument("--model", help=argparse.SUPPRESS)
    p.add_argument("--left-out", default="", help=argparse.SUPPRESS)
    args = p.parse_args()
    numbers = lambda text: [int(k) for k in text.split(",") if k]
    if args.model:
        print("graphs", write_model(args.out, args.model, numbers(args.only), numbers(args.left_out)))
        return 0
    args.seed = draw_seed.chosen(args.seed)
    draw_seed.say(args.seed)
    seeds = args.only.split(",") if args.only else [str(args.seed * 10000 + i) for i in range(args.draws)]
    models = {f"graphs_{at}": seeds[at:at + A_MODEL] for at in range(0, len(seeds), A_MODEL)}
    made = [child(args.out, *model) for model in models.items()]
    count, ended = sum(m[0] for m in made), [seed for m in made for seed in m[1]]
    print(f"{count} graphs in {args.out}")
    print(f"SKIPPED {len(seeds) - count + len(ended)} draws that TensorFlow does not answer" + "".join(f"; its process ended over {e}" for e in ended))
    return 0 if count else 1


if __name__ == "__main__":
    sys.exit(main())
