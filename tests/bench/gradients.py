"""Forward + backward by all weights: tensord beside TensorFlow's compiled tf.function, one and two cores.

    python tests/bench/gradients.py OUT [--lib build/libtensord.so] [--large DIR] [--only GLOB,...] [--seconds S] [--rounds N] [--cores 1,2]

OUT gets the models (made once): mlp, cnn, lstm, transformer, recommender. DIR holds resnet50 and bert_base where somebody has made
them (docs/benchmarks.md). For each model and number of cores both engines run in turn, each in a process of its own that is pinned
to so many cores, N rounds; the least time of all rounds counts. One call is: inputs in; the gradients of all weights out, for one
given gradient of the output; nothing else is copied. TensorFlow's gradients of lookups are made dense, as ours are.

    ms         the least time of one call          first ms   the first call after loading: tracing or compiling, and one run
    peak MB    the most that was resident during the calls, less what was before the first

Before any time counts the gradients are compared: each within 1 % of TensorFlow's by its norm (or 1e-4 of the largest one's). Where a
deep net's activations lie near the corners of its Relus, other roundings take other sides: of ResNet50's gradient by the image,
TensorFlow's with oneDNN and without differ by 0.3 %. Prints Markdown; never fails.
"""
import argparse
import ctypes
import fnmatch
import json
import os
import subprocess
import sys
import tempfile
import time

import numpy as np

import nets

HERE = os.path.dirname(os.path.abspath(__file__))
BATCH = {"mlp": 64, "cnn": 32, "lstm": 32, "transformer": 16, "recommender": 256, "resnet50": 4, "bert_base": 2}


def inputs(name, batch):
    r = np.random.default_rng(5)
    real = lambda *s: r.standard_normal((batch, *s)).astype(np.float32)
    if name == "recommender":
        return {"user": r.integers(0, 20000, (batch, 1)).astype(np.int32), "items": r.integers(0, 50000, (batch, 20)).astype(np.int32),
                "other": real(16)}
    if name == "bert_base":
        mask = (np.arange(128)[None] < r.integers(60, 129, (batch, 1))).astype(np.int32)
        return {"input_ids": r.integers(0, 30522, (batch, 128)).astype(np.int32), "input_mask": mask,
                "segment_ids": (np.arange(128)[None] >= 50).astype(np.int32).repeat(batch, 0)}
    shapes = {"mlp": (784,), "cnn": (32, 32, 3), "lstm": (50, 64), "transformer": (64, 128), "resnet50": (224, 224, 3)}
    return {{"resnet50": "image"}.get(name, "x"): real(*shapes[name])}


# ---------------------------------------------------------------- models

def make(name, out):
    import keras
    keras.utils.set_random_seed(3)
    x, y = nets.body(name, batch_norm=True)
    keras.Model(x, {"logits": keras.layers.Dense(1 if name == "recommender" else 10)(y)}).export(out, verbose=False)


# ---------------------------------------------------------------- one engine in a process of its own

def tensorflow_step(folder, feed, cores):
    import tensorflow as tf
    tf.config.threading.set_intra_op_parallelism_threads(cores)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    loaded = tf.saved_model.load(folder)
    f = loaded.signatures["serving_default"]
    weights = [v for v in f.trainable_variables]
    output = sorted(f.structured_outputs)[0]
    args = {k: tf.constant(v) for k, v in feed.items()}

    @tf.function
    def step(args, seed):
        with tf.GradientTape() as tape:
            y = f(**args)[output]
        return [tf.convert_to_tensor(g) for g in tape.gradient(y, weights, output_gradients=seed)]
    seed = tf.constant(np.load(os.environ["BENCH_SEED"]))

    def run():
        made = step(args, seed)
        for g in made:
            g.shape
        return made
    run.keep = loaded
    return run, lambda made: {v.name.split(":")[0] + f"#{i}": g.numpy() for i, (v, g) in enumerate(zip(weights, made))}


def tensord_step(folder, feed, cores, lib):
    sys.path.insert(0, os.path.dirname(HERE))
    import golden
    model = golden.Model(golden.load_library(os.path.abspath(lib)), folder, threads=cores)
    weights = ["var:*"]  # those that the signature does not read, or whose gradient nothing needs, are unconnected
    rows, keep = model.rows(feed)
    output = os.environ["BENCH_OUTPUT"]
    seeds, keep2 = model.rows({output: np.load(os.environ["BENCH_SEED"])})
    names = lambda l: (ctypes.c_char_p * len(l))(*[x.encode() for x in l])
    opts = golden.GradientOptions(names([output]), 1, names(weights), len(weights), None, seeds, 1, None, 0, 0, 0)
    last = []

    def run():
        made, e = golden.GradientResult(), golden.Error()
        if model.lib.tensord_gradient(model.handle, b"serving_default", rows, len(feed), ctypes.byref(opts), ctypes.byref(made),
                                      ctypes.byref(e)):
            raise golden.Failure(e)
        for old in last:
            model.lib.tensord_results_free(old.gradients, old.n_gradients)
            model.lib.tensord_results_free(old.outputs, old.n_outputs)
        last[:] = [made]
        return made

    def read(made):
        rows = [made.gradients[i] for i in range(made.n_gradients)]
        return {r.name.decode()[4:]: model.array(r) if r.dtype else None for r in rows}
    run.keep = (keep, keep2)
    return run, read


def child(args):
    name, engine, cores = args.child.split(",")
    cores = int(cores)
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    feed = inputs(name, BATCH[name])
    folder = os.environ["BENCH_MODEL"]
    run, read = tensorflow_step(folder, feed, cores) if engine == "tensorflow" else tensord_step(folder, feed, cores, args.lib)
    before = nets.held_mb("VmRSS")
    try:
        open("/proc/self/clear_refs", "w").write("5")
    except OSError:
        pass
    start = time.perf_counter()
    made = run()
    first = time.perf_counter() - start
    got = read(made)
    if args.save:
        np.savez(args.save, **{k.replace("/", "|"): v for k, v in got.items() if v is not None})
    del got
    times, end = [], time.perf_counter() + args.seconds
    while time.perf_counter() < end or len(times) < 3:
        start = time.perf_counter()
        made = run()
        times.append(time.perf_counter() - start)
    print(json.dumps({"ms": min(times) * 1e3, "first": first * 1e3, "peak": nets.held_mb("VmHWM") - before}))


# ---------------------------------------------------------------- the table

def prepare(name, folder, work):
    """The model's output, and a gradient of it to begin with."""
    code = ("import sys, json, numpy as np, tensorflow as tf; sys.path.insert(0, %r); import gradients as g\n"
            "m = tf.saved_model.load(%r); f = m.signatures['serving_default']\n"
            "y = f(**{k: tf.constant(v) for k, v in g.inputs(%r, g.BATCH[%r]).items()}); o = sorted(y)[0]\n"
            "np.save(%r, np.random.default_rng(9).standard_normal(y[o].shape).astype(np.float32)); print(o)"
            % (HERE, folder, name, name, work + "/seed.npy"))
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()[-1]
    os.environ.update(BENCH_MODEL=folder, BENCH_SEED=work + "/seed.npy", BENCH_OUTPUT=out)


def run_child(args, name, engine, cores, save=None):
    cmd = [sys.executable, os.path.abspath(__file__), args.out, "--lib", args.lib, "--seconds", str(args.seconds), "--child",
           f"{name},{engine},{cores}"] + (["--save", save] if save else [])
    done = subprocess.run(cmd, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or ["no output"])[-1][:300])
    return json.loads(done.stdout.splitlines()[-1])


def difference(a, b):
    """None, or a sentence: a gradient of a that is none of b's (exports may have a weight under several names)."""
    a, b = np.load(a), np.load(b)
    others = [b[k] for k in b.files]
    largest = max(float(np.linalg.norm(a[k])) for k in a.files)
    for k in a.files:
        norm = float(np.linalg.norm(a[k]))
        off = min((float(np.linalg.norm(a[k] - x)) for x in others if x.shape == a[k].shape), default=float("inf"))
        if off > max(0.01 * norm, 1e-4 * largest):
            return f"{k}: differs by {off:.3g}, its norm is {norm:.3g}, the largest {largest:.3g}"
    return None


def measure(args, name, cores, work):
    files = [f"{work}/{e}.npz" for e in ("tensorflow", "tensord")]
    best = {}
    for turn in range(args.rounds):
        for engine, file in zip(("tensorflow", "tensord"), files):
            got = run_child(args, name, engine, cores, file if turn == 0 else None)
            old = best.get(engine, got)
            best[engine] = {k: min(old[k], got[k]) for k in got}
        if turn == 0:
            wrong = difference(*files)
            if wrong:
                return f"| {name} | {BATCH[name]} | {cores} | gradients differ: {wrong} | | | | | | |"
    t, o = best["tensorflow"], best["tensord"]
    return (f"| {name} | {BATCH[name]} | {cores} | {o['ms']:.2f} | {t['ms']:.2f} | {o['ms'] / t['ms']:.2f} | {o['peak']:.0f} | {t['peak']:.0f} "
            f"| {o['first']:.0f} | {t['first']:.0f} |")


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("out")
    ap.add_argument("--lib", default="build/libtensord.so")
    ap.add_argument("--large")
    ap.add_argument("--only", default="*")
    ap.add_argument("--seconds", type=float, default=3)
    ap.add_argument("--rounds", type=int, default=3)
    ap.add_argument("--cores", default="1,2")
    ap.add_argument("--child")
    ap.add_argument("--save")
    args = ap.parse_args()
    os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="")
    if args.child:
        return child(args)
    print("| model | batch | cores | tensord ms | TensorFlow ms | ratio | tensord peak MB | TensorFlow peak MB | first ms | TensorFlow first ms |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for name in BATCH:
        if not any(fnmatch.fnmatch(name, g) for g in args.only.split(",")):
            continue
        large = name in ("resnet50", "bert_base")
        folder = os.path.join(args.large or "", name) if large else os.path.join(args.out, "gradients", name)
        if large and not (args.large and os.path.isdir(folder)):
            print(f"| {name} | | | not here (--large) | | | | | | |")
            continue
        with tempfile.TemporaryDirectory() as work:
            try:
                if not os.path.isdir(folder):
                    subprocess.run([sys.executable, "-c", f"import sys; sys.path.insert(0, {HERE!r}); import gradients; gradients.make({name!r}, {folder!r})"],
                                   check=True, capture_output=True)
                prepare(name, os.path.abspath(folder), work)
                for cores in args.cores.split(","):
                    print(measure(args, name, int(cores), work), flush=True)
            except (RuntimeError, subprocess.CalledProcessError) as e:
                print(f"| {name} | | | {str(e)[:300]} | | | | | | |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
