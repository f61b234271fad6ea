"""Draws of datasets that make elements of several of another's: windows, padded batches, groups. A draw is a pipeline whose elements are told as text, one after another."""
import numpy as np

from draw_source import I


def told(d):
    """All elements of a dataset as one string."""
    import tensorflow as tf
    line = lambda *parts: tf.strings.join([tf.strings.format("{}", tf.as_string(p) if p.dtype != tf.string else p, summarize=-1) for p in tf.nest.flatten(parts)], ";")
    return d.map(line).reduce("", lambda a, b: tf.strings.join([a, b], "|"))


def numbers(s):
    return s.r.integers(-3, 4, s.int(0, 12) if s.chance(0.9) else s.int(30, 60)).astype(np.int64)


def pipeline(make):
    """A draw: make is given a source of draws and returns a function of the dataset of the numbers."""
    def draw(s):
        stage = make(s)

        def call(x):
            import tensorflow as tf
            d = stage(tf.data.Dataset.from_tensor_slices(x))
            return [told(d), d.cardinality()]
        return {"x": numbers(s)}, call
    return draw


def window(s):
    size, shift, stride, last = s.int(1, 4) if s.chance(0.97) else 0, s.int(1, 6), s.int(1, 3), s.chance(0.5)
    wide = s.chance(0.3)   # two components

    def stage(d):
        import tensorflow as tf
        if wide:
            return d.map(lambda v: (v, tf.as_string(v))).window(size, shift, stride, last).flat_map(lambda a, b: tf.data.Dataset.zip((a, b)).batch(9))
        return d.window(size, shift, stride, last).flat_map(lambda w: w.batch(9))
    return stage


def padded(s):
    size, last, kind = s.int(1, 4) if s.chance(0.97) else 0, s.chance(0.5), s.one(["one", "two", "text"])
    to, value = s.one([None, None, 6, 3]), s.int(-9, 9)

    def stage(d):
        import tensorflow as tf
        if kind == "text":
            return d.map(lambda v: tf.as_string(tf.range(tf.abs(v)))).padded_batch(size, [to], "none", last)
        if kind == "two":
            return d.map(lambda v: (tf.fill([tf.abs(v), 2], v), tf.cast(v, tf.float32))).padded_batch(size, ([to, None], []), (np.int64(value), np.float32(0)), last)
        return d.map(lambda v: tf.fill([tf.abs(v)], v)).padded_batch(size, [to], np.int64(value), last)
    return stage


def unique(s):
    kind = s.one(["int64", "int32", "string", "rows"])

    def stage(d):
        import tensorflow as tf
        return d.map(lambda v: tf.as_string(v) if kind == "string" else tf.stack([v, v % 2]) if kind == "rows" else tf.cast(v, kind)).unique()
    return stage


def groups(s):
    n, sizes, batch = s.int(1, 4), s.chance(0.3), s.int(1, 5)

    def stage(d):
        import tensorflow as tf
        size = {"window_size_func": lambda k: k + 1} if sizes else {"window_size": s.int(1, 4)}
        return d.map(lambda v: (v, v * 10)).group_by_window(lambda v, w: v % n, lambda k, w: w.batch(batch).map(lambda a, b: (a + k, b)), **size)
    return stage


def rebatch(s):
    n, to, last = s.int(1, 5), [s.int(1, 4) for _ in range(s.int(1, 3))], s.chance(0.5)
    return lambda d: d.batch(n).rebatch(to if len(to) > 1 or s.chance(0.5) else to[0], drop_remainder=last)


def directed(s):
    which, stop = s.r.integers(0, 3 if s.chance(0.95) else 4, s.int(0, 14)).astype(np.int64), s.chance(0.5)

    def stage(d):
        import tensorflow as tf
        return tf.data.Dataset.choose_from_datasets([d, d.take(2).map(lambda v: v + 100), d.map(lambda v: -v)], tf.data.Dataset.from_tensor_slices(which), stop)
    return stage


def table(s):
    k, n = s.one(["int64", "string"]), s.int(1, 8)
    keys, ask = np.arange(n), s.r.integers(-1, 9, s.shape(0, 2)).astype(np.int64)

    def call(values, ask):
        import tensorflow as tf
        key = (lambda v: tf.as_string(v)) if k == "string" else (lambda v: v)
        t = tf.raw_ops.AnonymousHashTable(key_dtype=k, value_dtype="float32")
        d = tf.data.Dataset.from_tensor_slices((key(tf.constant(keys, tf.int64)), values))
        with tf.control_dependencies([tf.raw_ops.InitializeTableFromDataset(table_handle=t, dataset=d._variant_tensor)]):
            return [tf.raw_ops.LookupTableFindV2(table_handle=t, keys=key(ask), default_value=tf.constant(-1.0)), tf.raw_ops.LookupTableSizeV2(table_handle=t)]
    return {"values": s.array("float32", (n,)), "ask": ask}, call


def box(s):
    """A random crop; of fixed seeds."""
    n = s.int(0, 3)
    a, b = s.r.random((1, n, 2)) * 0.7, s.r.random((1, n, 2))
    boxes = np.concatenate([a, np.minimum(a + b, 1)], -1).astype(np.float32)
    if s.chance(0.03):
        boxes = boxes - 1
    t = s.one(["int32", "int32", "int64", "uint8", "int16"])
    given = {"image_size": np.array([s.int(1, 100), s.int(1, 100), 3], t), "bounding_boxes": boxes}
    least = sorted(float(v) for v in s.r.uniform(0.02, 1, 2))
    attrs = {"aspect_ratio_range": sorted(float(v) for v in s.r.uniform(0.3, 3, 2)), "area_range": least, "max_attempts": s.one([1, 5, 100]), "use_image_if_no_bounding_boxes": s.chance(0.9)}
    covered = np.float32(s.one([0, 0.1, 0.5, 1]))
    if s.op == "StatelessSampleDistortedBoundingBox":
        return {**given, "min_object_covered": covered, "seed": s.r.integers(-2**31, 2**31, 2).astype(s.one(I))}, attrs
    attrs.update(seed=s.int(1, 99999), seed2=s.int(0, 99))
    return ({**given, "min_object_covered": covered}, attrs) if s.op.endswith("V2") else (given, {**attrs, "min_object_covered": float(covered)})


DRAWS = {
    "WindowDataset": pipeline(window), "PaddedBatchDatasetV2": pipeline(padded), "UniqueDataset": pipeline(unique), "GroupByWindowDataset": pipeline(groups),
    "RebatchDatasetV2": pipeline(rebatch), "DirectedInterleaveDataset": pipeline(directed), "InitializeTableFromDataset": table,
    **{op: box for op in ("SampleDistortedBoundingBox", "SampleDistortedBoundingBoxV2", "StatelessSampleDistortedBoundingBox")},
}
EXEMPT = {
    "PaddedBatchDataset": "as V2, without drop_remainder; TensorFlow's rewriting of pipelines cannot write it",
    "ParallelFilterDataset": "TensorFlow cannot write it into a graph (it gives 2 of 3 inputs), so no iterator of one starts; it is FilterDataset",
}
