"""The architectures of tests/gpu/bench, written once: make.py builds them of Keras' layers, peers.py of PyTorch's functions.

A network gets what it is made of (`a`) and its inputs. Convolutions pad alike on both sides, so that either library's is the same.
"""
import numpy as np

SIZES = {
    "full": {"resnet50": {"image": 224, "width": 64, "blocks": (3, 4, 6, 3)},
             "bert_base": {"layers": 12, "width": 768, "heads": 12, "words": 30522, "length": 128},
             "mobilenet_v2": {"image": 224, "width": 1.0, "repeats": (1, 2, 3, 4, 3, 3, 1)},
             "lstm": {"length": 50, "features": 64, "units": 512}},
    "tiny": {"resnet50": {"image": 32, "width": 8, "blocks": (1, 1, 1, 1)},
             "bert_base": {"layers": 1, "width": 32, "heads": 2, "words": 100, "length": 8},
             "mobilenet_v2": {"image": 32, "width": 0.25, "repeats": (1, 1, 1, 1, 1, 1, 1)},
             "lstm": {"length": 4, "features": 8, "units": 16}},
}
NAMES = list(SIZES["full"])
EPSILON = 1e-3  # of batch norms


def inputs(name, size, rows):
    """{name: array}, of any number of rows: the same row has the same values."""
    s, r = SIZES[size][name], np.random.RandomState(123)
    if "image" in s:
        return {"image": np.resize(r.uniform(-1, 1, (3, s["image"], s["image"], 3)).astype(np.float32), (rows, s["image"], s["image"], 3))}
    if "words" in s:
        ids = np.resize(r.randint(0, s["words"], (3, s["length"])).astype(np.int32), (rows, s["length"]))
        places = np.arange(s["length"])[None]
        return {"ids": ids, "mask": (places < s["length"] - ids[:, :1] % 3).astype(np.int32), "segments": (places >= s["length"] // 3 + 0 * ids[:, :1]).astype(np.int32)}
    return {"sequence": np.resize(r.uniform(-1, 1, (3, s["length"], s["features"])).astype(np.float32), (rows, s["length"], s["features"]))}


def resnet50(a, s, image):
    x = a.relu(a.norm(a.conv(image, "stem", s["width"], 7, 2), "stem_bn"))
    x = a.max_pool(x)
    for stage, blocks in enumerate(s["blocks"]):
        width = s["width"] << stage
        for block in range(blocks):
            at, stride = f"stage{stage}_{block}", 2 if block == 0 and stage > 0 else 1
            y = a.relu(a.norm(a.conv(x, at + "_a", width, 1, stride), at + "_a_bn"))
            y = a.relu(a.norm(a.conv(y, at + "_b", width, 3), at + "_b_bn"))
            y = a.norm(a.conv(y, at + "_c", 4 * width, 1), at + "_c_bn", gain=0.5)
            short = a.norm(a.conv(x, at + "_d", 4 * width, 1, stride), at + "_d_bn") if block == 0 else x
            x = a.relu(a.add(short, y))
    return {"logits": a.dense(a.mean(x), "head", 1000)}


def mobilenet_v2(a, s, image):
    wide = lambda n: max(8, int(n * s["width"] + 4) // 8 * 8)
    x = a.relu6(a.norm(a.conv(image, "stem", wide(32), 3, 2), "stem_bn"))
    has = wide(32)
    for stage, (times, out, stride) in enumerate(((1, 16, 1), (6, 24, 2), (6, 32, 2), (6, 64, 2), (6, 96, 1), (6, 160, 2), (6, 320, 1))):
        for block in range(s["repeats"][stage]):
            at, y, step = f"stage{stage}_{block}", x, stride if block == 0 else 1
            if times > 1:
                y = a.relu6(a.norm(a.conv(y, at + "_a", times * has, 1), at + "_a_bn"))
            y = a.relu6(a.norm(a.conv(y, at + "_b", None, 3, step), at + "_b_bn"))
            y = a.norm(a.conv(y, at + "_c", wide(out), 1), at + "_c_bn")
            x = a.add(x, y) if step == 1 and has == wide(out) else y
            has = wide(out)
    x = a.relu6(a.norm(a.conv(x, "last", 1280, 1), "last_bn"))
    return {"logits": a.dense(a.mean(x), "head", 1000)}


def bert_base(a, s, ids, mask, segments):
    x = a.add(a.embed(ids, "word_table", s["words"], s["width"]), a.embed(segments, "segment_table", 2, s["width"]))
    x = a.layer_norm(a.positions(x, "positions", 512), "start")
    for layer in range(s["layers"]):
        at = f"layer{layer}"
        x = a.layer_norm(a.add(x, a.attention(x, mask, at, s["heads"])), at + "_norm")
        y = a.dense(a.gelu(a.dense(x, at + "_up", 4 * s["width"])), at + "_down", s["width"])
        x = a.layer_norm(a.add(x, y), at + "_end")
    return {"pooled": a.tanh(a.dense(a.first(x), "pooler", s["width"]))}


def lstm(a, s, sequence):
    x = a.lstm(a.lstm(sequence, "lower", s["units"]), "upper", s["units"])
    return {"score": a.dense(a.last(x), "head", 10)}


NETS = {"resnet50": resnet50, "bert_base": bert_base, "mobilenet_v2": mobilenet_v2, "lstm": lstm}


def bert_flops(size, rows):
    """Of products alone."""
    s = SIZES[size]["bert_base"]
    w, n = s["width"], s["length"]
    return rows * s["layers"] * (2 * n * 12 * w * w + 4 * n * n * w)
