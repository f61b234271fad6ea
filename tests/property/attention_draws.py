"""Draws nets of attention at random, asks TensorFlow for their answers, and writes them as a suite that golden.py runs.

    build/venv/bin/python tests/property/attention_draws.py OUT [--draws 40] [--seed N]        then: python tests/golden.py OUT [--passes-off attention]

A quarter are Keras layers (MultiHeadAttention with and without dropout, Attention, GroupQueryAttention). Half are written by hand: products by matmul of two to four axes, by einsum with
letters or an ellipsis, either operand on either side; Transposes before, between and behind; scales before and after; masks that are added, subtracted or chosen by, of any shape that
broadcasts, in any number; causal ones; probabilities that are masked again. Rows may be masked as a whole, by a large number or by -inf; numbers may be NaN and infinite; a quarter of them are half or bfloat16. At times scores or
probabilities are asked for, too, or the gradient. Shapes are mostly unknown, and blocks of keys are more than one at times.

A quarter only resemble attention: axes that one operand alone has, products summed along other axes, a softmax along another, axes in any order before and behind, masks of more axes than
the scores and of more keys than there are, values that are read twice or whose shape is asked for, of other types. Most must stay as they are, the rest be the same.
"""
import argparse
import json
import os
import random

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")   # TensorFlow's own kernels, whatever the CPU
import numpy as np  # noqa: E402

import draw_seed  # noqa: E402
from draw_suite import LOOSE, put, put_answers  # noqa: E402

SIZES = ((1, 1, 1), (2, 5, 5), (1, 2, 9), (3, 1, 7), (2, 50, 50), (1, 3, 300), (1, 60, 520))   # rows, queries, keys


class Layer:
    """A Keras layer between projections."""

    def __init__(self, tf, rng):
        layers = tf.keras.layers
        self.width, self.causal = rng.choice((4, 6)), rng.random() < 0.4
        self.scores, self.mask = rng.random() < 0.15, rng.choice((None, "keys", "full"))
        kind = rng.choice(("heads", "heads", "heads", "dot", "groups"))
        if kind == "heads":
            self.layer = layers.MultiHeadAttention(rng.choice((1, 2, 3)), rng.choice((1, 5, 8)), value_dim=rng.choice((None, 3)), dropout=rng.choice((0, 0, 0.1)), use_bias=rng.random() < 0.7)
        elif kind == "groups":
            self.layer = layers.GroupQueryAttention(4, 4, rng.choice((1, 2, 4)), dropout=rng.choice((0, 0.1)))
        else:
            self.layer, self.mask = layers.Attention(use_scale=rng.random() < 0.5, dropout=rng.choice((0, 0.1))), rng.choice((None, "values"))
        self.kind = kind
        x = y = tf.keras.Input((None, self.width))
        y = tf.keras.Input((None, self.width))
        self.layer(x, y) if kind != "dot" else self.layer([x, y])
        specs = {"x": tf.TensorSpec((None, None, self.width)), "y": tf.TensorSpec((None, None, self.width))}
        if self.mask is not None:
            specs["mask"] = tf.TensorSpec((None, None) if self.mask == "values" else (None, None, None), tf.bool)
        self.specs = specs

    def inputs(self, values, rows, queries, keys):
        given = {"x": values.standard_normal((rows, queries, self.width)), "y": values.standard_normal((rows, keys, self.width))}
        if self.mask is not None:
            given["mask"] = values.random({"values": (rows, keys), "keys": (rows, 1, keys), "full": (rows, queries, keys)}[self.mask]) < values.choice((0.2, 0.7, 1))
        return given

    def call(self, x, y, mask=None):
        if self.kind == "dot":
            found = self.layer([x, y], mask=None if mask is None else [None, mask], use_causal_mask=self.causal, return_attention_scores=self.scores)
        else:
            found = self.layer(x, y, attention_mask=mask, use_causal_mask=self.causal, return_attention_scores=self.scores)
        return dict(zip(("out", "scores"), found)) if self.scores else {"out": found}


class Written:
    """The same by hand."""

    def __init__(self, tf, rng):
        self.tf, self.rng = tf, rng
        self.axes = rng.choice((2, 3, 4, 4, 4, 4))
        self.order = rng.choice(("bnth", "btnh")) if self.axes == 4 else ("bth" if self.axes == 3 else "th")
        self.how = rng.choice(("matmul", "matmul", "einsum", "dots", "swapped"))
        self.known = rng.random() < 0.6 or self.order == "btnh"   # the rank
        self.depth, self.width, self.heads = rng.choice((1, 4, 16, 33)), rng.choice((1, 4, 16, 70)), rng.choice((1, 3))
        self.scale = rng.choice((None, "query", "mul", "div", "sqrt"))
        self.masks = [rng.choice(("add", "sub", "keep", "drop", "causal", "bias", "factor")) for _ in range(rng.choice((0, 1, 1, 1, 2, 3)))]
        self.big, self.again = rng.choice((-1e9, -1e4, -np.inf)), rng.random() < 0.2
        self.wanted = rng.choice((None,) * 6 + ("scores", "p"))
        self.shapes = [rng.choice(("bnts", "bnts", "b11s", "11ts", "s", "b1ts")) for _ in self.masks]
        self.seed, self.strange = rng.randrange(1 << 30), rng.random() < 0.2
        self.type = rng.choice((tf.float32,) * 6 + (tf.float16, tf.bfloat16))
        if self.type != tf.float32:   # of a row that is masked by a number as a whole, half and bfloat16 keep no scores
            self.big = -np.inf
        shape = [None] * self.axes if self.known else None
        self.specs = {n: tf.TensorSpec(shape, self.type, name=n) for n in "qkv"}
        for i, m in enumerate(self.masks):
            if m != "causal":
                self.specs[f"m{i}"] = tf.TensorSpec(None, tf.bool if m in ("keep", "drop") else self.type, name=f"m{i}")

    def inputs(self, values, rows, queries, keys):
        sizes = {"b": rows, "n": self.heads, "t": queries, "s": keys, "h": self.depth, "d": self.width, "1": 1}
        shape = lambda text: [sizes[c] for c in text]   # noqa: E731
        given = {"q": values.standard_normal(shape(self.order)), "k": values.standard_normal(shape(self.order.replace("t", "s"))),
                 "v": values.standard_normal(shape(self.order.replace("t", "s").replace("h", "d")))}
        for i, (m, text) in enumerate(zip(self.masks, self.shapes)):
            like = shape(text[-self.axes:] if self.axes != 3 else text[:-3] + text[-2:] if len(text) == 4 else text)
            if m in ("keep", "drop"):
                given[f"m{i}"] = values.random(like) < values.choice((0, 0.3, 0.7, 1))
            elif m in ("add", "sub"):
                chosen = values.random(like) < values.choice((0.3, 0.7, 1))
                given[f"m{i}"] = np.where(chosen, 0, self.big if m == "add" else -self.big)
            elif m != "causal":
                given[f"m{i}"] = values.standard_normal(like) * (1 if m == "bias" else 0.5)
        if self.strange:
            for n in "qkv":
                flat = given[n].reshape(-1)
                flat[values.integers(0, flat.size)] = values.choice((np.nan, np.inf, -np.inf, 1e30))
        return given

    def product(self, q, k):
        tf, letters = self.tf, self.order.replace("btn", "bnt") if self.how in ("matmul", "swapped", "dots") else self.order
        if self.order == "btnh" and self.how != "einsum":
            q, k = (tf.transpose(x, (0, 2, 1, 3)) for x in (q, k))
        if self.how == "swapped":   # keys on the left
            return tf.linalg.matrix_transpose(tf.matmul(k, q, transpose_b=True))
        if self.how == "matmul":
            return tf.matmul(q, k, transpose_b=True)
        out = letters[:-1].replace("btn", "bnt") + "s"
        lead = letters[:-2] if self.how == "einsum" else "..."
        if self.how == "dots":
            return tf.einsum(f"{lead}th,{lead}sh->{lead}ts", q, k)
        return tf.einsum(f"{letters},{letters.replace('t', 's')}->{out}", q, k)

    def weighted(self, p, v):
        tf = self.tf
        if self.how == "einsum":
            letters = self.order.replace("h", "d")
            return tf.einsum(f"{self.order[:-1].replace('btn', 'bnt')}s,{letters.replace('t', 's')}->{letters}", p, v)
        if self.order == "btnh":
            v = tf.transpose(v, (0, 2, 1, 3))
        y = tf.matmul(p, v) if self.how == "matmul" else tf.einsum("...ts,...sd->...td", p, v)
        return tf.transpose(y, (0, 2, 1, 3)) if self.order == "btnh" else y

    def masked(self, x, masks):
        tf = self.tf
        for i, m in enumerate(self.masks):
            mask = masks.get(f"m{i}")
            if m in ("add", "bias"):
                x = x + mask if i % 2 == 0 else mask + x
            elif m == "sub":
                x = x - mask
            elif m == "factor":
                x = x * mask
            elif m == "keep":
                x = tf.where(mask, x, tf.constant(self.big, x.dtype))
            elif m == "drop":
                x = tf.where(mask, tf.constant(self.big, x.dtype), x)
            else:
                shape = tf.shape(x)
                x = tf.where(tf.linalg.band_part(tf.ones((shape[-2], shape[-1]), tf.bool), -1, 0), x, tf.constant(self.big, x.dtype))
        return x

    def call(self, q, k, v, **masks):
        tf = self.tf
        q = q * 0.3 if self.scale == "query" else q
        scores = self.product(q, k)
        scores = {"mul": lambda: scores * 0.125, "div": lambda: scores / 3.0, "sqrt": lambda: scores / tf.sqrt(tf.cast(tf.shape(k)[-1], self.type))}.get(self.scale, lambda: scores)()
        scores = self.masked(scores, masks)
        p = tf.nn.softmax(scores)
        keep = [masks[f"m{i}"] for i, m in enumerate(self.masks) if m == "keep"]
        if self.again and keep:
            p = tf.where(keep[0], p, tf.constant(0, p.dtype))
        found = {"out": self.weighted(p, v)}
        if self.wanted is not None:
            found[self.wanted] = scores if self.wanted == "scores" else p
        return found

class Near:
    """What resembles attention."""

    def __init__(self, tf, rng):
        self.tf, self.rng = tf, rng
        self.type = rng.choice((tf.float32,) * 5 + (tf.float64, tf.float16))
        self.letters = rng.random() < 0.6
        (self.draw_letters if self.letters else self.draw_matrices)()
        self.known = rng.random() < 0.7 or self.along != -1   # the ranks
        self.wanted = rng.choice((None, None, None, None, "scores", "p", "shape", "rank", "again"))
        self.masks = [m for m in ("before", "behind") if rng.random() < 0.4]
        self.how = {m: rng.choice(("add", "keep") if m == "before" else ("mul", "keep")) for m in self.masks}
        self.axes = {m: [c if rng.random() < 0.6 else "1" for c in self.scores][rng.choice((0, 0, 1)):] for m in self.masks}
        if not self.letters and rng.random() < 0.3:
            self.axes = {m: ["x"] + [c if rng.random() < 0.5 else "1" for c in self.scores] for m in self.masks}
        spec = lambda text, n, t=self.type: tf.TensorSpec([None] * len(text) if self.known else None, t, name=n)   # noqa: E731
        self.specs = {"q": spec(self.q, "q"), "k": spec(self.k, "k"), "v": spec(self.v, "v")}
        self.specs.update({m: spec(self.axes[m], m, tf.bool if self.how[m] == "keep" else self.type) for m in self.masks})

    def shuffled(self, text, often=0.5):
        return "".join(self.rng.sample(text, len(text))) if self.rng.random() < often else text

    def draw_letters(self):
        rng, some = self.rng, lambda text: "".join(c for c in text if self.rng.random() < 0.6)   # noqa: E731
        mine, theirs = some("bng"), some("bng")
        batch = "".join(c for c in "bng" if c in mine + theirs)
        self.q, self.k = self.shuffled(mine + "th"), self.shuffled(theirs + "sh")
        self.scores = self.shuffled(batch + "ts", 0.3)
        self.along = rng.choice((-1,) * 6 + (0,))
        last = self.scores[-1]
        summed = last if rng.random() < 0.8 else rng.choice(self.scores)
        rest = self.scores.replace(summed, "")
        self.v = self.shuffled(some(rest.replace("t", "")) + (rest[-1:] if rng.random() < 0.1 else "") + summed + "d", 0.4)
        self.v = "".join(dict.fromkeys(self.v))
        self.out = self.shuffled(rest, 0.3) + "d" if rng.random() < 0.8 else self.shuffled(rest + "d", 1)
        self.first, self.second = f"{self.q},{self.k}->{self.scores}", f"{self.scores},{self.v}->{self.out}"

    def draw_matrices(self):
        rng, batch = self.rng, lambda: "bn"[rng.choice((0, 0, 0, 1, 2)):]   # noqa: E731
        self.q, self.k, self.v, self.along = batch() + "th", batch() + "sh", batch() + "sd", rng.choice((-1,) * 6 + (-2,))
        self.turned, self.turned_v = rng.random() < 0.3, rng.random() < 0.2
        self.scores = max(self.q[:-2], self.k[:-2], key=len) + "ts"

    def inputs(self, values, rows, queries, keys):
        sizes = {"b": rows, "n": 3, "g": 2, "t": queries, "s": keys, "h": 4, "d": 5, "x": 2, "1": 1}
        if values.random() < 0.15:
            sizes.update({c: 1 for c in "ng"})
        given = {n: values.standard_normal([sizes[c] for c in text]) for n, text in (("q", self.q), ("k", self.k), ("v", self.v))}
        if not self.letters and self.masks and values.random() < 0.3:
            given["k"] = given["k"][..., :1, :]   # one key: where a mask has the others, it fits all the same
        for m in self.masks:
            shape = [sizes[c] for c in self.axes[m]]
            given[m] = values.random(shape) < 0.7 if self.how[m] == "keep" else values.standard_normal(shape)
        return given

    def product(self, q, k):
        tf = self.tf
        if self.letters:
            return tf.einsum(self.first, q, k)
        return tf.linalg.matrix_transpose(tf.matmul(k, q, transpose_b=True)) if self.turned else tf.matmul(q, k, transpose_b=True)

    def masked(self, x, m, given):
        how = self.how[m] if m in self.masks else None
        if how == "keep":
            return self.tf.where(given[m], x, self.tf.constant(-1e4 if m == "before" else 0, self.type))
        return x if how is None else x + given[m] if how == "add" else x * given[m]

    def call(self, q, k, v, **given):
        tf, found = self.tf, {}
        scores = self.masked(self.product(q, k) * tf.constant(0.5, self.type), "before", given)
        p = tf.nn.softmax(scores, axis=self.along)
        weighed = self.masked(p, "behind", given)
        if self.letters:
            found["out"] = tf.einsum(self.second, weighed, v)
        else:
            out = tf.linalg.matrix_transpose(tf.matmul(v, weighed, transpose_a=True, transpose_b=True)) if self.turned_v else tf.matmul(weighed, v)
            found["out"] = out
        more = {"scores": lambda: scores, "p": lambda: p, "shape": lambda: tf.shape(scores), "rank": lambda: tf.rank(p), "again": lambda: found["out"] + tf.reduce_sum(p)}
        if self.wanted is not None:
            found["more"] = more[self.wanted]()
        return found


def write(tf, seed, out):
    """A model, and its cases."""
    rng, name = random.Random(seed), f"net{seed}"
    made = rng.choice((Layer, Written, Written, Near))(tf, rng)
    module = tf.Module()
    module.weights = [v.value for v in made.layer.weights if v.dtype == "float32"] if isinstance(made, Layer) else []
    values = np.random.default_rng(seed)
    for v in module.weights:
        v.assign(0.7 * values.standard_normal(v.shape))
    names = list(made.specs)
    serve = tf.function(lambda *given: made.call(**dict(zip(names, given))), input_signature=[tf.TensorSpec(s.shape, s.dtype, name=n) for n, s in made.specs.items()], autograph=False)
    tf.saved_model.save(module, os.path.join(out, "models", name), signatures={"serve": serve})
    folder, cases = os.path.join(out, "goldens", name), []
    os.makedirs(folder, exist_ok=True)
    kinds = [s.dtype.name for s in made.specs.values()]
    rtol, atol = (3e-2, 3e-2) if "float16" in kinds else (8e-2, 8e-2) if "bfloat16" in kinds else next(LOOSE[d] for d in LOOSE if d in kinds)
    for size in SIZES if "float16" not in kinds else SIZES[:5]:   # TensorFlow adds up half as half
        given = {n: np.asarray(x).astype(made.specs[n].dtype.as_numpy_dtype) for n, x in made.inputs(values, *size).items()}
        arrays, file = {}, "x".join(map(str, size)) + ".npz"
        for n, x in given.items():
            put(arrays, "in/" + n, x)
        case = {"id": f"{name}.{file[:-4]}", "signature": "serve", "file": file, "rtol": rtol, "atol": atol}
        put_answers(tf, case, arrays, lambda: serve(*(tf.constant(given[n]) for n in names)))
        np.savez(os.path.join(folder, file), **arrays)
        cases.append(case)
    with open(os.path.join(folder, "cases.json"), "w") as f:
        json.dump(cases, f, indent=1)
    return len(cases)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out")
    parser.add_argument("--draws", type=int, default=40)
    draw_seed.add_flag(parser)
    args = parser.parse_args()
    seed = draw_seed.chosen(args.seed)
    draw_seed.say(seed)
    import tensorflow as tf
    n = sum(write(tf, seed * 1000 + k, args.out) for k in range(args.draws))
    print(f"{n} cases of {args.draws} nets in {args.out}")


if __name__ == "__main__":
    main()
