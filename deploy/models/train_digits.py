"""Trains the bundled model: handwritten digits, 8x8 grey pixels, to a digit and its probabilities.

    pip install tensorflow-cpu scikit-learn
    python deploy/models/train_digits.py [OUT]        OUT defaults to deploy/models/digits/1

The data is the UCI "Optical Recognition of Handwritten Digits" test set, 1,797 images, as scikit-learn ships it; every fifth image is held
out. The model is a small convolution net in plain tf.Module form: one signature, `images` float32 [?,8,8] with values 0..16 to `digit` int64 [?]
and `probabilities` float32 [?,10]. Prints the held-out accuracy; seeds are fixed, so a rerun gives a model of the same quality.
"""
import sys

import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits


class Digits(tf.Module):
    def __init__(self):
        super().__init__()
        init = tf.random.Generator.from_seed(7)

        def weight(*shape):
            fan_in = int(np.prod(shape[:-1]))
            return tf.Variable(init.normal(shape, stddev=(2.0 / fan_in) ** 0.5), name="weight")
        self.conv1, self.bias1 = weight(3, 3, 1, 16), tf.Variable(tf.zeros([16]))
        self.conv2, self.bias2 = weight(3, 3, 16, 32), tf.Variable(tf.zeros([32]))
        self.dense, self.bias3 = weight(4 * 4 * 32, 10), tf.Variable(tf.zeros([10]))

    def logits(self, images):
        x = tf.expand_dims(images / 16.0, -1)
        x = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, self.conv1, 1, "SAME"), self.bias1))
        x = tf.nn.max_pool2d(x, 2, 2, "VALID")
        x = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, self.conv2, 1, "SAME"), self.bias2))
        return tf.nn.bias_add(tf.matmul(tf.reshape(x, [-1, 4 * 4 * 32]), self.dense), self.bias3)

    @tf.function(input_signature=[tf.TensorSpec([None, 8, 8], tf.float32, name="images")])
    def predict(self, images):
        logits = self.logits(images)
        return {"digit": tf.argmax(logits, -1), "probabilities": tf.nn.softmax(logits)}


def train(model, x, y, epochs=40, batch=64, rate=0.05, momentum=0.9):
    velocity = [tf.zeros_like(v) for v in model.trainable_variables]
    order = np.random.RandomState(7)

    @tf.function
    def gradients(images, labels):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, model.logits(images)))
        return tape.gradient(loss, model.trainable_variables)
    for _ in range(epochs):
        rows = order.permutation(len(x))
        for at in range(0, len(rows) - batch + 1, batch):
            pick = rows[at:at + batch]
            for i, g in enumerate(gradients(x[pick], y[pick])):
                velocity[i] = momentum * velocity[i] - rate * g
                model.trainable_variables[i].assign_add(velocity[i])


def main():
    out = sys.argv[1] if len(sys.argv) > 1 else "deploy/models/digits/1"
    data = load_digits()
    images, labels = data.images.astype(np.float32), data.target.astype(np.int64)
    held_out = np.arange(len(images)) % 5 == 0
    model = Digits()
    train(model, images[~held_out], labels[~held_out])
    right = np.mean(model.predict(tf.constant(images[held_out]))["digit"].numpy() == labels[held_out])
    print(f"held-out accuracy {right:.3f} on {held_out.sum()} images")
    tf.saved_model.save(model, out, signatures={"serving_default": model.predict})
    for i in np.flatnonzero(held_out)[[3, 7]]:
        print(labels[i], images[i].astype(int).tolist())


if __name__ == "__main__":
    main()
