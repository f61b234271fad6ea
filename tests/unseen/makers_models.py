"""Whole models of users: transformers with caches, speech, detection, recommenders, and every way of saving them."""
import os

import numpy as np
from harness import Lazy, case, floats, ints, model, shake

keras = Lazy("keras")
L = Lazy("keras.layers")
tf = Lazy("tensorflow")
ops = Lazy("keras.ops")


@model
def gpt_with_cache(folder):
    """A decoder that scores, and that generates in a loop which grows its keys and values."""
    import tensorflow as tf   # AutoGraph knows its directives by module
    class Decoder(tf.Module):
        def __init__(self):
            super().__init__()
            self.emb, self.pos = tf.Variable(floats(1, 17, 8)), tf.Variable(floats(2, 12, 8))
            self.qkv, self.out = [tf.Variable(floats(3 + i, 8, 24)) for i in range(2)], [tf.Variable(floats(5 + i, 8, 8)) for i in range(2)]
            self.up, self.down = [tf.Variable(floats(7 + i, 8, 16)) for i in range(2)], [tf.Variable(floats(9 + i, 16, 8)) for i in range(2)]
            self.scale = tf.Variable(tf.ones([8]))

        def norm(self, x):
            return x * tf.math.rsqrt(tf.reduce_mean(x * x, -1, keepdims=True) + 1e-6) * self.scale

        def rope(self, x, at):
            half = x.shape[-1] // 2
            angle = tf.cast(at, tf.float32)[:, None] / 10000. ** (tf.range(half, dtype=tf.float32) / half)
            s, c = tf.sin(angle)[None, None], tf.cos(angle)[None, None]
            a, b = tf.split(x, 2, -1)
            return tf.concat([a * c - b * s, a * s + b * c], -1)

        def step(self, tokens, keys, values, at):
            n = tf.shape(tokens)[1]
            x = tf.gather(self.emb, tokens) + self.pos[at:at + n]
            nk, nv = [], []
            for i in range(2):
                h = tf.matmul(self.norm(x), self.qkv[i])
                h = tf.transpose(tf.reshape(h, [tf.shape(h)[0], n, 3, 2, 4]), [2, 0, 3, 1, 4])
                q, k, v = self.rope(h[0], at + tf.range(n)), self.rope(h[1], at + tf.range(n)), h[2]
                k, v = tf.concat([keys[i], k], 2), tf.concat([values[i], v], 2)
                nk.append(k), nv.append(v)
                s = tf.matmul(q, k, transpose_b=True) / 2.
                total = tf.shape(k)[2]
                s += tf.where(tf.range(total)[None] <= tf.range(total - n, total)[:, None], 0., -1e9)
                y = tf.transpose(tf.matmul(tf.nn.softmax(s), v), [0, 2, 1, 3])
                x += tf.matmul(tf.reshape(y, [-1, n, 8]), self.out[i])
                x += tf.matmul(tf.nn.gelu(tf.matmul(self.norm(x), self.up[i]), approximate=True), self.down[i])
            return tf.matmul(self.norm(x), self.emb, transpose_b=True), tf.stack(nk), tf.stack(nv)

        @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32, name="tokens")])
        def score(self, tokens):
            empty = tf.zeros([2, tf.shape(tokens)[0], 2, 0, 4])
            logits, _, _ = self.step(tokens, tf.unstack(empty, 2), tf.unstack(empty, 2), 0)
            return {"logits": logits, "loss": tf.nn.sparse_softmax_cross_entropy_with_logits(tokens[:, 1:], logits[:, :-1])}

        @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32, name="tokens"), tf.TensorSpec([], tf.int32, name="n")])
        def generate(self, tokens, n):
            b = tf.shape(tokens)[0]
            keys, values = tf.zeros([2, b, 2, 0, 4]), tf.ones([2, b, 2, 0, 4])
            step, done = tokens, tf.zeros([b], tf.bool)
            at = 0
            while at + tf.shape(step)[1] < n and not tf.reduce_all(done):
                tf.autograph.experimental.set_loop_options(shape_invariants=[(keys, tf.TensorShape([2, None, 2, None, 4])), (values, tf.TensorShape([2, None, 2, None, 4])), (step, tf.TensorShape([None, None])), (tokens, tf.TensorShape([None, None]))])
                logits, keys, values = self.step(step, tf.unstack(keys, 2), tf.unstack(values, 2), at)
                at += tf.shape(step)[1]
                step = tf.where(done[:, None], 0, tf.argmax(logits[:, -1:], -1, output_type=tf.int32))
                done = done | (step[:, 0] == 3)
                tokens = tf.concat([tokens, step], 1)
            return {"tokens": tokens}
    m = Decoder()
    tf.saved_model.save(m, folder, signatures={"serving_default": m.score, "generate": m.generate})
    yield case({"tokens": ints(1, 2, 6, high=17)})
    yield case({"tokens": ints(2, 2, 3, high=17), "n": 11}, signature="generate")
    yield case({"tokens": ints(2, 1, 13, high=17)}, id="too_long")


@model(stateful=True, vary=False)
def cache_in_variables(folder):
    class Cell(tf.Module):
        def __init__(self):
            super().__init__()
            self.keys = tf.Variable(tf.zeros([4, 6, 3]), trainable=False)
            self.at = tf.Variable(0, trainable=False)
            self.w = tf.Variable(floats(1, 3, 3))

        @tf.function(input_signature=[tf.TensorSpec([4, 3], name="x")])
        def step(self, x):
            i = tf.stack([tf.range(4), tf.fill([4], self.at)], 1)
            self.keys.scatter_nd_update(i, tf.matmul(x, self.w))
            self.at.assign((self.at + 1) % 6)
            w = tf.nn.softmax(tf.einsum("bd,btd->bt", x, self.keys))
            return {"y": tf.einsum("bt,btd->bd", w, self.keys), "at": self.at.read_value()}

        @tf.function(input_signature=[])
        def reset(self):
            self.keys.assign(tf.zeros_like(self.keys))
            self.at.assign(0)
            return {"ok": tf.constant(True)}

        @tf.function(input_signature=[tf.TensorSpec([], tf.int32, name="row"), tf.TensorSpec([None, 3], name="v")])
        def patch(self, row, v):
            self.keys[row, 1:3].assign(v)
            return {"keys": self.keys[row] + 0.}
    m = Cell()
    tf.saved_model.save(m, folder, signatures={"step": m.step, "reset": m.reset, "patch": m.patch})
    for k in range(7):
        yield case({"x": floats(k, 4, 3)}, signature="step")
    yield case({"row": 2, "v": floats(9, 2, 3)}, signature="patch")
    yield case({"row": 4, "v": floats(9, 2, 3)}, signature="patch", id="no_row")
    yield case(signature="reset")
    yield case({"x": floats(3, 4, 3)}, signature="step")


@model
def bert_like(folder):
    ids, seg, mask = (keras.Input((None,), dtype="int32", name=n) for n in ("input_word_ids", "input_type_ids", "input_mask"))
    pos = keras.layers.Lambda(lambda t: ops.broadcast_to(ops.arange(ops.shape(t)[1]), ops.shape(t)), output_shape=(None,))(ids)
    h = L.LayerNormalization(epsilon=1e-12)(L.Embedding(30, 8)(ids) + L.Embedding(2, 8)(seg) + L.Embedding(16, 8)(pos))
    m = L.Lambda(lambda t: ops.cast(t[:, None, :], "bool"), output_shape=(1, None))(mask)
    for _ in range(2):
        h = L.LayerNormalization()(h + L.MultiHeadAttention(2, 4)(h, h, attention_mask=m))
        h = L.LayerNormalization()(h + L.Dense(8)(L.Dense(16, activation="gelu")(h)))
    pooled = L.Dense(8, activation="tanh")(h[:, 0])
    shake(keras.Model({"input_word_ids": ids, "input_type_ids": seg, "input_mask": mask}, {"pooled_output": pooled, "sequence_output": h, "mlm": L.Dense(30)(h)})).export(folder, verbose=False)
    yield case({"input_word_ids": ints(1, 2, 7, high=30), "input_type_ids": ints(2, 2, 7, high=2), "input_mask": [[1] * 7, [1, 1, 1, 0, 0, 0, 0]]})
    yield case({"input_word_ids": ints(1, 1, 1, high=30), "input_type_ids": [[0]], "input_mask": [[0]]}, id="all_masked")


@model
def vision_transformer(folder):
    x = keras.Input((16, 16, 3), name="image")
    h = L.Conv2D(12, 4, strides=4)(x)
    h = L.Reshape((16, 12))(h)

    class Token(keras.layers.Layer):
        def build(self, shape):
            self.cls = self.add_weight(shape=(1, 1, 12), initializer="normal")
            self.pos = self.add_weight(shape=(1, 17, 12), initializer="normal")

        def call(self, t):
            return ops.concatenate([ops.repeat(self.cls, ops.shape(t)[0], 0), t], 1) + self.pos
    h = Token()(h)
    for _ in range(2):
        n = L.LayerNormalization(epsilon=1e-6)(h)
        h = h + L.MultiHeadAttention(3, 4, dropout=.1)(n, n)
        h = h + L.Dense(12)(L.Dropout(.1)(L.Dense(24, activation=keras.activations.gelu)(L.LayerNormalization(epsilon=1e-6)(h))))
    y = L.Dense(5)(L.LayerNormalization()(h)[:, 0])
    shake(keras.Model(x, y)).export(folder, verbose=False)
    yield case({"image": floats(1, 2, 16, 16, 3)})


@model(rtol=2e-3, atol=2e-3)
def whisper_like(folder):
    """WAV bytes, log-mel, a convolutional encoder with cross-attended greedy decoding."""
    import tensorflow as tf   # AutoGraph knows its directives by module
    class Speech(tf.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.emb = tf.Variable(floats(1, 3, 12, 8)), tf.Variable(floats(2, 11, 8))
            self.q, self.k, self.v, self.o = (tf.Variable(floats(3 + i, 8, 8)) for i in range(4))

        @tf.function(input_signature=[tf.TensorSpec([], tf.string, name="wav")])
        def serve(self, wav):
            audio, rate = tf.audio.decode_wav(wav, desired_channels=1)
            z = tf.abs(tf.signal.stft(audio[:, 0], 128, 64, 128))
            mel = tf.math.log(tf.matmul(z, tf.signal.linear_to_mel_weight_matrix(12, 65, 8000)) + 1e-3) / tf.math.log(10.)
            h = tf.nn.gelu(tf.nn.conv1d(mel[None], self.conv, 2, "SAME"))
            k, v = tf.matmul(h, self.k), tf.matmul(h, self.v)
            tokens = tf.constant([[1]])
            for _ in tf.range(5):
                tf.autograph.experimental.set_loop_options(shape_invariants=[(tokens, tf.TensorShape([1, None]))])
                x = tf.gather(self.emb, tokens)
                a = tf.nn.softmax(tf.matmul(tf.matmul(x, self.q), k, transpose_b=True))
                logits = tf.matmul(x + tf.matmul(tf.matmul(a, v), self.o), self.emb, transpose_b=True)
                nxt = tf.argmax(logits[:, -1], -1, output_type=tf.int32)
                tokens = tf.concat([tokens, nxt[:, None]], 1)
                if nxt[0] == 2:
                    break
            return {"tokens": tokens, "rate": rate, "mel": mel}
    m = Speech()
    tf.saved_model.save(m, folder, signatures=m.serve)
    for n, ch in ((800, 1), (500, 2)):
        yield case({"wav": tf.audio.encode_wav(floats(n, n, ch), 8000).numpy()}, id=f"wav{ch}")
    yield case({"wav": b"RIFFjunk"}, id="junk")
    yield case({"wav": tf.audio.encode_wav(floats(1, 500, 1), 8000).numpy()[:300]}, id="cut")


@model(rtol=2e-2, atol=2e-2, vary=False)
def image_bytes_classifier(folder):
    net = shake(keras.Sequential([keras.Input((16, 16, 3)), L.Rescaling(1 / 255.), L.Conv2D(4, 3, activation="relu"), L.GlobalAveragePooling2D(), L.Dense(3, activation="softmax")]))

    def decode(b):
        img = tf.io.decode_image(b, channels=3, expand_animations=False)
        img.set_shape([None, None, 3])
        return tf.image.resize(tf.image.resize_with_crop_or_pad(img, 20, 20), [16, 16])

    archive = keras.export.ExportArchive()
    archive.track(net)
    archive.add_endpoint("serve", net.call, [tf.TensorSpec([None, 16, 16, 3], name="pixels")])
    archive.add_endpoint("serving_default", lambda b: {"probs": net(tf.map_fn(decode, b, fn_output_signature=tf.float32)), "top": tf.gather(tf.constant(["a", "b", "c"]), tf.argmax(net(tf.map_fn(decode, b, fn_output_signature=tf.float32)), -1))},
                         [tf.TensorSpec([None], tf.string, name="image_bytes")])
    archive.add_variable_collection("all", net.variables)
    archive.write_out(folder, verbose=False)
    img = ints(1, 24, 18, 3, high=256, dtype=np.uint8)
    smooth = tf.cast(tf.image.resize(floats(1, 4, 4, 3, low=0, high=255), [24, 18]), tf.uint8)
    png, jpeg, gray = tf.io.encode_png(img).numpy(), tf.io.encode_jpeg(smooth).numpy(), tf.io.encode_png(img[..., :1]).numpy()
    yield case({"image_bytes": [png, jpeg, gray]})
    yield case({"image_bytes": [tf.io.encode_png(tf.cast(img, tf.uint16) * 200).numpy()]}, id="png16")
    yield case({"image_bytes": [b"not an image"]}, id="junk")
    yield case({"image_bytes": [jpeg[:200]]}, id="cut")
    yield case({"pixels": floats(1, 2, 16, 16, 3, low=0, high=255)}, signature="serve")


@model
def detector(folder):
    """Anchors, box decoding, per-class suppression: what a detection API exports."""
    class Detector(tf.Module):
        def __init__(self):
            super().__init__()
            self.w = tf.Variable(floats(1, 3, 3, 3, 2 * (4 + 3)))
            yy, xx = np.meshgrid(np.arange(8), np.arange(8), indexing="ij")
            centres = np.stack([yy, xx], -1).reshape(-1, 1, 2) / 8 + 1 / 16
            self.anchors = tf.constant(np.concatenate([np.tile(centres, [1, 2, 1]), np.tile([[[.2, .2], [.1, .3]]], [64, 1, 1])], -1).reshape(-1, 4).astype(np.float32))

        @tf.function(input_signature=[tf.TensorSpec([None, None, None, 3], tf.uint8, name="input_tensor")])
        def serve(self, image):
            x = tf.image.resize(tf.cast(image, tf.float32), [16, 16]) / 127.5 - 1.
            raw = tf.reshape(tf.nn.conv2d(x, self.w, 2, "SAME"), [tf.shape(x)[0], -1, 7])
            c = raw[..., :2] * .1 * self.anchors[:, 2:] + self.anchors[:, :2]
            s = tf.exp(tf.clip_by_value(raw[..., 2:4] * .2, -4., 4.)) * self.anchors[:, 2:]
            boxes = tf.concat([c - s / 2, c + s / 2], -1)
            scores = tf.sigmoid(raw[..., 4:])
            r = tf.image.combined_non_max_suppression(boxes[:, :, None], scores, 5, 8, .5, .3)
            return {"detection_boxes": r[0], "detection_scores": r[1], "detection_classes": r[2] + 1, "num_detections": tf.cast(r[3], tf.float32), "raw_boxes": boxes}
    m = Detector()
    tf.saved_model.save(m, folder, signatures=m.serve)
    yield case({"input_tensor": ints(1, 2, 20, 24, 3, high=256, dtype=np.uint8)})


@model
def seq2seq_attention_beam(folder):
    """Beam search with gathers by beam inside tf.while_loop."""
    class Beam(tf.Module):
        def __init__(self):
            super().__init__()
            self.emb, self.w, self.o = tf.Variable(floats(1, 9, 5)), tf.Variable(floats(2, 10, 5)), tf.Variable(floats(3, 5, 9) * 4)

        @tf.function(input_signature=[tf.TensorSpec([None, 5], name="start"), tf.TensorSpec([], tf.int32, name="steps")])
        def serve(self, start, steps):
            b, k = tf.shape(start)[0], 3
            state = tf.tile(start[:, None], [1, k, 1])
            score = tf.tile(tf.constant([[0., -1e9, -1e9]]), [b, 1])
            seq = tf.ones([b, k, 1], tf.int32)
            done = tf.zeros([b, k], tf.bool)

            def body(t, state, score, seq, done):
                e = tf.gather(self.emb, seq[:, :, -1])
                state = tf.tanh(tf.einsum("bki,ij->bkj", tf.concat([e, state], -1), self.w))
                logp = tf.nn.log_softmax(tf.einsum("bki,ij->bkj", state, self.o))
                keep = tf.one_hot(0, 9, 0., -1e9)
                logp = tf.where(done[:, :, None], keep, logp)
                total = tf.reshape(score[:, :, None] + logp, [b, -1])
                score, flat = tf.math.top_k(total, k)
                beam, token = flat // 9, flat % 9
                seq = tf.concat([tf.gather(seq, beam, batch_dims=1), token[:, :, None]], 2)
                return t + 1, tf.gather(state, beam, batch_dims=1), score, seq, tf.gather(done, beam, batch_dims=1) | (token == 2)
            any_shape = tf.TensorShape([None, None, None])
            _, _, score, seq, done = tf.while_loop(lambda t, *a: (t < steps) & ~tf.reduce_all(a[-1]), body, (0, state, score, seq, done), shape_invariants=(tf.TensorShape([]), state.shape, tf.TensorShape([None, None]), any_shape, tf.TensorShape([None, None])))
            return {"sequences": seq, "scores": score, "done": done}
    m = Beam()
    tf.saved_model.save(m, folder, signatures=m.serve)
    yield case({"start": floats(5, 2, 5), "steps": 6})
    yield case({"start": floats(5, 1, 5), "steps": 0}, id="no_steps")


@model
def custom_layer_weights_shared(folder):
    emb = L.Embedding(12, 6)
    t = keras.Input((None,), dtype="int32", name="t")

    class Tied(keras.layers.Layer):
        def __init__(self, table):
            super().__init__()
            self.table = table

        def call(self, h):
            return ops.matmul(h, ops.transpose(self.table.embeddings))
    h = L.GRU(6, return_sequences=True)(emb(t))
    shake(keras.Model(t, Tied(emb)(h))).export(folder, verbose=False)
    yield case({"t": ints(1, 2, 5, high=12)})


@model
def vae_and_gan_heads(folder):
    class Vae(keras.Model):
        def __init__(self):
            super().__init__()
            self.enc = keras.Sequential([keras.Input((8, 8, 1)), L.Conv2D(4, 3, 2, padding="same", activation=keras.activations.leaky_relu), L.Flatten(), L.Dense(6)])
            self.dec = keras.Sequential([keras.Input((3,)), L.Dense(64, activation="relu"), L.Reshape((4, 4, 4)), L.Conv2DTranspose(1, 3, 2, padding="same", activation="sigmoid")])

        def call(self, x):
            return self.dec(self.enc(x)[:, :3])
    net = Vae()
    net(floats(1, 1, 8, 8, 1))
    shake(net)
    archive = keras.export.ExportArchive()
    archive.track(net)
    archive.add_endpoint("encode", lambda x: dict(zip(("mean", "logvar"), tf.split(net.enc(x), 2, -1))), [tf.TensorSpec([None, 8, 8, 1], name="x")])
    archive.add_endpoint("decode", lambda z: {"image": net.dec(z)}, [tf.TensorSpec([None, 3], name="z")])
    archive.add_endpoint("both", net.call, [tf.TensorSpec([None, 8, 8, 1], name="x")])
    archive.write_out(folder, verbose=False)
    yield case({"x": floats(1, 2, 8, 8, 1)}, signature="encode")
    yield case({"z": floats(1, 2, 3)}, signature="decode")
    yield case({"x": floats(1, 2, 8, 8, 1)}, signature="both")


@model(rtol=2e-2, atol=2e-2)
def bfloat16_transformer(folder):
    keras.mixed_precision.set_global_policy("mixed_bfloat16")
    try:
        x = keras.Input((None, 8), name="x")
        h = x
        for _ in range(2):
            h = L.LayerNormalization()(h + L.MultiHeadAttention(2, 4)(h, h, use_causal_mask=True))
            h = h + L.Dense(8)(L.Dense(16, activation="silu")(h))
        shake(keras.Model(x, L.Dense(3, dtype="float32", activation="softmax")(h))).export(folder, verbose=False)
    finally:
        keras.mixed_precision.set_global_policy("float32")
    yield case({"x": floats(1, 2, 5, 8)}, rtol=5e-2, atol=5e-2)


@model
def wavenet(folder):
    x = keras.Input((None, 1), name="x")
    h, skips = L.Conv1D(8, 2, padding="causal")(x), []
    for rate in (1, 2, 4, 8, 16):
        f = L.Conv1D(8, 2, dilation_rate=rate, padding="causal", activation="tanh")(h)
        g = L.Conv1D(8, 2, dilation_rate=rate, padding="causal", activation="sigmoid")(h)
        s = L.Conv1D(8, 1)(f * g)
        h, skips = h + s, skips + [s]
    y = L.Conv1D(16, 1, activation="softmax")(L.ReLU()(L.Add()(skips)))
    shake(keras.Model(x, y)).export(folder, verbose=False)
    yield case({"x": floats(1, 2, 40, 1)})
    yield case({"x": floats(1, 1, 3, 1)}, id="short")


@model
def time_series_forecast(folder):
    x, known = keras.Input((12, 3), name="past"), keras.Input((4, 2), name="future")
    mean = ops.mean(x[..., :1], 1, keepdims=True)
    h, *s = L.LSTM(5, return_state=True)(x - mean)
    h = L.LSTM(5, return_sequences=True)(known, initial_state=s)
    trend = L.Conv1D(1, 4, padding="valid")(L.ZeroPadding1D((3, 0))(x))
    q = L.TimeDistributed(L.Dense(3))(h) + mean
    shake(keras.Model([x, known], {"quantiles": q, "trend": trend, "decomposed": L.AveragePooling1D(3, 1, "same")(x)})).export(folder, verbose=False)
    yield case({"past": floats(1, 2, 12, 3), "future": floats(2, 2, 4, 2)})


@model
def multi_gate_experts(folder):
    x = keras.Input((10,), name="x")
    experts = ops.stack([L.Dense(6, activation="relu")(x) for _ in range(4)], 1)
    y = {}
    for task in ("ctr", "cvr"):
        g = L.Dense(4, activation="softmax")(x)
        y[task] = L.Dense(1, activation="sigmoid")(ops.einsum("be,beh->bh", g, experts))
    top, at = ops.top_k(L.Dense(4)(x), 2)
    route = ops.sum(ops.softmax(top)[..., None] * ops.take_along_axis(experts, ops.repeat(at[..., None], 6, -1), 1), 1)
    y["routed"] = route
    shake(keras.Model(x, y)).export(folder, verbose=False)
    yield case({"x": floats(1, 3, 10)})


@model
def din_attention(folder):
    hist, item, n = keras.Input((None,), dtype="int64", name="hist"), keras.Input((), dtype="int64", name="item"), keras.Input((), dtype="int64", name="n")
    emb = L.Embedding(40, 4)
    h, q = emb(hist), emb(item)
    qq = ops.expand_dims(q, 1) + ops.zeros_like(h)
    a = L.Dense(1)(L.Dense(8, activation="sigmoid")(L.Concatenate()([h, qq, h - qq, h * qq])))
    mask = ops.cumsum(ops.ones_like(hist), 1) <= ops.expand_dims(n, 1)
    a = ops.softmax(ops.where(ops.expand_dims(mask, -1), a, -2.**31), 1)
    shake(keras.Model({"hist": hist, "item": item, "n": n}, L.Dense(1, activation="sigmoid")(L.Concatenate()([ops.sum(a * h, 1), q])))).export(folder, verbose=False)
    yield case({"hist": ints(1, 3, 5, high=40, dtype=np.int64), "item": [1, 2, 3], "n": [5, 2, 0]})


@model
def pointnet_dynamic(folder):
    class Points(tf.Module):
        def __init__(self):
            super().__init__()
            self.w = tf.Variable(floats(1, 6, 8))

        @tf.function(input_signature=[tf.TensorSpec([None, None, 3], name="points"), tf.TensorSpec([], tf.int32, name="k")])
        def serve(self, points, k):
            d = tf.reduce_sum((points[:, :, None] - points[:, None]) ** 2, -1)
            near, i = tf.math.top_k(-d, k, sorted=True)
            group = tf.gather(points, i, batch_dims=1)
            edge = tf.concat([group - points[:, :, None], tf.broadcast_to(points[:, :, None], tf.shape(group))], -1)
            h = tf.reduce_max(tf.nn.relu(tf.einsum("bnkc,cd->bnkd", edge, self.w)), 2)
            chosen = tf.TensorArray(tf.int32, 3)
            far, dist = tf.zeros([tf.shape(points)[0]], tf.int32), tf.fill(tf.shape(points)[:2], 1e10)
            for t in tf.range(3):
                chosen = chosen.write(t, far)
                c = tf.gather(points, far, batch_dims=1)[:, None]
                dist = tf.minimum(dist, tf.reduce_sum((points - c) ** 2, -1))
                far = tf.argmax(dist, -1, output_type=tf.int32)
            return {"features": h, "global": tf.reduce_max(h, 1), "farthest": tf.transpose(chosen.stack()), "near": -near}
    m = Points()
    tf.saved_model.save(m, folder, signatures=m.serve)
    yield case({"points": floats(1, 2, 7, 3), "k": 3})
    yield case({"points": floats(1, 2, 7, 3), "k": 8}, id="k_too_large")


@model
def kalman_and_ode(folder):
    def f(z, x0):
        A, H = tf.constant([[1., 1.], [0., 1.]]), tf.constant([[1., 0.]])
        Q, R = .1 * tf.eye(2), tf.constant([[.5]])

        def step(carry, o):
            x, P = carry
            x, P = tf.linalg.matvec(A, x), A @ P @ tf.transpose(A) + Q
            S = H @ P @ tf.transpose(H) + R
            K = tf.transpose(tf.linalg.solve(S, H @ P))
            return x + tf.linalg.matvec(K, o - tf.linalg.matvec(H, x)), (tf.eye(2) - K @ H) @ P
        xs, Ps = tf.scan(step, z, (x0, tf.eye(2)))

        def rk4(y):
            d = lambda v: tf.stack([v[1], -v[0] - .1 * v[1]])
            for _ in tf.range(20):
                k1 = d(y)
                k2_ = d(y + .05 * k1)
                k3 = d(y + .05 * k2_)
                y += .1 / 6 * (k1 + 2 * k2_ + 2 * k3 + d(y + .1 * k3))
            return y
        return {"x": xs, "P": Ps[-1], "ode": tf.function(rk4)(x0)}
    tf.saved_model.save(tf.Module(), folder, signatures=tf.function(f).get_concrete_function(z=tf.TensorSpec([None, 1], name="z"), x0=tf.TensorSpec([2], name="x0")))
    yield case({"z": floats(1, 6, 1), "x0": [0, 1]})


@model
def gradient_boosted_trees(folder):
    """A forest as arrays: loops of gathers."""
    r = np.random.default_rng(3)
    feature, threshold = r.integers(0, 5, (4, 7)).astype(np.int32), r.normal(size=(4, 7)).astype(np.float32)
    leaf = r.normal(size=(4, 8)).astype(np.float32)

    def f(x):
        node = tf.zeros([tf.shape(x)[0], 4], tf.int32)
        for _ in range(3):
            t = tf.range(4)[None] * 7 + node
            v = tf.gather(x, tf.gather(tf.reshape(feature, [-1]), t), axis=1, batch_dims=1)
            node = 2 * node + tf.where(v > tf.gather(tf.reshape(threshold, [-1]), t), 2, 1)
        margin = tf.reduce_sum(tf.gather(tf.reshape(leaf, [-1]), tf.range(4)[None] * 8 + node - 7), 1)
        return {"p": tf.sigmoid(margin), "leaf": node - 7}
    tf.saved_model.save(tf.Module(), folder, signatures=tf.function(f).get_concrete_function(x=tf.TensorSpec([None, 5], name="x")))
    yield case({"x": floats(1, 4, 5, low=-2, high=2)})


@model
def asset_vocabulary_module(folder):
    path = os.path.join(os.path.dirname(folder), "words.txt")
    with open(path, "w") as f:
        f.write("red\ngreen\nblue\n")
    m = tf.Module()
    m.asset = tf.saved_model.Asset(path)
    m.table = tf.lookup.StaticVocabularyTable(tf.lookup.TextFileInitializer(path, tf.string, tf.lookup.TextFileIndex.WHOLE_LINE, tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER), 2)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="x")])
    def serve(x):
        text = tf.io.read_file(m.asset.asset_path)
        return {"ids": m.table.lookup(x), "n": tf.shape(tf.strings.split(text, "\n"))[0:1], "size": m.table.size()}
    m.serve = serve
    tf.saved_model.save(m, folder, signatures=serve)
    os.remove(path)
    yield case({"x": ["blue", "red", "pink"]})


@model
def strange_names(folder):
    m = tf.Module()
    m.v = tf.Variable([2.], name="odd/scope.of-it")
    f = tf.function(lambda a, b: {"résultat": a * m.v, "x y": b, "1": a + 1.})
    tf.saved_model.save(m, folder, signatures={"gross": f.get_concrete_function(a=tf.TensorSpec([None], name="a"), b=tf.TensorSpec([None], tf.string, name="b")), "a/b c": f.get_concrete_function(a=tf.TensorSpec([3], name="a"), b=tf.TensorSpec([], tf.string, name="b"))})
    yield case({"a": floats(1, 2), "b": ["p", "q"]}, signature="gross")
    yield case({"a": floats(1, 3), "b": "p"}, signature="a/b c")


@model(vary=False, stateful=True)
def outputs_of_nothing(folder):
    m = tf.Module()
    m.n = tf.Variable(0)

    @tf.function(input_signature=[])
    def look():
        return {"n": m.n.read_value(), "empty": tf.zeros([0, 3]), "text": tf.constant([], tf.string)}
    tf.saved_model.save(m, folder, signatures={"look": look})
    yield case(signature="look")


@model
def deep_and_ranked(folder):
    def f(x):
        h = x
        for k in range(60):
            h = tf.nn.elu(h * .9 + .01 * k) - tf.roll(h, 1, -1) * .1
        big = tf.reshape(tf.tile(h[:1, :2], [1, 4]), [1, 2, 1, 2, 1, 2, 1, 1])
        return {"deep": h, "rank8": tf.transpose(big, [7, 1, 6, 3, 4, 5, 2, 0]) + big, "sum8": tf.reduce_sum(big, [1, 3, 5]), "nan": tf.reduce_max(h / 0., -1), "empty": tf.concat([h[:0], h], 0)}
    tf.saved_model.save(tf.Module(), folder, signatures=tf.function(f).get_concrete_function(x=tf.TensorSpec([None, 4], name="x")))
    yield case({"x": floats(1, 3, 4)})
