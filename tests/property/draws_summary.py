"""Draws of checks, printing and summaries: ops that say something of a tensor and hand it on, or drop it."""
import numpy as np

from draw_source import ANY, FLOATS, REAL, program
from draws_files import after, path_of
from draws_variable import key_of


# ---- checks

def asserted(s):
    condition = np.array(s.chance(0.7)) if s.chance(0.95) else np.array([True])
    inputs = {"condition": condition, "data": [s.array(s.one(ANY), s.shape(0, 2)) for _ in range(s.int(1, 3))], "x": s.array("float32", s.shape())}
    summarize = s.int(-1, 4)

    def call(raw, condition, data, x):
        import tensorflow as tf
        return after([raw.Assert(condition=condition, data=data, summarize=summarize)], lambda: tf.identity(x))
    return inputs, program(call)


def checked(s):
    return {"tensor": s.wild(s.dtype(among=FLOATS), s.shape())}, {"message": s.one(["", "of a layer"])}


def printed(s):
    inputs = {"input": s.wild(s.one(ANY), s.shape()), "data": [s.array(s.one(ANY), s.shape(0, 2)) for _ in range(s.int(0, 2))]}
    return inputs, {"message": s.one(["", "the value: "]), "first_n": s.one([-1, 0, 1]), "summarize": s.int(-1, 4)}


# ---- summaries

def tag_of(s, shape=()):
    return s.array("string", shape)


def scalars(s):
    shape = s.shape(0, 2)
    return {"tags": tag_of(s, shape if s.chance(0.9) else s.shape(0, 2)), "values": s.wild(s.dtype(), shape)}, {}


def histogram(s):
    return {"tag": tag_of(s, () if s.chance(0.95) else (1,)), "values": s.wild(s.dtype(among=REAL), s.shape(), s.one([-4, -1e6, 0]), s.one([4, 1e6, 100]), 0.15)}, {}


def metadata(s):
    import tensorflow as tf
    m = tf.compat.v1.SummaryMetadata(display_name=s.one(["", "a name"]))
    m.plugin_data.plugin_name = s.one(["", "scalars"])
    return np.array(m.SerializeToString(), object)


def tensor(s):
    return {"tag": tag_of(s), "tensor": s.wild(s.dtype(), s.shape()), "serialized_summary_metadata": metadata(s)}, {}


def merged(s):
    import tensorflow as tf
    one = lambda: tf.raw_ops.ScalarSummary(tags=np.array(s.one(["a", "b", "c", "d", "e"]), object), values=np.float32(s.int(0, 9))).numpy() if s.chance(0.9) else b""
    rows = lambda shape: np.array([one() for _ in range(int(np.prod(shape)))], object).reshape(shape)
    return {"inputs": [rows(s.shape(0, 2) if s.chance(0.2) else ()) for _ in range(s.int(1, 3))]}, {}


def image(s):
    shape = (s.int(0, 3), s.int(1, 5), s.int(1, 5), s.one([1, 3, 4]) if s.chance(0.95) else 2)
    inputs = {"tag": tag_of(s, () if s.chance(0.95) else (2,)), "tensor": s.wild(s.one(["uint8", "float32", "float16", "float64"]), shape if s.chance(0.95) else shape[1:], s.one([0, -9]), 9, 0.05)}
    return inputs, {"max_images": s.int(1, 3)}


def audio(s):
    shape = (s.int(1, 3), s.int(1, 9)) + ((s.int(1, 2),) if s.chance(0.5) else ())
    inputs = {"tag": tag_of(s, () if s.chance(0.95) else (2,)), "tensor": s.array("float32", shape if s.chance(0.95) else shape[1:2], -1, 1)}
    attrs = {"max_outputs": s.int(1, 3)}
    if s.op == "AudioSummaryV2":
        inputs["sample_rate"] = np.float32(44100)
    else:
        attrs["sample_rate"] = 44100.0
    return inputs, attrs


def written(op):
    """A writer that is made, told something, flushed and closed; what it was told is dropped, the value goes on."""
    def draw(s):
        rest = {"WriteSummary": lambda: dict(tensor=s.array(s.one(["float32", "int64", "string"]), s.shape()), tag=tag_of(s), summary_metadata=metadata(s)),
                "WriteScalarSummary": lambda: dict(tag=tag_of(s), value=s.array(s.one(["float32", "int32", "float64"]), ())),
                "WriteHistogramSummary": lambda: dict(tag=tag_of(s), values=s.array(s.one(["float32", "int64", "float16"]), s.shape())),
                "WriteImageSummary": lambda: dict(tag=tag_of(s), tensor=s.array(s.one(["uint8", "float32"]), (1, s.int(1, 4), s.int(1, 4), s.one([1, 3, 4]))),
                                                  bad_color=np.array([255, 0, 0, 255], "uint8")),
                "WriteAudioSummary": lambda: dict(tag=tag_of(s), tensor=s.array("float32", (1, s.int(1, 9)), -1, 1), sample_rate=np.float32(8000)),
                "WriteGraphSummary": lambda: dict(tensor=np.array(b"", object)),
                "WriteRawProtoSummary": lambda: dict(tensor=np.array(b"", object))}.get(op, dict)()
        key, flush, close = key_of(s), s.chance(0.5), s.chance(0.7)

        def call(raw, path, step, x, **told):
            import tensorflow as tf
            writer = raw.SummaryWriter(shared_name=key)
            done = [raw.CreateSummaryFileWriter(writer=writer, logdir=path, max_queue=9, flush_millis=1000, filename_suffix=".v2")]
            if told:
                done = [after(done, lambda: getattr(raw, op)(writer=writer, step=step, **told))]
            if flush:
                done = [after(done, lambda: raw.FlushSummaryWriter(writer=writer))]
            if close:
                done = [after(done, lambda: raw.CloseSummaryWriter(writer=writer))]
            return after(done, lambda: tf.identity(x))
        return {"path": path_of(s), "step": np.int64(s.int(0, 99)), "x": s.array("float32", s.shape()), **rest}, program(call)
    return draw


WRITES = "WriteSummary WriteScalarSummary WriteHistogramSummary WriteImageSummary WriteAudioSummary WriteGraphSummary WriteRawProtoSummary".split()
DRAWS = {
    "Assert": asserted, "CheckNumerics": checked, "CheckNumericsV2": checked, "Print": printed,
    "ScalarSummary": scalars, "HistogramSummary": histogram, "TensorSummaryV2": tensor, "MergeSummary": merged, "ImageSummary": image, "AudioSummary": audio, "AudioSummaryV2": audio,
    **{op: written(op) for op in WRITES + "SummaryWriter CreateSummaryFileWriter FlushSummaryWriter CloseSummaryWriter".split()},
    "Timestamp": lambda s: ({}, {}, {"shape_only": ["y0"]}),
}
