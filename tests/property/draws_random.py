"""Draws of random ops: stateless ones, stateful ones of fixed seeds, those whose state is a variable, and candidate samplers.

All are compared value by value: the same seeds give the same numbers. A stateful op keeps its own generator, so a draw runs it once.
"""
import numpy as np

from draw_source import ANY, F, FLOATS, I, program
from draws_variable import key_of, read, resource

SPAN = lambda s: s.one([(0.1, 5), (0.1, 5), (0.01, 1), (5, 300)])   # of the parameters of gamma laws


def shape_of(s):
    """A shape as an argument."""
    shape = np.array(s.shape(0, 4), s.one(I))
    if s.chance(0.03):
        shape = np.array(s.one([[4000], [3, 700], [513]]), shape.dtype)
    if s.chance(0.01) and len(shape):
        shape[0] = -1
    return shape


def seed_of(s):
    seed = s.r.integers(-2**31, 2**31 - 1, 2) if s.chance(0.7) else s.r.integers(-3, 4, 2)
    return seed.astype(s.one(I)) if s.chance(0.99) else np.zeros(3, "int64")


def limits(s, dtype):
    lo = max(s.int(-9, 9), int(np.iinfo(dtype).min)) if s.chance(0.8) else int(np.iinfo(dtype).min)
    hi = lo + s.int(1, 20 if s.chance(0.7) else 1 << 30) if s.chance(0.8) else int(np.iinfo(dtype).max)
    hi = max(lo - s.int(0, 1), int(np.iinfo(dtype).min)) if s.chance(0.02) else hi
    return {"minval": np.array(lo, dtype), "maxval": np.array(hi, dtype)}


def stateless(dtypes, of_limits=False):
    def draw(s):
        d = s.one(dtypes)
        return {"shape": shape_of(s), "seed": seed_of(s), **(limits(s, d) if of_limits else {})}, {} if of_limits else {"dtype": d}
    return draw


def key_counter(s):
    """Key, counter and algorithm of the second kind of stateless ops."""
    alg = s.one([1, 1, 1, 2, 3]) if s.chance(0.95) else s.one([-1, 0, 4, 5])
    n = s.one([2, 2, 3]) if alg in (1, 3) else s.int(1, 5)   # of one word TensorFlow's Philox reads a second that is not there
    return {"key": s.r.integers(0, 2**63, 1).astype("uint64"), "counter": s.r.integers(0, 2**63 if s.chance(0.5) else 5, n).astype("uint64"), "alg": np.int32(alg)}


def stateless2(dtypes, of_limits=False):
    def draw(s):
        d = s.one(dtypes)
        return {"shape": shape_of(s), **key_counter(s), **(limits(s, d) if of_limits else {})}, {} if of_limits else {"dtype": d}
    return draw


def gamma(s):
    d, alpha = s.one(["float32", "float64", "float16"]), s.shape(0, 2)
    lead = s.shape(0, 2)
    return {"shape": np.array(lead + alpha, s.one(I)), "seed": seed_of(s), "alpha": s.array(d, alpha, *SPAN(s))}, {}


def gamma3(s):
    inputs, _ = gamma(s)
    inputs.pop("seed")
    return {**inputs, **key_counter(s)}, {}


def poisson(s):
    r, lam = s.one(F + I + ["float16"]), s.shape(0, 2)
    return {"shape": np.array(s.shape(0, 2) + lam, s.one(I)), "seed": seed_of(s), "lam": s.array(r, lam, 0 if r in I else 0.1, s.one([5, 30, 1000]))}, {"dtype": s.one(F + I + ["float16"])}


def binomial_parameters(s, d):
    """Counts and probabilities that broadcast, and what they broadcast to."""
    shape = s.shape(0, 2)
    counts, probs = shape if s.chance(0.6) else s.alike(shape), shape if s.chance(0.6) else s.alike(shape)
    try:
        all_of = np.broadcast_shapes(counts, probs)
    except ValueError:
        all_of = shape
    most = s.one([5, 30, 400])
    return np.rint(s.array(d, counts, -1 if s.chance(0.1) else 0, most)), s.array(d, probs, -0.1 if s.chance(0.1) else 0, 1.05 if s.chance(0.2) else 1), all_of


def binomial(s):
    counts, probs, shape = binomial_parameters(s, d := s.one(["float32", "float64", "float16"]))
    return {"shape": np.array((s.shape(0, 2) if s.chance(0.95) else ()) + shape, "int32"), "seed": seed_of(s), "counts": counts, "probs": probs}, {"dtype": s.one(["float32", "float64", "float16", "int32", "int64"])}


def bounded(s, d, shape):
    """Mean, deviation and bounds of normal distributions; no bounds at all, or none between them, rarely."""
    mean, deviation = s.array(d, shape, -5, 5), s.array(d, shape, 0.1, 4)
    low = mean + deviation * s.array(d, shape, *s.one([(-5, 1), (-1, 1), (1, 4), (-6, -3)]))
    high = low + deviation * s.array(d, shape, *s.one([(0.1, 1), (1, 6)]))
    low, high = s.one([(low, high)] * 6 + [(np.full_like(low, -np.inf), high), (low, np.full_like(high, np.inf))])
    if s.chance(0.03):
        low, high = high, low
    return [np.asarray(v).astype(d) for v in (mean, deviation, low, high)]


def truncated(s):
    d, shape = s.one(F), s.shape(0, 2)
    lead = s.shape(0, 2) if s.chance(0.95) else (200,)
    return {"shape": np.array(lead + shape, s.one(I)), "seed": seed_of(s), **dict(zip(("means", "stddevs", "minvals", "maxvals"), bounded(s, d, shape)))}, {}


def truncated_rows(s):
    d, shape = s.one(F), s.shape(1, 3) if s.chance(0.95) else (3, 170)
    n = s.one([(), (), (shape[0],), (1,)])
    return ({"shape": np.array(shape, s.one(I)), **dict(zip(("means", "stdevs", "minvals", "maxvals"), bounded(s, d, n if s.chance(0.97) else (7,))))},
            {"seed": s.int(0, 1000), "seed2": s.int(1, 1000)})


def logits(s):
    x = s.array(s.one(FLOATS), (s.int(0, 4), s.int(1, 6 if s.chance(0.8) else 100)), -3, 3)
    return np.where(s.r.random(x.shape) < 0.3, -np.inf, x).astype(x.dtype) if s.chance(0.1) else x   # never taken


def multinomial(s):
    return {"logits": logits(s), "num_samples": np.int32(s.int(0, 6 if s.chance(0.8) else 200)), "seed": seed_of(s)}, {"output_dtype": s.one(I)}


def seeds(s):
    """Seeds that fix a stateful op."""
    return {"seed": s.int(1, 99999), "seed2": s.int(0, 99)}


def stateful(dtypes):
    return lambda s: ({"shape": shape_of(s)}, {"dtype": s.one(dtypes), **seeds(s)})


def uniform_int(s):
    d = s.one(I)
    return {"shape": shape_of(s), **limits(s, d)}, seeds(s)


def random_gamma(s):
    return {"shape": shape_of(s), "alpha": s.array(s.one(F + ["float16"]), s.shape(0, 2), *SPAN(s))}, seeds(s)


def random_poisson(s):
    return {"shape": shape_of(s), "rate": s.array(s.one(F + I + ["float16"]), s.shape(0, 2), 0, s.one([5, 30, 1000]))}, {"dtype": s.one(F + I + ["float16"]), **seeds(s)}


def shuffle(s):
    return {"value": s.array(s.one(ANY), s.shape(0, 3))}, seeds(s)


def stateless_shuffle(s):
    return {"value": s.array(s.one(ANY), s.shape(0, 3)), **key_counter(s)}, {}


def generator(s):
    """(state of a generator, its algorithm)"""
    state = s.r.integers(-2**62, 2**62, s.one([3, 3, 4]))
    return state, np.array(1 if s.chance(0.97) else 7, "int64")   # ThreeFry (2) overruns TensorFlow's heap


def of_variable(op, dtypes, of_limits=False):
    def make(s):
        state, alg = generator(s)
        d, key = s.one(dtypes), key_of(s)
        inputs = {"state": state, "algorithm": alg, "shape": shape_of(s), **(limits(s, d) if of_limits else {})}

        def call(raw, state, **t):
            handle = resource(raw, state, key)
            y = getattr(raw, op)(resource=handle, **t, **({} if of_limits else {"dtype": d}))
            return [y, read(raw, handle, state)]
        return inputs, program(call)
    return make


def of_tagged(s):
    """StatefulStandardNormal: the algorithm is the state's first element."""
    state, d = np.concatenate([[1], s.r.integers(-2**62, 2**62, 3 if s.chance(0.95) else 2)]).astype("int64"), s.one(FLOATS)
    key = key_of(s)

    def call(raw, state, shape):
        v = resource(raw, state, key)
        y = raw.StatefulStandardNormal(resource=v, shape=shape, dtype=d)
        return [y, read(raw, v, state)]
    return {"state": state, "shape": shape_of(s)}, program(call)


def of_variable_binomial(s):
    (counts, probs, shape), (state, alg) = binomial_parameters(s, s.one(["float32", "float64"])), generator(s)
    given, d, key = {"state": state, "algorithm": alg, "shape": np.array(s.shape(0, 1) + shape, "int32"), "counts": counts, "probs": probs}, s.one(["float32", "int32", "int64"]), key_of(s)

    def call(raw, state, **t):
        v = resource(raw, state, key)
        return [raw.StatefulRandomBinomial(resource=v, dtype=d, **t)]   # the state stays as it was, so that TensorFlow draws the same again: here it moves on
    return given, program(call)


def skip(op):
    def make(s):
        state, alg = generator(s)
        key, delta = key_of(s), s.int(0, 1 << 40)
        if op == "RngSkip":
            inputs = {"algorithm": alg, "delta": np.int64(delta)}
        else:
            inputs = {"alg": alg.astype("int32"), "delta": np.uint64(delta)}

        def call(raw, state, **t):
            handle = resource(raw, state, key)
            y = getattr(raw, op)(resource=handle, **t)
            return [read(raw, handle, state)] + ([y] if op != "RngSkip" else [])
        return {"state": state, **inputs}, program(call)
    return make


def sampler(all_of=False):
    def draw(s):
        n, top, unique = s.int(1, 3), s.int(5, 40) if s.chance(0.8) else s.int(100, 100000), s.chance(0.6)
        sampled = (s.int(1, 5) if unique else s.int(1, 12)) if s.chance(0.8) or top < 100 else s.int(20, 90)
        attrs = {"num_true": n, "num_sampled": sampled, "unique": unique, **seeds(s)}
        if not all_of:
            attrs["range_max"] = top if s.chance(0.97) else 2
        return {"true_classes": s.array("int64", (s.int(1, 4), n if s.chance(0.97) else n + 1), 0, (sampled if all_of else min(top, attrs["range_max"])) - 1)}, attrs
    return draw


def unigrams(s):
    """Of weights that are given, in shards; some 0, and some reserved."""
    inputs, attrs = sampler()(s)
    n, shards, reserved = attrs["range_max"] if attrs["range_max"] < 50 else s.int(5, 50), s.one([1, 1, 2]), s.int(0, 2)
    shard = s.int(0, shards - 1)
    read = (n - len(range(shard, reserved, shards)))   # of this shard
    weights, at = [], len(range(shard, reserved, shards))
    while read > 0:
        weights.append(float(np.float32(s.r.uniform(0.01, 5))))
        read -= at % shards == shard
        at += 1
    weights += [1.0] * s.chance(0.03)
    inputs["true_classes"] = s.array("int64", inputs["true_classes"].shape, 0, n - 1)
    return inputs, {**attrs, "range_max": n, "num_sampled": min(attrs["num_sampled"], max(n - 3, 1)), "unigrams": weights, "distortion": s.one([1.0, 0.75, 0.0]),
                    "num_reserved_ids": reserved, "num_shards": shards, "shard": shard}


def shuffled_index(s):
    d, many = s.one(FULL), s.chance(0.5)
    n = s.int(1, 6)
    top = s.r.integers(0, s.one([3, 100, 70000, 2**31 - 1] + ([2**40, 2**62] if d.endswith("64") else [])), (n,)).astype(d)
    index = (top * s.r.random(n)).astype(d)
    index = np.minimum(index, top)
    one_seed = s.chance(0.5)
    seed = s.r.integers(0, 2**31 - 1, (3,) if one_seed else (n, 3)).astype(s.one(FULL))
    if not many and one_seed:
        index, top = index[0], top[0]
    elif s.chance(0.03):
        index = index[:-1]
    return {"index": index, "seed": seed, "max_index": top}, {"rounds": s.one([4, 4, 6, 8])}


def accidental(s):
    n = s.int(1, 3)
    return {"true_classes": s.array("int64", (s.int(0, 4), n if s.chance(0.97) else n + 1), 0, 6), "sampled_candidates": s.array("int64", (s.int(0, 6),), 0, 6)}, {"num_true": n, **seeds(s)}


FULL = ["int32", "int64", "uint32", "uint64"]
DRAWS = {
    "StatelessRandomUniform": stateless(FLOATS), "StatelessRandomNormal": stateless(FLOATS), "StatelessTruncatedNormal": stateless(FLOATS),
    "StatelessRandomUniformFullInt": stateless(FULL), "StatelessRandomUniformInt": stateless(I, True), "StatelessRandomUniformV2": stateless2(FLOATS),
    "StatelessRandomNormalV2": stateless2(FLOATS), "StatelessTruncatedNormalV2": stateless2(FLOATS), "StatelessRandomUniformFullIntV2": stateless2(FULL),
    "StatelessRandomUniformIntV2": stateless2(FULL, True), "StatelessRandomGammaV2": gamma, "StatelessRandomGammaV3": gamma3, "StatelessRandomPoisson": poisson,
    "StatelessMultinomial": multinomial, "StatelessShuffle": stateless_shuffle, "StatelessRandomGetAlg": lambda s: ({}, {}),
    "StatelessRandomGetKeyCounter": lambda s: ({"seed": seed_of(s)}, {}), "StatelessRandomGetKeyCounterAlg": lambda s: ({"seed": seed_of(s)}, {}),
    "RandomUniform": stateful(FLOATS), "RandomStandardNormal": stateful(FLOATS), "TruncatedNormal": stateful(FLOATS), "RandomUniformInt": uniform_int,
    "RandomGamma": random_gamma, "RandomPoissonV2": random_poisson, "RandomShuffle": shuffle,
    "Multinomial": lambda s: ({"logits": logits(s), "num_samples": np.int32(s.int(0, 6 if s.chance(0.8) else 200))}, {"output_dtype": s.one(I), **seeds(s)}),
    "NonDeterministicInts": lambda s: ({"shape": shape_of(s)}, {"dtype": s.one(FULL)}, {"shape_only": ["y0"]}),
    "StatefulStandardNormalV2": of_variable("StatefulStandardNormalV2", FLOATS), "StatefulTruncatedNormal": of_variable("StatefulTruncatedNormal", FLOATS),
    "StatefulUniform": of_variable("StatefulUniform", FLOATS), "StatefulUniformFullInt": of_variable("StatefulUniformFullInt", FULL),
    "StatefulUniformInt": of_variable("StatefulUniformInt", FULL, True), "RngReadAndSkip": skip("RngReadAndSkip"), "RngSkip": skip("RngSkip"),
    "UniformCandidateSampler": sampler(), "LogUniformCandidateSampler": sampler(), "AllCandidateSampler": sampler(True),
    "FixedUnigramCandidateSampler": unigrams, "LearnedUnigramCandidateSampler": sampler(), "ThreadUnsafeUnigramCandidateSampler": sampler(), "RandomIndexShuffle": shuffled_index, "ComputeAccidentalHits": accidental,
    "StatelessRandomBinomial": binomial, "StatefulRandomBinomial": of_variable_binomial, "StatefulStandardNormal": of_tagged,
    "StatelessParameterizedTruncatedNormal": truncated, "ParameterizedTruncatedNormal": truncated_rows,
}
EXEMPT = {"RandomPoisson": "TensorFlow runs it in graphs of before 2017 alone (its definition was removed); RandomPoissonV2 is the same of dtype = R"}
