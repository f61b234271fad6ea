"""Draws of datasets, iterators and what they end in.

A draw makes a source (a range, the rows of one or two tensors, a tensor), puts a few stages behind it, and asks for what is there. An element's first component is an integer, on which
the functions of the stages work; at times a second one of any type rides along. Stages are drawn as functions of a Pipe before anything is traced. How many elements there are is found
out first, eagerly: the program then asks an iterator for just those, and at times for one more (OUT_OF_RANGE, or an empty optional).
"""
import functools

import numpy as np

from draw_source import ANY, program
from draws_variable import key_of

MOST = 9   # elements asked for
ITERATORS = ["AnonymousIterator", "AnonymousIteratorV2", "AnonymousIteratorV3", "IteratorV2"]


class Pipe:
    """A dataset on its way through the stages, the types of its components, and whether its elements are batches."""

    def __init__(self, raw, d, types, batches=0):
        self.raw, self.d, self.types, self.batches = raw, d, tuple(types), batches

    @property
    def meta(self):
        return dict(output_types=list(self.types), output_shapes=[None] * len(self.types))

    def then(self, op, types=None, batches=0, **inputs):
        """This pipe with another op behind it."""
        out = Pipe(self.raw, None, types or self.types, self.batches + batches)
        out.d = getattr(self.raw, op)(**(inputs if "input_datasets" in inputs else dict(inputs, input_dataset=self.d)), **out.meta)
        return out


@functools.lru_cache(None)
def body(kind, n, types):
    """A function that a dataset takes, of elements of some types; n is a number in it."""
    import tensorflow as tf
    raw = tf.raw_ops
    made = {
        "map": lambda x, *more: [x * 2 + n, *more],
        "divides": lambda x, *more: x % n == 0,
        "below": lambda x, *more: x < n,
        "ranges": lambda x, *more: raw.RangeDataset(start=x, stop=x + n, step=np.int64(1), output_types=["int64"], output_shapes=[[]]),
        "scan": lambda a, x, *more: [a + x, a * x, *more],
        "reduce": lambda a, x, *more: a * 3 + x,
        "wrong": lambda x, *more: [x // tf.constant(0, tf.int64), *more],
    }[kind]
    given = ("int64",) + types if kind in ("scan", "reduce") else types
    return tf.function(made, autograph=False).get_concrete_function(*[tf.TensorSpec(None, t) for t in given])


def i64(x):
    return np.int64(x)


def structural(s):
    """{op: stage}: stages that leave elements as they are, or batch them; the numbers in them are drawn here."""
    n, k, b, flag, times = s.int(1, 4), s.int(-1, 5), s.int(1, 3), s.chance(0.5), s.one([0, 1, 2])
    seeds, bad, again = dict(seed=i64(s.int(1, 99)), seed2=i64(s.int(1, 99))), s.chance(0.03), s.chance(0.5)
    size = i64(s.one([0, -1])) if bad else i64(b)
    zipped = lambda p: p.then("ZipDataset", types=p.types * 2, input_datasets=[p.d, p.d])
    return {
        "TakeDataset": lambda p: p.then("TakeDataset", count=i64(k)), "SkipDataset": lambda p: p.then("SkipDataset", count=i64(k)),
        "RepeatDataset": lambda p: p.then("RepeatDataset", count=i64(times)),
        "ShardDataset": lambda p: p.then("ShardDataset", num_shards=i64(n), index=i64(n if bad else n - 1), require_non_empty=flag and again),
        "BatchDatasetV2": lambda p: p.then("BatchDatasetV2", batches=1, batch_size=size, drop_remainder=flag),
        "ParallelBatchDataset": lambda p: p.then("ParallelBatchDataset", batches=1, batch_size=size, num_parallel_calls=i64(2), drop_remainder=flag, deterministic="true"),
        "UnbatchDataset": lambda p: (p if bad else p.then("BatchDatasetV2", batches=1, batch_size=i64(b), drop_remainder=False)).then("UnbatchDataset", batches=-1),
        "CacheDataset": lambda p: p.then("CacheDataset", filename=""),
        "CacheDatasetV2": lambda p: p.then("CacheDatasetV2", filename="", cache=p.raw.DummyMemoryCache()),
        "ConcatenateDataset": lambda p: p.then("ConcatenateDataset", another_dataset=p.d), "ZipDataset": zipped,
        "PrefetchDataset": lambda p: p.then("PrefetchDataset", buffer_size=i64(n if not bad else -2)), "ModelDataset": lambda p: p.then("ModelDataset"), "RewriteDataset": lambda p: p.then("RewriteDataset", rewrite_name="replicate_on_split"),
        "OptionsDataset": lambda p: p.then("OptionsDataset", serialized_options=""), "FinalizeDataset": lambda p: p.then("FinalizeDataset"),
        "MaxIntraOpParallelismDataset": lambda p: p.then("MaxIntraOpParallelismDataset", max_intra_op_parallelism=i64(-1 if bad else 1)),
        "PrivateThreadPoolDataset": lambda p: p.then("PrivateThreadPoolDataset", num_threads=i64(-1 if bad else 1)),
        "AssertCardinalityDataset": lambda p: p.then("AssertCardinalityDataset", cardinality=i64(n)),
        "ShuffleDataset": lambda p: p.then("ShuffleDataset", buffer_size=i64(0 if bad else n), reshuffle_each_iteration=again, **seeds),
        "ShuffleDatasetV3": lambda p: p.then("ShuffleDatasetV3", buffer_size=i64(0 if bad else n), reshuffle_each_iteration=again, seed_generator=p.raw.DummySeedGenerator(), **seeds),
    }


def calling(s):
    """{op: stage}: stages that call a function of each element; it takes no batches."""
    n, b, cycle, parallel, kind = s.int(1, 4), s.int(1, 3), s.int(1, 4), s.int(1, 3), "wrong" if s.chance(0.05) else "map"
    start = i64(s.int(-2, 2))
    loose = dict(other_arguments=[])
    mapped = lambda op, **more: lambda p: p.then(op, f=body(kind, n, p.types), **loose, **more)
    chosen = lambda op, what: lambda p: p.then(op, predicate=body(what, n, p.types), **loose)
    ranged = lambda op, **more: lambda p: p.then(op, types=("int64",), f=body("ranges", n, p.types), **loose, **more)
    return {
        "MapDataset": mapped("MapDataset"), "ParallelMapDataset": mapped("ParallelMapDataset", num_parallel_calls=np.int32(parallel)),
        "ParallelMapDatasetV2": mapped("ParallelMapDatasetV2", num_parallel_calls=i64(parallel), deterministic="true"),
        "FilterDataset": chosen("FilterDataset", "divides"), "TakeWhileDataset": chosen("TakeWhileDataset", "below"),
        "FlatMapDataset": ranged("FlatMapDataset"), "InterleaveDataset": ranged("InterleaveDataset", cycle_length=i64(cycle), block_length=i64(b)),
        "ParallelInterleaveDatasetV4": ranged("ParallelInterleaveDatasetV4", cycle_length=i64(cycle), block_length=i64(b), buffer_output_elements=i64(2), prefetch_input_elements=i64(1),
                                              num_parallel_calls=i64(parallel), deterministic="true"),
        "ScanDataset": lambda p: p.then("ScanDataset", initial_state=[start], f=body("scan", n, p.types), **loose),
    }


def source_of(s, op, second):
    """(inputs, function of raw and the inputs that makes the pipe): where a dataset comes from."""
    kind = op if op in ("RangeDataset", "TensorDataset", "TensorSliceDataset") else s.one(["RangeDataset", "TensorSliceDataset", "TensorSliceDataset", "TensorDataset"])
    if kind == "RangeDataset":
        inputs = {"start": i64(s.int(-2, 2)), "stop": i64(s.int(-1, 6)), "step": i64(s.one([1, 1, 2, -1]) if s.chance(0.97) else 0)}
        return inputs, lambda raw, start, stop, step: Pipe(raw, raw.RangeDataset(start=start, stop=stop, step=step, output_types=["int64"], output_shapes=[[]]), ["int64"])
    rows = (s.int(0 if s.chance(0.1) else 1, 5),) if kind == "TensorSliceDataset" else ()
    inputs, types = {"c0": s.array("int64", rows)}, ["int64"]
    if second:
        types.append(s.one(ANY))
        inputs["c1"] = s.array(types[1], rows + s.shape(0, 2)) if s.chance(0.97) else s.array(types[1], (6,))
    shapes = [inputs[n].shape[len(rows):] for n in inputs]
    return inputs, lambda raw, **c: Pipe(raw, getattr(raw, kind)(components=list(c.values()), output_shapes=shapes), types)


def plan_of(s, op):
    """The stages of a draw: op, if it is one, behind others and before others."""
    plain, calls = structural(s), calling(s)
    every = {**plain, **calls}
    if op in ("DatasetCardinality", "DatasetToSingleElement", "ReduceDataset"):   # with a prefetch behind them TensorFlow's process ends at times: its threads outlive the pool
        every = {n: stage for n, stage in every.items() if n not in ("MaxIntraOpParallelismDataset", "PrivateThreadPoolDataset")}
    stages, batches, last, reordered = [], 0, "", False
    for name in [s.one(sorted(every)) for _ in range(s.int(0, 2))] + [op] + [s.one(sorted(every)) for _ in range(s.int(0, 1))]:
        if reordered and name in ("ZipDataset", "ConcatenateDataset"):   # of itself: one reshuffling read twice is two to TensorFlow at times, when a rewrite has made its graph a tree
            continue
        reordered |= name.startswith("Shuffle")
        if name in every and not (batches and name in calls):
            shuffled = last.startswith("Shuffle") and name == "RepeatDataset"   # TensorFlow fuses the two: no passes are an error then
            stages.append((lambda p: p.then("RepeatDataset", count=i64(2))) if shuffled else every[name])
            last = name
            batches += name in ("BatchDatasetV2", "ParallelBatchDataset")
    return stages


def iterator(raw, how, key, meta):
    """(iterator, its deleter or None)."""
    if how == "IteratorV2":
        return raw.IteratorV2(shared_name=key, container="", **meta), None
    made = getattr(raw, how)(**meta)
    return tuple(made) if how == "AnonymousIteratorV2" else (made, None)


def counted(make, inputs):
    """How many elements a dataset has, MOST at most; the one that fails counts."""
    import tensorflow as tf
    n = 0
    try:
        p = make(tf.raw_ops, **{k: tf.constant(v) for k, v in inputs.items()})
        it = tf.raw_ops.AnonymousIteratorV3(**p.meta)
        tf.raw_ops.MakeIterator(dataset=p.d, iterator=it)
        while n < MOST:
            tf.raw_ops.IteratorGetNext(iterator=it, **p.meta)
            n += 1
    except tf.errors.OutOfRangeError:
        return n
    except tf.errors.OpError:
        return n + 1
    return n


def listed(p, it, n, get="IteratorGetNext", over="none"):
    """n elements of an iterator one by one, and what is behind them."""
    raw, out = p.raw, []
    for _ in range(n):
        if get == "IteratorGetNextAsOptional":
            optional = raw.IteratorGetNextAsOptional(iterator=it, **p.meta)
            out += [raw.OptionalHasValue(optional=optional)] + list(raw.OptionalGetValue(optional=optional, **p.meta))
        else:
            out += list(getattr(raw, get)(iterator=it, **p.meta))
    if over == "optional":
        out.append(raw.OptionalHasValue(optional=raw.IteratorGetNextAsOptional(iterator=it, **p.meta)))
    elif over == "more":
        out += list(getattr(raw, get if get != "IteratorGetNextAsOptional" else "IteratorGetNext")(iterator=it, **p.meta))
    return out


def dataset(op):
    """Elements of a dataset one by one, through some iterator."""
    def draw(s):
        inputs, source = source_of(s, op, s.chance(0.4))
        stages, key, endless = plan_of(s, op), key_of(s), op == "RepeatDataset" and s.chance(0.2)
        how = op if op in ITERATORS else "AnonymousIteratorV2" if op == "DeleteIterator" else s.one(ITERATORS)
        get = op if op.startswith("IteratorGetNext") else "IteratorGetNext"
        over = s.one(["none", "none", "optional", "more"])

        def make(raw, **given):
            p = source(raw, **given)
            for stage in stages:
                p = stage(p)
            return p.then("RepeatDataset", count=i64(-1)) if endless else p
        n = counted(make, inputs)

        def call(raw, **given):
            p = make(raw, **given)
            it, gone = iterator(raw, how, key, p.meta)
            raw.MakeIterator(dataset=p.d, iterator=it)
            out = listed(p, it, n, get, over if n < MOST else "none") or [given[sorted(given)[0]]]
            if op == "DeleteIterator":
                raw.DeleteIterator(handle=it, deleter=gone)
            return out
        return inputs, program(call)
    return draw


def whole(op):
    """An op that takes a whole dataset: its number of elements, its one element, a sum over it."""
    def draw(s):
        inputs, source = source_of(s, op, s.chance(0.4))
        stages = plan_of(s, op)
        if op == "DatasetToSingleElement" and s.chance(0.6):
            stages.append(lambda p: p.then("TakeDataset", count=i64(1)))

        def call(raw, **given):
            p = source(raw, **given)
            for stage in stages:
                p = stage(p)
            if op == "DatasetCardinality":
                return raw.DatasetCardinality(input_dataset=p.d)
            if op == "DatasetToSingleElement":
                return list(raw.DatasetToSingleElement(dataset=p.d, **p.meta))
            p = p.then("UnbatchDataset", batches=-1) if p.batches == 1 else p
            return list(raw.ReduceDataset(input_dataset=p.d, initial_state=[i64(1)], other_arguments=[], f=body("reduce", 0, p.types), output_types=["int64"], output_shapes=[None]))
        return inputs, program(call)
    return draw


def one_shot(s):
    """The iterator whose dataset comes from a function without arguments."""
    given, source = source_of(s, "OneShotIterator", s.chance(0.4))
    stages = plan_of(s, "OneShotIterator")

    def make(raw, **constants):
        p = source(raw, **constants)
        for stage in stages:
            p = stage(p)
        return p
    n = counted(make, given)

    def call(raw, x):
        import tensorflow as tf
        pipes = []

        def factory():
            pipes.append(make(raw, **{k: tf.constant(v) for k, v in given.items()}))
            return pipes[-1].d
        made = tf.function(factory, autograph=False).get_concrete_function()
        it = raw.OneShotIterator(dataset_factory=made, **pipes[-1].meta)
        return [x] + listed(pipes[-1], it, n)
    return {"x": i64(n)}, program(call)


def handles(op):
    """Makers of the handles that datasets take: made, and used by one dataset that is read twice."""
    def draw(s):
        seeds, size, stop, again = dict(seed=i64(s.int(1, 99)), seed2=i64(s.int(1, 99))), i64(s.int(1, 4)), s.int(0, 4), s.chance(0.5)

        def call(raw, x):
            p = Pipe(raw, raw.RangeDataset(start=i64(0), stop=x, step=i64(1), output_types=["int64"], output_shapes=[[]]), ["int64"])
            ours = raw.AnonymousSeedGenerator(reshuffle=again, **seeds) if "Cache" not in op else raw.AnonymousMemoryCache()
            if "Cache" in op:
                p = p.then("CacheDatasetV2", filename="", cache=raw.DummyMemoryCache() if op == "DummyMemoryCache" else ours[0])
            elif op == "ShuffleDatasetV2":
                p = p.then("ShuffleDatasetV2", buffer_size=size, seed_generator=ours[0])
            else:
                p = p.then("ShuffleDatasetV3", buffer_size=size, seed_generator=raw.DummySeedGenerator() if op == "DummySeedGenerator" else ours[0], reshuffle_each_iteration=again, **seeds)
            raw.DummyIterationCounter()
            p, out = p.then("RepeatDataset", count=i64(2)), [x]
            it = raw.AnonymousIteratorV3(**p.meta)
            raw.MakeIterator(dataset=p.d, iterator=it)
            out += listed(p, it, 2 * stop, "IteratorGetNext", "optional")
            return out
        return {"x": i64(stop)}, program(call)
    return draw


STAGES = ("TakeDataset SkipDataset RepeatDataset ShardDataset BatchDatasetV2 ParallelBatchDataset UnbatchDataset CacheDataset CacheDatasetV2 ConcatenateDataset ZipDataset "
          "PrefetchDataset ModelDataset RewriteDataset OptionsDataset FinalizeDataset MaxIntraOpParallelismDataset PrivateThreadPoolDataset AssertCardinalityDataset ShuffleDataset ShuffleDatasetV3 "
          "MapDataset ParallelMapDataset ParallelMapDatasetV2 FilterDataset TakeWhileDataset FlatMapDataset InterleaveDataset ParallelInterleaveDatasetV4 ScanDataset").split()
DRAWS = {
    **{op: dataset(op) for op in STAGES + ITERATORS + "RangeDataset TensorDataset TensorSliceDataset MakeIterator IteratorGetNext IteratorGetNextSync IteratorGetNextAsOptional DeleteIterator".split()},
    "OneShotIterator": one_shot,
    **{op: whole(op) for op in "DatasetCardinality DatasetToSingleElement ReduceDataset".split()},
    **{op: handles(op) for op in "AnonymousMemoryCache DummyMemoryCache ShuffleDatasetV2 AnonymousSeedGenerator DummySeedGenerator DummyIterationCounter".split()},
}
NOT_OWNED = "TensorFlow 2.21 refuses: it cannot delete an unowned resource, which its own makers of these make"
EXEMPT = {
    "BatchDataset": "TensorFlow's own rewriting of pipelines cannot write it (too many inputs for the op of the first version), so no iterator of one starts; BatchDatasetV2 is drawn",
    "DeleteMemoryCache": NOT_OWNED, "DeleteSeedGenerator": NOT_OWNED,
}
