"""Jobs that change more than weights: a new head, low-rank adapters, the training form; against Keras with the same, and as TensorFlow loads the results.

    build/venv/bin/python tests/e2e/train_graphs_test.py [-v] [TestCase.test]      $TENSORD: the daemon (default build/tensord)

Losses and predictions must be Keras's, drawn dropout and initial weights included: the same seeds draw the same numbers.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import server  # noqa: E402
import keras  # noqa: E402
import tensorflow as tf  # noqa: E402

SEED, CLOSE = 11, {"rtol": 1e-4, "atol": 2e-6}
I = keras.initializers


def checkpoint(version):
    reader = tf.train.load_checkpoint(os.path.join(version, "variables", "variables"))
    return {k: reader.get_tensor(k) for k in reader.get_variable_to_shape_map() if not k.startswith("_CHECKPOINTABLE")}


class Graphs(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="tensord-e2e.")
        self.base = os.path.join(self.dir, "base")
        self.r = np.random.default_rng(3)
        keras.utils.set_random_seed(1)

    def tearDown(self):
        shutil.rmtree(self.dir, True)

    def rows(self, name, x, y):
        with open(os.path.join(self.dir, name), "w") as f:
            for a, b in zip(x, y):
                f.write(json.dumps({"inputs": a.tolist(), "targets": b.tolist()}) + "\n")

    def train(self, method, status=0, validation=None, **tensord):
        """Runs a job of three epochs of batches of 16; returns (losses by step, events of epochs, error)."""
        hyper = {"n_epochs": 3, "batch_size": 16, "learning_rate": 0.01}
        body = {"type": method[0], method[0]: dict(method[1], hyperparameters=hyper)}
        job = {"model": "m", "training_file": "train.jsonl", "validation_file": validation, "seed": SEED, "method": body,
               "tensord": dict(tensord, shuffle=False, optimizer={"name": "adam"})}
        path, events = os.path.join(self.dir, "job.json"), os.path.join(self.dir, "events.json")
        with open(path, "w") as f:
            json.dump(job, f)
        done = subprocess.run([server.DAEMON, "train", path, "--model=m=" + self.base, "--events=" + events], capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        if status != 0:
            return [], [], done.stdout + done.stderr
        with open(events) as f:
            data = [e["data"] for e in reversed(json.load(f)["data"]) if e.get("data")]
        return [d["train_loss"] for d in data if "train_loss" in d], [d for d in data if "metrics" in d], ""

    def result(self):
        return os.path.join(self.base, "2")

    def loaded(self, x):
        """The result's output for x by tf.saved_model.load, TFSMLayer and TensorFlow 1's loader, which must agree."""
        by_load = tf.saved_model.load(self.result()).signatures["serving_default"](x=tf.constant(x))
        (name, want), = by_load.items()
        layer = keras.layers.TFSMLayer(self.result(), call_endpoint="serving_default")
        np.testing.assert_allclose(layer(x)[name].numpy(), want.numpy(), **CLOSE)
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            meta = tf.compat.v1.saved_model.load(session, ["serve"], self.result())
            s = meta.signature_def["serving_default"]
            by_session = session.run(s.outputs[name].name, {s.inputs["x"].name: x})
        np.testing.assert_allclose(by_session, want.numpy(), **CLOSE)
        return name, want.numpy()


class Head(Graphs):
    LAYERS = [{"units": 16, "activation": "gelu", "l2": 0.01, "dropout": 0.25},
              {"units": 3, "activation": "softmax", "dropout": 0.5, "kernel_initializer": "he_normal"}]

    def setUp(self):
        super().setUp()
        self.x, self.y = self.r.standard_normal((50, 6)).astype(np.float32), self.r.integers(0, 3, 50)
        self.v, self.vy = self.r.standard_normal((20, 6)).astype(np.float32), self.r.integers(0, 3, 20)
        self.rows("train.jsonl", self.x, self.y)
        self.rows("validation.jsonl", self.v, self.vy)
        i = keras.Input((6,), name="x")
        self.body = keras.Model(i, keras.layers.Dense(8, "tanh", name="body")(i))
        keras.Model(i, keras.layers.Dense(2, name="old")(self.body.output)).export(os.path.join(self.base, "1"), verbose=False)

    def keras_head(self):
        x = keras.layers.Dropout(0.25, seed=SEED + 2)(self.body.output)
        x = keras.layers.Dense(16, "gelu", kernel_initializer=I.GlorotUniform(seed=SEED), kernel_regularizer=keras.regularizers.L2(0.01))(x)
        x = keras.layers.Dropout(0.5, seed=SEED + 5)(x)
        x = keras.layers.Dense(3, "softmax", kernel_initializer=I.HeNormal(seed=SEED + 3))(x)
        m = keras.Model(self.body.input, x)
        m.compile(keras.optimizers.Adam(0.01), "sparse_categorical_crossentropy", metrics=["accuracy"])
        fit = m.fit(self.x, self.y, batch_size=16, epochs=3, shuffle=False, verbose=0, validation_data=(self.v, self.vy), validation_batch_size=16)
        return m, fit.history

    def job(self, at="body_1/Tanh", **tensord):
        return self.train(("supervised", {}), validation="validation.jsonl", loss={"name": "sparse_categorical_crossentropy", "output": "scores"},
                          metrics=["accuracy"], head={"at": at, "output": "scores", "layers": self.LAYERS}, **tensord)

    def check_against_keras(self, epochs):
        m, history = self.keras_head()
        np.testing.assert_allclose([e["metrics"]["train"]["loss"] for e in epochs], history["loss"], **CLOSE)
        np.testing.assert_allclose([e["metrics"]["validation"]["loss"] for e in epochs], history["val_loss"], **CLOSE)
        np.testing.assert_allclose([e["metrics"]["train"]["accuracy"] for e in epochs], history["accuracy"], **CLOSE)
        name, got = self.loaded(self.v)
        self.assertEqual(name, "scores")
        np.testing.assert_allclose(got, m.predict(self.v, verbose=0), **CLOSE)

    def test_a_head_is_fitted_as_keras_fits_it(self):
        _, epochs, _ = self.job()
        self.check_against_keras(epochs)

    def test_a_frozen_body_keeps_its_bytes(self):
        self.body.trainable = False
        _, epochs, _ = self.job(trainable=["head/*"])
        self.check_against_keras(epochs)
        before, after = checkpoint(os.path.join(self.base, "1")), checkpoint(self.result())
        kept = [k for k in after if not k.startswith("head/")]
        self.assertEqual(len(kept), 2)
        for k in kept:
            self.assertEqual(before[k].tobytes(), after[k].tobytes(), k)

    def test_a_node_that_is_not_there_is_refused_with_those_that_are(self):
        _, _, said = self.train(("supervised", {}), status=2, loss={"name": "mse"}, head={"at": "nowhere:0", "layers": [{"units": 2}]})
        self.assertIn("has no node 'nowhere'", said)
        self.assertIn("body_1/Tanh", said)


class Lora(Graphs):
    RANK, ALPHA = 2, 4.0

    def setUp(self):
        super().setUp()
        self.x, self.y = self.r.standard_normal((40, 6, 5)).astype(np.float32), self.r.standard_normal((40, 3)).astype(np.float32)
        self.rows("train.jsonl", self.x, self.y)
        i = keras.Input((6, 5), name="x")
        h = keras.layers.Conv1D(8, 3, padding="same", activation="relu", name="conv")(i)
        h = keras.layers.MultiHeadAttention(2, 4, name="mha")(h, h)
        h = keras.layers.LSTM(7, return_sequences=True, name="lstm")(h)
        h = keras.layers.Dense(9, "tanh", name="d1")(keras.layers.Flatten()(h))
        self.m = keras.Model(i, keras.layers.Dense(3, name="y")(h))
        self.m.export(os.path.join(self.base, "1"), verbose=False)

    def weights(self, before, after):
        """Numbers of the model's trainable variables that have changed, in the order of their keys, and their keys."""
        own = [v.numpy() for v in self.m.trainable_variables]
        keys = sorted(k for k in before if k.startswith("variables/") and before[k].dtype == np.float32 and not np.array_equal(before[k], after[k]))
        return keys, [next(n for n, w in enumerate(own) if w.shape == before[k].shape and np.array_equal(w, before[k])) for k in keys]

    def rows_of(self, n):
        """How many leading dimensions of a kernel are rows of its matrix."""
        path = self.m.trainable_variables[n].path
        return 2 if "conv/" in path or "attention_output" in path else 1

    def reference(self, numbers):
        """Losses and final weights of adapters trained by differentiating through w0 + alpha / rank a b."""
        start, scale = [v.numpy() for v in self.m.trainable_variables], self.ALPHA / self.RANK
        pairs = {}
        for k, n in enumerate(numbers):
            shape, cut = start[n].shape, self.rows_of(n)
            m, c = int(np.prod(shape[:cut])), int(np.prod(shape[cut:]))
            a = tf.random.stateless_normal((m, self.RANK), seed=[SEED + k, 0]) / self.RANK
            pairs[n] = keras.Variable(a), keras.Variable(np.zeros((self.RANK, c), np.float32))

        def merged():
            return [w + (scale * tf.reshape(pairs[n][0].value @ pairs[n][1].value, w.shape) if n in pairs else 0) for n, w in enumerate(start)]
        optimizer, flat, losses = keras.optimizers.Adam(0.01), [v for p in pairs.values() for v in p], []
        optimizer.build(flat)
        for at in [b for _ in range(3) for b in range(0, 40, 16)]:
            with tf.GradientTape() as tape:
                y, _ = self.m.stateless_call(merged(), self.m.non_trainable_variables, self.x[at:at + 16], training=False)
                loss = tf.reduce_mean(tf.square(y - self.y[at:at + 16]))
            optimizer.apply(tape.gradient(loss, [v.value for v in flat]), flat)
            losses.append(float(loss))
        return losses, merged()

    def check(self, targets, changed):
        losses, _, _ = self.train(("lora", {"rank": self.RANK, "alpha": self.ALPHA, "targets": targets}), loss={"name": "mse"})
        before, after = checkpoint(os.path.join(self.base, "1")), checkpoint(self.result())
        self.assertEqual(before.keys(), after.keys())
        keys, numbers = self.weights(before, after)
        self.assertEqual(sorted(self.m.trainable_variables[n].path for n in numbers), changed)
        want, weights = self.reference(numbers)
        np.testing.assert_allclose(losses, want, **CLOSE)
        for k, n in zip(keys, numbers):
            np.testing.assert_allclose(after[k], weights[n], **CLOSE)
        y, _ = self.m.stateless_call(weights, self.m.non_trainable_variables, self.x, training=False)
        np.testing.assert_allclose(self.loaded(self.x)[1], y, rtol=1e-4, atol=1e-5)

    def test_every_weight_of_a_product_is_adapted(self):
        self.check(["*"], ["conv/kernel", "d1/kernel", "lstm/lstm_cell/kernel", "lstm/lstm_cell/recurrent_kernel", "mha/attention_output/kernel",
                           "mha/key/kernel", "mha/query/kernel", "mha/value/kernel", "y/kernel"])

    def test_targets_say_which(self):
        self.check(["*query*", "*value*"], ["mha/query/kernel", "mha/value/kernel"])

    def test_targets_without_a_weight_are_refused(self):
        _, _, said = self.train(("lora", {"targets": ["*bias*"]}), status=2, loss={"name": "mse"})
        self.assertIn("none is the weight of a matrix product", said)

    def test_what_does_not_go_with_adapters_is_refused(self):
        _, _, said = self.train(("lora", {}), status=2, loss={"name": "mse"}, ema={"momentum": 0.9})
        self.assertIn("tensord.ema does not go with method lora", said)


class Norm(tf.Module):
    """A layer that is centred by its batch in training, and by an average of those when it is served; with dropout if asked for."""

    def __init__(self, rate):
        super().__init__()
        self.w = tf.Variable(np.random.default_rng(5).standard_normal((6, 3)).astype(np.float32), name="w")
        self.mean = tf.Variable(tf.zeros(6), trainable=False, name="mean")
        self.rate = rate

    @tf.function
    def __call__(self, x, training):
        if training:
            m = tf.reduce_mean(x, 0)
            self.mean.assign(0.9 * self.mean + 0.1 * m)
            x = tf.nn.dropout(x - m, self.rate) if self.rate > 0 else x - m
        else:
            x = x - self.mean
        return tf.nn.softmax(x @ self.w)


class Form(Graphs):
    SPEC = tf.TensorSpec((None, 6), tf.float32, "x")

    def setUp(self):
        super().setUp()
        self.x, self.y = self.r.standard_normal((48, 6)).astype(np.float32) + 1, self.r.integers(0, 3, 48)
        self.rows("train.jsonl", self.x, self.y)

    def save(self, rate):
        m = Norm(rate)
        for training in (True, False):
            m.__call__.get_concrete_function(self.SPEC, training)
        serve = tf.function(lambda x: {"y": m(x, False)}, input_signature=[self.SPEC])
        tf.saved_model.save(m, os.path.join(self.base, "1"), signatures=serve)
        return m

    def job(self, **tensord):
        shutil.rmtree(self.result(), True)
        return self.train(("supervised", {}), loss={"name": "sparse_categorical_crossentropy"}, training="graph", **tensord)

    def test_what_the_form_assigns_moves_and_validation_is_as_served(self):
        m, losses = self.save(0), []
        shutil.copy(os.path.join(self.dir, "train.jsonl"), os.path.join(self.dir, "validation.jsonl"))
        got, epochs, _ = self.job(validation="validation.jsonl")
        optimizer = keras.optimizers.Adam(0.01)
        w = keras.Variable(m.w.numpy())
        optimizer.build([w])
        for epoch in range(3):
            for at in range(0, 48, 16):
                with tf.GradientTape() as tape:
                    loss = tf.reduce_mean(keras.losses.sparse_categorical_crossentropy(self.y[at:at + 16], m(self.x[at:at + 16], True)))
                optimizer.apply([tape.gradient(loss, m.w)], [w])
                m.w.assign(w.value)
                losses.append(float(loss))
            want = tf.reduce_mean(keras.losses.sparse_categorical_crossentropy(self.y, m(self.x, False)))
            np.testing.assert_allclose(epochs[epoch]["metrics"]["validation"]["loss"], want, **CLOSE)
        np.testing.assert_allclose(got, losses, **CLOSE)
        after = checkpoint(self.result())
        np.testing.assert_allclose(after["w/.ATTRIBUTES/VARIABLE_VALUE"], m.w.numpy(), **CLOSE)
        np.testing.assert_allclose(after["mean/.ATTRIBUTES/VARIABLE_VALUE"], m.mean.numpy(), **CLOSE)
        self.assertGreater(np.abs(m.mean.numpy()).max(), 0.1)
        np.testing.assert_allclose(self.loaded(self.x)[1], m(self.x, False), **CLOSE)

    def test_dropout_is_drawn_by_the_seed(self):
        self.save(0.5)
        first, second, other = self.job()[0], self.job()[0], self.job(seed=SEED + 1)[0]
        self.assertEqual(first, second)
        self.assertNotEqual(first, other)

    def test_a_file_without_the_form_is_refused(self):
        i = keras.Input((6,), name="x")
        keras.Model(i, keras.layers.Dense(3, "softmax")(i)).export(os.path.join(self.base, "1"), verbose=False)
        _, _, said = self.train(("supervised", {}), status=2, loss={"name": "sparse_categorical_crossentropy"}, training="graph")
        self.assertIn("carries no training form", said)


class FormBySignature(Graphs):
    """Keras 3 exports no training form by itself; its ExportArchive adds one as a signature."""

    def setUp(self):
        super().setUp()
        self.x = self.r.standard_normal((48, 6)).astype(np.float32) + 1
        self.y, self.z = self.r.integers(0, 3, 48), self.r.standard_normal((48, 1)).astype(np.float32)
        for name in ("train.jsonl", "validation.jsonl"):
            with open(os.path.join(self.dir, name), "w") as f:
                for x, y, z in zip(self.x, self.y, self.z):
                    f.write(json.dumps({"inputs": {"x": x.tolist()}, "targets": {"kind": int(y), "size": z.tolist()}}) + "\n")
        i = keras.Input((6,), name="x")
        h = keras.layers.Dropout(0.3, seed=4)(keras.layers.BatchNormalization(momentum=0.8, name="norm")(keras.layers.Dense(8, "relu", name="body")(i)))
        self.m = keras.Model(i, {"kind": keras.layers.Dense(3, "softmax", name="kind")(h), "size": keras.layers.Dense(1, name="size")(h)})

    def export(self, **signatures):
        archive = keras.export.ExportArchive()
        archive.track(self.m)
        spec = [tf.TensorSpec((None, 6), tf.float32, "x")]
        archive.add_endpoint("serve", lambda x: self.m(x, training=False), spec)
        for name, f in signatures.items():
            archive.add_endpoint(name, f, spec)
        archive.write_out(os.path.join(self.base, "1"), verbose=False)

    def job(self, status=0, **tensord):
        losses = [{"name": "sparse_categorical_crossentropy", "output": "kind", "target": "targets.kind"},
                  {"name": "mse", "output": "size", "target": "targets.size", "weight": 0.5}]
        return self.train(("supervised", {}), status, validation="validation.jsonl", signature="serve", loss=losses, **tensord)

    def fit(self):
        self.m.compile(keras.optimizers.Adam(0.01), {"kind": "sparse_categorical_crossentropy", "size": "mse"}, loss_weights={"kind": 1, "size": 0.5})
        y = {"kind": self.y, "size": self.z}
        return self.m.fit(self.x, y, batch_size=16, epochs=3, shuffle=False, verbose=0, validation_data=(self.x, y), validation_batch_size=16).history

    def check(self, epochs, history):
        for name, key in (("train", "loss"), ("validation", "val_loss")):
            np.testing.assert_allclose([e["metrics"][name]["loss"] for e in epochs], history[key], **CLOSE)
        served = tf.saved_model.load(self.result())
        want = self.m(self.x, training=False)
        for name, got in served.signatures["serve"](x=tf.constant(self.x)).items():
            np.testing.assert_allclose(got, want[name], rtol=1e-3, atol=1e-5)
        self.assertIn("training", served.signatures)

    def test_a_job_is_what_keras_fits_dropout_and_averages_included(self):
        self.export(training=lambda x: self.m(x, training=True))
        _, epochs, _ = self.job(training="signature:training")
        self.check(epochs, self.fit())
        shutil.rmtree(self.result())
        self.assertEqual(self.job(training="graph")[1], epochs)     # the only one that says so

    def test_a_signature_that_does_not_fit_is_refused(self):
        self.export(training=lambda x: {"kind": self.m(x, training=True)["kind"]}, training_of=lambda x: self.m(x[:, :6], training=True))
        for form, why in (("signature:training", "does not give all of the outputs"), ("signature:fit", "no signature of that name")):
            _, _, said = self.job(2, training=form)
            self.assertIn("carries no training form", said)
            self.assertIn(why, said)
        _, _, said = self.job(2, training="signature:")
        self.assertIn("\"signature:NAME\"", said)


class Products(tf.Module):
    """A model of products of all kinds, one in a loop; with `mixed` each rounds its operands to bfloat16 and its result, which then is a float again."""

    def __init__(self):
        super().__init__()
        r = np.random.default_rng(6)
        shapes = {"conv": (3, 3, 2, 6), "dense": (96, 12), "cell": (12, 12), "heads": (12, 2, 6), "out": (12, 3)}
        self.w = {k: tf.Variable((r.standard_normal(s) / np.sqrt(np.prod(s[:-1]))).astype(np.float32), name=k) for k, s in shapes.items()}

    def run(self, x, mixed):
        def p(op, *a, **k):
            return tf.cast(op(*(tf.cast(v, tf.bfloat16) for v in a), **k), tf.float32) if mixed else op(*a, **k)
        w = self.w
        x = tf.nn.relu(p(tf.nn.conv2d, x, w["conv"], strides=2, padding="SAME"))
        x = tf.tanh(p(tf.matmul, tf.reshape(x, (-1, 96)), w["dense"]))
        x = tf.while_loop(lambda i, _: i < 3, lambda i, h: (i + 1, tf.tanh(p(tf.matmul, h, w["cell"]) + x)), (0, x))[1]
        h = p(lambda a, b: tf.einsum("bi,ihd->bhd", a, b), x, w["heads"])
        h = p(tf.matmul, tf.nn.softmax(p(lambda a, b: tf.matmul(a, b, transpose_b=True), h, h)), h)
        return tf.nn.softmax(p(tf.matmul, tf.reshape(h, (-1, 12)), w["out"]))


class Bfloat16(Graphs):
    def setUp(self):
        super().setUp()
        self.m = Products()
        self.x, self.y = self.r.standard_normal((48, 8, 8, 2)).astype(np.float32), self.r.integers(0, 3, 48)
        self.rows("train.jsonl", self.x, self.y)
        shutil.copy(os.path.join(self.dir, "train.jsonl"), os.path.join(self.dir, "validation.jsonl"))
        f = tf.function(lambda x: {"y": self.m.run(x, False)}, input_signature=[tf.TensorSpec((None, 8, 8, 2), tf.float32, "x")])
        tf.saved_model.save(self.m, os.path.join(self.base, "1"), signatures=f)

    def job(self, **tensord):
        shutil.rmtree(self.result(), True)
        return self.train(("supervised", {}), loss={"name": "sparse_categorical_crossentropy"}, validation="validation.jsonl", **tensord)

    def reference(self, mixed):
        """Losses by step and of validation by epoch, of the same job in TensorFlow."""
        start = {k: v.numpy() for k, v in self.m.w.items()}
        optimizer, own = keras.optimizers.Adam(0.01), [keras.Variable(v.numpy()) for v in self.m.w.values()]
        optimizer.build(own)

        @tf.function
        def loss_of(x, y):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(keras.losses.sparse_categorical_crossentropy(y, self.m.run(x, mixed)))
            return loss, tape.gradient(loss, list(self.m.w.values()))
        steps, epochs = [], []
        for _ in range(3):
            for at in range(0, 48, 16):
                loss, gradients = loss_of(self.x[at:at + 16], self.y[at:at + 16])
                optimizer.apply(gradients, own)
                for v, new in zip(self.m.w.values(), own):
                    v.assign(new.value)
                steps.append(float(loss))
            epochs.append(float(loss_of(self.x, self.y)[0]))
        weights = {k: v.numpy() for k, v in self.m.w.items()}
        for k, v in self.m.w.items():
            v.assign(start[k])
        return np.array(steps), np.array(epochs), weights

    def oracle_sums_floats(self):
        """Whether TensorFlow, on this processor, rounds the operands of such products and the sum, and nothing in between."""
        x, y = (tf.constant(self.r.standard_normal(s).astype(np.float32)) for s in ((16, 96), (96, 12)))
        a, b = (tf.cast(v, tf.bfloat16) for v in (x, y))
        want = tf.cast(tf.matmul(tf.cast(a, tf.float32), tf.cast(b, tf.float32)), tf.bfloat16)
        return float(tf.reduce_mean(tf.cast(tf.matmul(a, b) != want, tf.float32))) < 0.01

    def test_products_are_rounded_as_a_mixed_policy_rounds_them(self):
        if not self.oracle_sums_floats():
            self.skipTest("TensorFlow adds up bfloat16 otherwise on this processor")
        plain, (want, valid, weights) = self.reference(False)[0], self.reference(True)
        got, epochs, _ = self.job(compute_dtype="bfloat16")
        self.assertLess(np.abs(got - want).max(), np.abs(want - plain).max() / 20)     # far below what rounding does
        np.testing.assert_allclose([e["metrics"]["validation"]["loss"] for e in epochs], valid, **CLOSE)
        after = checkpoint(self.result())
        for k, w in weights.items():
            self.assertEqual(after[f"w/{k}/.ATTRIBUTES/VARIABLE_VALUE"].dtype, np.float32)
            np.testing.assert_allclose(after[f"w/{k}/.ATTRIBUTES/VARIABLE_VALUE"], w, atol=1e-3)

    def test_the_result_is_the_graph_that_was_served(self):
        self.job(compute_dtype="bfloat16")
        x = self.x[:4]
        got = tf.saved_model.load(self.result()).signatures["serving_default"](x=tf.constant(x))["y"].numpy()
        after = checkpoint(self.result())
        for k, v in self.m.w.items():
            v.assign(after[f"w/{k}/.ATTRIBUTES/VARIABLE_VALUE"])
        np.testing.assert_allclose(got, self.m.run(x, False), **CLOSE)
        with open(os.path.join(self.base, "1", "saved_model.pb"), "rb") as a, open(os.path.join(self.result(), "saved_model.pb"), "rb") as b:
            self.assertEqual(a.read(), b.read())

    def test_float32_is_what_there_is_without_it(self):
        self.assertEqual(self.job()[0], self.job(compute_dtype="float32")[0])

    def test_other_types_are_refused(self):
        _, _, said = self.train(("supervised", {}), status=2, loss={"name": "mse"}, compute_dtype="float16")
        self.assertIn("tensord.compute_dtype", said)
        self.assertIn("bfloat16", said)


class MixedPolicy(Graphs):
    """Beside Keras's mixed_bfloat16, which rounds at more places (biases, activations): the losses of both fall along one curve."""

    def model(self, policy):
        keras.config.set_dtype_policy(policy)
        try:
            i = keras.Input((12, 12, 3), name="x")
            L = keras.layers
            y = L.Conv2D(16, 3, padding="same", activation="relu")(i)
            y = L.DepthwiseConv2D(3, padding="same")(y)
            y = L.MaxPooling2D()(L.BatchNormalization()(y))
            y = L.LayerNormalization()(L.Conv2DTranspose(8, 2, strides=1, padding="same")(y))
            y = L.Reshape((36, 8))(y)
            y = y + L.MultiHeadAttention(2, 4)(y, y)
            y = L.LSTM(16)(y)
            return keras.Model(i, L.Dense(4, "softmax", dtype="float32")(y))
        finally:
            keras.config.set_dtype_policy("float32")

    def test_losses_fall_along_one_curve(self):
        label = self.r.integers(0, 4, 96)
        x = (self.r.standard_normal((96, 12, 12, 3)) * .5 + label[:, None, None, None] * .5).astype(np.float32)
        self.rows("train.jsonl", x, label)
        plain, mixed = self.model("float32"), self.model("mixed_bfloat16")
        plain.export(os.path.join(self.base, "1"), verbose=False)
        mixed.set_weights(plain.get_weights())
        mixed.trainable = False     # the graph that is exported has normalisation as it is served
        want, own = [], [v for layer in mixed.layers for v in layer.weights if "moving" not in v.path and "seed" not in v.path]
        optimizer = keras.optimizers.Adam(0.01)
        optimizer.build(own)

        @tf.function
        def loss_of(x, y):
            with tf.GradientTape() as tape:
                for v in own:
                    tape.watch(v.value)
                loss = tf.reduce_mean(keras.losses.sparse_categorical_crossentropy(y, mixed(x, training=False)))
            return loss, tape.gradient(loss, [v.value for v in own])
        for at in [b for _ in range(3) for b in range(0, 96, 16)]:
            loss, gradients = loss_of(x[at:at + 16], label[at:at + 16])
            optimizer.apply(gradients, own)
            want.append(float(loss))
        got, _, _ = self.train(("supervised", {}), loss={"name": "sparse_categorical_crossentropy"}, compute_dtype="bfloat16")
        np.testing.assert_allclose(got[:6], want[:6], rtol=.01)
        np.testing.assert_allclose(np.mean(np.reshape(got, (3, 6)), 1), np.mean(np.reshape(want, (3, 6)), 1), rtol=.05)
        self.assertLess(np.mean(got[-6:]), .8 * got[0])


if __name__ == "__main__":
    unittest.main()
