"""Makes the SavedModels that the end-to-end tests serve, with TensorFlow, once.

    python tests/e2e/models.py DIR      leaves DIR/half/{1,2}, DIR/types/1, DIR/tf1/1, DIR/batching/1,
                                        DIR/widths/1, DIR/branches/1, DIR/gradients/1 and DIR/parts/1

half: y = x / 2 + 1 + version.
    serving_default(x float[?]) -> y         two(a float[?], b int64[?]) -> sum, text, kept
    classify(inputs string[?]) -> classes, scores        regress(inputs string[?]) -> outputs
    slow(n int64[]) -> n                     counts to n in a loop: seconds for a large n

types: every element type of KServe v2 comes back.
    serving_default(bool, int8 .. uint64, float16 .. float64, bfloat16, string, each [?]) -> the same, named out_TYPE
    rows(x float[?,4]) -> scores float[?,4], best int64[?]          text(s string[?]) -> upper, blob (not UTF-8)

tf1: y = x / 2 + 2, a TF1 graph that parses tf_example; its predict inputs are tensors in the middle of it.
    serving_default(x float[?,1]) -> y       regress(inputs string) -> outputs      classify(inputs string) -> scores
    defaulted(x float[?,1], x = 4 when absent) -> y                                 odd: serving_default with a made-up method name
    partial(x float[?,1]) -> y, now (a counter), next (the counter counted up), row9 (x[9]: fails for fewer rows)
"""
import os
import sys

BATCHING = """batching: what may share a batch and what may not; the layers make a run take milliseconds.
    serving_default(x float[?,256]) -> y float[?,256]               rows alone
    sizes(x float[?,?]) -> y float[?]                               rows alone, of any width: their sums
    pick(i int32[?]) -> y float[?]                                  y[i] of 16; any other i is an error
    centred(x float[?,256]) -> y                                    x minus the mean over all rows
    total(x float[?,256]) -> y float[]                              one number
    count(x float[?]) -> n float[?]                                 a counter: 1, 2, 3 ... by call
    few(x float[?,256]) -> y                                        up to 3 rows alone; of more, rows in the opposite order
    some(x float[?,256]) -> y                                       2 rows and more alone; of a single row zeros
"""


def make_batching(tf, where):
    if os.path.exists(os.path.join(where, "saved_model.pb")):
        return

    class Batching(tf.Module):
        def __init__(self):
            super().__init__()
            self.weights = tf.Variable(tf.random.stateless_normal([256, 256], [1, 2]) / 16)
            self.table = tf.Variable(tf.range(16.0))
            self.calls = tf.Variable(0.0)

        @tf.function(input_signature=[tf.TensorSpec([None, 256], tf.float32, name="x")])
        def default(self, x):
            for _ in range(40):
                x = tf.nn.tanh(tf.matmul(x, self.weights))
            return {"y": x}

        @tf.function(input_signature=[tf.TensorSpec([None, None], tf.float32, name="x")])
        def sizes(self, x):
            return {"y": tf.reduce_sum(x, 1)}

        @tf.function(input_signature=[tf.TensorSpec([None], tf.int32, name="i")])
        def pick(self, i):
            return {"y": tf.gather(self.table, i)}

        @tf.function(input_signature=[tf.TensorSpec([None, 256], tf.float32, name="x")])
        def centred(self, x):
            return {"y": x - tf.reduce_mean(x, 0)}

        @tf.function(input_signature=[tf.TensorSpec([None, 256], tf.float32, name="x")])
        def total(self, x):
            return {"y": tf.reduce_sum(x)}

        @tf.function(input_signature=[tf.TensorSpec([None, 256], tf.float32, name="x")])
        def few(self, x):
            y = self.default(x)["y"]
            return {"y": tf.cond(tf.shape(x)[0] <= 3, lambda: y, lambda: tf.reverse(y, [0]))}

        @tf.function(input_signature=[tf.TensorSpec([None, 256], tf.float32, name="x")])
        def some(self, x):
            y = self.default(x)["y"]
            return {"y": tf.cond(tf.shape(x)[0] >= 2, lambda: y, lambda: tf.reverse(y, [0]) * 0.0)}

        @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, name="x")])
        def count(self, x):
            return {"n": self.calls.assign_add(1.0) + 0.0 * x}

    m = Batching()
    tf.saved_model.save(m, where, signatures={"serving_default": m.default, "sizes": m.sizes, "pick": m.pick, "centred": m.centred,
                                              "total": m.total, "count": m.count, "few": m.few, "some": m.some})


WIDTHS = """widths: rows alone in narrow inputs only.
    serving_default(x float[?,?]) -> y float[?]      sums of the rows; of inputs wider than 3 in the opposite order
"""


def make_widths(tf, where):
    if os.path.exists(os.path.join(where, "saved_model.pb")):
        return

    class Widths(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None, None], tf.float32, name="x")])
        def default(self, x):
            y = tf.reduce_sum(x, 1)
            return {"y": tf.cond(tf.shape(x)[1] > 3, lambda: tf.reverse(y, [0]), lambda: y)}

    m = Widths()
    tf.saved_model.save(m, where, signatures={"serving_default": m.default})


BRANCHES = """branches: three blocks of four towers each between a fork and a join, as Inception has them.
    serving_default(x float[?,35,35,64]) -> y float[?,256]
"""


def make_branches(tf, where):
    if os.path.exists(os.path.join(where, "saved_model.pb")):
        return

    class Branches(tf.Module):
        def __init__(self):
            super().__init__()
            def kernel(seed, k, a, b):
                return tf.Variable(tf.random.stateless_normal([k, k, a, b], [seed, 1]) * (k * k * a) ** -0.5)
            self.blocks = [[kernel(b, 1, width, 64), kernel(b + 10, 1, width, 32), kernel(b + 20, 3, 32, 64), kernel(b + 30, 1, width, 16),
                            kernel(b + 40, 5, 16, 64), kernel(b + 50, 1, width, 64)] for b, width in enumerate([64, 256, 256])]

        @tf.function(input_signature=[tf.TensorSpec([None, 35, 35, 64], tf.float32, name="x")])
        def default(self, x):
            def conv(x, w):
                return tf.nn.relu(tf.nn.conv2d(x, w, 1, "SAME"))
            for one, small, three, less, five, pooled in self.blocks:
                x = tf.concat([conv(x, one), conv(conv(x, small), three), conv(conv(x, less), five),
                               conv(tf.nn.max_pool2d(x, 3, 1, "SAME"), pooled)], 3)
            return {"y": tf.reduce_mean(x, [1, 2])}

    m = Branches()
    tf.saved_model.save(m, where, signatures={"serving_default": m.default})


GRADIENTS = """gradients: what is differentiated.
    serving_default(x float[?,4]) -> probs float[?,3], label int64[?]    a softmax layer of dense/kernel and dense/bias, and the frozen scale
    loss(x float[?,4], t int64[?]) -> loss float[]                       cross-entropy of it
    pair(x float[?], z float[?]) -> a = x * x * p, b = 3 * z * q         two outputs of one function: each leads to one input
    root(x float[?]) -> y = where(x > 0, x ** 0.5, 0)                    finite, but its gradient is NaN where x is 0
    lu(x float[2,2]) -> y                                                an op that has no gradient
    half(x float16[?]) -> y = x * x                                      complex(x complex64[?]) -> y = x * x
"""


def make_gradients(tf, where):
    if os.path.exists(os.path.join(where, "saved_model.pb")):
        return
    f32 = lambda *shape, name="x", dtype=tf.float32: tf.TensorSpec(shape, dtype, name=name)

    class Dense(tf.Module):
        def __init__(self):
            super().__init__(name="dense")
            with self.name_scope:
                self.kernel = tf.Variable(tf.random.stateless_normal([4, 3], [3, 4]), name="kernel")
                self.bias = tf.Variable([0.1, -0.2, 0.3], name="bias")

    class Gradients(tf.Module):
        def __init__(self):
            super().__init__()
            self.dense = Dense()
            self.scale = tf.Variable(1.5, trainable=False, name="scale")
            self.p, self.q = tf.Variable(2.0, name="p"), tf.Variable(5.0, name="q")
            self.steps = tf.Variable(7, dtype=tf.int64, name="steps")

        def logits(self, x):
            return (tf.matmul(x, self.dense.kernel) + self.dense.bias) * self.scale

        @tf.function(input_signature=[f32(None, 4)])
        def default(self, x):
            y = tf.nn.softmax(self.logits(x))
            return {"probs": y, "label": tf.argmax(y, 1)}

        @tf.function(input_signature=[f32(None, 4), f32(None, name="t", dtype=tf.int64)])
        def loss(self, x, t):
            return {"loss": tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(t, self.logits(x)))}

        @tf.function(input_signature=[f32(None), f32(None, name="z")])
        def pair(self, x, z):
            return {"a": x * x * self.p, "b": 3.0 * z * self.q}

        @tf.function(input_signature=[f32(None)])
        def root(self, x):
            return {"y": tf.where(x > 0, tf.pow(x, 0.5), tf.zeros_like(x))}

        @tf.function(input_signature=[f32(2, 2)])
        def lu(self, x):
            return {"y": tf.linalg.lu(x)[0]}

        @tf.function(input_signature=[f32(None, dtype=tf.float16)])
        def half(self, x):
            return {"y": x * x}

        @tf.function(input_signature=[f32(None, dtype=tf.complex64)])
        def complex(self, x):
            return {"y": x * x}

    m = Gradients()
    tf.saved_model.save(m, where, signatures={"serving_default": m.default, "loss": m.loss, "pair": m.pair, "root": m.root, "lu": m.lu,
                                              "half": m.half, "complex": m.complex})


PARTS = """parts: a TF1 graph whose variable w [7, 3] was cut into three, and one that training does not move.
    serving_default(x float[?,7]) -> y = x w + b
"""


def make_parts(tf, where):
    if os.path.exists(os.path.join(where, "saved_model.pb")):
        return
    v1, info = tf.compat.v1, tf.compat.v1.saved_model.build_tensor_info
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, 7], name="x")
        w = v1.get_variable("layer/w", [7, 3], partitioner=tf.compat.v1.fixed_size_partitioner(3), initializer=v1.random_normal_initializer(seed=1))
        b = v1.get_variable("layer/b", [3], initializer=v1.zeros_initializer())
        v1.get_variable("frozen", [3], trainable=False)
        y = tf.identity(tf.matmul(x, tf.convert_to_tensor(w)) + b, name="y")
        session.run(v1.global_variables_initializer())
        builder = v1.saved_model.Builder(where)
        builder.add_meta_graph_and_variables(session, ["serve"], {"serving_default": v1.saved_model.build_signature_def(
            {"x": info(x)}, {"y": info(y)}, "tensorflow/serving/predict")})
        builder.save()


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
    tf1(tf, os.path.join(root, "tf1", "1"))
    make_batching(tf, os.path.join(root, "batching", "1"))
    make_widths(tf, os.path.join(root, "widths", "1"))
    make_branches(tf, os.path.join(root, "branches", "1"))
    make_gradients(tf, os.path.join(root, "gradients", "1"))
    make_parts(tf, os.path.join(root, "parts", "1"))
    where = os.path.join(root, "types", "1")
    if not os.path.exists(os.path.join(where, "saved_model.pb")):
        t = types(tf)
        tf.saved_model.save(t, where, signatures={"serving_default": t.echo, "rows": t.rows, "text": t.text})


def tf1(tf, where):
    if os.path.exists(os.path.join(where, "saved_model.pb")):
        return
    v1, info = tf.compat.v1, tf.compat.v1.saved_model.build_tensor_info
    with tf.Graph().as_default(), v1.Session() as session:
        scale = v1.get_variable("scale", initializer=0.5)
        count = v1.get_variable("count", initializer=0.0, use_resource=True)
        for i in range(30):   # enough names for an index block that shrinks when it is compressed
            v1.get_variable(f"a_long_prefix_that_repeats/variable_{i:04d}", initializer=float(i))
        examples = v1.placeholder(tf.string, name="tf_example")
        parsed = tf.io.parse_example(examples, {"x": tf.io.FixedLenFeature([1], tf.float32)})
        x = tf.identity(parsed["x"], name="x")
        x.set_shape([None, 1])
        y = tf.add(tf.multiply(scale, x), 2.0, name="y")
        with tf.control_dependencies([v1.assign_add(count, 1.0)]):
            counted = count.read_value()
        session.run(v1.global_variables_initializer())

        def signature(inputs, outputs, method):
            return v1.saved_model.build_signature_def({k: info(t) for k, t in inputs.items()}, {k: info(t) for k, t in outputs.items()},
                                                      "tensorflow/serving/" + method)
        signatures = {"serving_default": signature({"x": x}, {"y": y}, "predict"),
                      "regress": signature({"inputs": examples}, {"outputs": y}, "regress"),
                      "classify": signature({"inputs": examples}, {"scores": y}, "classify"),
                      "defaulted": signature({"x": x}, {"y": y}, "predict"),
                      "odd": signature({"x": x}, {"y": y}, "made_up"),
                      "partial": signature({"x": x}, {"y": y, "now": count.read_value(), "next": counted,
                                                      "row9": tf.gather(x, 9)}, "predict")}
        signatures["defaulted"].defaults["x"].CopyFrom(tf.make_tensor_proto([[4.0]]))
        builder = v1.saved_model.Builder(where)
        builder.add_meta_graph_and_variables(session, ["serve"], signatures)
        builder.save()
    compress_index(os.path.join(where, "variables", "variables.index"))


def compress_index(path):
    """Rewrites a checkpoint's index (a LevelDB table) with Snappy blocks, as TensorFlow 1.14 to 2.x wrote them."""
    import ctypes
    library = ctypes.CDLL("libsnappy.so.1")
    with open(path, "rb") as f:
        data = f.read()

    def varint(at):
        v = shift = 0
        while True:
            v |= (data[at] & 127) << shift
            shift, at = shift + 7, at + 1
            if data[at - 1] < 128:
                return v, at

    def write(v):
        return bytes([v & 127 | 128]) + write(v >> 7) if v > 127 else bytes([v])

    def crc32c(text):
        c = 0xffffffff
        for b in text:
            c ^= b
            for _ in range(8):
                c = c >> 1 ^ (0x82f63b78 if c & 1 else 0)
        return c ^ 0xffffffff

    def block(content, kind):
        c = crc32c(content + bytes([kind]))
        return content + bytes([kind]) + (((c >> 15 | c << 17) + 0xa282ead8) & 0xffffffff).to_bytes(4, "little")

    def snappy(content):
        size = ctypes.c_size_t(len(content) * 2 + 100)
        to = ctypes.create_string_buffer(size.value)
        assert library.snappy_compress(content, ctypes.c_size_t(len(content)), to, ctypes.byref(size)) == 0
        return to.raw[:size.value]

    _, at = varint(len(data) - 48)
    _, at = varint(at)
    index, at = varint(at)
    _, unshared_at = varint(index)                 # the index's only entry: shared, unshared, value length, key, handle
    unshared, at = varint(unshared_at)
    _, at = varint(at)
    key = data[at:at + unshared]
    size, _ = varint(varint(at + unshared)[1])
    packed = block(snappy(data[:size]), 1)         # one data block, at offset 0
    handle = write(0) + write(len(packed) - 5)
    entry = write(0) + write(unshared) + write(len(handle)) + key + handle
    restarts = (0).to_bytes(4, "little") + (1).to_bytes(4, "little")
    meta, last = block(restarts, 0), block(entry + restarts, 0)
    handles = write(len(packed)) + write(8) + write(len(packed) + len(meta)) + write(len(last) - 5)
    with open(path, "wb") as f:
        f.write(packed + meta + last + handles.ljust(40, b"\0") + data[-8:])


TYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
         "float16", "float32", "float64", "bfloat16", "string"]


def types(tf):
    m = tf.Module()

    @tf.function(input_signature=[tf.TensorSpec([None], getattr(tf, t), name=t) for t in TYPES])
    def echo(*args):
        return {f"out_{t}": tf.identity(a) for t, a in zip(TYPES, args)}

    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, name="x")])
    def rows(x):
        return {"scores": 2 * x, "best": tf.argmax(x, 1)}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="s")])
    def text(s):
        return {"upper": tf.strings.upper(s), "blob": tf.strings.join(["\xff".encode("latin1"), s])}

    m.echo, m.rows, m.text = echo, rows, text
    return m


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    make(sys.argv[1])
