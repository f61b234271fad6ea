"""tf.Module and tf.function: signal, images, linear algebra, strings, ragged, sparse, sets, tables, parsing."""
import numpy as np
from harness import D, F, I, J, Lazy, S, case, floats, ints, model, save

tf = Lazy("tensorflow")


@model(rtol=1e-3, atol=1e-3, skip=("nonfinite",))   # which infinity of a transform is NaN is the algorithm's
def signal(folder):
    s = tf.signal

    def frames(x):
        z = s.stft(x, 64, 16, 64, pad_end=True)
        mag = tf.abs(z)
        mel = tf.tensordot(mag, s.linear_to_mel_weight_matrix(10, 33, 8000, 80., 3800.), 1)
        return {"back": s.inverse_stft(z, 64, 16, 64, window_fn=s.inverse_stft_window_fn(16)), "mfcc": s.mfccs_from_log_mel_spectrograms(tf.math.log(mel + 1e-2))[..., :7], "mag": mag,
                "frame": s.frame(x, 30, 7, pad_end=True, pad_value=-1.), "overlap": s.overlap_and_add(s.frame(x, 20, 10), 5)}

    def transforms(x):
        out = {f"dct{k}_{n}": s.dct(x, type=k, norm=n if k != 1 else None) for k in (1, 2, 3, 4) for n in (None, "ortho")}
        out.update({f"idct{k}": s.idct(x, type=k) for k in (1, 2, 3, 4)})
        z = tf.cast(x, tf.complex64)
        n = tf.shape(x)[-1]
        h = tf.concat([tf.ones([1]), 2 * tf.ones([n // 2 - 1]), tf.ones([1]), tf.zeros([n - n // 2 - 1])], 0)
        out["hilbert"] = tf.abs(s.ifft(s.fft(z) * tf.cast(h, tf.complex64)))
        out["rfft"], out["irfft"] = tf.abs(s.rfft(x, [20])), s.irfft(s.rfft(x), [15])
        out["shift"], out["mdct"] = s.fftshift(x, axes=-1), s.mdct(tf.tile(x, [1, 4]), 16)
        for n in ("hann", "hamming", "vorbis", "kaiser_bessel_derived", "kaiser"):
            out[n] = getattr(s, n + "_window")(16) * tf.reduce_sum(x)
        return out

    def planes(x):
        z = tf.complex(x, x[::-1])
        return {"fft2": tf.abs(s.fft2d(z)), "fft3": tf.math.real(s.fft3d(z)), "irfft2": s.irfft2d(s.rfft2d(x)), "ifft2": tf.math.imag(s.ifft2d(z)), "rfft3": tf.math.real(s.rfft3d(x))}
    save(folder, {"serving_default": (frames, {"x": ([None, None], F)}), "transforms": (transforms, {"x": ([None, 16], F)}), "planes": (planes, {"x": ([None, 4, 6], F)})})
    yield case({"x": floats(1, 2, 400)})
    yield case({"x": floats(1, 2, 16)}, signature="transforms")
    yield case({"x": floats(1, 3, 4, 6)}, signature="planes")


@model(rtol=1e-3, atol=1e-3)
def image_colour(folder):
    i = tf.image

    def colours(x):
        y = {n: getattr(i, n)(x) for n in ("rgb_to_hsv", "rgb_to_yiq", "rgb_to_yuv", "rgb_to_grayscale", "flip_left_right", "flip_up_down", "transpose", "per_image_standardization", "total_variation", "rot90")}
        y.update(hsv=i.hsv_to_rgb(x), yiq=i.yiq_to_rgb(x), yuv=i.yuv_to_rgb(x), gray=i.grayscale_to_rgb(x[..., :1]), bright=i.adjust_brightness(x, -.2), contrast=i.adjust_contrast(x, 1.7), gamma=i.adjust_gamma(x, .7, 1.1),
                 hue=i.adjust_hue(x, .3), sat=i.adjust_saturation(x, .4), rot3=i.rot90(x, 3), sobel=i.sobel_edges(x), dx=i.image_gradients(x)[0], crop=i.central_crop(x, .6), box=i.crop_to_bounding_box(x, 1, 2, 3, 4),
                 pad=i.pad_to_bounding_box(x, 2, 1, 14, 15), either=i.resize_with_crop_or_pad(x, 5, 20), patches=i.extract_patches(x, [1, 3, 2, 1], [1, 2, 3, 1], [1, 2, 1, 1], "SAME"),
                 uint8=i.convert_image_dtype(x, tf.uint8, saturate=True), int16=i.convert_image_dtype(x, tf.int16))
        return y

    def compare(a, b):
        return {"psnr": i.psnr(a, b, 1.), "ssim": i.ssim(a, b, 1., filter_size=5), "multi": i.ssim_multiscale(a, b, 1., power_factors=[.5, .5], filter_size=3)}
    save(folder, {"serving_default": (colours, {"x": ([None, 9, 11, 3], F)}), "compare": (compare, {"a": ([None, 24, 24, 3], F), "b": ([None, 24, 24, 3], F)})})
    yield case({"x": floats(1, 2, 9, 11, 3, low=0)})
    yield case({"a": floats(1, 2, 24, 24, 3, low=0), "b": floats(1, 2, 24, 24, 3, low=0) * .9}, signature="compare")


@model(rtol=1e-3, atol=1e-3)
def image_resize(folder):
    def resize(x):
        y = {}
        for m in ("bilinear", "lanczos3", "lanczos5", "bicubic", "gaussian", "nearest", "area", "mitchellcubic"):
            for n, size in (("up", [13, 17]), ("down", [3, 4])):
                y[f"{m}_{n}"] = tf.image.resize(x, size, m)
                if m != "area" and m != "nearest":
                    y[f"{m}_{n}_aa"] = tf.image.resize(x, size, m, antialias=True)
        y["ratio"] = tf.image.resize(x, [20, 7], preserve_aspect_ratio=True)
        y["pad"] = tf.image.resize_with_pad(x, 8, 20)
        v = tf.compat.v1.image
        y["v1_aligned"], y["v1_nearest"], y["v1_cubic"] = v.resize_bilinear(x, [5, 6], align_corners=True), v.resize_nearest_neighbor(x, [5, 6], align_corners=True), v.resize_bicubic(x, [5, 6])
        return y

    def crops(x, boxes, which):
        return {"bilinear": tf.image.crop_and_resize(x, boxes, which, [4, 5], extrapolation_value=9.), "nearest": tf.image.crop_and_resize(x, boxes, which, [3, 3], method="nearest"),
                "draw": tf.image.draw_bounding_boxes(x, boxes[None] * tf.ones([tf.shape(x)[0], 1, 1]), [[1., 0, 0], [0, 1., 0]])}

    def ints_(x):
        return {m: tf.image.resize(x, [5, 4], m) for m in ("nearest", "bilinear", "area", "bicubic")}
    save(folder, {"serving_default": (resize, {"x": ([None, None, None, 3], F)}), "crops": (crops, {"x": ([None, 8, 9, 3], F), "boxes": ([None, 4], F), "which": ([None], I)}),
                  "ints": (ints_, {"x": ([None, None, None, 2], "uint8")})})
    yield case({"x": floats(1, 2, 7, 9, 3, low=0, high=10)})
    yield case({"x": floats(1, 2, 8, 9, 3), "boxes": [[0, 0, 1, 1], [.9, .8, .1, -.2], [-.5, .2, 1.5, .7]], "which": [0, 1, 1]}, signature="crops")
    yield case({"x": floats(1, 1, 8, 9, 3), "boxes": [[0, 0, 1, 1]], "which": [1]}, signature="crops", id="no_such_image")
    yield case({"x": ints(1, 2, 7, 9, 2, high=256)}, signature="ints")


@model(rtol=1e-3, atol=1e-3)
def suppression(folder):
    i = tf.image

    def nms(boxes, scores):
        a = i.non_max_suppression(boxes, scores, 6, .4, .1)
        b, s = i.non_max_suppression_with_scores(boxes, scores, 6, .6, .05, .5)
        c, n = i.non_max_suppression_padded(boxes, scores, 8, .5, pad_to_max_output_size=True)
        d = i.non_max_suppression_overlaps(tf.matmul(boxes, boxes, transpose_b=True) / 8, scores, 5, .3)
        return {"plain": a, "soft": b, "soft_scores": s, "padded": c, "valid": n, "overlaps": d}

    def combined(boxes, scores):
        r = i.combined_non_max_suppression(boxes[:, :, None], scores, 3, 7, .4, .2, clip_boxes=True)
        p = i.combined_non_max_suppression(tf.tile(boxes[:, :, None], [1, 1, 4, 1]), scores, 2, 9, .6, .1, pad_per_class=True, clip_boxes=False)
        return {"boxes": r[0], "scores": r[1], "classes": r[2], "valid": r[3], "pboxes": p[0], "pclasses": p[2]}
    save(folder, {"serving_default": (nms, {"boxes": ([None, 4], F), "scores": ([None], F)}), "combined": (combined, {"boxes": ([None, None, 4], F), "scores": ([None, None, 4], F)})})
    corner = floats(1, 20, 2, low=0, high=.7)
    boxes = np.concatenate([corner, corner + floats(2, 20, 2, low=.1, high=.5)], 1)
    yield case({"boxes": boxes, "scores": floats(3, 20, low=0)})
    yield case({"boxes": np.stack([boxes, boxes[::-1]]), "scores": floats(4, 2, 20, 4, low=0)}, signature="combined")


@model(rtol=2e-3, atol=2e-3, skip=("nonfinite",))
def linear_algebra(folder):
    l = tf.linalg

    def square(x):
        spd = tf.matmul(x, x, transpose_b=True) + 3 * tf.eye(4)
        e, v = l.eigh(spd)
        q, r = l.qr(spd)
        lu, p = l.lu(spd)
        return {"det": l.det(spd), "inv": l.inv(spd), "chol": l.cholesky(spd), "logdet": l.logdet(spd), "eig": e, "eigvals": l.eigvalsh(spd), "eigv": tf.abs(v), "sv": l.svd(spd, compute_uv=False), "qr": tf.matmul(q, r),
                "lu": lu, "perm": p, "lu_back": l.lu_reconstruct(lu, p), "lu_solve": l.lu_solve(lu, p, x), "solve": l.solve(spd, x, adjoint=True), "tri": l.triangular_solve(spd, x, lower=False),
                "chol_solve": l.cholesky_solve(l.cholesky(spd), x), "expm": l.expm(x / 2), "slog": l.slogdet(spd)[1], "trace": l.trace(x),
                "band": l.band_part(x, 1, 0), "diag": l.diag_part(x), "diag_k": l.diag_part(x, k=(-1, 2), padding_value=7.), "set": l.set_diag(x, x[..., 0]), "adj": l.adjoint(x), "norm": l.norm(x, axis=[-2, -1]),
                "norm1": l.norm(x, 1, axis=-1), "norminf": l.norm(x, np.inf, axis=0), "nuclear": l.matrix_rank(x), "pinv": l.pinv(x), "cross": l.cross(x[..., :3], x[..., 1:]), "lstsq": l.lstsq(spd, x, l2_regularizer=.1),
                "einsum": tf.einsum("bij,bkj,bkl->il", x, x, spd), "power": l.matmul(x, x, transpose_a=True), "matvec": l.matvec(spd, x[..., 0]), "l2": l.l2_normalize(x, -1), "norm2": l.normalize(x, axis=-1)[0]}

    def structured(x):
        ops = [l.LinearOperatorDiag(x), l.LinearOperatorCirculant(tf.cast(x + 5, tf.complex64), input_output_dtype=tf.complex64), l.LinearOperatorToeplitz(x, x), l.LinearOperatorHouseholder(x),
               l.LinearOperatorKronecker([l.LinearOperatorDiag(x), l.LinearOperatorDiag(x + 1)])]
        y = {f"dense{k}": tf.math.real(o.to_dense()) for k, o in enumerate(ops)}
        y["diag"], y["tensor"] = l.diag(x, k=1, num_rows=6, num_cols=5, padding_value=-1.), l.tensor_diag(x[0])
        return y
    save(folder, {"serving_default": (square, {"x": ([None, 4, 4], F)}), "structured": (structured, {"x": ([None, 4], F)})})
    yield case({"x": floats(1, 3, 4, 4)})
    yield case({"x": floats(1, 2, 4)}, signature="structured")


@model(rtol=1e-6, atol=1e-8, skip=("nonfinite",))
def linear_double_complex(folder):
    l = tf.linalg

    def f(x):
        z = tf.complex(x, tf.linalg.matrix_transpose(x) / 2)
        h = tf.matmul(z, z, adjoint_b=True) + tf.cast(tf.eye(3) * 2, tf.complex128)
        return {"chol": l.cholesky(h), "inv": l.inv(z), "det": l.det(z), "eig": l.eigvalsh(h), "solve": l.solve(z, h), "svd": l.svd(z, compute_uv=False), "exp": l.expm(z), "abs": tf.abs(l.eigvals(x)) * 0 + 1,
                "adj": l.adjoint(z), "trisolve": l.triangular_solve(h, z, adjoint=True)}
    save(folder, {"serving_default": (f, {"x": ([None, 3, 3], D)})})
    yield case({"x": floats(1, 2, 3, 3, dtype="float64")})


@model
def string_ops(folder):
    s = tf.strings

    def f(x):
        return {"upper": s.upper(x, "utf-8"), "lower": s.lower(x), "strip": s.strip(x), "length": s.length(x, "UTF8_CHAR"), "bytes": s.length(x), "reduce": s.reduce_join(x, -1, separator="|"), "sub": s.substr(s.join([x, "abc"]), 1, 3, "UTF8_CHAR"), "subneg": s.substr(s.join([x, "abc"]), -2, 2),
                "regex": s.regex_replace(x, r"([aeiou])(\w)", r"<\2\1>", replace_global=True), "once": s.regex_replace(x, "o", "0", replace_global=False), "match": s.regex_full_match(x, "[a-z ]+"),
                "hash": s.to_hash_bucket_fast(x, 1000), "strong": s.to_hash_bucket_strong(x, 1000, [1, 2]), "md": s.to_hash_bucket(x, 97), "join": s.join([x, "-", x], "+"), "script": s.unicode_script(s.unicode_decode(x, "UTF-8").to_tensor(32)),
                "format": s.format("x={} and {}", (x, s.length(x))), "enc": tf.io.encode_base64(x, pad=True), "dec": tf.io.decode_base64(tf.io.encode_base64(x)), "points": s.unicode_decode(x, "UTF-8").to_tensor(-1),
                "transcode": s.unicode_transcode(x, "UTF-8", "UTF-16-BE"), "chars": s.unicode_split(x, "UTF-8").to_tensor("_"), "words": s.split(x).to_tensor(""), "csv": s.split(x, ",", maxsplit=1).to_tensor("?"),
                "back": s.unicode_encode(s.unicode_decode(x, "UTF-8"), "UTF-32-BE"), "offsets": s.unicode_decode_with_offsets(x, "UTF-8")[1].to_tensor(-9), "ngrams": s.ngrams(s.split(x), [1, 2], "~").to_tensor(""),
                "bytes_split": s.bytes_split(x).to_tensor("."), "eq": tf.equal(x, "abc"), "normal": tf.strings.regex_replace(x, r"\s+", " ")}

    def numbers(x):
        return {"f": s.to_number(s.strip(x)), "d": s.to_number(x, tf.float64), "as": s.as_string(s.to_number(x), precision=3, width=9, fill="0"), "sci": s.as_string(s.to_number(x), scientific=True), "short": s.as_string(s.to_number(x), shortest=True),
                "i": s.as_string(tf.cast(s.to_number(x), tf.int64)), "b": s.as_string(s.to_number(x) > 1), "c": s.as_string(tf.complex(s.to_number(x), 1.))}
    save(folder, {"serving_default": (f, {"x": ([None], S)}), "numbers": (numbers, {"x": ([None], S)})})
    yield case({"x": ["Hello, wörld", "abc", "", " über  straße ÀÉ ", "日本語 テキスト,😀 x", "a,b,c"]})
    yield case({"x": [b"\xff\xfebad", "ok \u0301combined"]}, id="bad_utf8")
    yield case({"x": ["1", "-2.5e3", "inf", "nan", "1e-40", "  7"]}, signature="numbers")
    yield case({"x": ["1", "2,0"]}, signature="numbers", id="no_number")
    yield case({"x": ["0x1F"]}, signature="numbers", id="hex")


@model
def wordpiece(folder):
    """A tokeniser as in tf.text: whitespace, punctuation, greedy longest match in a vocabulary."""
    vocab = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "un", "##aff", "##able", "the", "##s", "run", "##ning", "!", "a", "##b", "##c"]
    m = tf.Module()
    m.table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(vocab, tf.range(len(vocab), dtype=tf.int64)), 1)
    m.words = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(tf.range(len(vocab), dtype=tf.int64), vocab), "")

    def piece(word):
        n = tf.strings.length(word)
        out = tf.TensorArray(tf.int64, 0, dynamic_size=True, element_shape=[])
        start, bad = tf.constant(0), tf.constant(False)
        while start < n and not bad:
            end, found = n, tf.constant(-1, tf.int64)
            while end > start:
                part = tf.strings.substr(word, start, end - start)
                if start > 0:
                    part = tf.strings.join(["##", part])
                i = m.table.lookup(part)
                if i != 1:
                    found = i
                    break
                end -= 1
            if found < 0:
                bad = tf.constant(True)
            else:
                out = out.write(out.size(), found)
                start = end
        return tf.cond(bad, lambda: tf.constant([1], tf.int64), out.stack)

    def f(text):
        clean = tf.strings.regex_replace(tf.strings.lower(text), r"([!?.,])", r" \1 ")
        words = tf.strings.split(clean)
        ids = tf.map_fn(piece, words.flat_values, fn_output_signature=tf.RaggedTensorSpec([None], tf.int64))
        per_text = words.with_values(ids)
        joined = tf.concat([tf.fill([tf.shape(text)[0], 1], tf.constant(2, tf.int64)), per_text.merge_dims(1, 2), tf.fill([tf.shape(text)[0], 1], tf.constant(3, tf.int64))], 1)
        dense = joined.to_tensor(0, shape=[None, 8])
        return {"ids": dense, "mask": tf.cast(dense != 0, tf.int32), "lengths": joined.row_lengths(), "words": m.words.lookup(dense)}
    save(folder, {"serving_default": (f, {"text": ([None], S)})}, m)
    yield case({"text": ["the unaffable runs!", "running abc abcd", "", "un the the the the the the the"]})


@model
def ragged_ops(folder):
    R = Lazy("tensorflow.ragged")

    def f(values, lengths):
        r = tf.RaggedTensor.from_row_lengths(values, lengths)
        m = tf.reduce_mean(r, 1)
        return {"sum": tf.reduce_sum(r, 1), "max": tf.reduce_max(r, 1), "mean": m, "any": tf.reduce_any(r > .5, 1), "sorted": tf.sort(r.to_tensor(9.), 1), "width": tf.shape(r.to_tensor())[1:2],
                "dense": r.to_tensor(-1.), "cut": r.to_tensor(0., shape=[None, 2]), "cat": tf.concat([r, r * 2], 1).to_tensor(), "stack": tf.stack([r, -r], 0).to_tensor(), "slice": r[:, 1:].to_tensor(),
                "step": r[::2, :2].to_tensor(), "mask": R.boolean_mask(r, r > 0).to_tensor(), "range": R.range(lengths).to_tensor(-1), "tile": tf.tile(r, [1, 2]).to_tensor(), "rows": r.value_rowids(), "starts": r.row_starts(),
                "limits": r.row_limits(), "nested": r.bounding_shape(), "where": tf.where(r > 0), "softmax": tf.nn.softmax(r.to_tensor(-9.)), "sparse": r.to_sparse().indices, "map": R.map_flat_values(tf.square, r).to_tensor(),
                "expand": tf.expand_dims(r, 1).to_tensor(), "reverse": tf.reverse(r, [1]).to_tensor(), "cross": R.cross([tf.cast(r * 10, tf.int64), tf.cast(lengths[:, None], tf.int64)]).to_tensor(""),
                "embed": tf.nn.embedding_lookup(tf.reshape(tf.range(20.), [10, 2]), tf.cast(tf.abs(r) * 9, tf.int32)).to_tensor(), "size": tf.size(r), "top": tf.map_fn(tf.reduce_sum, r, fn_output_signature=tf.float32)}
    save(folder, {"serving_default": (f, {"values": ([None], F), "lengths": ([None], J)})})
    yield case({"values": floats(1, 9), "lengths": [3, 0, 5, 1]})
    yield case({"values": floats(1, 9), "lengths": [3, 0, 5]}, id="too_few")
    yield case({"values": floats(1, 2), "lengths": [3, -1]}, id="negative")


@model
def ragged_nested(folder):
    def f(x):
        sentences = tf.strings.split(x, ".")
        words = tf.strings.split(sentences.flat_values)
        deep = sentences.with_values(words)
        chars = tf.strings.unicode_split(deep.flat_values, "UTF-8")
        deeper = deep.with_flat_values(chars)
        return {"dense": deep.to_tensor(""), "n": tf.reduce_sum(deeper.row_lengths(3).to_tensor(), [1, 2]), "join": tf.strings.reduce_join(deep, -1, separator=" ").to_tensor("~"), "merged": deep.merge_dims(1, 2).to_tensor("#"),
                "chars": deeper.to_tensor("")[..., :2], "first": deep.to_tensor("!")[:, 0], "flat": deeper.flat_values, "lens": deep.bounding_shape()}
    save(folder, {"serving_default": (f, {"x": ([None], S)})})
    yield case({"x": ["a bc def. g", "one", "x.y.z zz", "."]})


@model
def sparse_ops(folder):
    p = Lazy("tensorflow.sparse")

    def f(indices, values, shape, d):
        s = p.reorder(tf.SparseTensor(indices, values, shape))
        t = p.transpose(s)
        return {"dense": p.to_dense(s), "matmul": p.sparse_dense_matmul(s, d), "adj": p.to_dense(t), "sum": p.reduce_sum(s, 1), "max": p.reduce_max(s, 0), "softmax": p.softmax(s).values,
                "concat": p.to_dense(p.concat(1, [s, s])), "slice": p.to_dense(p.slice(s, [0, 1], [2, 3])), "reshape": p.to_dense(p.reshape(s, [-1])), "add": p.to_dense(p.add(s, p.from_dense(p.to_dense(s)))), "retain": p.retain(s, s.values > 0).indices,
                "empty": p.fill_empty_rows(s, -7.)[0].values, "was_empty": p.fill_empty_rows(s, -7.)[1], "max2": p.maximum(s, s * .5).values, "expand": p.to_dense(p.expand_dims(s, 0)), "reset": p.reset_shape(s).dense_shape,
                "split": p.to_dense(p.split(s, 2, 1)[1]), "indicator": p.to_indicator(tf.SparseTensor(s.indices, tf.cast(tf.abs(s.values) * 4, tf.int64), s.dense_shape), 5), "scale": (s * tf.constant(2.)).values, "eye": p.to_dense(p.eye(2, 3)),
                "seg": p.segment_mean(d, [0, 1, 2], [0, 0, 2]), "segsqrt": p.segment_sqrt_n(d, [0, 1, 2], [0, 0, 2], num_segments=4), "bincount": p.to_dense(p.bincount(tf.cast(tf.abs(s.values) * 5, tf.int64), axis=0)), "map": p.map_values(tf.square, s).values,
                "lookup": tf.nn.safe_embedding_lookup_sparse(d, tf.SparseTensor(s.indices, tf.cast(s.indices[:, 0], tf.int64), s.dense_shape), combiner="mean"), "cross": p.cross_hashed([s.__class__(s.indices, tf.cast(s.indices[:, 1], tf.int64), s.dense_shape)] * 2, 50).values}
    save(folder, {"serving_default": (f, {"indices": ([None, 2], J), "values": ([None], F), "shape": ([2], J), "d": ([4, None], F)})})
    yield case({"indices": [[2, 0], [0, 1], [0, 3]], "values": floats(1, 3), "shape": [3, 4], "d": floats(2, 4, 2)})
    yield case({"indices": np.zeros([0, 2]), "values": floats(1, 0), "shape": [3, 4], "d": floats(2, 4, 2)}, id="no_values")
    yield case({"indices": [[2, 0], [2, 0], [0, 3]], "values": floats(1, 3), "shape": [3, 4], "d": floats(2, 4, 2)}, id="twice")


@model
def set_ops(folder):
    def f(a, b):
        z = tf.sets
        out = {"size": z.size(z.intersection(a, b))}
        for n in ("intersection", "union", "difference"):
            r = getattr(z, n)(a, b)
            out[n], out[n + "_i"] = r.values, r.indices
        out["unique"], out["idx"], out["count"] = tf.unique_with_counts(tf.reshape(a, [-1]))
        return out
    save(folder, {"serving_default": (f, {"a": ([None, None], J), "b": ([None, None], J)}), "strings": (lambda a, b: {"i": tf.sets.intersection(a, b).values, "u": tf.sets.union(a, b).values}, {"a": ([None, None], S), "b": ([None, None], S)})})
    yield case({"a": [[1, 2, 2, 9], [3, 3, 4, 5]], "b": [[2, 9, 10], [6, 7, 3]]})
    yield case({"a": [["x", "y", "x"]], "b": [["y", "z", "zz"]]}, signature="strings")


@model
def tables(folder):
    k = tf.lookup
    m = tf.Module()
    m.a = k.StaticHashTable(k.KeyValueTensorInitializer(tf.constant([1, 5, -3], tf.int64), tf.constant(["one", "five", "neg"])), "?")
    m.b = k.StaticVocabularyTable(k.KeyValueTensorInitializer(["x", "y"], tf.constant([0, 1], tf.int64)), 4)
    m.c = k.StaticHashTable(k.KeyValueTensorInitializer(tf.constant([3, 4]), tf.constant([.5, -1.5])), np.float32(9))
    m.d = k.experimental.DenseHashTable(tf.int64, tf.float32, [0., 0.], -1, -2)
    m.d.insert(tf.constant([7, 8], tf.int64), [[1., 2.], [3., 4.]])
    m.e = k.experimental.MutableHashTable(tf.string, tf.int64, -5)
    m.e.insert(tf.constant(["p", "q"]), tf.constant([10, 20], tf.int64))

    def f(i, s):
        return {"a": m.a.lookup(i), "b": m.b.lookup(s), "c": m.c.lookup(tf.cast(i, tf.int32)), "size": m.a.size() + m.b.size(), "has": m.b.lookup(s) < 2}

    def mutable(i, s):
        return {"d": m.d.lookup(i), "e": m.e.lookup(s), "n": m.e.size()}
    save(folder, {"serving_default": (f, {"i": ([None], J), "s": ([None], S)}), "mutable": (mutable, {"i": ([None], J), "s": ([None], S)})}, m)
    yield case({"i": [1, 3, 4, -3, 99], "s": ["x", "y", "z", "", "w"]})
    yield case({"i": [7, 8, 9], "s": ["p", "q", "none"]}, signature="mutable")


@model(stateful=True, vary=False)
def table_inserts(folder):
    k = tf.lookup.experimental
    m = tf.Module()
    m.t = k.MutableHashTable(tf.string, tf.float32, -1.)
    m.u = k.DenseHashTable(tf.int64, tf.int64, -1, -1, -2)

    def put(key, value, i):
        m.t.insert(key, value)
        m.u.insert(i, i * 2)
        return {"n": m.t.size(), "u": m.u.size()}

    def get(key, i):
        return {"v": m.t.lookup(key), "u": m.u.lookup(i)}

    def drop(key):
        m.t.remove(key)
        ks, vs = m.t.export()
        return {"n": m.t.size(), "all": tf.sort(vs), "keys": tf.shape(ks)}
    save(folder, {"put": (put, {"key": ([None], S), "value": ([None], F), "i": ([None], J)}), "get": (get, {"key": ([None], S), "i": ([None], J)}), "drop": (drop, {"key": ([None], S)})}, m)
    yield case({"key": ["a", "b", "a"], "value": [1, 2, 3], "i": [5, 6, 7]}, signature="put")
    yield case({"key": ["a", "b", "c"], "i": [5, 9, 7]}, signature="get")
    yield case({"key": ["b", "zz"]}, signature="drop")
    yield case({"key": ["a", "b", "c"], "i": [5, 9, 7]}, signature="get")
    yield case({"key": ["a", "b"], "value": [1], "i": [5]}, signature="put", id="uneven")


@model
def parsing(folder):
    o = tf.io

    def csv(x):
        r = o.decode_csv(x, [tf.constant([1.5]), tf.constant([], tf.int32), tf.constant(["none"]), tf.constant([0], tf.int64)], field_delim=";", na_value="NA")
        return dict(zip("abcd", r))

    def raw(x):
        return {"f": o.decode_raw(x, tf.float32), "u": o.decode_raw(x, tf.uint8), "big": o.decode_raw(x, tf.int16, little_endian=False), "i": o.decode_raw(x, tf.int32)}

    def tensors(x):
        packed = tf.map_fn(o.serialize_tensor, x, fn_output_signature=tf.string)
        return {"back": tf.map_fn(lambda p: o.parse_tensor(p, tf.float32), packed, fn_output_signature=tf.float32), "n": tf.strings.length(packed)}

    def examples(x):
        spec = {"f": o.FixedLenFeature([2], tf.float32, [0., 0.]), "v": o.VarLenFeature(tf.int64), "s": o.FixedLenSequenceFeature([], tf.string, allow_missing=True, default_value="!"),
                "r": o.RaggedFeature(tf.float32), "sp": o.SparseFeature("ix", "val", tf.float32, 7), "rp": o.RaggedFeature(tf.int64, "rv", [o.RaggedFeature.RowLengths("l")])}
        e = o.parse_example(x, spec)
        return {"f": e["f"], "v": tf.sparse.to_dense(e["v"], -1), "s": e["s"], "r": e["r"].to_tensor(-1.), "sp": tf.sparse.to_dense(e["sp"]), "rp": e["rp"].to_tensor(-5)}

    def sequence(x):
        c, s = o.parse_single_sequence_example(x[0], {"id": o.FixedLenFeature([], tf.int64)}, {"t": o.FixedLenSequenceFeature([2], tf.float32), "w": o.VarLenFeature(tf.string)})
        cc, ss, n = o.parse_sequence_example(x, {"id": o.FixedLenFeature([], tf.int64, -1)}, {"t": o.RaggedFeature(tf.float32), "w": o.FixedLenSequenceFeature([], tf.string, allow_missing=True)})
        return {"id": c["id"], "t": s["t"], "w": tf.sparse.to_dense(s["w"], ""), "ids": cc["id"], "tt": ss["t"].to_tensor(), "ww": ss["w"], "n": n["w"]}
    save(folder, {"serving_default": (csv, {"x": ([None], S)}), "raw": (raw, {"x": ([None], S)}), "tensors": (tensors, {"x": ([None, 3], F)}), "examples": (examples, {"x": ([None], S)}), "sequence": (sequence, {"x": ([None], S)})})
    yield case({"x": ['1.25;3;"a;""b""";9', ";4;;", "NA;5;x;NA"]})
    yield case({"x": ["1;;x;1"]}, id="required")
    yield case({"x": ["1;2;3"]}, id="too_few")
    yield case({"x": ["a;2;3;4"]}, id="no_float")
    yield case({"x": [np.arange(4, dtype=np.float32).tobytes(), floats(1, 4).tobytes()]}, signature="raw")
    yield case({"x": [b"1234", b"12345678"]}, signature="raw", id="uneven")
    yield case({"x": floats(1, 2, 3)}, signature="tensors")
    T = tf.train
    fl, il, bl = (lambda v: T.Feature(float_list=T.FloatList(value=v))), (lambda v: T.Feature(int64_list=T.Int64List(value=v))), (lambda v: T.Feature(bytes_list=T.BytesList(value=v)))
    ex = lambda **f: T.Example(features=T.Features(feature=f)).SerializeToString()
    yield case({"x": [ex(f=fl([1, 2]), v=il([4, 5, 6]), s=bl([b"p", b"q"]), r=fl([1]), ix=il([0, 6]), val=fl([.5, 1.5]), rv=il([4, 5, 6]), l=il([1, 2])), ex(s=bl([b"z"]), l=il([]))]}, signature="examples")
    yield case({"x": [ex(f=fl([1, 2]), ix=il([0, 7]), val=fl([.5, 1.5]))]}, signature="examples", id="sparse_outside")
    fs = lambda rows: T.FeatureList(feature=rows)
    sx = T.SequenceExample(context=T.Features(feature={"id": il([4])}), feature_lists=T.FeatureLists(feature_list={"t": fs([fl([1, 2]), fl([3, 4])]), "w": fs([bl([b"a"]), bl([b"b"])])})).SerializeToString()
    yield case({"x": [sx, sx]}, signature="sequence")
