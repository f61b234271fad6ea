"""Keras's applications at small sizes, and what Keras 2 saves: layers, preprocessing, feature columns, premade, subclassed and trained models."""
import numpy as np
from harness import Lazy, case, floats, ints, model, shake

keras = Lazy("keras")
k2 = Lazy("tf_keras")
L2 = Lazy("tf_keras.layers")
tf = Lazy("tensorflow")


def application(name, size, **args):
    """A maker of a Keras 3 application without its top, randomly weighted."""
    def make(folder):
        net = getattr(keras.applications, name)(weights=None, input_shape=(size, size, 3), **{"include_top": False, "pooling": "avg", **args})
        for w in net.weights:
            if "gamma" in w.path or "variance" in w.path:
                w.assign(np.asarray(w) * .9 + .05)
        net.export(folder, verbose=False)
        yield case({net.inputs[0].name.split(":")[0]: floats(1, 2, size, size, 3, low=0, high=255 if "efficient" in name.lower() or "V3" in name and "Mobile" in name else 1)}, id="two")
    make.__name__ = "app_" + name.lower()
    return model(rtol=2e-3, atol=2e-3, vary=False)(make)


application("MobileNet", 64, alpha=.25)
application("MobileNetV2", 64, alpha=.35)
application("MobileNetV3Small", 64, minimalistic=False)
application("EfficientNetV2B0", 64)
application("DenseNet121", 48)
application("NASNetMobile", 64)
application("Xception", 80)
application("InceptionV3", 80)
application("ResNet50V2", 48)
application("ConvNeXtTiny", 48)
application("VGG16", 32, include_top=False)


def regnet(folder):
    net = k2.applications.RegNetX002(weights=None, input_shape=(48, 48, 3), include_top=False, pooling="avg")
    net.save(folder, save_format="tf")
    yield case({net.input_names[0]: floats(1, 2, 48, 48, 3, high=255, low=0)})


model(rtol=2e-3, atol=2e-3, vary=False)(regnet)


@model
def k2_layers(folder):
    x = L2.Input((8, 6), name="x")
    image = L2.Reshape((8, 6, 1))(x)
    y = {"threshold": L2.ThresholdedReLU(.3)(x), "prelu": L2.PReLU(shared_axes=[1])(x),
         "fourier": L2.experimental.RandomFourierFeatures(5, scale=2.)(L2.Flatten()(x)), "separable": L2.SeparableConv1D(3, 3, dilation_rate=2)(x), "gru": L2.GRU(3, reset_after=False, return_sequences=True)(x),
         "stacked": L2.RNN([L2.LSTMCell(3), L2.GRUCell(2)])(x), "bi": L2.Bidirectional(L2.LSTM(2), merge_mode="mul")(x), "minimal": L2.SimpleRNN(2, unroll=True)(x), "norm": L2.LayerNormalization(axis=[1, 2])(x),
         "group": L2.GroupNormalization(3)(x), "batch": L2.BatchNormalization(renorm=True)(x), "sync": L2.BatchNormalization(synchronized=True)(x), "unit": L2.UnitNormalization()(x), "att": L2.Attention(use_scale=True)([x, x]),
         "mha": L2.MultiHeadAttention(2, 3)(x, x), "convlstm": L2.ConvLSTM2D(2, 2)(L2.Reshape((2, 4, 6, 1))(x)), "causal": L2.Conv1D(3, 3, padding="causal", dilation_rate=2)(x),
         "up": L2.UpSampling2D(2, interpolation="bicubic")(image), "crop": L2.Cropping2D(1)(image), "dot": L2.Dot(2, normalize=True)([x, x]), "maximum": L2.Maximum()([x, x * .5]), "einsum": L2.EinsumDense("abc,cd->abd", output_shape=(None, 4), bias_axes="d")(x)}
    shake(k2.Model(x, y)).save(folder, save_format="tf")
    yield case({"x": floats(1, 2, 8, 6)})


@model
def k2_preprocessing(folder):
    s, n = L2.Input((1,), dtype=tf.string, name="s"), L2.Input((1,), name="n")
    text = L2.TextVectorization(output_sequence_length=5, ngrams=2)
    text.adapt(["a b c", "b c d"])
    idf = L2.TextVectorization(output_mode="tf_idf")
    idf.adapt(["a b c", "b c d"])
    norm = L2.Normalization()
    norm.adapt(np.float32([[1], [2], [5]]))
    disc = L2.Discretization(num_bins=3)
    disc.adapt(np.float32([[1], [2], [5], [9]]))
    look = L2.StringLookup(vocabulary=["u", "v"], output_mode="one_hot", num_oov_indices=2)
    y = {"text": text(s), "idf": idf(s), "norm": norm(n), "disc": disc(n), "look": look(s), "hash": L2.Hashing(9, salt=4)(s), "int": L2.IntegerLookup(vocabulary=[4, 5], output_mode="multi_hot")(L2.Lambda(lambda v: tf.cast(v, tf.int64))(n)),
         "cross": L2.HashedCrossing(7)((s, s)), "cat": L2.CategoryEncoding(4, output_mode="multi_hot")(disc(n))}
    k2.Model([s, n], y).save(folder, save_format="tf")
    yield case({"s": [["u"], ["a b zz"], [""]], "n": [[1.5], [5], [-9]]})


@model
def k2_ragged_input(folder):
    x = L2.Input((None,), dtype=tf.int64, ragged=True, name="x")
    h = L2.Embedding(20, 4)(x)
    y = L2.Dense(2, name="out")(L2.LSTM(3)(h))
    net = shake(k2.Model(x, y))
    m = tf.Module()
    m.net = net

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int64, name="values"), tf.TensorSpec([None], tf.int64, name="row_splits")])
    def serve(values, row_splits):
        return {"out": net(tf.RaggedTensor.from_row_splits(values, row_splits))}
    tf.saved_model.save(m, folder, signatures=serve)
    yield case({"values": [1, 2, 3, 4, 19], "row_splits": [0, 2, 2, 5]})
    yield case({"values": [1, 2, 3, 4, 19], "row_splits": [0, 2, 1, 5]}, id="bad_splits")


@model
def k2_sparse_dense_features(folder):
    fc = tf.feature_column
    columns = [fc.numeric_column("age"), fc.embedding_column(fc.categorical_column_with_hash_bucket("city", 10), 3), fc.indicator_column(fc.categorical_column_with_vocabulary_list("kind", ["a", "b"]))]
    inputs = {"age": L2.Input((1,), name="age"), "city": L2.Input((1,), name="city", dtype=tf.string), "kind": L2.Input((1,), name="kind", dtype=tf.string)}
    h = L2.DenseFeatures(columns)(inputs)
    net = shake(k2.Model(inputs, L2.Dense(1, activation="sigmoid", name="p")(h)))
    net.save(folder, save_format="tf")
    yield case({"age": [[3], [7]], "city": [["x"], ["y"]], "kind": [["a"], ["zz"]]})


@model
def k2_subclass_nested(folder):
    class Net(k2.Model):
        def __init__(self):
            super().__init__()
            self.blocks = [L2.Dense(4, activation="relu") for _ in range(3)]
            self.heads = {"a": L2.Dense(2), "b": L2.Dense(1)}
            self.bn = L2.BatchNormalization()

        def call(self, inputs, training=False, mask=None):
            h = tf.concat([inputs["left"][0], inputs["left"][1], inputs["right"]], -1)
            for b in self.blocks:
                h = b(h)
            h = self.bn(h, training=training)
            return {"one": self.heads["a"](h), "two": (self.heads["b"](h), [h])}
    net = Net()
    spec = {"left": (tf.TensorSpec([None, 2], name="l0"), tf.TensorSpec([None, 3], name="l1")), "right": tf.TensorSpec([None, 1], name="r")}
    net({"left": (floats(1, 1, 2), floats(1, 1, 3)), "right": floats(1, 1, 1)})
    shake(net)

    @tf.function(input_signature=[spec["left"][0], spec["left"][1], spec["right"]])
    def serve(a, b, c):
        out = net({"left": (a, b), "right": c})
        return {"one": out["one"], "two_0": out["two"][0], "two_1": out["two"][1][0]}
    tf.saved_model.save(net, folder, signatures=serve)
    names = ("l0", "l1", "r")
    yield case(dict(zip(names, (floats(1, 3, 2), floats(2, 3, 3), floats(3, 3, 1)))))


@model
def k2_wide_deep_premade(folder):
    wide = k2.experimental.LinearModel(units=1)
    deep = k2.Sequential([L2.Dense(4, activation="relu"), L2.Dense(1)])
    net = k2.experimental.WideDeepModel(wide, deep, activation="sigmoid")
    net([floats(1, 2, 3), floats(2, 2, 5)])
    shake(net)
    net.compile("sgd", "mse")
    net.fit([floats(1, 4, 3), floats(2, 4, 5)], floats(3, 4, 1), verbose=0)
    net.save(folder, save_format="tf")
    yield case({"input_1": floats(1, 2, 3), "input_2": floats(2, 2, 5)})


@model
def k2_trained_sequential(folder):
    net = k2.Sequential([L2.Input((6, 6, 1), name="image"), L2.Conv2D(4, 3, activation="relu"), L2.MaxPooling2D(), L2.Flatten(), L2.Dropout(.3), L2.Dense(3, activation="softmax", name="probs")])
    net.compile(k2.optimizers.Adam(.01), "sparse_categorical_crossentropy", metrics=["accuracy"])
    net.fit(floats(1, 16, 6, 6, 1), ints(1, 16, high=3), epochs=2, verbose=0)
    net.save(folder, save_format="tf", include_optimizer=True)
    yield case({"image": floats(2, 3, 6, 6, 1)})
