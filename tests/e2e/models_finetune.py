"""Makes the models of the end-to-end tests of fine-tuning: OUT/classes/1 (x [batch, 32] -> logits [batch, 4]) and OUT/ids/1 (ids [batch, 6] of 50 -> y).

    python tests/e2e/models_finetune.py OUT
"""
import os
import sys

import numpy as np
import tensorflow as tf


def make(out):
    rng = np.random.default_rng(4)

    def var(name, *shape):
        return tf.Variable((rng.standard_normal(shape) / shape[0] ** .5).astype(np.float32), name=name)
    m = tf.Module()
    m.w = [var(f"w{i}", *s) for i, s in enumerate(((32, 256), (256, 256), (256, 4)))]
    m.b = [var(f"b{i}", n) for i, n in enumerate((256, 256, 4))]

    def logits(x):
        for w, b in list(zip(m.w, m.b))[:-1]:
            x = tf.nn.relu(tf.matmul(x, w) + b)
        return {"logits": tf.matmul(x, m.w[-1]) + m.b[-1]}
    f = tf.function(logits, input_signature=[tf.TensorSpec([None, 32], tf.float32, "x")])
    tf.saved_model.save(m, os.path.join(out, "classes", "1"), signatures=f)
    k = tf.Module()
    k.table, k.w = var("table", 50, 8), var("w", 8, 1)
    f = tf.function(lambda ids: {"y": tf.matmul(tf.reduce_mean(tf.gather(k.table, ids), 1), k.w)}, input_signature=[tf.TensorSpec([None, 6], tf.int32, "ids")])
    tf.saved_model.save(k, os.path.join(out, "ids", "1"), signatures=f)


if __name__ == "__main__":
    make(sys.argv[1])
