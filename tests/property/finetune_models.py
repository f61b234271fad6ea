"""Small random models for finetune_draws.py, saved in the ways that people save them: Keras 3 exports, a tf.Module with a signature of its
own, and a TF1 graph with a Saver.

draw(rng, folder) saves one and returns {"kind", "signature", "inputs": {name: feature}, "outputs": {name: head}}:
  feature   {"dtype", "shape", "below"}   of one row; below: ids are under it; words: strings of WORDS; time: free length, drawn a batch
  head      {"shape", "gives"}            gives: real, positive, logits, probs (softmax), sigmoid: what loss suits it
"twin", where it is there, is the same model in a form whose variables tf.saved_model.load shows.

Every variable starts with random values, its statistics too, so that two variables never hold the same bytes: by this finetune_keras.py
tells which checkpoint keys hold a variable.
"""
import os

import numpy as np

WORDS = ["red", "green", "blue", "black", "white", "grey", "brown"]
ACTIVATIONS = ["relu", "tanh", "gelu", "elu", "swish", "softplus", "sigmoid", "linear", "selu", "leaky_relu"]
GIVES = {"real": "linear", "positive": "softplus", "logits": "linear", "probs": "softmax", "sigmoid": "sigmoid"}


def unlike(rng, values, name):
    """Random values about those that it has."""
    made = np.asarray(values, np.float64) + 0.08 * rng.standard_normal(np.shape(values))
    return np.abs(made) + 0.2 if "variance" in name else made


def head(rng, gives=None, wide=None):
    gives = gives or str(rng.choice(list(GIVES)))
    n = int(rng.integers(2, 6)) if gives == "probs" else int(rng.choice([1, 1, 2, 3, 4]))
    return {"gives": gives, "shape": [wide or n]}


def real(*shape, **more):
    return {"dtype": "float32", "shape": list(shape), **more}


def ids(*shape, below):
    return {"dtype": "int32", "shape": list(shape), "below": below}


# ---------------------------------------------------------------- Keras

def keras_features(rng, family):
    """Inputs of the family and the layer from them to [batch, n] or [batch, time, n]."""
    from keras import layers as L
    pick = lambda *a: a[int(rng.integers(len(a)))]
    act = lambda: str(rng.choice(ACTIVATIONS))
    width = lambda: int(rng.integers(3, 10))
    if family == "dense":
        return {"x": real(width())}, lambda i: i["x"]
    if family == "wide":
        def join(i):
            return L.Concatenate()([L.Flatten()(L.Embedding(9, 3, name="wide_ids")(i["id"])), L.Dense(width(), act())(i["x"])])
        return {"x": real(width()), "id": ids(2, below=9)}, join
    if family == "image":
        conv = pick(L.Conv2D, L.SeparableConv2D)
        pool = pick(L.GlobalAveragePooling2D, L.Flatten, L.GlobalMaxPooling2D)

        def see(i):
            y = conv(width(), 3, padding=pick("same", "valid"), strides=pick(1, 2), activation=act())(i["image"])
            if rng.random() < .5:
                y = L.BatchNormalization()(y)
            if rng.random() < .3:
                y = L.DepthwiseConv2D(3, padding="same")(y)
            return pool()(L.Dropout(.3)(y))
        return {"image": real(7, 6, int(rng.integers(1, 4)))}, see
    if family == "signal":
        def hear(i):
            y = L.Conv1D(width(), 3, padding=pick("causal", "same"), activation=act())(i["x"])
            return pick(L.GlobalAveragePooling1D, L.Flatten)()(L.AveragePooling1D(2)(y))
        return {"x": real(8, 3)}, hear
    if family == "text":
        return {"ids": ids(6, below=12)}, lambda i: L.GlobalAveragePooling1D()(L.Embedding(12, width())(i["ids"]))
    if family == "rnn":
        def run(i):
            y = L.Embedding(11, 4)(i["ids"])
            cell = pick(L.LSTM, L.GRU, L.SimpleRNN)
            many = rng.random() < .4
            y = cell(width(), return_sequences=many)(y)
            return y
        return {"ids": ids(5, below=11)}, run
    if family == "attention":
        def attend(i):
            y = L.Dense(4)(i["x"])
            y = L.LayerNormalization()(y + L.MultiHeadAttention(2, 3)(y, y))
            return y if rng.random() < .6 else L.GlobalAveragePooling1D()(y)
        return {"x": real(4, 3)}, attend
    if family == "bidirectional":
        return {"x": real(4, 3)}, lambda i: L.Bidirectional(pick(L.LSTM, L.GRU)(width()))(i["x"])
    raise KeyError(family)


KERAS = ["dense", "dense", "wide", "image", "signal", "text", "rnn", "attention", "bidirectional"]


def draw_keras(rng, folder):
    import keras
    from keras import layers as L
    keras.utils.set_random_seed(int(rng.integers(1 << 30)))
    family = KERAS[int(rng.integers(len(KERAS)))]
    features, body = keras_features(rng, family)
    tensors = {n: keras.Input(f["shape"], dtype=f["dtype"], name=n) for n, f in features.items()}
    y = body(tensors)
    for _ in range(int(rng.integers(0, 3))):
        y = L.Dense(int(rng.integers(3, 9)), str(rng.choice(ACTIVATIONS)), use_bias=bool(rng.random() < .8))(y)
        if rng.random() < .25:
            y = (L.LayerNormalization if rng.random() < .6 else L.BatchNormalization)()(y)
        if rng.random() < .2:
            y = L.Dropout(.4)(y)
    n_heads = 1 if rng.random() < .7 else 2
    heads = {f"out{i}" if n_heads > 1 else "y": head(rng) for i in range(n_heads)}
    outs = {n: L.Dense(h["shape"][0], GIVES[h["gives"]], name=f"head_{n}")(y) for n, h in heads.items()}
    for n, h in heads.items():
        h["shape"] = [int(d) for d in outs[n].shape[1:]]
    model = keras.Model(tensors, outs)
    for v in model.variables:
        if v.dtype in ("float32", "float64"):
            v.assign(unlike(rng, v.numpy(), v.path))
    if rng.random() < .25:
        layers = [l for l in model.layers if l.weights and not l.name.startswith("head_")]
        if layers:
            layers[int(rng.integers(len(layers)))].trainable = False
    model.export(folder, verbose=False)
    return {"kind": f"keras {family}", "signature": "serving_default", "inputs": features, "outputs": heads}


# ---------------------------------------------------------------- tf.Module

def draw_module(rng, folder):
    import tensorflow as tf
    width = int(rng.integers(3, 7))
    hidden = int(rng.integers(3, 9))
    precise = str(rng.choice(["float32", "float32", "float64", "float16"]))
    body = str(rng.choice(["plain", "words", "scan", "tied", "rows"]))
    free = body == "rows"
    heads = {"scores": head(rng)}
    if rng.random() < .35:
        heads["other"] = head(rng)
    column = rng.random() < .25
    for h in heads.values():
        if column and h["shape"] == [1]:
            h["shape"] = []
    features = {"words": {"dtype": "string", "shape": [3], "words": True}} if body == "words" else \
        {"x": real(5 if body == "scan" else 0, width)} if body == "scan" else {"x": real(0, width, time=True)} if free else {"x": real(width)}
    act = getattr(tf.nn, str(rng.choice(["relu", "tanh", "gelu", "softplus", "sigmoid", "elu"])))

    def variable(name, *shape, trainable=True, dtype=precise, scale=.5):
        return tf.Variable((scale * rng.standard_normal(shape)).astype(dtype), name=name, trainable=trainable)
    m = tf.Module()
    n_in = 4 if body == "words" else width
    m.layer = tf.Module()
    m.layer.w = variable("body/w", n_in, hidden)
    m.layer.b = variable("body/b", hidden)
    m.scale = variable("scale", hidden, trainable=False, dtype="float32")
    m.spare = variable("spare", 2)          # no signature reads it
    m.calls = tf.Variable(7, name="calls", trainable=False)
    if body == "words":
        m.table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(WORDS[:-1], np.arange(6, dtype=np.int64)), 6)
        m.words = variable("words/table", 7, 4)
    if body == "scan":
        m.back = variable("body/back", hidden, hidden, scale=.3)
    m.heads = {n: [variable(f"{n}/kernel", hidden, (h["shape"] or [1])[0]), variable(f"{n}/bias", (h["shape"] or [1])[0])] for n, h in heads.items()}
    up = lambda v: tf.cast(v, tf.float32) if precise == "float16" else v   # half is for keeping, not for computing

    def compute(x):
        if body == "words":
            x = tf.reduce_mean(tf.nn.embedding_lookup(up(m.words), m.table.lookup(x)), 1)
        elif precise == "float64":
            x = tf.cast(x, tf.float64)
        wide = tf.float64 if precise == "float64" else tf.float32
        if body == "scan":
            state = tf.zeros([tf.shape(x)[0], hidden], wide)
            for step in range(5):
                state = act(tf.matmul(x[:, step], up(m.layer.w)) + tf.matmul(state, up(m.back)) + up(m.layer.b))
            y = state
        elif body == "tied":
            y = act(tf.matmul(x, up(m.layer.w)) + up(m.layer.b))
            y = act(tf.matmul(tf.matmul(y, up(m.layer.w), transpose_b=True), up(m.layer.w)))
        elif free:
            y = act(tf.einsum("btn,nh->bth", x, up(m.layer.w)) + up(m.layer.b))
            y = tf.reduce_max(y, 1) if pooled else y
        else:
            y = act(tf.matmul(x, up(m.layer.w)) + up(m.layer.b))
        y = y * tf.cast(m.scale, y.dtype)
        outs = {}
        for n, h in heads.items():
            z = tf.tensordot(y, up(m.heads[n][0]), 1) + up(m.heads[n][1])
            z = {"softplus": tf.nn.softplus, "softmax": tf.nn.softmax, "sigmoid": tf.nn.sigmoid, "linear": tf.identity}[GIVES[h["gives"]]](z)
            outs[n] = z[..., 0] if h["shape"] == [] else z
        return outs
    pooled = rng.random() < .5
    if free and not pooled:
        for h in heads.values():
            h["shape"] = ["time"] + (h["shape"] or [1])
    name, f = next(iter(features.items()))
    spec = tf.TensorSpec([None] + ([None, width] if free else [5, width] if body == "scan" else f["shape"]), f["dtype"], name)
    features = {name: {**f, "shape": ["time", width] if free else [5, width] if body == "scan" else f["shape"]}}
    signature = str(rng.choice(["serving_default", "predict"]))
    m.f = tf.function(compute, input_signature=[spec])
    other = tf.function(lambda x: {"sum": tf.reduce_sum(x)}, input_signature=[tf.TensorSpec([None], tf.float32, "x")])
    tf.saved_model.save(m, folder, signatures={signature: m.f, "sum": other})
    return {"kind": f"module {body} {precise}", "signature": signature, "inputs": features, "outputs": heads}


# ---------------------------------------------------------------- TF1

def save_graph(folder, values, gives, resource):
    """A graph of two layers whose variables hold these values."""
    import tensorflow as tf
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as sess:
        x = v1.placeholder(tf.float32, [None, len(values["w1"])], "x")
        with v1.variable_scope("tower", use_resource=resource):
            v = {n: v1.get_variable(n, initializer=value, trainable=n != "fixed") for n, value in values.items()}
        z = tf.matmul(tf.nn.tanh(tf.matmul(x, v["w1"]) + v["b1"]) * v["fixed"], v["w2"]) + v["b2"]
        out = {"softplus": tf.nn.softplus, "softmax": tf.nn.softmax, "sigmoid": tf.nn.sigmoid, "linear": tf.identity}[GIVES[gives]](z)
        sess.run(v1.global_variables_initializer())
        builder = v1.saved_model.Builder(folder)
        sig = v1.saved_model.predict_signature_def({"x": x}, {"scores": out})
        builder.add_meta_graph_and_variables(sess, ["serve"], {"serving_default": sig})
        builder.save()


def draw_graph(rng, folder):
    width, hidden, scores, resource = int(rng.integers(3, 7)), int(rng.integers(3, 8)), head(rng), bool(rng.random() < .5)
    n = scores["shape"][0]
    values = {name: (.5 * rng.standard_normal(s)).astype(np.float32)
              for name, s in (("w1", (width, hidden)), ("b1", hidden), ("fixed", hidden), ("w2", (hidden, n)), ("b2", n))}
    save_graph(folder, values, scores["gives"], resource)
    made = {"kind": f"tf1 {'resource' if resource else 'reference'} variables", "signature": "serving_default", "inputs": {"x": real(width)},
            "outputs": {"scores": scores}}
    if not resource:   # tf.saved_model.load shows no reference variables: the same in resource ones
        made["twin"] = os.path.join(os.path.dirname(os.path.dirname(folder)), "twin")
        save_graph(made["twin"], values, scores["gives"], True)
    return made


def draw(rng, folder):
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    return [draw_keras, draw_keras, draw_keras, draw_module, draw_module, draw_graph][int(rng.integers(6))](rng, folder)
