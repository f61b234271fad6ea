"""Makes tests/models/train and tests/models/train_parts, the models of tests/unit/server/test_train_step.c.      python tests/models/train.py

train, a tf.Module: w [3, 1], b [1], table [5, 2]; aside [1], which no gradient leads to; shift [1], not trainable; spare [1], which nothing reads
    serving_default(x) -> y = x w + b       lookup(ids) -> sum = of the rows of table        log(x) -> y = log(x w)      blind(x) -> class = an argmax
    aside(x) -> y = x w + aside + shift     train(x, t) -> loss, count: two turns of a loop that assigns w; count is assigned as well
train_parts, by TF1: w [4, 1] in two parts along axis 0
    serving_default(x) -> y = x w
"""
import os
import shutil

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
import tensorflow as tf  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
X = tf.TensorSpec([None, 3], tf.float32, name="x")


class Model(tf.Module):
    def __init__(self):
        super().__init__()
        self.w = tf.Variable([[0.5], [-1.0], [0.25]], name="w")
        self.b = tf.Variable([0.125], name="b")
        self.table = tf.Variable([[1.0, 2], [3, 4], [5, 6], [7, 8], [9, 10]], name="table")
        self.aside_ = tf.Variable([2.0], name="aside")
        self.shift = tf.Variable([3.0], name="shift", trainable=False)
        self.spare = tf.Variable([4.0], name="spare")
        self.count = tf.Variable(0, name="count", trainable=False)

    @tf.function(input_signature=[X])
    def line(self, x):
        return {"y": x @ self.w + self.b}

    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.int32, name="ids")])
    def lookup(self, ids):
        return {"sum": tf.reduce_sum(tf.gather(self.table, ids), [1, 2])}

    @tf.function(input_signature=[X])
    def log(self, x):
        return {"y": tf.math.log(x @ self.w)}

    @tf.function(input_signature=[X])
    def blind(self, x):
        return {"class": tf.cast(tf.argmax(x @ self.w + self.b, 1), tf.float32)}

    @tf.function(input_signature=[X])
    def with_aside(self, x):
        return {"y": x @ self.w + tf.stop_gradient(self.aside_) + self.shift}

    @tf.function(input_signature=[X, tf.TensorSpec([None, 1], tf.float32, name="t")])
    def train(self, x, t):
        loss = tf.reduce_mean((x @ self.w - t) ** 2)
        for _ in tf.range(2):
            self.w.assign_sub(0.1 * tf.matmul(x, x @ self.w - t, transpose_a=True))
        self.count.assign_add(1)
        return {"loss": loss, "count": self.count.read_value()}


def cut():
    v1 = tf.compat.v1
    where = os.path.join(HERE, "train_parts")
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, 4], name="x")
        w = v1.get_variable("w", [4, 1], initializer=v1.ones_initializer(), partitioner=v1.fixed_size_partitioner(2))
        y = tf.matmul(x, tf.convert_to_tensor(w))
        session.run(v1.global_variables_initializer())
        v1.saved_model.simple_save(session, where, {"x": x}, {"y": y})


def main():
    for name in ("train", "train_parts"):
        shutil.rmtree(os.path.join(HERE, name), True)
    m = Model()
    tf.saved_model.save(m, os.path.join(HERE, "train"), signatures={
        "serving_default": m.line, "lookup": m.lookup, "log": m.log, "blind": m.blind, "aside": m.with_aside, "train": m.train})
    shutil.rmtree(os.path.join(HERE, "train", "assets"), True)
    cut()


if __name__ == "__main__":
    main()
