"""Ways of saving: polymorphic functions without signatures, inputs and outputs in lists and dictionaries, subclasses, models in models, keras.ops."""
import numpy as np
from harness import Lazy, case, floats, last_dims, model, shake

keras = Lazy("keras")
L = Lazy("keras.layers")
k2 = Lazy("tf_keras")
L2 = Lazy("tf_keras.layers")
tf = Lazy("tensorflow")
ops = Lazy("keras.ops")


@model
def polymorphic_without_signatures(folder):
    m = tf.Module()
    m.v = tf.Variable([1., 2.])

    @tf.function
    def f(x, scale=2, name="a", flag=True):
        return x * scale if flag else (m.v * x, {"k": tf.constant(name)})
    f(tf.constant([1., 2.]))
    f(tf.constant([1, 2]), 3)
    f(tf.constant([1., 2.]), flag=False)
    m.f = f
    m.g = tf.function(lambda x, y=tf.constant(3.): x + y).get_concrete_function(tf.TensorSpec([None], name="x"), tf.TensorSpec([], name="y"))
    tf.saved_model.save(m, folder, signatures={"serving_default": tf.function(lambda x: {"y": f(x, 2), "z": f(x, flag=False)[0]}).get_concrete_function(tf.TensorSpec([2], name="x")), "g": m.g})
    yield case({"x": [1, 5]})
    yield case({"x": [1, 5], "y": 4}, signature="g")


@model
def keras_dict_io(folder):
    a, b = keras.Input((3,), name="Feature_A"), keras.Input((2,), name="b.c")
    h = L.Concatenate()([a, b])
    net = shake(keras.Model({"first": a, "second": b}, {"out/1": L.Dense(2)(h), "out:2": L.Dense(1, activation="sigmoid")(h)}))
    net.export(folder, verbose=False)
    yield case({k: floats(1, 2, n) for k, n in last_dims(folder).items()})


@model
def keras_list_io(folder):
    a, b = keras.Input((3,), name="a"), keras.Input((3,), name="b")
    net = shake(keras.Model([a, b], [L.Add()([a, b]), L.Dense(2)(a), L.Dense(1)(b)]))
    net.export(folder, verbose=False)
    yield case({k: floats(1, 2, n) for k, n in last_dims(folder).items()})


@model
def keras_subclass_export(folder):
    class Net(keras.Model):
        def __init__(self):
            super().__init__()
            self.d = [L.Dense(4, activation="mish"), L.Dense(2)]
            self.n = L.BatchNormalization()

        def call(self, x, training=False):
            h = self.n(self.d[0](x), training=training)
            if training:
                h = h * 0
            return self.d[1](h), ops.norm(h, axis=-1)
    net = Net()
    net(floats(1, 2, 3))
    shake(net)
    net.export(folder, verbose=False, input_signature=[tf.TensorSpec((None, 3), tf.float32, name="x")])
    yield case({"x": floats(1, 3, 3)})


@model
def keras_ops_zoo(folder):
    """keras.ops of all kinds, each an output; those that this Keras cannot trace are left out."""
    o = keras.ops
    tries = [
        lambda t: o.argsort(t, -1), lambda t: o.cumsum(t, 1), lambda t: o.diff(t, axis=-1), lambda t: o.digitize(t, np.array([-0.5, 0.0, 0.5])),
        lambda t: o.einsum("bij,bkj->bik", t, t), lambda t: o.flip(t, 1), lambda t: o.mean(t), lambda t: o.isclose(t, t), lambda t: o.logaddexp(t, -t),
        lambda t: o.logsumexp(t, 1), lambda t: o.median(t, 1), lambda t: o.moveaxis(t, 1, 2), lambda t: o.nan_to_num(t / o.relu(t)),
        lambda t: o.quantile(t, 0.3, axis=-1), lambda t: o.roll(t, 2, -1), lambda t: o.searchsorted(o.arange(5, dtype="float32") / 5, t[0, 0]), lambda t: o.sort(t, 1),
        lambda t: o.std(t, -1), lambda t: o.take_along_axis(t, o.argsort(t, -1), -1), lambda t: o.tril(t[:, :, :4]), lambda t: o.triu(t[:, :, :4], 1), lambda t: o.var(t, 1),
        lambda t: o.where(t > 0, t, 0), lambda t: o.top_k(t, 2)[1], lambda t: o.segment_sum(t[0], np.array([0, 0, 1, 2]), 3), lambda t: o.one_hot(o.argmax(t, -1), 6),
        lambda t: o.cross(t[..., :3], t[..., 3:]), lambda t: o.linalg.norm(t[:, :, :4], axis=(1, 2)), lambda t: o.linalg.inv(t[:, :, :4] + 5 * o.eye(4)), lambda t: o.linalg.det(t[:, :, :4]),
        lambda t: o.linalg.svd(t[:, :, :4], compute_uv=False), lambda t: o.linalg.solve(t[:, :, :4] + 5 * o.eye(4), t),
        lambda t: o.cholesky(o.matmul(t[:, :, :4], o.transpose(t[:, :, :4], (0, 2, 1))) + o.eye(4)), lambda t: o.erf(t), lambda t: o.erfinv(t / 2), lambda t: o.fft((t, t))[0],
        lambda t: o.rfft(t)[1], lambda t: o.image.resize(t[..., None], (3, 3)), lambda t: o.image.affine_transform(t[..., None], o.ones((o.shape(t)[0], 8)) * 0.1),
        lambda t: o.image.map_coordinates(t[0], np.array([[0.5, 1.0], [2.0, 3.3]]), 1), lambda t: o.conv(t, np.ones((2, 6, 3), "float32")), lambda t: o.max_pool(t, 2),
        lambda t: o.rms_normalization(t), lambda t: o.bincount(o.cast(o.abs(t[:, 0]) * 4, "int32"), minlength=5), lambda t: o.unravel_index(o.argmax(t[0]), (4, 6))[0],
        lambda t: o.lstsq(t[0, :, :4] + o.eye(4), t[0]), lambda t: o.slice_update(t, (0, 1, 0), o.zeros((1, 1, 2))), lambda t: o.scatter(np.array([[0], [2]]), t[0, :2], (4, 6)),
        lambda t: o.fori_loop(0, 3, lambda i, a: a * 2, t), lambda t: o.scan(lambda c, v: (c + v, c * v), o.zeros((4, 6)), t)[1],
        lambda t: o.dot_product_attention(t[:, :, None], t[:, :, None], t[:, :, None]),
        lambda t: o.ctc_decode(o.softmax(t), o.full((o.shape(t)[0],), 4), strategy="greedy")[0], lambda t: o.select([t > 0.5, t > 0], [t, -t], 0),
        lambda t: o.bitwise_and(o.cast(t * 9, "int32"), 5), lambda t: o.corrcoef(t[0]), lambda t: o.correlate(t[0, 0], t[0, 1], mode="same"), lambda t: o.kaiser(5, 3.0),
        lambda t: o.nanmean(t)]

    def traces(call):
        try:
            return bool(tf.function(lambda t: {"y": call(t)}).get_concrete_function(tf.TensorSpec([None, 4, 6], tf.float32)))
        except Exception:
            return False
    calls = [call for call in tries if traces(call)]

    class Net(keras.Model):
        def call(self, t):
            return {f"y{i:02d}": call(t) for i, call in enumerate(calls)}
    net = Net()
    net(floats(1, 2, 4, 6))
    net.export(folder, verbose=False, input_signature=[tf.TensorSpec([None, 4, 6], tf.float32, name="x")])
    yield case({"x": floats(1, 2, 4, 6)}, rtol=1e-3, atol=1e-4)


@model
def tfsm_layer_again(folder):
    inner = folder + ".inner"
    shake(keras.Sequential([keras.Input((3,), name="x"), L.Dense(4, activation="relu"), L.BatchNormalization()])).export(inner, verbose=False)
    x = keras.Input((3,), name="x")
    h = L.TFSMLayer(inner, call_endpoint="serve")(x)
    shake(keras.Model(x, L.Dense(2)(h))).export(folder, verbose=False)
    import shutil
    shutil.rmtree(inner)
    yield case({"x": floats(1, 2, 3)})


@model
def loaded_and_resaved(folder):
    inner = folder + ".inner"
    shake(k2.Sequential([L2.Input((3,), name="x"), L2.Dense(4, activation="tanh"), L2.Dense(2)])).save(inner, save_format="tf")
    loaded = tf.saved_model.load(inner)
    outer = tf.Module()
    outer.inner = loaded
    serve = tf.function(lambda x: {"y": tf.nn.softmax(list(loaded.signatures["serving_default"](x).values())[0])})
    tf.saved_model.save(outer, folder, signatures=serve.get_concrete_function(tf.TensorSpec([None, 3], name="x")))
    import shutil
    shutil.rmtree(inner)
    yield case({"x": floats(1, 2, 3)})
