"""Writes draws of gradients as a suite: as draw_suite.py, but TensorFlow is asked for the gradient of a draw's results by its arguments.

A draw of first order is the op itself in the model; its gradient is asked for by all arguments of a floating-point or complex dtype, with random gradients from
above, mostly. A draw of second order holds TensorFlow's own first gradient in the model, whose gradient is asked for: by the arguments and by what came from above.
Of double draws the derivative along a random line is taken by central differences, too, and TensorFlow's answer must be its: where the line is smooth, and no argument's
gradient is said to be none.
"""
import contextlib
import json
import os
from collections import Counter

import numpy as np

import grad_known
import grad_programs
from draw_source import C, FLOATS, Source
from draw_suite import Draw, gathered, graph_of, parts_of, put, write_graphs

DIFFERENTIABLE = FLOATS + C
TOLERANCE = {"bfloat16": 4e-2, "float16": 1e-2, "float32": 1e-3, "complex64": 1e-3, "float64": 1e-6, "complex128": 1e-6}   # of a value, and of the largest gradient
SECOND, AGAIN = "second_", 10**12   # between the seeds of a draw and the one in its place


class GradSource(Source):
    """variables: {"var:NAME": variable} of those that a program made last. Where there is a choice among dtypes it is one of those that have gradients; values are plain, zeros and ones among them at times: kinks and ties."""

    def __init__(self, seed, op):
        super().__init__(seed, op)
        self.variables = {}

    def one(self, choices):
        if isinstance(choices, list) and "float32" in choices and all(isinstance(c, str) for c in choices):
            choices = [c for c in choices if c in DIFFERENTIABLE] if self.r.random() < 0.98 else choices
        return super().one(choices)

    def wild(self, dtype, shape, lo=-4, hi=4, p=0.3):
        if dtype not in DIFFERENTIABLE:
            return super().wild(dtype, shape, lo, hi, p)
        a = np.array(self.array(dtype, shape, lo, hi))
        if a.size and dtype not in C and self.chance(p / 2):
            kinks = [v for v in (0.0, 1.0, -1.0, 0.5, 6.0) if lo <= v <= hi]
            a[self.r.random(a.shape) < 0.3] = self.one(kinks) if kinks else lo
        return a


def trainable(t):
    return t.dtype.base_dtype.is_floating or t.dtype.base_dtype.is_complex


def dense(tf, g):
    return tf.convert_to_tensor(g) if isinstance(g, tf.IndexedSlices) else g


@contextlib.contextmanager
def first_control_flow():
    """Within, TensorFlow writes the control flow and the arrays of TensorFlow 1."""
    from tensorflow.python.ops import control_flow_util
    before = control_flow_util.ENABLE_CONTROL_FLOW_V2
    control_flow_util.ENABLE_CONTROL_FLOW_V2 = False
    try:
        yield
    finally:
        control_flow_util.ENABLE_CONTROL_FLOW_V2 = before


class GradDraw(Draw):
    """A draw whose answer is a gradient: self.grads by source, None where there is none."""

    def __init__(self, tf, op, seed, draw, second):
        super().__init__(tf, op, seed, GradSource(seed, op), draw)
        self.inline = op.startswith(grad_programs.GRAPHS)
        self.measured = 0   # how far central differences are trusted, where they are the answer
        self.second, self.why, self.ups, self.grads, self.targets = second, None, {}, {}, []
        self.private = {int(k[1:]) for k in self.options.get("shape_only", [])} | grad_known.PRIVATE.get(op, set())
        self.sources = [n for n, v in self.flat.items() if tf.as_dtype(v.dtype if v.dtype != object else "string") in [tf.as_dtype(d) for d in DIFFERENTIABLE]]

    def of(self, results):
        """The results that are differentiated: numbers of them."""
        return [i for i, y in enumerate(results) if trainable(y) and i not in self.private]

    def upstream(self, results):
        """Random gradients from above, drawn once; none at times."""
        self.targets = self.of(results)
        self.narrow = any(results[i].dtype.name not in ("float64", "complex128") for i in self.targets)
        if self.source.chance(0.85) or any(results[i].dtype.is_complex for i in self.targets):
            for i in self.targets:
                y = results[i]
                up = self.source.array(y.dtype.name, tuple(y.shape), -1, 1)
                self.ups[f"y{i}"] = up.real.astype(up.dtype) if i in grad_known.REAL.get(self.op, set()) else up

    def first(self, given, ups, watched):
        """[gradient by source] of the call; a tape of TensorFlow's."""
        tf = self.tf
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(list(watched))
            results = parts_of(self.function(**given) if self.function else self.call(given))
        if not self.targets:
            self.upstream(results)
            ups.update({k: tf.constant(v) for k, v in self.ups.items()})
        above = [ups[f"y{i}"] for i in self.targets] if self.ups else None
        return [dense(tf, g) for g in tape.gradient([results[i] for i in self.targets], [given[n] for n in self.sources], above)]

    def answer(self):
        """Asks TensorFlow; self.why says why not when it has none."""
        tf = self.tf
        try:
            if self.program and not self.inline:
                self.function = self.traced(self.source.chance(0.3))
            if self.version or self.inline:
                return self.session_gradient()
            given, ups = {n: tf.constant(v) for n, v in self.flat.items()}, {}
            if not self.sources:
                self.why = "no argument has a gradient"
                return False
            if not self.second:
                self.grads = dict(zip(self.sources, [g if g is None else g.numpy() for g in self.first(given, ups, [given[n] for n in self.sources])]))
            else:
                self.twice(given, ups)
        except tf.errors.OpError as e:
            self.why = "TensorFlow answers with an error"
            self.says = e.message
        except Exception as e:   # of many kinds: TensorFlow's gradient functions are Python
            self.why = "TensorFlow has no gradient" if isinstance(e, LookupError) else "TensorFlow cannot differentiate it"
            self.says = f"{type(e).__name__}: {e}"
        if not self.why and not self.targets:
            self.why = "no result has a gradient"
        wrong = grad_known.WRONG.get(self.op)
        if not self.why and not self.second and wrong and wrong[0](self.inputs, self.drawn):
            self.measure()
        if not self.why and any(g is not None and n in self.flat and g.shape != self.flat[n].shape for n, g in self.grads.items()):
            self.why = "TensorFlow's gradient is not of its argument's shape"
        return not self.why

    def twice(self, given, ups):
        """The gradient of the first gradients, with random gradients from above them."""
        tf = self.tf
        self.first(given, ups, [given[n] for n in self.sources])   # draws what comes from above
        with tf.GradientTape(persistent=True) as tape:
            tape.watch([given[n] for n in self.sources] + list(ups.values()))
            firsts = self.first(given, ups, [given[n] for n in self.sources])
        self.firsts = [i for i, g in enumerate(firsts) if g is not None]
        if not self.firsts:
            self.why = "the first gradients are none"
            return
        self.above = {f"g{i}": self.source.array(firsts[i].dtype.name, tuple(firsts[i].shape), -1, 1) for i in self.firsts}
        names = self.sources + [f"u{k}" for k in ups]
        found = tape.gradient([firsts[i] for i in self.firsts], [given[n] for n in self.sources] + list(ups.values()), [tf.constant(v) for v in self.above.values()])
        self.grads = {n: g if g is None else dense(tf, g).numpy() for n, g in zip(names, found)}

    def session_gradient(self):
        """In a graph of TensorFlow 1: of an op that newer graphs may not hold, or that is differentiated there alone."""
        tf, v1, graph = self.tf, self.tf.compat.v1, graph_of(self.tf, self.version)
        with first_control_flow(), graph.as_default(), v1.Session(graph=graph) as session:
            asked, ys = self.build_first(graph, "x", "open", range(99))
            self.sources += list(self.source.variables)
            session.run([v.initializer for v in self.source.variables.values()])
            feed = {t: self.flat[n] for n, t in asked.items()}
            self.upstream([tf.stop_gradient(y) if not trainable(y) else tf.constant(v) for y, v in zip(ys.values(), session.run(list(ys.values()), feed))])
            above = {k: v1.placeholder(v.dtype, None, f"u{k}") for k, v in self.ups.items()}
            feed.update({above[k]: v for k, v in self.ups.items()})
            found = self.symbolic([ys[f"y{i}"] for i in self.targets], self.xs(asked), list(above.values()))
            names = self.sources
            if self.second:
                self.firsts = [i for i, g in enumerate(found) if g is not None]
                self.above = {f"g{i}": self.source.array(v.dtype.name, v.shape, -1, 1) for i, v in zip(self.firsts, session.run([found[i] for i in self.firsts], feed))}
                names = self.sources + [f"u{k}" for k in above]
                found = self.symbolic([found[i] for i in self.firsts], self.xs(asked) + list(above.values()), [tf.constant(v) for v in self.above.values()])
            values = iter(session.run([g for g in found if g is not None], feed))
            self.grads = {n: None if g is None else next(values) for n, g in zip(names, found)}
        if self.second and not self.firsts:
            self.why = "the first gradients are none"
        elif not self.targets:
            self.why = "no result has a gradient"
        return not self.why

    def xs(self, asked):
        return [self.source.variables[n].handle if n in self.source.variables else asked[n] for n in self.sources]

    def symbolic(self, ys, xs, above):
        found = self.tf.gradients(ys, xs, above or None) if ys else []
        return [dense(self.tf, g) for g in found]

    def build(self, graph, name, kind):
        """As Draw's, but of second order TensorFlow's first gradient is in the graph."""
        with first_control_flow() if self.inline else contextlib.nullcontext():
            asked, tensors = self.build_first(graph, name, kind, self.targets)
            if self.second:
                with graph.as_default(), self.tf.name_scope(name + "_gradient"):
                    tensors = self.build_second(asked, tensors, kind)
        self.asked = asked
        return asked, tensors

    def build_first(self, graph, name, kind, targets):
        """What is differentiated by is a placeholder, never a constant."""
        tf, v1 = self.tf, self.tf.compat.v1
        with graph.as_default(), tf.name_scope(name):
            flat, asked = {}, {}
            for n, v in self.flat.items():
                dtype = tf.string if v.dtype == object else tf.as_dtype(v.dtype)
                if kind == "constant" and n not in self.sources:
                    flat[n] = tf.constant(v, dtype)
                    continue
                flat[n] = asked[n] = v1.placeholder(dtype, v.shape if kind == "known" else None, n.replace("_", "u", 1) if n[0] == "_" else n)
            parts = parts_of(self.function(**flat) if self.function else self.call(flat))
            return asked, {f"y{i}": y for i, y in enumerate(parts) if i in targets}

    def build_second(self, asked, tensors, kind):
        tf, v1 = self.tf, self.tf.compat.v1
        above = None
        if self.ups:
            above = [v1.placeholder(tf.as_dtype(v.dtype), v.shape if kind == "known" else None, f"u{k}") for k, v in self.ups.items()]
        firsts = self.symbolic(list(tensors.values()), self.xs(asked), above)
        asked.update({f"u{k}": p for k, p in zip(self.ups, above or [])})
        return {f"g{i}": firsts[i] for i in self.firsts}

    def case(self, key, folder):
        """Writes the arrays of the case; the case."""
        label = (SECOND if self.second else "") + self.op
        seeds = self.above if self.second else self.ups
        case = {"id": f"{key}.{self.seed}", "kind": "gradient", "signature": key, "file": key + ".npz",
                "again": f"build/venv/bin/python tests/property/grad_draws.py OUT --draw {label}.{self.seed}",
                "target": list(self.above) if self.second else [f"y{i}" for i in self.targets], "wrt": list(self.grads),
                "unconnected": [n for n, g in self.grads.items() if g is None]}
        arrays, given = {}, {**self.flat, **({f"u{k}": v for k, v in self.ups.items()} if self.second else {})}
        dtypes = {np.asarray(v).dtype.name for v in list(given.values()) + list(seeds.values())}
        rtol = max([TOLERANCE[d] for d in dtypes if d in TOLERANCE] + [self.measured])
        largest = max([float(np.max(np.abs(np.asarray(g)[np.isfinite(g)]).astype(np.float64), initial=0)) for g in self.grads.values() if g is not None], default=0)
        above = max([float(np.max(np.abs(v.astype(np.complex128)), initial=0)) for v in seeds.values()], default=1)
        if rtol > 1e-3:   # halves: TensorFlow rounds each partial sum
            fewest = min([np.size(g) for g in self.grads.values() if g is not None] or [1])
            above *= 0.1 * max(1, max([np.size(v) for v in seeds.values()], default=1) / max(1, fewest)) ** 0.5
        else:
            above *= 1e-3
        case["rtol"], case["atol"] = rtol, rtol * (largest + above)   # what cancels leaves rounding of what came from above
        for n in self.asked:
            put(arrays, "in/" + n, given[n])
        for n, v in seeds.items():
            put(arrays, "in/upstream/" + n, v)
        if self.second:   # what is zero after a first gradient one transformation sees to lead nowhere, another not
            case["none_or_zero"] = [n for n, g in self.grads.items() if g is None or not np.any(g)]
            case["unconnected"] = []
        for n, g in self.grads.items():
            if g is not None or self.second:
                put(arrays, "out/grad/" + n, np.zeros_like(given[n]) if g is None else g)
        np.savez(os.path.join(folder, case["file"]), **arrays)
        return case

    def differences(self):
        """None where central differences agree or cannot say; else a sentence. Along a random line through all sources that have a gradient."""
        if self.second or self.version or self.inline or self.options or self.narrow or not all(self.grads[n] is not None and self.flat[n].dtype.name in ("float64", "complex128") for n in self.sources):
            return None
        line = {n: self.source.array(self.flat[n].dtype.name, self.flat[n].shape, -1, 1) for n in self.sources}
        told = sum(float(np.real(np.sum(np.conj(self.grads[n]) * v))) for n, v in line.items())
        slopes = [self.slope(line, h) for h in (1e-5, -1e-5)]
        if any(s is None for s in slopes) or not np.isfinite(told):
            return None
        size = max(sum(float(np.sum(np.abs(self.grads[n] * v))) for n, v in line.items()), abs(slopes[0]), abs(slopes[1]), 1e-3)
        if abs(slopes[0] - slopes[1]) > 1e-2 * size:   # no smooth line
            return None
        middle = (slopes[0] + slopes[1]) / 2
        return None if abs(middle - told) <= 1e-3 * size else f"{told:.9g} along a line, by central differences {middle:.9g}"

    def measure(self):
        """Puts central differences, element by element, in the place of TensorFlow's gradient."""
        kinds = {self.flat[n].dtype.name for n in self.sources}
        if kinds & {"float16", "bfloat16"} or sum(self.flat[n].size for n in self.sources) > 300:
            self.why = "too much to measure, or too coarse"
            return
        h, self.measured = (1e-5, 1e-5) if kinds <= {"float64", "complex128"} else (1e-2, 1e-2)
        for n in [n for n in self.sources if self.grads[n] is not None]:
            g = np.zeros_like(self.flat[n]).reshape(-1)
            for at in np.ndindex(g.shape):
                for part in (1, 1j) if g.dtype.kind == "c" else (1,):
                    step = np.zeros_like(g)
                    step[at] = part
                    line = {n: step.reshape(self.flat[n].shape)}
                    g[at] += part * (self.slope(line, h) + self.slope(line, -h)) / 2
            self.grads[n] = g.reshape(self.flat[n].shape)

    def slope(self, line, h):
        """(F(x + h line) - F(x)) / h of the sum F of the results times what came from above."""
        ends = []
        for step in (h, 0):
            given = {n: self.tf.constant((v + step * line[n]).astype(v.dtype) if n in line else v) for n, v in self.flat.items()}
            try:
                results = parts_of(self.function(**given) if self.function else self.call(given))
            except self.tf.errors.OpError:
                return None
            terms = [np.vdot(self.ups[f"y{i}"].astype(np.complex128), results[i].numpy().astype(np.complex128)) if self.ups else np.sum(results[i].numpy()) for i in self.targets]
            ends.append(float(np.real(sum(terms))))
        return (ends[0] - ends[1]) / h if np.all(np.isfinite(ends)) else None


class Writer:
    """One SavedModel with a signature for each draw, and its cases."""

    def __init__(self, out, name, families):
        import tensorflow as tf
        self.tf, self.out, self.name, self.families = tf, out, name, families
        self.graphs, self.signatures, self.cases, self.variables, self.lost = {}, {}, [], [], Counter()
        self.folder = os.path.join(out, "goldens", name)
        os.makedirs(self.folder, exist_ok=True)

    def add(self, label, seed):
        """True when the draw became a case."""
        second, op = label.startswith(SECOND), label.removeprefix(SECOND)
        try:
            draw = GradDraw(self.tf, op, seed, self.families.draws[op], second)
        except Exception as e:
            return self.lose(label, seed, "TensorFlow refuses the arguments", e)
        known = self.families.known.get(label, self.families.known.get(op))
        if known and known[0](draw.inputs, draw.drawn):
            return self.lose(label, seed, "differ as is meant (KNOWN)", "")
        if not draw.answer():
            return self.lose(label, seed, draw.why, getattr(draw, "says", ""))
        key = f"{label}_{len(self.cases)}"
        try:
            signature = draw.place(self.graphs, key.lstrip("_"))
        except Exception as e:   # TensorFlow's gradient functions are Python
            return self.lose(label, seed, "no model can hold", e)
        if signature is None:
            return self.lose(label, seed, "no model can hold", "")
        self.signatures[key] = signature
        self.variables += draw.source.variables.values()
        self.cases.append(draw.case(key, self.folder))
        wrong = draw.differences()
        if wrong:
            note(self.out, "differences.txt", f"{label}.{seed} {wrong}")
        return True

    def lose(self, label, seed, why, says):
        self.lost[why] += 1
        note(self.out, "refused.txt", f"{label}.{seed} {why}: {' '.join(str(says).split())[:300]}")
        return False

    def close(self):
        folder, saver = os.path.join(self.out, "models", self.name), None
        if self.variables:
            os.makedirs(os.path.join(folder, "variables"), exist_ok=True)
            v1 = self.tf.compat.v1
            with self.graphs[0].as_default(), v1.Session(graph=self.graphs[0]) as session:
                session.run([v.initializer for v in self.variables])
                saver = v1.train.Saver(self.variables, write_version=2)
                saver.save(session, os.path.join(folder, "variables", "variables"), write_meta_graph=False, write_state=False)
        write_graphs(self.tf, self.graphs, self.signatures, folder, saver and saver.as_saver_def())
        with open(os.path.join(self.folder, "cases.json"), "w") as f:
            json.dump(self.cases, f, indent=1)


def write_model(out, name, rows, families, tries, say):
    """A draw that TensorFlow does not answer is drawn again, up to `tries` times in all; say(label, seed) is False for one that is to be left out.
    Returns the number of cases, and why how many draws became none."""
    model = Writer(out, name, families)
    for label, seed in rows:
        for k in range(tries):
            if say(label, seed + k * AGAIN) and model.add(label, seed + k * AGAIN):
                break
    model.close()
    return len(model.cases), model.lost


def note(out, file, line):
    with open(os.path.join(out, file), "a") as f:
        f.write(line + "\n")
