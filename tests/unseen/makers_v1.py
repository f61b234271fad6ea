"""SavedModels of TensorFlow 1's ways: Builder, simple_save, frozen graphs, tables, assets, init ops, Classify and Regress signatures, control flow of frames."""
import os
import tempfile

import numpy as np
from harness import Lazy, case, floats, ints, model

tf = Lazy("tensorflow")
v1 = Lazy("tensorflow.compat.v1")
core = Lazy("tf_keras.src.legacy_tf_layers.core")
convolution = Lazy("tf_keras.src.legacy_tf_layers.convolutional")
pools = Lazy("tf_keras.src.legacy_tf_layers.pooling")
norms = Lazy("tf_keras.src.legacy_tf_layers.normalization")
cells = Lazy("tf_keras.src.layers.rnn.legacy_cells")


class Graph:
    """A graph under construction; save() writes it."""

    def __enter__(self):
        self.graph = tf.Graph()
        self.scope = self.graph.as_default()
        self.scope.__enter__()
        v1.set_random_seed(7)
        self.session = v1.Session()
        return self

    def start(self):
        self.session.run([v1.global_variables_initializer(), v1.local_variables_initializer(), v1.tables_initializer()])

    def save(self, folder, signatures, tags=("serve",), method=None, **more):
        self.start()
        sm = v1.saved_model
        built = {}
        for key, sides in signatures.items():
            ins, outs, *rest = sides
            info = [{k: sm.build_tensor_info(t) for k, t in side.items()} for side in (ins, outs)]
            built[key] = sm.build_signature_def(*info, rest[0] if rest else "tensorflow/serving/predict")
        builder = sm.Builder(folder)
        builder.add_meta_graph_and_variables(self.session, list(tags), built, **more)
        builder.save()

    def __exit__(self, *args):
        self.scope.__exit__(*args)
        self.session.close()


def variable(name, *shape, seed=3, **more):
    return v1.get_variable(name, initializer=floats(seed, *shape), **more)


@model
def simple_save_mlp(folder):
    with Graph() as g:
        x = v1.placeholder(tf.float32, [None, 5], "x")
        h = tf.nn.relu(tf.matmul(x, variable("w", 5, 4)) + variable("b", 4))
        y = tf.nn.softmax(tf.matmul(h, variable("w2", 4, 3)), name="y/probs")
        g.start()
        v1.saved_model.simple_save(g.session, folder, {"x": x}, {"probs": y, "label": tf.argmax(y, 1)})
    yield case({"x": floats(1, 3, 5)})


@model
def frozen_resource(folder):
    with Graph() as g:
        x = v1.placeholder(tf.float32, [None, 6, 6, 2], "in")
        w = v1.get_variable("w", initializer=floats(1, 3, 3, 2, 4), use_resource=True)
        h = tf.nn.conv2d(x, w, 1, "SAME", name="conv")
        h = norms.batch_normalization(h, training=False)
        y = tf.identity(tf.reduce_mean(tf.nn.relu6(h), [1, 2]), "out")
        g.start()
        frozen = v1.graph_util.convert_variables_to_constants(g.session, g.graph.as_graph_def(), ["out"])
    with Graph() as g:
        x, y = tf.import_graph_def(frozen, return_elements=["in:0", "out:0"], name="imported/net")
        g.save(folder, {"serving_default": ({"image": x}, {"pooled": y})})
    yield case({"image": floats(1, 2, 6, 6, 2)})


def asset(text, name):
    path = os.path.join(tempfile.mkdtemp(), name)
    with open(path, "w") as f:
        f.write(text)
    return path


@model
def text_assets(folder):
    with Graph() as g:
        words = asset("the\ncat\nsat\nmat\n", "vocab.txt")
        pairs = asset("the\t3\ncat\t9\nmat\t-4\n", "pairs.tsv")
        v1.add_to_collection(v1.GraphKeys.ASSET_FILEPATHS, tf.constant(words))
        ids = tf.lookup.StaticVocabularyTable(tf.lookup.TextFileInitializer(words, tf.string, -2, tf.int64, -1), 3)
        back = tf.lookup.StaticHashTable(tf.lookup.TextFileInitializer(words, tf.int64, -1, tf.string, -2), "none")
        both = tf.lookup.StaticHashTable(tf.lookup.TextFileInitializer(pairs, tf.string, 0, tf.int64, 1), -1)
        x = v1.placeholder(tf.string, [None], "x")
        i = ids.lookup(x)
        g.save(folder, {"serving_default": ({"x": x}, {"ids": i, "back": back.lookup(i), "pair": both.lookup(x)})},
               assets_collection=v1.get_collection(v1.GraphKeys.ASSET_FILEPATHS), main_op=v1.tables_initializer())
    yield case({"x": ["the", "mat", "dog", ""]})


@model(vary=False)
def legacy_init_op(folder):
    with Graph() as g:
        table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["a", "b"], [1., 2.5]), -1.)
        x = v1.placeholder(tf.string, [None, None], "x")
        count = v1.get_variable("started", initializer=0., trainable=False, use_resource=True)
        init = tf.group(v1.tables_initializer(), count.assign_add(1))
        g.save(folder, {"serving_default": ({"x": x}, {"y": table.lookup(x) + count})}, legacy_init_op=init)
    yield case({"x": [["a", "zz"], ["b", "b"]]})


@model
def classify_regress(folder):
    with Graph() as g:
        serialized = v1.placeholder(tf.string, [None], "examples")
        f = tf.io.parse_example(serialized, {"num": tf.io.FixedLenFeature([3], tf.float32, [0., 1., 2.]), "cat": tf.io.VarLenFeature(tf.string), "id": tf.io.FixedLenFeature([], tf.int64, 7),
                                             "w": tf.io.VarLenFeature(tf.float32)})
        buckets = tf.strings.to_hash_bucket_fast(tf.sparse.to_dense(f["cat"], ""), 10)
        e = tf.reduce_sum(tf.gather(variable("e", 10, 2), buckets), 1)
        logits = tf.matmul(tf.concat([f["num"], e], 1), variable("w", 5, 3)) + tf.sparse.reduce_sum(f["w"], 1, keepdims=True)
        scores, n = tf.nn.softmax(logits), tf.shape(serialized)[0]
        classes = tf.tile(tf.constant([["no", "maybe", "yes"]]), [n, 1])
        g.save(folder, {"serving_default": ({"inputs": serialized}, {"scores": scores, "classes": classes}, "tensorflow/serving/classify"),
                        "regress": ({"inputs": serialized}, {"outputs": logits[:, 0]}, "tensorflow/serving/regress"),
                        "predict": ({"examples": serialized}, {"logits": logits, "id": f["id"]})})

    def example(**features):
        kinds = {float: ("float_list", tf.train.FloatList), int: ("int64_list", tf.train.Int64List), str: ("bytes_list", tf.train.BytesList)}
        feature = {}
        for k, v in features.items():
            field, cls = kinds[type(v[0])]
            feature[k] = tf.train.Feature(**{field: cls(value=[x.encode() if isinstance(x, str) else x for x in v])})
        return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()
    rows = [example(num=[1., 2., 3.], cat=["a", "b"]), example(), example(cat=["zz"], w=[.5, .25], id=[9])]
    yield case({"inputs": rows})
    yield case({"inputs": rows}, signature="regress")
    yield case({"examples": rows}, signature="predict")
    yield case({"examples": [example(num=[1., 2.])]}, signature="predict", id="short")
    yield case({"examples": [example(num=["a"])]}, signature="predict", id="kind")
    yield case({"examples": [b"\x01junk"]}, signature="predict", id="junk")


@model
def two_meta_graphs(folder):
    with Graph() as g:
        x = v1.placeholder(tf.float32, [None], "x")
        y = x * variable("k", 1)
        g.start()
        sm = v1.saved_model
        builder = sm.Builder(folder)
        sig = sm.predict_signature_def({"x": x}, {"y": y})
        builder.add_meta_graph_and_variables(g.session, ["train"], {"train": sig})
        builder.add_meta_graph(["serve"], {"serving_default": sig, "other": sm.predict_signature_def({"x": y}, {"z": -y})})
        builder.add_meta_graph(["serve", "gpu"], {"serving_default": sig})
        builder.save()
    yield case({"x": floats(1, 4)})
    yield case({"x": floats(1, 4)}, signature="other")


@model
def partitioned_reference(folder):
    with Graph() as g:
        step = v1.get_variable("step", initializer=np.int64(3), use_resource=False)
        ids = v1.placeholder(tf.int64, [None, 2], "ids")
        with v1.variable_scope("net", partitioner=v1.fixed_size_partitioner(3), use_resource=False):
            table = v1.get_variable("table", [11, 4], initializer=v1.random_normal_initializer(seed=3))
        e = tf.nn.embedding_lookup(table, ids)
        mod = v1.nn.embedding_lookup(list(table), ids % 8, partition_strategy="mod")
        g.save(folder, {"serving_default": ({"ids": ids}, {"sum": tf.reduce_sum(e, 1), "mod": mod, "step": tf.identity(step), "norm": v1.norm(tf.convert_to_tensor(table), axis=1)})})
    yield case({"ids": [[0, 10], [5, 5], [3, 4]]})
    yield case({"ids": [[0, 11]]}, id="too_large")


@model
def dynamic_rnn(folder):
    with Graph() as g:
        x, n = v1.placeholder(tf.float32, [None, None, 3], "x"), v1.placeholder(tf.int32, [None], "n")
        w, b = variable("w", 3 + 4, 4), variable("b", 4)
        xs = v1.TensorArray(tf.float32, tf.shape(x)[1]).unstack(tf.transpose(x, [1, 0, 2]))

        def step(t, h, ys):
            new = tf.tanh(tf.matmul(tf.concat([xs.read(t), h], 1), w) + b)
            h = tf.where(tf.less(t, n)[:, None] & tf.ones([1, 4], tf.bool), new, h)
            return t + 1, h, ys.write(t, h)
        ys = v1.TensorArray(tf.float32, 0, dynamic_size=True)
        t, h, ys = v1.while_loop(lambda t, *_: t < tf.shape(x)[1], step, (0, tf.zeros([tf.shape(x)[0], 4]), ys), parallel_iterations=4, back_prop=False)
        g.save(folder, {"serving_default": ({"x": x, "n": n}, {"last": h, "all": tf.transpose(ys.stack(), [1, 0, 2]), "steps": t})})
    yield case({"x": floats(1, 3, 5, 3), "n": [5, 2, 0]})


@model
def frames(folder):
    """Loops within loops within conditions, by Switch, Merge, Enter and Exit."""
    v1.disable_control_flow_v2()
    try:
        with Graph() as g:
            x = v1.placeholder(tf.float32, [None], "x")
            k = v1.placeholder(tf.int32, [], "k")

            def outer(i, a):
                _, a = v1.while_loop(lambda j, _: j < i, lambda j, a: (j + 1, v1.cond(tf.equal(j % 2, 0), lambda: a * 1.5, lambda: a - x)), (0, a))
                return i + 1, a
            _, y = v1.while_loop(lambda i, _: i < k, outer, (0, x))
            z = v1.cond(k > 2, lambda: v1.cond(k > 3, lambda: y + 10, lambda: y - 10), lambda: v1.while_loop(lambda a: tf.reduce_sum(a) < 5, lambda a: a + 1., [x])[0] if True else y)
            case_of = v1.case([(tf.equal(k, 1), lambda: tf.constant("one")), (tf.equal(k, 2), lambda: tf.constant("two"))], default=lambda: tf.as_string(k), exclusive=True)
            g.save(folder, {"serving_default": ({"x": x, "k": k}, {"y": y, "z": z, "name": case_of})})
    finally:
        v1.enable_control_flow_v2()
    for k in (0, 1, 2, 3, 4):
        yield case({"x": floats(1, 3, low=.1), "k": np.int32(k)}, id=f"k{k}")


@model
def defuns_in_frames(folder):
    """Functions of TF1 that hold constants and print, called by their names within loops and conditions."""
    from tensorflow.python.framework import function
    v1.disable_control_flow_v2()
    try:
        @function.Defun(tf.float32, shape_func=lambda op: [op.inputs[0].shape])
        def affine(x):
            with tf.control_dependencies([v1.Print(x, [x], "affine of ")]):
                return x * tf.constant(2.) + tf.constant(1.)

        @function.Defun(tf.float32, shape_func=lambda op: [tf.TensorShape([])])
        def seven(x):
            return tf.constant(7.)
        with Graph() as g:
            x = v1.placeholder(tf.float32, [3], "x")
            once = v1.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, affine(y)), [0, x])[1]

            def outer(i, y):
                z = v1.while_loop(lambda j, w: j < 2, lambda j, w: (j + 1, affine(w) - seven(w)), [0, y])[1]
                return i + 1, z + affine(y) * seven(y)
            twice = v1.while_loop(lambda i, y: i < 2, outer, [0, affine(x)])[1]
            either = v1.cond(x[0] > 0, lambda: affine(x) + seven(x), lambda: seven(x) - affine(x))
            g.save(folder, {"serving_default": ({"x": x}, {"once": once, "twice": twice, "either": either})})
    finally:
        v1.enable_control_flow_v2()
    for start in (1.5, -1.5):
        yield case({"x": np.float32([start, 0, 2])}, id=f"from_{start}")


@model
def defaults_and_dropout(folder):
    with Graph() as g:
        x = v1.placeholder(tf.float32, [None, 8], "x")
        keep = v1.placeholder_with_default(1., [], "keep")
        training = v1.placeholder_with_default(False, [], "training")
        h = norms.batch_normalization(core.dense(x, 6, tf.nn.relu, kernel_initializer=v1.glorot_uniform_initializer(seed=2)), training=training)
        h = v1.nn.dropout(h, keep_prob=keep)
        y = core.dense(h, 2, kernel_initializer=v1.glorot_uniform_initializer(seed=3))
        g.save(folder, {"serving_default": ({"x": x}, {"y": y}), "full": ({"x": x, "keep": keep, "training": training}, {"y": y, "h": h})})
    yield case({"x": floats(1, 3, 8)})
    yield case({"x": floats(1, 3, 8), "keep": np.float32(1), "training": np.bool_(True)}, signature="full")


@model
def layers_cnn(folder):
    with Graph() as g:
        s = lambda n: v1.glorot_uniform_initializer(seed=n)
        x = v1.placeholder(tf.uint8, [None, 14, 14, 1], "image")
        h = tf.image.convert_image_dtype(x, tf.float32)
        h = convolution.conv2d(h, 4, 5, activation=tf.nn.relu, kernel_initializer=s(1))
        h = v1.nn.lrn(pools.max_pooling2d(h, 2, 2), 2, bias=1., alpha=.1, beta=.75)
        h = convolution.separable_conv2d(h, 6, 3, depthwise_initializer=s(2), pointwise_initializer=s(3))
        h = convolution.conv2d_transpose(h, 3, 3, 2, kernel_initializer=s(4), activation=tf.nn.leaky_relu)
        y = core.dense(core.flatten(h), 4, kernel_initializer=s(5))
        top = tf.nn.top_k(y, 2)
        g.save(folder, {"serving_default": ({"image": x}, {"y": y, "values": top.values, "indices": top.indices})})
    yield case({"image": ints(1, 2, 14, 14, 1, high=256, dtype=np.uint8)})


@model
def feature_columns(folder):
    with Graph() as g:
        fc = tf.feature_column
        serialized = v1.placeholder(tf.string, [None], "input_example_tensor")
        age = fc.numeric_column("age", normalizer_fn=lambda v: (v - 30) / 10)
        job = fc.categorical_column_with_vocabulary_list("job", ["cook", "clerk", "judge"], num_oov_buckets=2)
        town = fc.categorical_column_with_hash_bucket("town", 8)
        zone = fc.categorical_column_with_identity("zone", 5, default_value=0)
        cross = fc.crossed_column([fc.bucketized_column(age, [0., 1.]), "town"], 12)
        weighted = fc.weighted_categorical_column(town, "weight")
        columns = [age, fc.indicator_column(job), fc.embedding_column(town, 3, combiner="sqrtn", initializer=v1.random_normal_initializer(seed=4)), fc.indicator_column(cross),
                   fc.bucketized_column(age, [-1., 0., 2.]), fc.embedding_column(zone, 2, max_norm=.5, initializer=v1.random_normal_initializer(seed=5)),
                   fc.embedding_column(weighted, 2, combiner="mean", initializer=v1.random_normal_initializer(seed=6))]
        parsed = tf.io.parse_example(serialized, fc.make_parse_example_spec(columns))
        net = v1.feature_column.input_layer(parsed, columns)
        linear = v1.feature_column.linear_model(parsed, [age, job, cross, weighted], units=2)
        y = tf.sigmoid(tf.matmul(net, variable("w", net.shape[1], 1)) + linear)
        g.save(folder, {"serving_default": ({"inputs": serialized}, {"outputs": y}, "tensorflow/serving/regress"), "predict": ({"examples": serialized}, {"net": net, "y": y, "linear": linear})},
               main_op=v1.tables_initializer())

    def example(**f):
        feature = {}
        for k, v in f.items():
            if isinstance(v[0], str):
                feature[k] = tf.train.Feature(bytes_list=tf.train.BytesList(value=[x.encode() for x in v]))
            elif isinstance(v[0], int):
                feature[k] = tf.train.Feature(int64_list=tf.train.Int64List(value=v))
            else:
                feature[k] = tf.train.Feature(float_list=tf.train.FloatList(value=v))
        return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()
    rows = [example(age=[41.], job=["judge"], town=["york", "bath"], weight=[.5, 2.], zone=[3]), example(age=[12.], job=["pilot", "cook"], town=["ely"], weight=[1.]), example(age=[0.], zone=[99])]
    yield case({"examples": rows}, signature="predict")
    yield case({"inputs": rows})
    yield case({"examples": [example(job=["cook"])]}, signature="predict", id="lacks_age")


@model(vary=False)
def refused_py_func(folder):
    with Graph() as g:
        x = v1.placeholder(tf.float32, [None], "x")
        g.save(folder, {"serving_default": ({"x": x}, {"y": v1.py_func(lambda v: v + 1, [x], tf.float32)}), "fine": ({"x": x}, {"y": x + 1})})
    yield case({"x": floats(1, 2)}, signature="fine")
    yield case({"x": floats(1, 2)}, error={"code": ["UNIMPLEMENTED", "INVALID_ARGUMENT", "FAILED_PRECONDITION"], "contains": ["PyFunc"]})


@model(stateful=True, vary=False)
def mutable_v1(folder):
    with Graph() as g:
        x, k = v1.placeholder(tf.float32, [None, 2], "x"), v1.placeholder(tf.int32, [None], "k")
        a = v1.get_variable("a", initializer=floats(1, 5, 2), use_resource=False)
        c = v1.get_variable("c", initializer=np.int64(10), use_resource=True)
        add = v1.scatter_add(a, k, x)
        with tf.control_dependencies([add, c.assign_add(2)]):
            y, n = tf.identity(a.read_value() if hasattr(a, "read_value") else a), c.read_value()
        g.save(folder, {"serving_default": ({"x": x, "k": k}, {"a": y, "n": n}), "look": ({}, {"a": tf.identity(a), "n": tf.identity(c)}), "reset": ({}, {"done": a.assign(tf.zeros([5, 2]))})})
    yield case(signature="look")
    yield case({"x": floats(3, 3, 2), "k": [0, 4, 0]})
    yield case({"x": floats(3, 1, 2), "k": [5]}, id="out")
    yield case(signature="look")
    yield case(signature="reset")
    yield case({"x": floats(5, 1, 2), "k": [2]})


@model
def seq2seq_greedy(folder):
    """An encoder and a greedy decoder in one while loop that ends when all rows are done."""
    with Graph() as g:
        src = v1.placeholder(tf.int32, [None, None], "src")
        emb, we, wd, out = variable("emb", 9, 4, seed=1), variable("we", 8, 4, seed=2), variable("wd", 8, 4, seed=3), variable("out", 4, 9, seed=4)
        x = tf.nn.embedding_lookup(emb, src)
        h = tf.zeros([tf.shape(src)[0], 4])
        _, h = v1.while_loop(lambda t, _: t < tf.shape(src)[1], lambda t, h: (t + 1, tf.tanh(tf.matmul(tf.concat([x[:, t], h], 1), we))), (0, h))

        def step(t, h, token, done, tokens, score):
            h = tf.tanh(tf.matmul(tf.concat([tf.gather(emb, token), h], 1), wd))
            logp = tf.nn.log_softmax(tf.matmul(h, out) * 5)
            token = tf.where(done, tf.zeros_like(token), tf.argmax(logp, 1, output_type=tf.int32))
            score += tf.where(done, tf.zeros_like(score), tf.reduce_max(logp, 1))
            return t + 1, h, token, done | tf.equal(token, 2), tf.concat([tokens, token[:, None]], 1), score
        b = tf.shape(src)[0]
        start = (0, h, tf.ones([b], tf.int32), tf.zeros([b], tf.bool), tf.zeros([b, 0], tf.int32), tf.zeros([b]))
        shapes = (tf.TensorShape([]), h.shape, tf.TensorShape([None]), tf.TensorShape([None]), tf.TensorShape([None, None]), tf.TensorShape([None]))
        *_, tokens, score = v1.while_loop(lambda t, h, k, done, *_: (t < 7) & ~tf.reduce_all(done), step, start, shape_invariants=shapes)
        g.save(folder, {"serving_default": ({"src": src}, {"tokens": tokens, "score": score})})
    yield case({"src": ints(1, 4, 5, high=9)})


@model
def saved_under_names(folder):
    with Graph() as g:
        x = v1.placeholder(tf.float32, [], "scope/inner.x-1/in")
        y = tf.multiply(x, 2, name="a.b/c-d_e")
        many = tf.split(tf.stack([x, y, x + y]), 3, name="parts")
        g.save(folder, {"signature with spaces/and:colon": ({"in put/ü": x}, {"out.put-日本": y, "": many[2][0]}), "serving_default": ({"x": x}, {"third": many[2], "same": y, "again": y})})
    yield case({"x": np.float32(3)})
    yield case({"in put/ü": np.float32(3)}, signature="signature with spaces/and:colon")


@model(vary=False)
def no_inputs(folder):
    with Graph() as g:
        w = variable("w", 2, 3)
        g.save(folder, {"serving_default": ({}, {"w": tf.identity(w), "n": tf.constant([b"a", b"\xff\x00b"])}), "nothing": ({"x": v1.placeholder(tf.float32, [None], "x")}, {})})
    yield case({})


@model(rtol=1e-3)
def sparse_placeholder(folder):
    with Graph() as g:
        s = v1.sparse_placeholder(tf.float32, [None, 6], "s")
        y = tf.sparse.sparse_dense_matmul(s, variable("w", 6, 3))
        t = tf.sparse.transpose(tf.sparse.reorder(s))
        sm = v1.saved_model
        g.start()
        builder = sm.Builder(folder)
        ins = {"indices": s.indices, "values": s.values, "shape": s.dense_shape}
        builder.add_meta_graph_and_variables(g.session, ["serve"], {"serving_default": sm.predict_signature_def(ins, {"y": y, "ti": t.indices, "tv": t.values}),
                                                                     "coo": sm.build_signature_def({"s": sm.build_tensor_info(s)}, {"y": sm.build_tensor_info(y)}, "tensorflow/serving/predict")})
        builder.save()
    yield case({"indices": np.int64([[0, 1], [2, 5], [2, 0]]), "values": floats(1, 3), "shape": np.int64([3, 6])})
    yield case({"indices": np.int64([[0, 1], [3, 5]]), "values": floats(1, 2), "shape": np.int64([3, 6])}, id="outside")


@model
def string_pipeline_v1(folder):
    with Graph() as g:
        x = v1.placeholder(tf.string, [None], "x")
        words = v1.string_split(x, " ,")
        dense = tf.sparse.to_dense(words, default_value="")
        num = v1.string_to_number(tf.strings.regex_replace(tf.strings.join(["1", dense]), "[^0-9]", "0"), tf.int32)
        joined = v1.reduce_join(dense, 1, separator="_")
        sub = v1.substr(tf.strings.join([joined, "padding___"]), 1, 5)
        g.save(folder, {"serving_default": ({"x": x}, {"dense": dense, "num": num, "joined": joined, "sub": sub, "hash": v1.string_to_hash_bucket(dense, 100), "strong": tf.strings.to_hash_bucket_strong(dense, 100, [7, 8]),
                                                   "length": v1.strings.length(x, unit="UTF8_CHAR")})})
    yield case({"x": ["hello 12, w0rld", "", "a,b,,c", "äö"]})


@model(vary=False, stateful=True)
def queue_in_graph(folder):
    with Graph() as g:
        q = v1.FIFOQueue(10, [tf.float32, tf.int32], [[2], []])
        x, k = v1.placeholder(tf.float32, [None, 2], "x"), v1.placeholder(tf.int32, [None], "k")
        put = q.enqueue_many([x, k])
        with tf.control_dependencies([put]):
            size = q.size()
        a, b = q.dequeue()
        g.start()
        g.save(folder, {"put": ({"x": x, "k": k}, {"size": size}), "take": ({}, {"a": a, "b": b})})
    yield case({"x": floats(1, 3, 2), "k": [1, 2, 3]}, signature="put")
    yield case(signature="take")
    yield case(signature="take")


@model
def one_shot_iterator(folder):
    with Graph() as g:
        x = v1.placeholder(tf.float32, [None], "x")
        total = tf.data.Dataset.range(6).map(lambda i: i * i).filter(lambda i: i % 2 == 0).reduce(np.int64(0), lambda a, b: a + b)
        g.save(folder, {"serving_default": ({"x": x}, {"y": x * tf.cast(total, tf.float32)})})
    yield case({"x": floats(1, 2)})


@model
def grappler_bait(folder):
    """What TensorFlow's own optimiser rewrites: the answer must not depend on it."""
    with Graph() as g:
        x = v1.placeholder(tf.float32, [None, 4, 4, 2], "x")
        h = x / 4. * 4. + 0. - 0.
        h = tf.transpose(tf.transpose(h, [0, 3, 1, 2]), [0, 2, 3, 1])
        h = tf.nn.conv2d(tf.pad(h, [[0, 0], [1, 1], [1, 1], [0, 0]]), variable("w", 3, 3, 2, 3), 1, "VALID")
        bn = v1.nn.fused_batch_norm(h, floats(1, 3, low=.5), floats(2, 3), floats(3, 3), floats(4, 3, low=.5), is_training=False)[0]
        same = tf.add_n([bn, bn, bn]) - tf.add(tf.add(bn, bn), bn)
        square = tf.pow(bn, 2.) + tf.pow(bn, 3.) - tf.pow(tf.abs(bn), .5) + tf.pow(bn, 1.) + tf.pow(tf.abs(bn) + 1, -1.)
        z = tf.reshape(tf.reshape(square, [-1, 48]), [-1, 4, 4, 3])
        i = tf.cast(tf.cast(z, tf.int32), tf.float32)
        g.save(folder, {"serving_default": ({"x": x}, {"y": tf.sqrt(tf.square(z)), "same": same, "i": i, "not": tf.logical_not(tf.logical_not(z > 0)), "neg": -(-z), "max": -tf.reduce_max(-z, [1, 2])})})
    yield case({"x": floats(1, 2, 4, 4, 2)})


@model
def rnn_cells(folder):
    with Graph() as g:
        x, n = v1.placeholder(tf.float32, [None, None, 3], "x"), v1.placeholder(tf.int32, [None], "n")
        s = lambda k: v1.random_uniform_initializer(-.5, .5, seed=k)
        stack = cells.MultiRNNCell([cells.LSTMCell(4, use_peepholes=True, num_proj=3, cell_clip=2., initializer=s(1)), cells.GRUCell(3, kernel_initializer=s(2)), cells.BasicLSTMCell(2)])
        with v1.variable_scope("a", initializer=s(3)):
            outs, state = v1.nn.dynamic_rnn(stack, x, n, dtype=tf.float32)
        with v1.variable_scope("b", initializer=s(4)):
            both, last = v1.nn.bidirectional_dynamic_rnn(cells.BasicRNNCell(2), cells.GRUCell(3), x, n, dtype=tf.float32, time_major=False)
        with v1.variable_scope("c", initializer=s(5)):
            fixed, end = v1.nn.static_rnn(cells.BasicLSTMCell(3), tf.unstack(x[:, :2] + tf.zeros([1, 2, 3]), 2, 1), dtype=tf.float32)
        g.save(folder, {"serving_default": ({"x": x, "n": n}, {"outs": outs, "c": state[0].c, "h": state[2].h, "forward": both[0], "backward": both[1], "last": last[1], "fixed": fixed[1], "end": end.c})})
    yield case({"x": floats(1, 3, 5, 3), "n": [5, 2, 0]})
