"""Makes the SavedModels that the end-to-end tests serve, with TensorFlow, once.

    python tests/e2e/models.py DIR      leaves DIR/half/{1,2}

half: y = x / 2 + 1 + version.
    serving_default(x float[?]) -> y         two(a float[?], b int64[?]) -> sum, text, kept
    classify(inputs string[?]) -> classes, scores        regress(inputs string[?]) -> outputs
    slow(n int64[]) -> n                     counts to n in a loop: seconds for a large n
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


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    make(sys.argv[1])
