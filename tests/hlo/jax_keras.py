"""Keras 3 models whose backend is JAX, exported by Keras itself: tests/hlo/jax_suite.py writes them where there is a Keras 3."""
import os

os.environ["KERAS_BACKEND"] = "jax"   # before Keras is imported

import keras                    # noqa: E402
import numpy as np              # noqa: E402
from keras import layers        # noqa: E402

R = np.random.RandomState(5)


def image():
    x = i = keras.Input((16, 16, 3))
    x = layers.ReLU()(layers.BatchNormalization()(layers.Conv2D(8, 3, padding="same")(x)))
    x = layers.DepthwiseConv2D(3, padding="same", activation="relu")(layers.MaxPooling2D()(x))
    return keras.Model(i, layers.Dense(10, activation="softmax")(layers.GlobalAveragePooling2D()(x))), R.rand(4, 16, 16, 3).astype(np.float32)


def sequence():
    i = keras.Input((7,), dtype="int32")
    x = layers.LayerNormalization()(layers.Embedding(50, 16)(i))
    x = layers.Dense(16, activation="gelu")(layers.Add()([layers.MultiHeadAttention(2, 8)(x, x), x]))
    x = layers.Dropout(0.3)(layers.Bidirectional(layers.LSTM(8))(x))
    return keras.Model(i, layers.Dense(3)(x)), R.randint(0, 50, (4, 7)).astype(np.int32)


MODELS = {"keras_image": image, "keras_sequence": sequence}
