"""A step of training: `tensord train` beside Keras 3's fit on TensorFlow (compiled), one and two cores; and what a job costs the requests beside it.

    python tests/bench/finetune.py OUT [--tensord build/tensord] [--only GLOB,...] [--steps N] [--rounds N] [--cores 1,2]
    python tests/bench/finetune.py OUT --serving SECONDS [--tensord build/tensord]      p99 of Predict with a job beside it and without
    python tests/bench/finetune.py OUT --processes [--only GLOB,...]                    mpirun -n 2 on two cores over one process on one, and on two

OUT gets the models and rows (made once, by seed): mlp, cnn, lstm, transformer, recommender, mobilenet (MobileNetV2, all but the Dense layer on top
frozen), mobilenet_head (MobileNetV2 served with 1,000 classes; `tensord.head` puts a Dense layer of 10 in their place, all else frozen; Keras the
same on its base), mobilenet_all (that, and all is trained but batch norms), bert_lora (an encoder of BERT-base's sizes, 128 tokens, adapters of
rank 8 on queries and values, all else frozen), and mlp_bfloat16, transformer_bfloat16: the same in compute_dtype bfloat16 and with Keras's policy
mixed_bfloat16, whose losses are only near each other. Both engines run in turn, each in a process of its own that is pinned to so many cores, N rounds; the least time of all rounds
counts. The same rows in the same order (shuffled by neither), batches and optimizer (Adam); models have no dropout and no batch norm but mobilenet's,
which uses the averages it has: so both compute the same. tensord reads its rows from a TFRecord file as it goes, Keras has them in memory.

    ms         time between the ends of steps WARM and the last, by their number: reading, forward, backward, update, metrics, events
    first ms   from the start of training to the end of the first step: tracing or compiling included, loading the engine not
    peak MB    the most that the whole process held; in brackets what it held before the model was there

Losses are compared before any time counts. Prints Markdown; exit status 1 when losses differ.
"""
import argparse
import fnmatch
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import time

import nets

HERE = os.path.dirname(os.path.abspath(__file__))
BATCH = {"mlp": 64, "cnn": 32, "lstm": 32, "transformer": 16, "recommender": 256, "mobilenet": 8, "mobilenet_head": 8, "mobilenet_all": 8, "bert_lora": 2,
         "mlp_bfloat16": 64, "transformer_bfloat16": 16}
BFLOAT16 = "_bfloat16"
WARM, RATE, RANK, SEED = 5, 1e-4, 8, 11
NEW_HEAD = ("mobilenet_head", "mobilenet_all")
os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="")


# ---------------------------------------------------------------- models and rows

def build(name):
    import keras
    from keras import layers as L
    name = name.removesuffix(BFLOAT16)
    keras.utils.set_random_seed(3)
    if name.startswith("mobilenet"):
        x = keras.Input((96, 96, 3), name="x")
        base = keras.applications.MobileNetV2(weights=None, include_top=False, pooling="avg", input_shape=(96, 96, 3))
        base.trainable = name == "mobilenet_all"
        y = base(x, training=False)
    elif name == "bert_lora":
        x = keras.Input((128,), dtype="int32", name="x")
        y = nets.encoder(L.LayerNormalization()(L.Embedding(30522, 768)(x)), layers=12, heads=12, key=64, wide=3072)
        y = L.GlobalAveragePooling1D()(y)
    else:
        x, y = nets.body(name)
    return keras.Model(x, {"logits": L.Dense(1000 if name in NEW_HEAD else 10)(y)})


def rows(name, n):
    """The same first rows for every n."""
    import numpy as np
    name = name.removesuffix(BFLOAT16)
    real = lambda *s: np.random.default_rng(5).standard_normal((n, *s)).astype(np.float32)
    ids = lambda seed, most, k: np.random.default_rng(seed).integers(0, most, (n, k)).astype(np.int32)
    label = np.random.default_rng(6).integers(0, 10, n)
    if name == "recommender":
        return {"user": ids(7, 20000, 1), "items": ids(8, 50000, 20), "other": real(16)}, label
    if name == "bert_lora":
        return {"x": ids(7, 30522, 128)}, label
    return {"x": real(*{"mlp": (784,), "cnn": (32, 32, 3), "lstm": (50, 64), "transformer": (64, 128)}.get(name, (96, 96, 3)))}, label


def pooled(folder):
    """Where the network below the served head ends: the mean over an image, as "NODE:0"."""
    from tensorflow.core.protobuf import saved_model_pb2
    saved = saved_model_pb2.SavedModel.FromString(open(os.path.join(folder, "saved_model.pb"), "rb").read())
    found = {"/".join(n.name.split("/")[-2:]) for f in saved.meta_graphs[0].graph_def.library.function for n in f.node_def
             if n.op == "Mean" and "global_average_pooling2d" in n.name}
    return f"{found.pop()}:0"


def new_head(model):
    """The model with a layer of 10 in place of its last one, which starts as tensord's does."""
    import keras
    for layer in model._flatten_layers(include_self=False):
        if isinstance(layer, keras.layers.BatchNormalization):
            layer.trainable = False
    y = model.layers[-1].input
    return keras.Model(model.input, {"logits": keras.layers.Dense(10, kernel_initializer=keras.initializers.GlorotUniform(seed=SEED))(y)})


def make(name, folder, n):
    """folder/{model.keras, model/1, train.tfrecord, job.json}"""
    import tensorflow as tf
    model = build(name)
    os.makedirs(folder, exist_ok=True)
    model.save(os.path.join(folder, "model.keras"))
    model.export(os.path.join(folder, "model", "1"), verbose=False)
    x, label = rows(name, n)
    with tf.io.TFRecordWriter(os.path.join(folder, "train.tfrecord")) as out:
        for i in range(n):
            feature = {k: tf.train.Feature(float_list=tf.train.FloatList(value=v[i].ravel())) if v.dtype.kind == "f" else
                       tf.train.Feature(int64_list=tf.train.Int64List(value=v[i].ravel())) for k, v in x.items()}
            feature["targets"] = tf.train.Feature(int64_list=tf.train.Int64List(value=[label[i]]))
            out.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())
    hyper = {"hyperparameters": {"n_epochs": 1, "batch_size": BATCH[name]}}
    method = {"type": "supervised", "supervised": hyper} if name != "bert_lora" else \
        {"type": "lora", "lora": {**hyper, "rank": RANK, "alpha": 2 * RANK, "targets": ["*query/kernel", "*value/kernel"]}}
    more = {"trainable": ["dense*"]} if name == "mobilenet" else {}
    if name in NEW_HEAD:
        more = {"seed": SEED, "head": {"at": pooled(os.path.join(folder, "model", "1")), "output": "logits", "layers": [{"units": 10}]},
                **({"trainable": ["head/*"]} if name == "mobilenet_head" else {"frozen": ["*moving_*", "*gamma", "*beta"]})}
    with open(os.path.join(folder, "job.json"), "w") as f:
        json.dump({"model": "m", "training_file": "train.tfrecord", "method": method,
                   "tensord": {"loss": {"name": "sparse_categorical_crossentropy", "from_logits": True}, "shuffle": False,
                               "optimizer": {"name": "adam", "learning_rate": RATE}, **more,
                               **({"compute_dtype": "bfloat16"} if name.endswith(BFLOAT16) else {})}}, f)


# ---------------------------------------------------------------- the engines

def adapt(model):
    """Keras' adapters on queries and values, all else frozen."""
    import keras
    for layer in model._flatten_layers(include_self=False):
        if layer.name in ("query", "value") and layer.weights:
            layer.enable_lora(RANK)
            layer.bias.trainable = False
        elif not isinstance(layer, keras.layers.MultiHeadAttention):
            layer.trainable = False


def mixed(model, name):
    """The same with Keras's policy for bfloat16."""
    import keras
    keras.config.set_dtype_policy("mixed_bfloat16")
    other = build(name)
    other.set_weights(model.get_weights())
    return other


def pin(cores):
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])


def n_steps(args, name):
    return WARM + (args.steps if name != "bert_lora" else max(3, args.steps // 6))


def summary(ends, start, losses):
    return {"ms": (ends[-1] - ends[WARM - 1]) / (len(ends) - WARM) * 1e3, "first": (ends[0] - start) * 1e3, "losses": losses}


def keras_child(args):
    """Keras in this process."""
    name, cores = args.child.split(",")
    pin(int(cores))
    import keras
    import tensorflow as tf
    tf.config.threading.set_intra_op_parallelism_threads(int(cores))
    tf.config.threading.set_inter_op_parallelism_threads(int(cores))
    folder, before = os.path.join(args.out, name), nets.held_mb("VmRSS")
    model = keras.models.load_model(os.path.join(folder, "model.keras"))
    if name == "bert_lora":
        adapt(model)
    if name.endswith(BFLOAT16):
        model = mixed(model, name)
    if name in NEW_HEAD:
        model = new_head(model)
    x, label = rows(name, n_steps(args, name) * BATCH[name])
    model.compile(optimizer=keras.optimizers.Adam(RATE), loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    ends, losses = [], []

    class Watch(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            ends.append(time.perf_counter())
            losses.append(float(logs["loss"]))   # the mean so far
    start = time.perf_counter()
    model.fit(x if len(x) > 1 else x["x"], {"logits": label}, batch_size=BATCH[name], epochs=1, shuffle=False, verbose=0, callbacks=[Watch()])
    means = [(i + 1) * m - i * (losses[i - 1] if i else 0) for i, m in enumerate(losses)]
    print(json.dumps({**summary(ends, start, means), "peak": nets.held_mb("VmHWM"), "before": before}))


def tensord_run(args, name, cores):
    """tensord in a child of this process; the ends of its steps are told by the lines that it writes."""
    folder = os.path.join(args.out, name)
    for old in ("result", "work"):
        shutil.rmtree(os.path.join(folder, old), True)
    start = time.perf_counter()
    p = subprocess.Popen([args.tensord, "train", "job.json", "--model_base_path=model", "--output=result", "--work_dir=work", "--events=events.json"],
                         cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=lambda: pin(cores))
    ends, said = [], []
    for line in p.stdout:
        said.append(line)
        if line.startswith("Step "):
            ends.append(time.perf_counter())
    text = p.stderr.read()
    _, status, usage = os.wait4(p.pid, 0) if p.returncode is None else (0, p.returncode, resource.getrusage(resource.RUSAGE_CHILDREN))
    p.returncode = os.waitstatus_to_exitcode(status)
    if p.returncode:
        raise RuntimeError(f"exit {p.returncode}: {(text or ''.join(said[-2:]))[-300:]}")
    with open(os.path.join(folder, "events.json")) as f:
        data = [e["data"] for e in json.load(f)["data"][::-1] if e["type"] == "metrics"]
    losses = [d["train_loss"] for d in data if "metrics" not in d]
    return {**summary(ends, start, losses), "peak": usage.ru_maxrss / 1024, "before": 0}


def keras_run(args, name, cores):
    done = subprocess.run([sys.executable, os.path.abspath(__file__), args.out, "--steps", str(args.steps), "--child", f"{name},{cores}"], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or ["no output"])[-1][:300])
    return json.loads(done.stdout.splitlines()[-1])


def row(args, name, cores):
    best, wrong, near = {}, None, 2e-2 if name.endswith(BFLOAT16) else 2e-3
    for turn in range(args.rounds):
        got = {"tensord": tensord_run(args, name, cores), "keras": keras_run(args, name, cores)}
        if turn == 0:   # adapters begin elsewhere, but at nothing
            pairs = list(zip(got["tensord"].pop("losses"), got["keras"].pop("losses")))[:10 if name != "bert_lora" else 1]
            wrong = next((f"losses differ: step {i}, {a} for {b}" for i, (a, b) in enumerate(pairs, 1) if abs(a - b) > near * abs(b) + 1e-5), None)
        for e, g in got.items():
            g.pop("losses", None)
            best[e] = {k: min(best.get(e, g)[k], v) for k, v in g.items()}
    o, k = best["tensord"], best["keras"]
    print(f"| {name} | {BATCH[name]} | {cores} | {o['ms']:.2f} | {k['ms']:.2f} | {o['ms'] / k['ms']:.2f} | {o['peak']:.0f} | {k['peak']:.0f} ({k['before']:.0f}) "
          f"| {o['first']:.0f} | {k['first']:.0f} |" + (f" {wrong}" if wrong else ""), flush=True)
    return wrong


# ---------------------------------------------------------------- processes that share a job

SHARED = {"mlp": 256, "cnn": 256, "lstm": 256, "transformer": 64}   # batch


def shared_run(args, name, processes, cores):
    """ms a step, by the lines of rank 0; each process on a core of its own, or one on all of them."""
    folder = os.path.join(args.out, name)
    for old in ("result", "work"):
        shutil.rmtree(os.path.join(folder, old), True)
    with open(os.path.join(folder, "job.json")) as f:
        job = json.load(f)
    rows_there = n_steps(args, name) * BATCH[name]
    hyper = job["method"][job["method"]["type"]]["hyperparameters"]
    hyper.update(batch_size=SHARED[name], n_epochs=max(1, args.steps * SHARED[name] // rows_there))
    with open(os.path.join(folder, "shared.json"), "w") as f:
        json.dump(job, f)
    mpirun = ["mpirun", "--allow-run-as-root", "--bind-to", "core", "-n", str(processes)] if processes > 1 else []
    p = subprocess.Popen(mpirun + [args.tensord, "train", "shared.json", "--model_base_path=model", "--output=result", "--work_dir=work", "--events=shared.events"],
                         cwd=folder, stdout=subprocess.PIPE, text=True, preexec_fn=lambda: pin(cores))
    ends = [time.perf_counter() for line in p.stdout if line.startswith("Step ")]
    if p.wait():
        raise RuntimeError(f"{name}: exit {p.returncode}")
    with open(os.path.join(folder, "shared.events")) as f:
        data = [e["data"] for e in json.load(f)["data"][::-1] if e["type"] == "metrics"]
    return (ends[-1] - ends[WARM - 1]) / (len(ends) - WARM) * 1e3, [d["train_loss"] for d in data if "metrics" not in d]


def shared_row(args, name):
    setups, best, losses = [(1, 1), (1, 2), (2, 2)], {}, {}
    for _ in range(args.rounds):
        for s in setups:
            ms, losses[s] = shared_run(args, name, *s)
            best[s] = min(best.get(s, ms), ms)
    wrong = any(abs(a - b) > 1e-3 * abs(b) + 1e-5 for a, b in zip(losses[2, 2][:10], losses[1, 1]))
    one, threads, shared = (best[s] for s in setups)
    print(f"| {name} | {SHARED[name]} | {one:.2f} | {threads:.2f} | {shared:.2f} | {one / shared:.2f} | {threads / shared:.2f} |" + (" losses differ" if wrong else ""), flush=True)
    return wrong


# ---------------------------------------------------------------- serving beside a job

def load(args, port, seconds):
    tool = os.path.join(os.path.dirname(args.tensord), "tests", "grpc_load")
    out = subprocess.run([tool, f"127.0.0.1:{port}", "1", str(seconds), "served", "1x784"], capture_output=True, text=True).stdout
    found = re.search(r": (\d+) calls/s, p50 (\d+) us, p99 (\d+) us, (\d+) failed", out)
    if not found or found.group(4) != "0":
        raise RuntimeError(f"{tool}: {out[-300:]}")
    return [int(v) for v in found.groups()[:3]]


def serving(args):
    """Rounds of so many seconds: without a job, with one; on two cores that are shared with who asks."""
    sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))
    os.environ["TENSORD"] = args.tensord
    import server
    pin(2)
    folder = os.path.join(args.out, "mlp")
    d = server.Server(versions={}, wait=False)
    try:
        for name in ("served", "m"):
            shutil.copytree(os.path.join(folder, "model"), d.base(name))
        with open(os.path.join(d.dir, "models.config"), "w") as f:
            f.write(server.config(("served", d.base("served")), ("m", d.base("m"))))
        d.start()
        load(args, d.port, 2)
        with open(os.path.join(folder, "train.tfrecord"), "rb") as f:
            file = d.http("POST", "/v1/files", files={"file": ("train.tfrecord", f)}, data={"purpose": "fine-tune"}).json()["id"]
        with open(os.path.join(folder, "job.json")) as f:
            job = {**json.load(f), "training_file": file}
        job["method"]["supervised"]["hyperparameters"]["n_epochs"] = 100000
        alone, beside = [], []
        for _ in range(args.rounds):
            alone.append(load(args, d.port, args.serving))
            i = d.post("/v1/fine_tuning/jobs", job).json()["id"]
            while (d.get(f"/v1/fine_tuning/jobs/{i}").json().get("progress") or {}).get("step", 0) < WARM:
                time.sleep(.1)
            began, at = time.time(), d.get(f"/v1/fine_tuning/jobs/{i}").json()["progress"]["step"]
            beside.append(load(args, d.port, args.serving) + [(d.get(f"/v1/fine_tuning/jobs/{i}").json()["progress"]["step"] - at) / (time.time() - began)])
            d.post(f"/v1/fine_tuning/jobs/{i}/cancel", {})
            while d.get(f"/v1/fine_tuning/jobs/{i}").json()["status"] != "cancelled":
                time.sleep(.1)
        median = lambda rows, k: sorted(r[k] for r in rows)[len(rows) // 2]
        print("| | calls/s | p50 us | p99 us | steps/s of the job |\n| --- | --- | --- | --- | --- |")
        print(f"| alone | {median(alone, 0)} | {median(alone, 1)} | {median(alone, 2)} | |")
        print(f"| beside a job | {median(beside, 0)} | {median(beside, 1)} | {median(beside, 2)} | {median(beside, 3):.1f} |")
        print(f"| ratio | {median(beside, 0) / median(alone, 0):.2f} | {median(beside, 1) / median(alone, 1):.2f} | {median(beside, 2) / median(alone, 2):.2f} | |")
    finally:
        d.stop()
    return 0


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("out")
    ap.add_argument("--tensord", default="build/tensord")
    ap.add_argument("--only", default="*")
    ap.add_argument("--steps", type=int, default=60)
    ap.add_argument("--rounds", type=int, default=3)
    ap.add_argument("--cores", default="1,2")
    ap.add_argument("--serving", type=int, metavar="SECONDS")
    ap.add_argument("--processes", action="store_true")
    ap.add_argument("--child", help=argparse.SUPPRESS)
    args = ap.parse_args()
    args.out, args.tensord = os.path.abspath(args.out), os.path.abspath(args.tensord)
    if args.child:
        keras_child(args)
        return 0
    chosen = [n for n in BATCH if any(fnmatch.fnmatch(n, g) for g in args.only.split(","))] if not args.serving else ["mlp"]
    for name in chosen:
        if not os.path.exists(os.path.join(args.out, name, "job.json")):
            code = f"import sys; sys.path.insert(0, {HERE!r}); import finetune as f; f.make({name!r}, {os.path.join(args.out, name)!r}, {n_steps(args, name) * BATCH[name]})"
            subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    if args.serving:
        return serving(args)
    if args.processes:
        print("| model | batch | 1 process, 1 core: ms | 1 process, 2 cores | 2 processes, 2 cores | over 1 core | over 2 threads |\n| --- | --- | --- | --- | --- | --- | --- |")
        return 1 if any([shared_row(args, n) for n in chosen if n in SHARED]) else 0
    print("| model | batch | cores | tensord ms | Keras ms | ratio | tensord peak MB | Keras peak MB | first ms | Keras first ms |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    wrong = []
    for name in chosen:
        for cores in args.cores.split(","):
            try:
                wrong.append(row(args, name, int(cores)))
            except (RuntimeError, IndexError, ZeroDivisionError) as e:
                wrong.append(str(e))
                print(f"| {name} | {BATCH[name]} | {cores} | {str(e)[:300]} | | | | | | |", flush=True)
    return 1 if any(wrong) else 0


if __name__ == "__main__":
    sys.exit(main())
