"""Models as products serve them: text with tables and ragged rows, retrieval, detection, audio, routing, with preprocessing inside of the graph."""
import numpy as np
from harness import F, I, J, S, Lazy, case, floats, ints, model, save, shake

tf = Lazy("tensorflow")
keras = Lazy("keras")


def table(tf_, keys, values, default):
    init = tf_.lookup.KeyValueTensorInitializer(tf_.constant(keys), tf_.constant(values))
    return tf_.lookup.StaticHashTable(init, default)


@model
def hub_text_module(folder):
    """A text embedding as TensorFlow Hub has them: sentences in, vectors out, words out of the vocabulary in buckets, sqrt(n) as combiner."""
    m = tf.Module()
    m.table = tf.lookup.StaticVocabularyTable(tf.lookup.KeyValueTensorInitializer(tf.constant(["the", "cat", "sat", "on", "mat"]), tf.range(5, dtype=tf.int64)), 3)
    m.vectors = tf.Variable(floats(1, 8, 6))

    def f(sentences):
        words = tf.strings.split(tf.strings.regex_replace(tf.strings.lower(sentences), r"[^a-z ]", ""))
        sp = words.to_sparse()
        ids = tf.SparseTensor(sp.indices, m.table.lookup(sp.values), sp.dense_shape)
        filled, empty = tf.sparse.fill_empty_rows(ids, tf.constant(0, tf.int64))
        return {"default": tf.nn.embedding_lookup_sparse(m.vectors, filled, None, combiner="sqrtn"), "empty": empty, "count": words.row_lengths()}
    save(folder, {"serving_default": (f, {"sentences": ([None], S)})}, m)
    yield case({"sentences": ["The cat sat, on the mat!", "", "dogs & cats", "mat mat mat"]})
    yield case({"sentences": ["..."]})


@model
def language_of_text(folder):
    """Character n-grams hashed into buckets, averaged over ragged rows."""
    m = tf.Module()
    m.w, m.names = tf.Variable(floats(2, 64, 4)), tf.constant(["de", "en", "fr", "nl"])

    def f(text):
        chars = tf.strings.unicode_split(text, "UTF-8")
        grams = tf.strings.ngrams(chars, [2, 3], separator="")
        ids = tf.ragged.map_flat_values(lambda v: tf.strings.to_hash_bucket_fast(v, 64), grams)
        logits = tf.math.divide_no_nan(tf.reduce_sum(tf.ragged.map_flat_values(lambda i: tf.gather(m.w, i), ids), 1), tf.cast(ids.row_lengths(), tf.float32)[:, None])
        top = tf.math.top_k(tf.nn.softmax(logits), 2)
        return {"language": tf.gather(m.names, top.indices), "probability": top.values}
    save(folder, {"serving_default": (f, {"text": ([None], S)})}, m)
    yield case({"text": ["Straße und Weg", "a", "où est-il ?", "the end"]})


@model
def keras_preprocessing_end_to_end(folder):
    """Raw columns to a score: StringLookup, Hashing, Discretization, Normalization, CategoryEncoding, IntegerLookup, HashedCrossing."""
    k, l = keras, keras.layers
    age, city, income, visits, device = (k.Input((1,), dtype=d, name=n) for n, d in (("age", F), ("city", S), ("income", F), ("visits", J), ("device", S)))
    norm = l.Normalization()
    norm.adapt(floats(1, 50, 1, low=10, high=90))
    parts = [norm(income), l.CategoryEncoding(5, output_mode="one_hot")(l.Discretization([18., 30., 45., 65.])(age)),
             l.StringLookup(vocabulary=["paris", "rome", "oslo"], num_oov_indices=2, output_mode="one_hot")(city), l.IntegerLookup(vocabulary=[1, 5, 9], output_mode="multi_hot")(visits),
             l.Embedding(16, 3)(l.Hashing(16, salt=7)(device))]
    x = l.Concatenate()([l.Reshape((-1,))(p) for p in parts])
    net = k.Model([age, city, income, visits, device], l.Dense(2, activation="softmax")(l.Dense(8, activation="relu")(x)))
    shake(net).export(folder, verbose=False)
    yield case({"age": [[17.], [30.], [99.]], "city": [["rome"], ["bern"], [""]], "income": [[20.], [50.], [-5.]], "visits": [[5], [7], [-1]], "device": [["ios"], ["web"], ["ios"]]})


@model(skip=("nonfinite",))   # the order of NaN in TopKV2
def two_tower_retrieval(folder):
    """Queries against a corpus kept in variables: scores, top k, ids through a table, and exclusions."""
    m = tf.Module()
    m.items, m.ids = tf.Variable(floats(3, 40, 8)), tf.constant([f"item-{i}" for i in range(40)])
    m.users = tf.Variable(floats(4, 12, 8))

    def query(user, context):
        u = tf.gather(m.users, tf.strings.to_hash_bucket_strong(user, 12, [1, 2])) + tf.math.l2_normalize(context, -1)
        return tf.math.l2_normalize(u, -1)

    def retrieve(user, context, seen):
        scores = tf.matmul(query(user, context), tf.math.l2_normalize(m.items, -1), transpose_b=True)
        banned = tf.reduce_any(tf.equal(seen[:, :, None], m.ids[None, None, :]), 1)
        best = tf.math.top_k(tf.where(banned, tf.float32.min, scores), 5)
        return {"ids": tf.gather(m.ids, best.indices), "scores": best.values}
    save(folder, {"serving_default": (retrieve, {"user": ([None], S), "context": ([None, 8], F), "seen": ([None, None], S)}),
                  "embed": (lambda user, context: {"e": query(user, context)}, {"user": ([None], S), "context": ([None, 8], F)})}, m)
    yield case({"user": ["ann", "bob"], "context": floats(1, 2, 8), "seen": [["item-3", "item-9"], ["item-1", ""]]})
    yield case({"user": ["ann"], "context": floats(2, 1, 8)}, signature="embed")


@model(rtol=1e-3)
def detection_head(folder):
    """Anchors, box decoding, per-class suppression, crops of what was found."""
    m = tf.Module()
    yx = np.stack(np.meshgrid(np.arange(4), np.arange(4), indexing="ij"), -1).reshape(-1, 2) / 4 + .125
    m.anchors = tf.constant(np.concatenate([yx, np.full((16, 2), .3)], 1).astype(np.float32))

    def f(image, deltas, logits):
        centre = m.anchors[:, :2] + deltas[..., :2] * m.anchors[:, 2:] * .1
        size = m.anchors[:, 2:] * tf.exp(tf.clip_by_value(deltas[..., 2:] * .2, -4., 4.))
        boxes = tf.concat([centre - size / 2, centre + size / 2], -1)
        n = tf.image.combined_non_max_suppression(boxes[:, :, None], tf.sigmoid(logits), 4, 6, 0.5, 0.3)
        first = tf.image.crop_and_resize(image, n.nmsed_boxes[:, 0], tf.range(tf.shape(image)[0]), [4, 4])
        return {"boxes": n.nmsed_boxes, "scores": n.nmsed_scores, "classes": tf.cast(n.nmsed_classes, tf.int32), "valid": n.valid_detections, "crop": first}
    save(folder, {"serving_default": (f, {"image": ([None, 12, 12, 3], F), "deltas": ([None, 16, 4], F), "logits": ([None, 16, 3], F)})}, m)
    yield case({"image": floats(1, 2, 12, 12, 3), "deltas": floats(2, 2, 16, 4), "logits": floats(3, 2, 16, 3, low=-3, high=3)})


@model(rtol=1e-3, atol=1e-3)
def keyword_spotter(folder):
    """Waveform to log-mel spectrogram to MFCC, normalised over time, convolved, pooled by attention."""
    m = tf.Module()
    m.k, m.q, m.w = tf.Variable(floats(1, 3, 13, 8)), tf.Variable(floats(2, 8, 1)), tf.Variable(floats(3, 8, 5))

    def f(wave):
        mag = tf.abs(tf.signal.stft(wave, 64, 32, 64, pad_end=True))
        mel = tf.signal.linear_to_mel_weight_matrix(20, 33, 8000, 80., 3800.)
        log_mel = tf.math.log(tf.tensordot(mag, mel, 1) + 1e-3)
        cc = tf.signal.mfccs_from_log_mel_spectrograms(log_mel)[..., :13]
        mean, var = tf.nn.moments(cc, [1], keepdims=True)
        h = tf.nn.relu(tf.nn.conv1d((cc - mean) * tf.math.rsqrt(var + 1e-3), m.k, 1, "SAME"))
        a = tf.nn.softmax(tf.einsum("btc,co->bto", h, m.q), 1)
        return {"scores": tf.nn.softmax(tf.matmul(tf.reduce_sum(a * h, 1), m.w)), "attention": a[..., 0], "energy": tf.reduce_mean(tf.square(tf.signal.frame(wave, 64, 32)), -1)}
    save(folder, {"serving_default": (f, {"wave": ([None, None], F)})}, m)
    yield case({"wave": floats(1, 2, 400)})
    yield case({"wave": floats(2, 1, 97)})


@model
def routed_experts(folder):
    """Top-2 routing with capacity: positions by cumulative sums, dispatch by scatter, combination by gather."""
    m = tf.Module()
    m.gate, m.up, m.down = tf.Variable(floats(1, 6, 4)), tf.Variable(floats(2, 4, 6, 10)), tf.Variable(floats(3, 4, 10, 6))

    def f(x):
        n = tf.shape(x)[0]
        best = tf.math.top_k(tf.nn.softmax(tf.matmul(x, m.gate)), 2)
        w = best.values / tf.reduce_sum(best.values, -1, keepdims=True)
        hot = tf.one_hot(tf.reshape(tf.transpose(best.indices), [-1]), 4, dtype=tf.int32)
        place = tf.reduce_sum((tf.cumsum(hot, exclusive=True)) * hot, -1)
        expert, capacity = tf.argmax(hot, -1, tf.int32), tf.maximum(n // 2, 1)
        fits = place < capacity
        slot = tf.where(fits, expert * capacity + place, 4 * capacity)
        room = tf.tensor_scatter_nd_update(tf.zeros([4 * capacity + 1, 6]), slot[:, None], tf.tile(x, [2, 1]))
        h = tf.einsum("ecd,edh->ech", tf.reshape(room[:-1], [4, capacity, 6]), m.up)
        y = tf.reshape(tf.einsum("ech,ehd->ecd", tf.nn.gelu(h), m.down), [-1, 6])
        back = tf.gather(tf.concat([y, tf.zeros([1, 6])], 0), slot) * tf.cast(fits, tf.float32)[:, None]
        out = tf.reduce_sum(tf.reshape(back, [2, n, 6]) * tf.transpose(w)[..., None], 0)
        return {"y": out, "dropped": tf.reduce_sum(tf.cast(~fits, tf.int32)), "load": tf.reduce_sum(hot, 0)}
    save(folder, {"serving_default": (f, {"x": ([None, 6], F)})}, m)
    yield case({"x": floats(1, 7, 6)})


@model
def jagged_attention(folder):
    """Self-attention over ragged sequences: padded with a mask, and token by token through tf.map_fn."""
    m = tf.Module()
    m.e, m.qkv = tf.Variable(floats(1, 20, 8)), tf.Variable(floats(2, 8, 24))

    def one(ids):
        q, k, v = tf.split(tf.matmul(tf.gather(m.e, ids), m.qkv), 3, -1)
        return tf.matmul(tf.nn.softmax(tf.matmul(q, k, transpose_b=True) / 2.83), v)

    def f(values, lengths):
        ids = tf.RaggedTensor.from_row_lengths(values, lengths)
        each = tf.map_fn(one, ids, fn_output_signature=tf.RaggedTensorSpec([None, 8], tf.float32, 0))
        x = ids.to_tensor()
        q, k, v = tf.split(tf.tensordot(tf.gather(m.e, x), m.qkv, 1), 3, -1)
        mask = tf.sequence_mask(lengths, tf.shape(x)[1])
        s = tf.where(mask[:, None, :], tf.matmul(q, k, transpose_b=True) / 2.83, -1e9)
        dense = tf.RaggedTensor.from_tensor(tf.matmul(tf.nn.softmax(s), v), lengths)
        return {"each": each.flat_values, "dense": dense.flat_values, "rows": tf.reduce_max(each, 1), "same": tf.reduce_all(tf.abs(each.flat_values - dense.flat_values) < 1e-4)}
    save(folder, {"serving_default": (f, {"values": ([None], I), "lengths": ([None], J)})}, m)
    yield case({"values": ints(1, 9, high=20), "lengths": [4, 1, 3, 1]})
    yield case({"values": ints(2, 3, high=20), "lengths": [3]})


@model(stateful=True, vary=False)
def sessions_in_tables(folder):
    """Several signatures that share a mutable table and a counter: profiles put, looked up, and counted."""
    m = tf.Module()
    m.seen, m.count = tf.lookup.experimental.MutableHashTable(tf.string, tf.float32, tf.zeros([3])), tf.Variable(0, dtype=tf.int64)

    def put(key, value):
        m.seen.insert(key, m.seen.lookup(key) * .5 + value)
        return {"n": m.count.assign_add(tf.size(key, tf.int64)), "size": m.seen.size()}
    save(folder, {"put": (put, {"key": ([None], S), "value": ([None, 3], F)}), "get": (lambda key: {"v": m.seen.lookup(key), "n": tf.identity(m.count)}, {"key": ([None, None], S)})}, m)
    yield case({"key": [["a", "b"]]}, signature="get")
    yield case({"key": ["a", "c"], "value": floats(1, 2, 3)}, signature="put")
    yield case({"key": ["a"], "value": floats(2, 1, 3)}, signature="put")
    yield case({"key": [["a", "b"], ["c", ""]]}, signature="get")


@model
def addresses_of_strings(folder):
    """Strings alone: parsed, joined, padded, numbered, hashed; nothing but text in and out."""
    def f(line):
        fields = tf.strings.split(line, ",")
        n = fields.row_lengths()
        first = tf.where(n > 0, tf.gather(tf.concat([fields.flat_values, [""]], 0), tf.minimum(fields.row_starts(), tf.size(fields.flat_values, tf.int64))), "none")
        tidy = tf.strings.regex_replace(tf.strings.strip(first), r"\s+", " ")
        return {"first": tidy, "upper": tf.strings.upper(tidy, encoding="utf-8"), "bytes": tf.strings.length(line), "chars": tf.strings.length(line, unit="UTF8_CHAR"),
                "joined": tf.strings.reduce_join(fields, axis=-1, separator="|"), "digits": tf.strings.regex_full_match(tidy, "[0-9]+"), "key": tf.strings.join([tf.strings.as_string(tf.strings.to_hash_bucket_fast(tidy, 1000), width=4, fill="0"), tf.strings.substr(tidy, 0, 3, unit="UTF8_CHAR")], "-"),
                "code": tf.io.encode_base64(line), "sorted": tf.strings.format("{}", tf.sort(tf.strings.length(line)))}
    save(folder, {"serving_default": (f, {"line": ([None], S)})})
    yield case({"line": ["12 Main  St , Springfield,IL", "", "Zürich,8001", "42", " , "]})


@model
def wordpiece_by_hand(folder):
    """Greedy longest match over a vocabulary table, in a loop over positions."""
    m = tf.Module()
    m.vocabulary = table(tf, ["un", "##aff", "##able", "##a", "##b", "able", "a", "b", "[UNK]"], list(range(9)), -1)

    def f(words):
        def longest(word, start):
            n = tf.strings.length(word)
            ends = tf.range(n, start, -1)
            pieces = tf.strings.substr(tf.fill(tf.shape(ends), word), tf.fill(tf.shape(ends), start), ends - start)
            pieces = tf.cond(start > 0, lambda: tf.strings.join(["##", pieces]), lambda: pieces)
            found = tf.where(m.vocabulary.lookup(pieces) >= 0)
            return tf.cond(tf.size(found) > 0, lambda: (ends[found[0, 0]], m.vocabulary.lookup(pieces[found[0, 0]])), lambda: (n, 8))

        def ids(word):
            out, at, step = tf.TensorArray(tf.int32, 0, True, element_shape=[]), tf.constant(0), tf.constant(0)
            while at < tf.strings.length(word):
                at, piece = longest(word, at)
                out, step = out.write(step, piece), step + 1
            return tf.RaggedTensor.from_row_splits(out.stack(), [0, step]).values
        r = tf.map_fn(ids, words, fn_output_signature=tf.RaggedTensorSpec([None], tf.int32, 0))
        return {"ids": r.to_tensor(-1), "n": r.row_lengths()}
    save(folder, {"serving_default": (f, {"words": ([None], S)})}, m)
    yield case({"words": ["unaffable", "able", "xyz", "ab", ""]})


@model
def beam_search(folder):
    """A decoder with a beam in tf.while_loop: scores with a length penalty, finished beams kept, backpointers gathered."""
    m = tf.Module()
    m.e, m.h, m.o = tf.Variable(floats(1, 9, 5)), tf.Variable(floats(2, 10, 5)), tf.Variable(floats(3, 5, 9, low=-3, high=3))

    def f(start):
        b, k, steps = tf.shape(start)[0], 3, 6

        def step(t, state, tokens, scores, done):
            state = tf.tanh(tf.matmul(tf.concat([state, tf.gather(m.e, tokens[:, -1])], -1), m.h))
            logp = tf.nn.log_softmax(tf.matmul(state, m.o))
            logp = tf.where(done[:, None], tf.where(tf.range(9)[None] == 0, 0., -1e9), logp)
            total = tf.reshape(scores[:, None] + logp, [b, k * 9])
            best = tf.math.top_k(total, k)
            parent = tf.reshape(best.indices // 9 + tf.range(b)[:, None] * k, [-1])
            token = tf.reshape(best.indices % 9, [-1])
            tokens = tf.concat([tf.gather(tokens, parent), token[:, None]], 1)
            return t + 1, tf.gather(state, parent), tokens, tf.reshape(best.values, [-1]), tf.gather(done, parent) | (token == 0)
        first = tf.tile(tf.constant([[0., -1e9, -1e9]]), [b, 1])
        loop = (tf.constant(0), tf.repeat(start, k, 0), tf.ones([b * k, 1], tf.int32), tf.reshape(first, [-1]), tf.zeros([b * k], tf.bool))
        shapes = (tf.TensorShape([]), tf.TensorShape([None, 5]), tf.TensorShape([None, None]), tf.TensorShape([None]), tf.TensorShape([None]))
        t, _, tokens, scores, done = tf.while_loop(lambda t, s, y, z, d: (t < steps) & ~tf.reduce_all(d), step, loop, shape_invariants=shapes)
        length = tf.reduce_sum(tf.cast(tokens != 0, tf.float32), 1)
        return {"tokens": tf.reshape(tokens, [b, k, -1]), "scores": tf.reshape(scores / tf.pow((5. + length) / 6., .6), [b, k]), "done": tf.reshape(done, [b, k])}
    save(folder, {"serving_default": (f, {"start": ([None, 5], F)})}, m)
    yield case({"start": floats(1, 2, 5)})


@model
def sampled_images_augmented(folder):
    """Augmentation by stateless seeds inside of the graph: crops, flips, colour, cutout, mixup; the same seed gives the same picture."""
    def f(image, seed):
        s = lambda i: seed + tf.constant([i, 0])
        t = tf.image
        x = t.stateless_random_crop(image, [8, 8, 3], s(1))
        x = t.stateless_random_flip_up_down(t.stateless_random_flip_left_right(x, s(2)), s(3))
        x = t.stateless_random_contrast(t.stateless_random_brightness(x, .2, s(4)), .8, 1.2, s(5))
        x = tf.clip_by_value(t.stateless_random_saturation(x, .7, 1.3, s(6)), 0., 1.)
        at = tf.random.stateless_uniform([2], s(7), 0, 6, tf.int32)
        grid = tf.stack(tf.meshgrid(tf.range(8), tf.range(8), indexing="ij"), -1)
        hole = tf.reduce_all((grid >= at) & (grid < at + 3), -1)
        lam = tf.random.stateless_uniform([], s(8))
        return {"cut": tf.where(hole[..., None], .5, x), "mix": lam * x + (1 - lam) * x[::-1], "turned": t.rot90(x, tf.random.stateless_uniform([], s(9), 0, 4, tf.int32)), "quality": t.stateless_random_jpeg_quality(tf.cast(x * 255, tf.uint8), 70, 71, s(10)), "box": tf.stack(t.stateless_sample_distorted_bounding_box([10, 10, 3], tf.constant([[[.2, .2, .8, .8]]]), s(11), min_object_covered=.3).begin)}
    save(folder, {"serving_default": (f, {"image": ([10, 10, 3], F), "seed": ([2], I)})})
    for i in range(4):
        yield case({"image": floats(1, 10, 10, 3, low=0), "seed": [i, 7 * i]})


@model(vary=False)
def pipelines_of_windows(folder):
    """tf.data inside of functions: windows, padded batches, unique elements, groups, tables made of datasets."""
    data = tf.data.Dataset
    zero = np.int64(0)
    fold = lambda a, v: a * 3 + tf.reduce_sum(tf.cast(v, tf.int64))

    def numbers(n):
        return data.range(tf.cast(n, tf.int64))
    kinds = {
        "windows": lambda r: r.window(3, 2, 2, drop_remainder=True).flat_map(lambda w: w.batch(3)), "short": lambda r: r.window(3, 3).flat_map(lambda w: w.batch(9)),
        "padded": lambda r: r.map(lambda i: tf.fill([i % 4], i)).padded_batch(3), "wide": lambda r: r.map(lambda i: (tf.fill([i % 4, 2], i), i)).padded_batch(2, ([5, 3], []), (np.int64(-1), zero), True).map(lambda a, b: tf.reduce_sum(a) + tf.reduce_sum(b)),
        "unique": lambda r: r.map(lambda i: i * i % 5).unique(), "groups": lambda r: r.group_by_window(lambda i: i % 3, lambda k, w: w.batch(4), 2),
        "rebatched": lambda r: r.batch(5).rebatch([2, 1]), "chosen": lambda r: data.choose_from_datasets([r, r.map(lambda i: i * 10)], data.range(2).repeat(3)),
        "lines": lambda r: r.map(lambda i: tf.strings.as_string(i % 3)).unique().map(lambda t: tf.strings.to_number(t, tf.int64)), "parallel": lambda r: r.filter(lambda i: i % 2 == 0).interleave(lambda i: data.range(i), cycle_length=2, num_parallel_calls=2),
        "bucketed": lambda r: r.map(lambda i: tf.fill([i % 5 + 1], i)).bucket_by_sequence_length(tf.size, [3, 5], [2, 2, 2]), "ragged": lambda r: r.map(lambda i: tf.range(i % 3)).ragged_batch(2).map(lambda t: t.flat_values)}
    save(folder, {k: ((lambda make: lambda n: {"y": make(numbers(n)).reduce(zero, fold)})(make), {"n": ([], I)}) for k, make in kinds.items()})
    for k in kinds:
        yield case({"n": 9}, signature=k, id=k)
        yield case({"n": 0}, signature=k, id=k + "0")
