"""What bfloat16 and int8 cost in answers and gain in time: ResNet50, MobileNetV2 and BERT-base on rows that a seeded teacher labels.

    build/venv/bin/python tests/bench/precision.py [NAME...] [--rows 96] [--out build/precision]      prints Markdown; 10 minutes, 6 GB

A teacher has ten classes. Of images each is a texture, of texts a preference for some tokens; a row is drawn from its class and much noise. The nets
are Keras's with seeded weights, their batch norms calibrated on such rows; on top is a linear layer, fitted to the labels of other rows than those that
count (ridge regression on what is below it). So the float32 net is right most of the time but not always, and rows lie close to where it changes its mind.
The ranges of int8 come from 32 rows that are not counted either. `tensorctl quantize` does the rest.
"""
import argparse
import json
import os
import re
import shutil
import subprocess

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CLASSES, FITTED, RANGED, VOCABULARY, LENGTH = 10, 320, 32, 30522, 128
SIGNAL = {"resnet50": 0.09, "mobilenet_v2": 1.5, "bert_base": 1 / 8}   # such that float32 is right nine times of ten


def images(rng, n, signal):
    """A texture of 8x8 pixels, tiled, under noise of single pixels and of large cells; whole eighths, so that they are short in JSON."""
    textures = np.random.default_rng(1).normal(size=(CLASSES, 8, 8, 3))
    label = rng.integers(0, CLASSES, n)
    cells = 0.4 * rng.normal(size=(n, 7, 7, 3)).repeat(32, 1).repeat(32, 2)
    x = signal * np.tile(textures[label], (1, 28, 28, 1)) + cells + 0.3 * rng.normal(size=(n, 224, 224, 3))
    return {"image": np.clip(np.round(8 * x) / 8, -1, 1).astype(np.float32)}, label


def texts(rng, n, signal):
    """So large a part of the tokens is of its class's thirty."""
    label = rng.integers(0, CLASSES, n)
    own = label[:, None] * 30 + rng.integers(0, 30, (n, LENGTH))
    ids = np.where(rng.random((n, LENGTH)) < signal, own, rng.integers(0, VOCABULARY, (n, LENGTH)))
    mask = np.arange(LENGTH)[None] < rng.integers(60, LENGTH + 1, (n, 1))
    return {"input_ids": ids.astype(np.int32), "input_mask": mask.astype(np.int32)}, label


def image_net(name):
    """What is below the last layer."""
    import keras
    make = {"resnet50": keras.applications.ResNet50, "mobilenet_v2": keras.applications.MobileNetV2}[name]
    net = make(weights=None, include_top=False, pooling="avg", input_shape=(224, 224, 3))
    norms = [x for x in net.layers if isinstance(x, keras.layers.BatchNormalization)]
    for x in norms:
        x.momentum = 0.0
        if x.name.endswith(("_3_bn", "project_BN")):   # what a block adds is little beside what it adds to, as in nets that were trained:
            x.gamma.assign(0.2 * x.gamma)              # seeded ones else blow up any difference, rounding's too, from block to block
    net(images(np.random.default_rng(2), 16, SIGNAL[name])[0]["image"], training=True)
    image = keras.Input((224, 224, 3), name="image")
    return {"image": image}, net(image)


def text_net(_):
    import keras
    from keras import layers as L, ops
    init = lambda: keras.initializers.TruncatedNormal(stddev=0.02)
    ids, mask = (keras.Input((LENGTH,), dtype="int32", name=n) for n in ("input_ids", "input_mask"))
    x = L.LayerNormalization(epsilon=1e-12)(L.Embedding(VOCABULARY, 768, embeddings_initializer=init())(ids))
    seen = L.Lambda(lambda m: ops.cast(m[:, None, :], "bool"), output_shape=(1, LENGTH))(mask)
    for _ in range(12):
        a = L.MultiHeadAttention(12, 64, kernel_initializer=init())(x, x, attention_mask=seen)
        x = L.LayerNormalization(epsilon=1e-12)(x + a)
        h = L.Dense(768, kernel_initializer=init())(L.Dense(3072, activation="gelu", kernel_initializer=init())(x))
        x = L.LayerNormalization(epsilon=1e-12)(x + h)
    return {"input_ids": ids, "input_mask": mask}, L.GlobalAveragePooling1D()(x)


def fit(features, label):
    """Weights and bias of the last layer."""
    mean = features.mean(0)
    f, y = features - mean, np.eye(CLASSES)[label] - 1 / CLASSES
    gram = f @ f.T
    w = f.T @ np.linalg.solve(gram + 0.1 * np.trace(gram) / len(f) * np.eye(len(f)), y)
    return w, -mean @ w


def make(name, folder):
    import keras
    keras.utils.set_random_seed(20261123)
    draw, build = (texts, text_net) if name == "bert_base" else (images, image_net)
    inputs, below = build(name)
    rows, label = draw(np.random.default_rng(3), FITTED, SIGNAL[name])
    features = keras.Model(inputs, below).predict(rows, batch_size=16, verbose=0)
    last = keras.layers.Dense(CLASSES)
    net = keras.Model(inputs, {"logits": last(below)})
    last.set_weights(fit(features.astype(np.float64), label))
    shutil.rmtree(folder, ignore_errors=True)
    net.export(folder, verbose=False)


def write(path, name, seed, n):
    rows, label = (texts if name == "bert_base" else images)(np.random.default_rng(seed), n, SIGNAL[name])
    with open(path, "w") as f:
        for i in range(0, n, 8):
            f.write(json.dumps({"inputs": {k: v[i:i + 8].tolist() for k, v in rows.items()}, "labels": label[i:i + 8].tolist()}) + "\n")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(SIGNAL)}")
    p.add_argument("--rows", type=int, default=96, help="that count")
    p.add_argument("--out", default=os.path.join(ROOT, "build", "precision"))
    p.add_argument("--tensord", default=os.path.join(ROOT, "build", "tensord"))
    args = p.parse_args()
    os.makedirs(args.out, exist_ok=True)
    print("| model | precision | accuracy | as float32 | largest error, of | ms a row | times as fast |\n| --- | --- | ---: | ---: | ---: | ---: | ---: |")
    for name in args.names or SIGNAL:
        folder, ranged, counted = (os.path.join(args.out, name + end) for end in ("", ".ranges.jsonl", ".check.jsonl"))
        if not os.path.exists(folder):
            make(name, folder)
            write(ranged, name, 4, RANGED)
            write(counted, name, 5, args.rows)
        for precision in ("bfloat16", "int8"):
            said = subprocess.run(["taskset", "-c", "0", args.tensord, "quantize", folder, "--precision", precision, "--requests", ranged, "--check", counted],
                                  capture_output=True, text=True, check=True).stdout
            reach, gain = re.search(r"outputs reach (\S+)", said)[1], re.search(r"(\S+) times as fast", said)[1]
            lines = {line.split()[0]: line.split()[1:] for line in said.splitlines() if line.startswith(("float32", precision))}
            if precision == "bfloat16":
                print(f"| {name} | float32 | {lines['float32'][0]} | | | {lines['float32'][3]} | |")
            right, same, error, ms = lines[precision]
            print(f"| {name} | {precision} | {right} | {same} | {error} of {reach} | {ms} | {gain} |", flush=True)
        os.remove(os.path.join(folder, "assets.extra", "precision.json"))


if __name__ == "__main__":
    main()
