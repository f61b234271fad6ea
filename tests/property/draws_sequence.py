"""Draws of audio, CTC and recurrent cells."""
import numpy as np

from draw_source import F

AUDIO = {"rtol": 1e-3, "atol": 1e-4}


def spectrogram(s):
    window, stride = s.int(2, 40) if s.chance(0.8) else s.int(41, 700), s.int(1, 12) if s.chance(0.8) else s.int(13, 300)
    return {"input": s.array("float32", (s.int(0 if s.chance(0.03) else 1, 60 if s.chance(0.6) else 1500), s.int(1, 2)), -1, 1)}, {"window_size": window if s.chance(0.98) else 1, "stride": stride if s.chance(0.98) else 0,
                                                                               "magnitude_squared": s.chance(0.5)}, AUDIO


def mfcc(s):
    return {"spectrogram": s.array("float32", (s.int(1, 2), s.int(1, 4), s.one([65, 129, 257, 513, 40])), 0, 4), "sample_rate": np.int32(s.one([8000, 16000, 44100]))}, {
        "upper_frequency_limit": s.one([4000.0, 3000.0, 7600.0]), "lower_frequency_limit": s.one([20.0, 100.0, 0.0]), "filterbank_channel_count": s.int(5, 40), "dct_coefficient_count": s.int(1, 13 if s.chance(0.8) else 40)}, AUDIO


def encode_wav(s):
    return {"audio": s.array("float32", (s.int(0 if s.chance(0.05) else 1, 20 if s.chance(0.8) else 700), s.int(1, 3 if s.chance(0.9) else 9)), -1.3, 1.3), "sample_rate": np.int32(s.one([8000, 16000, 44100]))}, {}


def decode_wav(s):
    import tensorflow as tf
    inputs, _ = encode_wav(s)
    raw = tf.raw_ops.EncodeWav(**inputs).numpy()
    if s.chance(0.1):
        raw = s.one([raw[:20], raw[:-2], raw[:-1], b"RIFF", b"", b"X" + raw[1:], raw + b"junk"])
    return {"contents": np.array(raw, object)}, {"desired_channels": s.one([-1, -1, 1, 2, 3]), "desired_samples": s.one([-1, -1, 3, 30])}


def logits(s, d, t, b, k):
    x = s.array(d, (t, b, k), -3, 3)
    return x - np.log(np.sum(np.exp(x), -1, keepdims=True)).astype(x.dtype)


def greedy(s):
    t, b, k = s.int(1, 8 if s.chance(0.8) else 60), s.int(1, 3 if s.chance(0.8) else 10), s.int(2, 5 if s.chance(0.8) else 40)
    x = logits(s, s.one(F), t, b, k)
    x = np.rint(x) if s.chance(0.2) else x   # of equal ones the first
    return {"inputs": x, "sequence_length": s.array("int32", (b,), 0, t + s.chance(0.03))}, {"merge_repeated": s.chance(0.5), "blank_index": s.one([-1, -1, 0, k - 1])}


def beam(s):
    t, b, k = s.int(1, 6 if s.chance(0.8) else 25), s.int(1, 3), s.int(2, 5 if s.chance(0.8) else 20)
    width = s.int(1, 6 if s.chance(0.8) else 30)
    return {"inputs": logits(s, s.one(F), t, b, k), "sequence_length": s.array("int32", (b,), 0 if s.chance(0.1) else 1, t)}, {"beam_width": width, "top_paths": s.int(1, width), "merge_repeated": s.chance(0.5)}, {"rtol": 1e-4, "atol": 1e-5}   # TensorFlow sums in float


def loss(op):
    def draw(s):
        t, b, k = s.int(3, 8) if s.chance(0.8) else s.int(9, 40), s.int(1, 3 if s.chance(0.8) else 9), s.int(3, 5 if s.chance(0.8) else 30)
        rows = [[s.int(0, k - 2) if op == "CTCLoss" else s.int(1, k - 1) for _ in range(s.int(0 if s.chance(0.1) else 1, 3 if t < 9 else 12))] for _ in range(b)]
        i = np.array([[r, c] for r, row in enumerate(rows) for c in range(len(row))], "int64").reshape(-1, 2)
        v = np.array([x for row in rows for x in row], "int32")
        x = s.array(s.one(F if op == "CTCLoss" else ["float32"]), (t, b, k), -3, 3)
        return {"inputs": x, "labels_indices": i, "labels_values": v, "sequence_length": s.array("int32", (b,), s.one([t - 1, t - 1, t // 2, 0 if s.chance(0.2) else 1]), t + s.chance(0.02))}, {
            "preprocess_collapse_repeated": s.chance(0.3), "ctc_merge_repeated": s.chance(0.8), "ignore_longer_outputs_than_inputs": s.chance(0.7)}, {"rtol": 1e-3, "atol": 1e-4}
    return draw


def near(d, u):
    """Sums of halves of many depend on their order."""
    return {"rtol": 0.1, "atol": 0.03} if d == "float16" and u > 4 else {}


def cell(s, gates):
    d, b, n, u = s.one(["float32", "float32", "float16"]), *((s.int(1, 3), s.int(1, 4), s.int(1, 4)) if s.chance(0.75) else (s.int(1, 9), s.int(5, 40), s.int(5, 40)))
    a = lambda *shape: s.array(d, shape, -1, 1)
    return d, b, n, u, a


def lstm_cell(s):
    d, b, n, u, a = cell(s, 4)
    return {"x": a(b, n), "cs_prev": a(b, u), "h_prev": a(b, u), "w": a(n + u, 4 * u), "wci": a(u), "wcf": a(u), "wco": a(u), "b": a(4 * u)}, {
        "forget_bias": s.one([1.0, 0.0, -0.5]), "cell_clip": s.one([3.0, -1.0, 0.3, 0.0]), "use_peephole": s.chance(0.5)}, near(d, u)


def block(op):
    def draw(s):
        d, b, n, u, a = cell(s, 4)
        t = s.int(1, 4 if s.chance(0.8) else 20)
        attrs = {"cell_clip": s.one([3.0, -1.0, 0.3, 0.0]), "use_peephole": s.chance(0.5)}
        if op == "BlockLSTM":
            attrs["forget_bias"] = s.one([1.0, 0.0])
        seen = t   # rows behind it TensorFlow leaves uninitialised
        return {"seq_len_max": np.int64(seen), "x": a(t, b, n), "cs_prev": a(b, u), "h_prev": a(b, u), "w": a(n + u, 4 * u), "wci": a(u), "wcf": a(u), "wco": a(u), "b": a(4 * u)}, attrs, near(d, u)
    return draw


def gru_cell(s):
    _, b, n, u, _ = cell(s, 3)
    a = lambda *shape: s.array("float32", shape, -1, 1)
    return {"x": a(b, n), "h_prev": a(b, u), "w_ru": a(n + u, 2 * u), "w_c": a(n + u, u), "b_ru": a(2 * u), "b_c": a(u)}, {}


DRAWS = {
    "AudioSpectrogram": spectrogram, "Mfcc": mfcc, "EncodeWav": encode_wav, "DecodeWav": decode_wav, "CTCGreedyDecoder": greedy, "CTCBeamSearchDecoder": beam, "CTCLoss": loss("CTCLoss"),
    "CTCLossV2": loss("CTCLossV2"), "LSTMBlockCell": lstm_cell, "BlockLSTM": block("BlockLSTM"), "BlockLSTMV2": block("BlockLSTMV2"), "GRUBlockCell": gru_cell,
}
