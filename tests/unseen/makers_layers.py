"""Keras 3 layers, every class with unusual options, exported by Model.export."""
from harness import Lazy, case, floats, ints, model, shake

keras = Lazy("keras")
tf = Lazy("tensorflow")
L = Lazy("keras.layers")
ops = Lazy("keras.ops")


def fan(folder, shape, makers, *inputs, dtype="float32", first=None, **more):
    """One input, an output a layer: exported; its cases."""
    x = keras.Input(shape, dtype=dtype, name="x", **more)
    y = {}
    for name, layer in makers.items():
        out = layer(x)
        y[name] = out
    net = shake(keras.Model(x, y))
    net.export(folder, verbose=False)
    for v in inputs:
        yield case({"x": v})


@model
def conv1d(folder):
    C = L.Conv1D
    yield from fan(folder, (None, 6), {
        "causal": C(4, 3, padding="causal", activation="relu"), "dilated": C(4, 3, dilation_rate=3, padding="causal"), "same": C(5, 4, strides=3, padding="same"),
        "groups": C(6, 3, groups=3, use_bias=False), "dilated_valid": C(2, 2, dilation_rate=4, activation="gelu"), "dilated_same": C(4, 5, padding="same", dilation_rate=2),
        "depthwise": L.DepthwiseConv1D(3, depth_multiplier=2, padding="same", strides=2), "depthwise_dilated": L.DepthwiseConv1D(3, dilation_rate=2),
        "separable": L.SeparableConv1D(4, 3, depth_multiplier=3, padding="same", activation="swish"), "transpose": L.Conv1DTranspose(3, 4, strides=3, padding="same"),
        "transpose_out": L.Conv1DTranspose(3, 4, strides=3, output_padding=1, padding="valid")}, floats(1, 2, 11, 6), floats(2, 1, 20, 6), floats(2, 1, 3, 6))


@model
def conv2d(folder):
    C = L.Conv2D
    yield from fan(folder, (None, None, 4), {
        "groups": C(8, 3, groups=2, padding="same", activation="silu"), "dilated": C(3, (3, 2), dilation_rate=(2, 3)), "strided": C(3, (5, 3), strides=(2, 3), padding="same"),
        "all_groups": C(4, 3, groups=4, strides=2), "depthwise": L.DepthwiseConv2D((3, 5), depth_multiplier=3, padding="same", activation="hard_swish"),
        "depthwise_strided": L.DepthwiseConv2D(3, strides=2, padding="same"), "depthwise_dilated": L.DepthwiseConv2D(3, dilation_rate=2, padding="same"),
        "separable": L.SeparableConv2D(5, 3, strides=2, padding="same", depth_multiplier=2), "separable_dilated": L.SeparableConv2D(5, 3, dilation_rate=2),
        "even": C(2, 2, padding="same"), "one": C(7, 1, strides=2)}, floats(1, 2, 9, 11, 4), floats(2, 1, 5, 8, 4), floats(2, 1, 2, 2, 4))


@model
def conv3d(folder):
    yield from fan(folder, (None, None, None, 4), {
        "plain": L.Conv3D(3, 3, activation="tanh"), "strided": L.Conv3D(3, (1, 2, 3), strides=(1, 2, 1), padding="same"), "dilated": L.Conv3D(2, 2, dilation_rate=2, padding="same"),
        "groups": L.Conv3D(4, 3, groups=2, padding="same"), "transpose": L.Conv3DTranspose(2, 3, strides=2, padding="same"),
        "max": L.MaxPooling3D((2, 1, 3), strides=(1, 2, 2), padding="same"), "avg": L.AveragePooling3D(2, padding="same"), "gmax": L.GlobalMaxPooling3D(keepdims=True),
        "gavg": L.GlobalAveragePooling3D(), "up": L.UpSampling3D((1, 2, 2)), "crop": L.Cropping3D(((1, 0), (0, 1), (1, 1))), "pad": L.ZeroPadding3D((1, 0, 2))},
        floats(1, 2, 5, 6, 7, 4), floats(1, 1, 4, 4, 4, 4))


@model
def conv_transpose(folder):
    T = L.Conv2DTranspose
    yield from fan(folder, (None, None, 3), {
        "same": T(4, 3, strides=2, padding="same", activation="elu"), "valid": T(4, (3, 5), strides=(2, 3)), "out": T(2, 3, strides=2, padding="same", output_padding=1),
        "unit": T(5, 4, padding="same", use_bias=False), "big_stride": T(2, 2, strides=4)}, floats(1, 2, 4, 5, 3), floats(1, 1, 1, 1, 3))


@model
def pooling(folder):
    y = {"max": L.MaxPooling2D((3, 2), strides=(1, 2), padding="same"), "avg": L.AveragePooling2D(3, strides=2, padding="same"), "avg_valid": L.AveragePooling2D((2, 3)),
         "gmax": L.GlobalMaxPooling2D(), "gavg": L.GlobalAveragePooling2D(keepdims=True), "max1": L.TimeDistributed(L.MaxPooling1D(3, 2, padding="same")),
         "avg1": L.TimeDistributed(L.AveragePooling1D(2)), "gavg1": L.TimeDistributed(L.GlobalAveragePooling1D()), "gmax1": L.TimeDistributed(L.GlobalMaxPooling1D(keepdims=True))}
    for name in ("AdaptiveAveragePooling2D", "AdaptiveMaxPooling2D"):
        if hasattr(keras.layers, name):
            y[name] = getattr(L, name)((3, 2))
    yield from fan(folder, (7, 9, 3), y, floats(1, 2, 7, 9, 3), floats(2, 5, 7, 9, 3))


@model(rtol=1e-3, atol=1e-4)
def convlstm_1d_3d(folder):
    a, b = keras.Input((None, 8, 2), name="a"), keras.Input((3, 4, 4, 4, 1), name="b")
    y = {"one": L.ConvLSTM1D(3, 3, padding="same", return_sequences=True, go_backwards=True)(a), "strided": L.ConvLSTM1D(2, 2, strides=2, recurrent_activation="hard_sigmoid")(a),
         "three": L.ConvLSTM3D(2, 2, padding="same")(b), "bi": L.Bidirectional(L.ConvLSTM1D(2, 3, padding="same"), merge_mode="ave")(a)}
    shake(keras.Model([a, b], y)).export(folder, verbose=False)
    yield case({"a": floats(1, 2, 3, 8, 2), "b": floats(2, 2, 3, 4, 4, 4, 1)})


@model
def bidirectional(folder):
    x = keras.Input((None, 5), name="x")
    y = {m or "none": L.Bidirectional(L.LSTM(3, return_sequences=True), merge_mode=m)(x) for m in ("sum", "mul", "ave", "concat")}
    f, b = L.Bidirectional(L.GRU(3), merge_mode=None)(x)
    y.update(forward=f, backward=b, own=L.Bidirectional(L.GRU(2, return_sequences=True), backward_layer=L.SimpleRNN(2, return_sequences=True, go_backwards=True))(x))
    for i, s in enumerate(L.Bidirectional(L.LSTM(2, return_state=True))(x)):
        y[f"state{i}"] = s
    shake(keras.Model(x, y)).export(folder, verbose=False)
    yield case({"x": floats(1, 2, 4, 5)})
    yield case({"x": floats(1, 3, 1, 5)})
    yield case({"x": floats(1, 3, 0, 5)}, id="no_steps")


@model
def recurrent(folder):
    x = keras.Input((6, 4), name="x")
    cells = L.StackedRNNCells([L.LSTMCell(3), L.GRUCell(4, reset_after=False), L.SimpleRNNCell(2, activation="relu")])
    y = {"gru_before": L.GRU(3, reset_after=False)(x), "gru_unroll": L.GRU(3, unroll=True, return_sequences=True)(x), "lstm_dropout": L.LSTM(3, dropout=.2, recurrent_dropout=.3)(x),
         "lstm_odd": L.LSTM(3, activation="relu", recurrent_activation="hard_sigmoid", use_bias=False)(x), "simple": L.SimpleRNN(3, go_backwards=True, return_sequences=True)(x),
         "stacked": L.RNN(cells, return_sequences=True)(x), "lstm_back": L.LSTM(2, go_backwards=True, return_sequences=True, unroll=True)(x)}
    for i, s in enumerate(L.RNN(L.LSTMCell(3, unit_forget_bias=False), return_state=True)(x)):
        y[f"s{i}"] = s
    h = L.GRU(3, return_sequences=True)(x)
    y["with_state"] = L.GRU(3)(x, initial_state=L.Dense(3)(h[:, 0]))
    shake(keras.Model(x, y)).export(folder, verbose=False)
    yield case({"x": floats(1, 2, 6, 4)})


@model(stateful=True, vary=False)
def stateful_rnn(folder):
    x = keras.Input(batch_shape=(2, 3, 4), name="x")
    net = shake(keras.Model(x, [L.GRU(3, stateful=True)(L.LSTM(4, stateful=True, return_sequences=True)(x))]))
    net.export(folder, verbose=False)
    for i in range(3):
        yield case({"x": floats(i, 2, 3, 4)})
    yield case({"x": floats(9, 3, 3, 4)})


@model
def masking(folder):
    a, t = keras.Input((None, 3), name="a"), keras.Input((None,), dtype="int32", name="t")
    m = L.Masking(-1.)(a)
    e = L.Embedding(12, 4, mask_zero=True)(t)
    y = {"lstm": L.LSTM(3)(m), "gru": L.GRU(3, return_sequences=True, zero_output_for_mask=True)(m), "time": L.TimeDistributed(L.Dense(2))(m), "pool": L.GlobalAveragePooling1D()(e),
         "bi": L.Bidirectional(L.GRU(2))(e), "attention": L.MultiHeadAttention(2, 3)(e, e), "add": L.LSTM(2)(L.Add()([e, L.Embedding(12, 4, mask_zero=True)(t)])),
         "concat": L.GRU(2)(L.Concatenate()([m, L.Dense(2)(e)])), "dot": L.Attention()([e, e])}
    shake(keras.Model({"a": a, "t": t}, y)).export(folder, verbose=False)
    va = floats(1, 3, 5, 3)
    va[0, 3:] = -1
    va[1, 1:3] = -1
    yield case({"a": va, "t": [[1, 2, 3, 4, 5], [3, 0, 0, 0, 0], [0, 4, 0, 5, 0]]})
    yield case({"a": va[:1], "t": [[0, 0, 0, 0, 0]]})
    yield case({"a": va[:1], "t": [[0, 0, 0, 12, 0]]}, id="out_of_vocabulary")


@model
def attention(folder):
    q, v = keras.Input((None, 8), name="q"), keras.Input((None, 8), name="v")
    image = keras.Input((4, 5, 6), name="image")
    att, scores = L.MultiHeadAttention(2, 4, value_dim=3, output_shape=5)(q, v, return_attention_scores=True)
    y = {"att": att, "scores": scores, "causal": L.MultiHeadAttention(4, 2, use_bias=False)(q, q, use_causal_mask=True), "axes": L.MultiHeadAttention(2, 3, attention_axes=(1, 2))(image, image),
         "axis": L.MultiHeadAttention(2, 3, attention_axes=(2,))(image, image), "group": L.GroupQueryAttention(4, 4, 2)(q, v),
         "group_causal": L.GroupQueryAttention(3, 6, 1)(q, q, use_causal_mask=True), "dot": L.Attention(use_scale=True, score_mode="dot")([q, v]),
         "concat": L.Attention(score_mode="concat")([q, v]), "additive": L.AdditiveAttention()([q, v]), "causal_dot": L.Attention()([q, q], use_causal_mask=True)}
    shake(keras.Model([q, v, image], y)).export(folder, verbose=False)
    yield case({"q": floats(1, 2, 3, 8), "v": floats(2, 2, 5, 8), "image": floats(3, 2, 4, 5, 6)})
    yield case({"q": floats(1, 1, 1, 8), "v": floats(2, 1, 1, 8), "image": floats(3, 1, 4, 5, 6)})


@model(rtol=1e-3)
def normalisation(folder):
    yield from fan(folder, (6, 8), {
        "bn": L.BatchNormalization(scale=False), "bn_axis": L.BatchNormalization(axis=1, center=False, epsilon=1e-5), "ln": L.LayerNormalization(axis=[1, 2]),
        "ln_first": L.LayerNormalization(axis=1, scale=False), "ln_plain": L.LayerNormalization(center=False), "gn": L.GroupNormalization(groups=4), "gn1": L.GroupNormalization(groups=1, axis=1),
        "gn_all": L.GroupNormalization(groups=-1), "unit": L.UnitNormalization(axis=[1, 2]), "unit_last": L.UnitNormalization(), "spectral": L.SpectralNormalization(L.Dense(4), power_iterations=2),
        "rms": L.RMSNormalization(), "spectral_conv": L.SpectralNormalization(L.Conv1D(3, 2)), "ln_rms": L.LayerNormalization(rms_scaling=True) if "rms_scaling" in keras.layers.LayerNormalization.__init__.__code__.co_varnames
        else L.LayerNormalization()}, floats(1, 3, 6, 8), floats(2, 1, 6, 8, low=-100, high=100))


@model
def activations(folder):
    import inspect
    acts = {n: f for n, f in inspect.getmembers(keras.activations) if callable(f) and n not in ("get", "serialize", "deserialize", "threshold")}
    yield from fan(folder, (5, 4), {n: L.Activation(f) for n, f in acts.items()}, floats(1, 3, 5, 4, low=-6, high=6), floats(1, 1, 5, 4, low=-100, high=100))


@model
def activation_layers(folder):
    yield from fan(folder, (4, 5, 3), {
        "prelu": L.PReLU(shared_axes=[1]), "prelu_all": L.PReLU(), "leaky": L.LeakyReLU(negative_slope=.2), "elu": L.ELU(alpha=.7), "relu": L.ReLU(max_value=.6, negative_slope=.1, threshold=.2),
        "softmax": L.Softmax(axis=[1, 2]), "softmax_first": L.Softmax(axis=1), "noise": L.GaussianNoise(.3), "drop": L.GaussianDropout(.2), "alpha": L.AlphaDropout(.4), "spatial": L.SpatialDropout2D(.3),
        "regularise": L.ActivityRegularization(.1), "scale": L.Rescaling([2., 1., .5], offset=[0., 1., 2.]), "flip": L.Lambda(lambda x: x[:, ::-1, ::2])}, floats(1, 2, 4, 5, 3))


@model
def reshaping(folder):
    y = {"crop": L.Cropping2D(((1, 2), (0, 1))), "pad": L.ZeroPadding2D(((1, 0), (2, 3))), "reshape": L.Reshape((-1, 6)), "permute": L.Permute((3, 1, 2)), "flatten": L.Flatten(),
         "repeat": lambda x: L.RepeatVector(3)(L.Flatten()(x)), "crop1": L.TimeDistributed(L.Cropping1D(1)), "pad1": L.TimeDistributed(L.ZeroPadding1D((0, 2)))}
    for i in ("nearest", "bilinear", "bicubic", "lanczos3", "lanczos5"):
        y["up_" + i] = L.UpSampling2D((2, 3), interpolation=i)
    y["up1"] = L.TimeDistributed(L.UpSampling1D(3))
    yield from fan(folder, (6, 7, 2), y, floats(1, 2, 6, 7, 2))


@model
def merging(folder):
    a, b, c = (keras.Input((3, 4), name=n) for n in "abc")
    y = {"add": L.Add()([a, b, c]), "sub": L.Subtract()([a, b]), "mul": L.Multiply()([a, b, c]), "avg": L.Average()([a, b, c]), "max": L.Maximum()([a, b, c]), "min": L.Minimum()([a, b]),
         "cat": L.Concatenate(axis=1)([a, b, c]), "dot": L.Dot(axes=(1, 1))([a, b]), "cos": L.Dot(axes=-1, normalize=True)([a, b]), "dot21": L.Dot(axes=(2, 2))([L.Reshape((4, 3))(a), c[:, :, :3]]),
         "einsum": L.EinsumDense("abc,cde->abde", output_shape=(None, 2, 3), bias_axes="de")(a), "einsum_out": L.EinsumDense("...x,xy->...y", output_shape=5, activation="relu")(b),
         "dense": L.Dense(3, activation="selu", kernel_constraint="non_neg")(c)}
    shake(keras.Model([a, b, c], y)).export(folder, verbose=False)
    yield case({n: floats(i, 2, 3, 4) for i, n in enumerate("abc")})


@model(rtol=1e-3, atol=1e-3)
def image_layers(folder):
    y = {}
    for i in ("nearest", "bilinear", "bicubic", "lanczos3", "lanczos5", "area"):
        try:
            y["resize_" + i] = L.Resizing(7, 5, interpolation=i)
        except ValueError:
            pass
    y.update(crop_ratio=L.Resizing(5, 8, crop_to_aspect_ratio=True), pad_ratio=L.Resizing(8, 5, pad_to_aspect_ratio=True, fill_value=3.), centre=L.CenterCrop(4, 3), centre_large=L.CenterCrop(20, 24),
             rescale=L.Rescaling(1 / 127.5, -1), rescale_int=L.Rescaling(2))
    for n, args in {"RandomFlip": (), "RandomRotation": (.3,), "RandomZoom": (.2,), "RandomTranslation": (.1, .1), "RandomContrast": (.2,), "RandomBrightness": (.3,), "RandomCrop": (4, 5),
                    "RandomColorJitter": (), "RandomGrayscale": (), "RandomHue": (.2,), "RandomSaturation": (.3,), "RandomSharpness": (.3,), "RandomShear": (.2, .1),
                    "RandomPosterization": (4,), "Solarization": (), "AutoContrast": (), "Equalization": (), "RandomErasing": (), "RandomPerspective": (), "RandomGaussianBlur": (), "RandomInvert": ()}.items():
        if hasattr(keras.layers, n):
            y[n] = getattr(L, n)(*args)
    kept = {}
    for n, layer in y.items():
        try:
            layer(keras.Input((9, 12, 3)))
            if n != "Equalization":   # Keras cannot make a functional model of it
                kept[n] = layer
        except Exception as e:
            print("image_layers leaves out", n, str(e)[:80])
    yield from fan(folder, (9, 12, 3), kept, floats(1, 2, 9, 12, 3, low=0, high=255), floats(2, 1, 9, 12, 3, low=0, high=255))


@model
def text_vectorization(folder):
    docs = ["the quick brown fox", "jumps over the lazy dog", "The the THE!", "quick, quick; fox? über", "日本 語 text"]
    x = keras.Input((), dtype="string", name="x")
    y = {}
    for name, args in {"int": dict(output_sequence_length=6), "int_free": dict(), "hot": dict(output_mode="multi_hot"), "count": dict(output_mode="count", max_tokens=9),
                       "tfidf": dict(output_mode="tf_idf"), "bigram": dict(ngrams=2, output_sequence_length=5), "ngram": dict(ngrams=(2, 3), output_mode="count"),
                       "chars": dict(split="character", output_sequence_length=9), "lower": dict(standardize="lower", split="whitespace", output_sequence_length=4),
                       "strip": dict(standardize="strip_punctuation", output_sequence_length=4), "none": dict(standardize=None, split=None), "padded": dict(output_mode="count", max_tokens=40, pad_to_max_tokens=True)}.items():
        layer = L.TextVectorization(**args)
        layer.adapt(docs)
        y[name] = layer(x)
    keras.Model(x, y).export(folder, verbose=False)
    yield case({"x": [b"the fox jumps over", b"", "unknown WORDS the über".encode(), "日本 the".encode(), b" spaces   and\ttabs\n the"]})
    yield case({"x": [b"dog"]})
    yield case({"x": [b"\xff\xfe the", b"a" * 300]}, id="bad_utf8")


@model
def lookups(folder):
    s, i = keras.Input((3,), dtype="string", name="s"), keras.Input((3,), dtype="int64", name="i")
    vocab, y = ["a", "b", "c", "dd"], {}
    S, I = L.StringLookup, L.IntegerLookup
    for n, args in {"int": {}, "mask": dict(mask_token="", num_oov_indices=2), "hot": dict(output_mode="multi_hot"), "count": dict(output_mode="count", num_oov_indices=3),
                    "tfidf": dict(output_mode="tf_idf", idf_weights=[.1, .2, .3, .4]), "no_oov": dict(num_oov_indices=0), "invert": dict(invert=True)}.items():
        if n == "invert":
            y["s_invert"] = S(vocabulary=vocab, invert=True)(S(vocabulary=vocab)(s))
            y["i_invert"] = I(vocabulary=[10, 20, -3], invert=True, oov_token=-9)(I(vocabulary=[10, 20, -3])(i))
            continue
        if n != "no_oov":
            y["s_" + n] = S(vocabulary=vocab, **args)(s)
        args = {**args, **({"mask_token": 0} if "mask_token" in args else {}), **({"idf_weights": [.5, 1., 2.]} if "idf_weights" in args else {})}
        if n != "no_oov":
            y["i_" + n] = I(vocabulary=[10, 20, -3], **args)(i)
    y["onehot"] = S(vocabulary=vocab, output_mode="one_hot")(s[:, 0])
    keras.Model([s, i], y).export(folder, verbose=False)
    yield case({"s": [["a", "zz", "dd"], ["", "b", "[UNK]"]], "i": [[10, 5, -3], [0, 20, 2**40]]})


@model
def lookup_strict(folder):
    s = keras.Input((2,), dtype="string", name="s")
    keras.Model(s, L.StringLookup(vocabulary=["x", "y"], num_oov_indices=0)(s)).export(folder, verbose=False)
    yield case({"s": [["x", "y"]]})
    yield case({"s": [["x", "other"]]}, id="oov")


@model(rtol=1e-3)
def features(folder):
    n, c, s = keras.Input((3,), name="n"), keras.Input((2,), dtype="int64", name="c"), keras.Input((2,), dtype="string", name="s")
    y = {"norm": L.Normalization(mean=[1., 2., 3.], variance=[.5, 1., 2.])(n), "norm_all": L.Normalization(axis=None, mean=1., variance=4.)(n), "norm_back": L.Normalization(axis=None, mean=1., variance=4., invert=True)(n),
         "bins": L.Discretization(bin_boundaries=[-.5, 0., .25])(n), "bins_hot": L.Discretization(bin_boundaries=[-.5, 0.], output_mode="multi_hot")(n), "bins_count": L.Discretization(bin_boundaries=[-.5, 0.], output_mode="count")(n),
         "hot": L.CategoryEncoding(6, output_mode="multi_hot")(c), "count": L.CategoryEncoding(6, output_mode="count")(c), "one": L.CategoryEncoding(6, output_mode="one_hot")(c),
         "hash": L.Hashing(7)(s), "hash_mask": L.Hashing(5, mask_value="")(s), "hash_salt": L.Hashing(11, salt=[3, 9])(s), "hash_salt1": L.Hashing(11, salt=133)(s), "hash_int": L.Hashing(13)(c),
         "hash_hot": L.Hashing(4, output_mode="multi_hot")(s), "cross": L.HashedCrossing(9)((s[:, 0:1], c[:, 0:1])), "cross_hot": L.HashedCrossing(5, output_mode="one_hot")((s[:, 0:1], s[:, 1:2]))}
    keras.Model([n, c, s], y).export(folder, verbose=False)
    yield case({"n": [[-.5, 0, .3], [2, -9, .25]], "c": [[0, 5], [3, 3]], "s": [["a", ""], ["quite long text", "\u00fc"]]})
    yield case({"n": [[-.5, 0, .3]], "c": [[6, 1]], "s": [["a", "b"]]}, id="too_large")
    yield case({"n": [[-.5, 0, .3]], "c": [[-1, 1]], "s": [["a", "b"]]}, id="negative")


@model(rtol=1e-3, atol=1e-3)
def audio_layers(folder):
    x = keras.Input((1600,), name="x")
    y = {"mel": L.MelSpectrogram(fft_length=256, sequence_stride=64, num_mel_bins=20, sampling_rate=8000)(x)}
    wave = L.Reshape((1600, 1))(x)
    for mode in ("log", "magnitude", "psd", "real", "imag", "angle", "stft"):
        y[mode] = L.STFTSpectrogram(mode=mode, frame_length=100, frame_step=40, fft_length=128)(wave)
    y["image"] = L.STFTSpectrogram(mode="log", frame_length=64, frame_step=32, fft_length=64, padding="same", expand_dims=True, window="hamming", scaling="spectrum")(wave)
    y.pop("angle"), y.pop("log"), y.pop("image")   # angles of nothing, logarithms of rounding
    keras.Model(x, y).export(folder, verbose=False)
    yield case({"x": floats(1, 2, 1600)})


@model
def time_distributed(folder):
    x = keras.Input((None, 8, 8, 3), name="x")
    inner = keras.Sequential([keras.Input((8, 8, 3)), L.Conv2D(4, 3, activation="relu"), L.BatchNormalization(), L.MaxPooling2D(), L.Flatten(), L.Dropout(.5)])
    h = L.TimeDistributed(inner)(x)
    shake(keras.Model(x, {"video": L.GRU(3)(h), "frames": h})).export(folder, verbose=False)
    yield case({"x": floats(1, 2, 3, 8, 8, 3)})
    yield case({"x": floats(1, 2, 1, 8, 8, 3)})


@model(rtol=2e-2, atol=2e-2)
def quantised_int8(folder):
    x, t = keras.Input((8,), name="x"), keras.Input((4,), dtype="int32", name="t")
    h = L.Dense(16, activation="relu")(x)
    net = shake(keras.Model([x, t], {"y": L.Dense(3)(h), "e": L.EinsumDense("abc,cd->abd", output_shape=(None, 5))(L.Embedding(10, 6)(t))}))
    net.quantize("int8")
    net.export(folder, verbose=False)
    yield case({"x": floats(1, 3, 8), "t": ints(2, 3, 4)})


@model(rtol=5e-2, atol=5e-2, skip=("nonfinite",))
def quantised_float8_int4(folder):
    x = keras.Input((8,), name="x")
    net = shake(keras.Model(x, L.Dense(4)(L.Dense(16, activation="relu")(x))))
    net.quantize("int4")
    net.export(folder, verbose=False)
    yield case({"x": floats(1, 3, 8)})


@model(rtol=3e-2, atol=3e-2, skip=("nonfinite",))
def half_everything(folder):
    x = keras.Input((12, 12, 3), name="x", dtype="float16")
    p = keras.DTypePolicy("float16")
    h = L.Conv2D(4, 3, dtype=p, padding="same")(x)
    h = L.BatchNormalization(dtype=p)(h)
    h = L.DepthwiseConv2D(3, dtype=p, activation="relu6")(h)
    seq = L.Reshape((10, 40), dtype=p)(h)
    y = {"pool": L.GlobalAveragePooling2D(dtype=p)(h), "lstm": L.LSTM(3, dtype=p)(seq), "norm": L.LayerNormalization(dtype=p)(seq), "max": L.MaxPooling2D(3, dtype=p)(h), "att": L.MultiHeadAttention(2, 4, dtype=p)(seq, seq),
         "soft": L.Softmax(dtype=p)(seq)}
    shake(keras.Model(x, y)).export(folder, verbose=False)
    yield case({"x": floats(1, 2, 12, 12, 3, dtype="float16")})


@model(rtol=6e-2, atol=6e-2, skip=("nonfinite",))
def mixed_bfloat16_rnn(folder):
    keras.mixed_precision.set_global_policy("mixed_bfloat16")
    try:
        x = keras.Input((5, 6), name="x")
        h = L.Bidirectional(L.LSTM(4, return_sequences=True))(x)
        h = L.Conv1D(4, 3, padding="causal")(L.LayerNormalization()(h))
        shake(keras.Model(x, {"y": L.Dense(2, dtype="float32")(L.GRU(3)(h)), "h": h})).export(folder, verbose=False)
    finally:
        keras.mixed_precision.set_global_policy("float32")
    yield case({"x": floats(1, 2, 5, 6)})


@model(rtol=1e-7, atol=1e-9)
def doubles(folder):
    x = keras.Input((6, 6, 2), name="x", dtype="float64")
    with_64 = dict(dtype="float64")
    h = L.Conv2D(3, 3, padding="same", **with_64)(x)
    h = L.BatchNormalization(**with_64)(h)
    h = L.Conv2DTranspose(2, 3, strides=2, **with_64)(L.AveragePooling2D(2, **with_64)(h))
    y = {"h": h, "lstm": L.LSTM(2, **with_64)(L.TimeDistributed(L.Flatten(**with_64), **with_64)(h)), "dense": L.Dense(3, activation="softmax", **with_64)(L.Flatten(**with_64)(x))}
    shake(keras.Model(x, y)).export(folder, verbose=False)
    yield case({"x": floats(1, 2, 6, 6, 2, dtype="float64")})
