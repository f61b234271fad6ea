"""Makes the SavedModels that the end-to-end tests serve, with TensorFlow, once.

    python tests/e2e/models.py DIR      leaves DIR/half/{1,2} and DIR/types/1

half: y = x / 2 + 1 + version.
    serving_default(x float[?]) -> y         two(a float[?], b int64[?]) -> sum, text, kept
    classify(inputs string[?]) -> classes, scores        regress(inputs string[?]) -> outputs
    slow(n int64[]) -> n                     counts to n in a loop: seconds for a large n

types: every element type of KServe v2 comes back.
    serving_default(bool, int8 .. uint64, float16 .. float64, bfloat16, string, each [?]) -> the same, named out_TYPE
    rows(x float[?,4]) -> scores float[?,4], best int64[?]          text(s string[?]) -> upper, blob (not UTF-8)
"""
import os
import sys


def make(root):
    import tensorflow as tf

    class Half(tf.Module):
        def __init__(self, version):
            super().__init__()
            self.scale = tf.Variable(0.5, name="scale")
            self.shift = tf.Variable(1.0 + version, name="shift")

        @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, name="x")])
        def default(self, x):
            return {"y": self.scale * x + self.shift}

        @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, name="a"), tf.TensorSpec([None], tf.int64, name="b")])
        def two(self, a, b):
            return {"sum": a + tf.cast(b, tf.float32), "text": tf.strings.as_string(b), "kept": b}

        def parse(self, examples):
            x = tf.io.parse_example(examples, {"x": tf.io.FixedLenFeature([1], tf.float32)})["x"]
            return self.scale * x + self.shift

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="inputs")])
        def classify(self, inputs):
            scores = tf.concat([self.parse(inputs), -self.parse(inputs)], 1)
            return {"classes": tf.tile([["up", "down"]], [tf.shape(inputs)[0], 1]), "scores": scores}

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="inputs")])
        def regress(self, inputs):
            return {"outputs": self.parse(inputs)}

        @tf.function(input_signature=[tf.TensorSpec([], tf.int64, name="n")])
        def slow(self, n):
            i = tf.constant(0, tf.int64)
            while i < n:
                i += 1
            return {"n": i}

    for version in (1, 2):
        where = os.path.join(root, "half", str(version))
        if not os.path.exists(os.path.join(where, "saved_model.pb")):
            m = Half(version)
            tf.saved_model.save(m, where, signatures={"serving_default": m.default, "two": m.two, "classify": m.classify,
                                                      "regress": m.regress, "slow": m.slow})
    where = os.path.join(root, "types", "1")
    if not os.path.exists(os.path.join(where, "saved_model.pb")):
        t = types(tf)
        tf.saved_model.save(t, where, signatures={"serving_default": t.echo, "rows": t.rows, "text": t.text})


TYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
         "float16", "float32", "float64", "bfloat16", "string"]


def types(tf):
    m = tf.Module()

    @tf.function(input_signature=[tf.TensorSpec([None], getattr(tf, t), name=t) for t in TYPES])
    def echo(*args):
        return {f"out_{t}": tf.identity(a) for t, a in zip(TYPES, args)}

    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, name="x")])
    def rows(x):
        return {"scores": 2 * x, "best": tf.argmax(x, 1)}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="s")])
    def text(s):
        return {"upper": tf.strings.upper(s), "blob": tf.strings.join(["\xff".encode("latin1"), s])}

    m.echo, m.rows, m.text = echo, rows, text
    return m


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    make(sys.argv[1])
