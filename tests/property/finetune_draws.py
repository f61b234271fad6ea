"""Draws whole fine-tuning jobs at random, asks Keras 3 what they must compute, runs `tensord train` on each and compares.

    python tests/property/finetune_draws.py OUT [--jobs N] [--seed S] [--processes P] [--tensord build/tensord]
    python tests/property/finetune_draws.py OUT --seed S --draw I,..      # these again, from their files if OUT has them (--redraw: anew); --verbose: all numbers

A job is OUT/NNN/{model/1, job.json, train.jsonl, validation.jsonl, expected.npz, expected.json}; its model comes from finetune_models.py, its
fields and rows from finetune_jobs.py, the expected numbers from finetune_keras.py. A draw is drawn again when float32 leaves it open: when
TensorFlow itself, started with values off by 1e-6 and given gradients off by 5e-7 of their largest, ends up further than ROOM of a tolerance
away (kinks, thresholds, chaos), when a number is not finite, or when some variable hardly moves, so that it could not be told from one that is not
trained. Of every fifth job the rows are written as CSV and TFRecord besides and must give the same bytes.

Compared, with FORMAT.md's tolerances: each step's loss and learning rates, each epoch's metrics, every variable under all of its keys,
what the result predicts as tf.saved_model.load has it; every other key must keep its bytes. Ends with  FINETUNE_DRAWS n of m agree.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import time
import traceback
from collections import Counter

os.environ.update(CUDA_VISIBLE_DEVICES="", TF_CPP_MIN_LOG_LEVEL="3", TF_NUM_INTRAOP_THREADS="1", TF_NUM_INTEROP_THREADS="1")
import numpy as np  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import draw_seed  # noqa: E402
import finetune_keras  # noqa: E402

LOSS, METRIC, VARIABLE, PREDICTION, RATE = (1e-3, 1e-6), (2e-3, 1e-4), (2e-3, 1e-5), (2e-3, 2e-5), (1e-5, 1e-9)
HALF = (6e-3, 1e-3)   # where variables are kept in half: one of its roundings is 1e-3
ROOM, LEAST_MOVE, CHUNK = 0.25, 3.0, 20


def ratio(a, b, tolerance):
    """The largest difference in tolerances; infinite when one of them alone is not finite."""
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if a.shape != b.shape:
        return float("inf")
    if not a.size:
        return 0.0
    r = np.abs(a - b) / (tolerance[1] + tolerance[0] * np.abs(b))
    return float(np.max(np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0, np.where(np.isfinite(r), r, np.inf))))


def differences(got, want):
    """[(how far in tolerances, what)] of everything that both have."""
    rows = [(ratio(len(got["losses"]), len(want["losses"]), (0, .5)), f"{len(got['losses'])} steps, expected {len(want['losses'])}")]
    for i, (a, b) in enumerate(zip(got["losses"], want["losses"]), 1):
        rows.append((ratio(a, b, LOSS), f"step {i}: loss {a}, expected {b}"))
    for i, (a, b) in enumerate(zip(got["rates"], want["rates"]), 1):
        rows.append((ratio(a, b, RATE), f"step {i}: learning rates {a}, expected {b}"))
    if len(got["epochs"]) != len(want["epochs"]):
        rows.append((float("inf"), f"{len(got['epochs'])} epochs, expected {len(want['epochs'])}"))
    for i, (a, b) in enumerate(zip(got["epochs"], want["epochs"]), 1):
        for part in b:
            have = a.get(part) or {}
            if set(have) != set(b[part]):
                rows.append((float("inf"), f"epoch {i}: {part} metrics are {sorted(have)}, expected {sorted(b[part])}"))
            rows += [(ratio(have[m], b[part][m], METRIC), f"epoch {i}: {part} {m} {have[m]}, expected {b[part][m]}") for m in b[part] if m in have]
    for k, b in want["variables"].items():
        a = got["variables"].get(k)
        if a is None:
            rows.append((float("inf"), f"{k} is missing"))
            continue
        rows.append((ratio(a, b, HALF if b.dtype == np.float16 else VARIABLE), f"{k}: off by {np.max(np.abs(np.asarray(a, np.float64) - b), initial=0):.3g}, as large as {np.max(np.abs(b), initial=0):.3g}"
                     if a.shape == b.shape else f"{k}: shape {a.shape}, expected {b.shape}"))
    halves = any(v.dtype == np.float16 for v in want["variables"].values())
    for k, b in want["predictions"].items():
        rows.append((ratio(got["predictions"].get(k, np.nan), b, HALF if halves else PREDICTION), f"prediction {k}"))
    return rows


# ---------------------------------------------------------------- drawing

def simple(run):
    """A run of finetune_keras as `differences` takes it."""
    return {**{k: run[k] for k in ("losses", "rates", "epochs", "predictions")}, "variables": {k: v for k, (_, v) in run["trained"].items()}}


def why_again(job, spec, rows, valid):
    """(None, the run) or (why this draw is open, None)."""
    import tensorflow as tf
    try:
        run = job.run(spec, rows, valid)
    except StopIteration:
        return "no optimizer takes a variable", None
    if not run["trained"]:
        return "no gradient leads anywhere", None
    numbers = run["losses"] + [x for e in run["epochs"] for part in e.values() for x in part.values()]
    if not np.all(np.isfinite(numbers)) or max(map(abs, numbers)) > 1e5 or not all(np.all(np.isfinite(v)) for _, v in run["trained"].values()):
        return "numbers too large or not finite", None
    if min(ratio(a, b, VARIABLE) for a, b in run["trained"].values()) < LEAST_MOVE:
        return "a variable hardly moves", None
    other = job.run(spec, rows, valid, shake=1)
    if other["best"] != run["best"] or max(r for r, _ in differences(simple(other), simple(run))) > ROOM:
        return "as sensitive as float32 leaves it open", None
    tf.keras.backend.clear_session()
    return None, run


def write_rows(path, rows):
    with open(path, "w", encoding="utf-8") as f:
        for i, r in enumerate(rows):
            f.write(json.dumps(r, ensure_ascii=bool(i % 2)) + ("\n" if i + 1 < len(rows) else "") + ("\n" if i % 7 == 3 else ""))


def draw(seed, index, folder, lost):
    """Makes OUT/NNN; returns what it is."""
    import finetune_jobs
    import finetune_models
    for attempt in range(40):
        rng = np.random.default_rng([seed, index, attempt])
        shutil.rmtree(folder, True)
        model = finetune_models.draw(rng, os.path.join(folder, "model", "1"))
        job = finetune_keras.Job(folder, model)
        for _ in range(5):
            spec, rows, valid = finetune_jobs.draw(rng, model, job.variables)
            why, run = why_again(job, spec, rows, valid)
            if why is None:
                break
            lost[why] += 1
        if why is None:
            break
    else:
        raise RuntimeError("nothing drawn is determined")
    with open(os.path.join(folder, "job.json"), "w") as f:
        json.dump(spec, f, indent=1)
    write_rows(os.path.join(folder, "train.jsonl"), rows)
    if valid:
        write_rows(os.path.join(folder, "validation.jsonl"), valid)
    want = simple(run)
    np.savez(os.path.join(folder, "expected.npz"), **{"variable:" + k: v for k, v in want.pop("variables").items()},
             **{"prediction:" + k: v for k, v in want.pop("predictions").items()})
    with open(os.path.join(folder, "expected.json"), "w") as f:
        json.dump({**want, "kind": model["kind"], "model": model, "keys": run["keys"], "best": run["best"]}, f, indent=1)


def read_expected(folder):
    with open(os.path.join(folder, "expected.json")) as f:
        want = json.load(f)
    files = np.load(os.path.join(folder, "expected.npz"))
    want["variables"] = {k[9:]: files[k] for k in files.files if k.startswith("variable:")}
    want["predictions"] = {k[11:]: files[k] for k in files.files if k.startswith("prediction:")}
    return want


# ---------------------------------------------------------------- running

def named(row, inputs):
    """{name: value} of a row: inputs, targets.KEY, sample_weight.OUTPUT."""
    given = row["inputs"] if isinstance(row["inputs"], dict) and set(row["inputs"]) == set(inputs) else {next(iter(inputs)): row["inputs"]}
    made = dict(given)
    for k in ("targets", "sample_weight"):
        if isinstance(row.get(k), dict):
            made.update({f"{k}.{n}": v for n, v in row[k].items()})
        elif k in row:
            made[k] = row[k]
    return made


def write_csv(path, rows, inputs):
    import csv
    all_of = [named(r, inputs) for r in rows]
    columns = sorted({n for r in all_of for n in r})
    with open(path, "w", newline="", encoding="utf-8") as f:
        w = csv.writer(f)
        w.writerow(columns)
        w.writerows([json.dumps(r[n]) if n in r else "" for n in columns] for r in all_of)


def write_tfrecord(path, rows, inputs):
    import tensorflow as tf
    t = tf.train
    with tf.io.TFRecordWriter(path) as out:
        for r in rows:
            feature = {}
            for n, v in named(r, inputs).items():
                v = np.asarray(finetune_keras.decoded(v)).ravel()
                if v.dtype.kind in "SUO":
                    feature[n] = t.Feature(bytes_list=t.BytesList(value=[x if isinstance(x, bytes) else x.encode() for x in v.tolist()]))
                elif v.dtype.kind == "i" and (n in inputs or n.startswith("targets")):
                    feature[n] = t.Feature(int64_list=t.Int64List(value=v))
                else:
                    feature[n] = t.Feature(float_list=t.FloatList(value=v))
            out.write(t.Example(features=t.Features(feature=feature)).SerializeToString())


def other_forms(tensord, folder, want, rows, out):
    """Findings: what the same rows as CSV and TFRecord give, where they can say it, must be the same bytes."""
    bad, inputs = [], want["model"]["inputs"]
    wrapped = any(isinstance(x, dict) for r in rows for v in ([r["inputs"]] if not isinstance(r["inputs"], dict) else r["inputs"].values())
                  for x in (v if isinstance(v, list) else [v]))
    forms = [("rows.csv", write_csv)] * (not wrapped)
    if not any("time" in f["shape"] for f in inputs.values()):
        forms.append(("rows.tfrecord", write_tfrecord))
    for name, write in forms:
        write(os.path.join(folder, name), rows, inputs)
        try:
            _, again = train(tensord, folder, name, "again")
        except (Refused, subprocess.TimeoutExpired) as e:
            bad.append(f"{name}: {e}")
            continue
        a, b = (open(os.path.join(d, "variables", "variables.data-00000-of-00001"), "rb").read() for d in (out, again))
        if a != b:
            bad.append(f"{name}: other bytes than of train.jsonl")
    return bad


class Refused(Exception):
    pass


def train(tensord, folder, training="train.jsonl", result="result"):
    """Runs the job as a user would; returns the events' data and the version directory."""
    out = os.path.join(folder, result)
    shutil.rmtree(out, True)
    with open(os.path.join(folder, "job.json")) as f:
        spec = json.load(f)
    spec["training_file"] = training
    with open(os.path.join(folder, f"job_{result}.json"), "w") as f:
        json.dump(spec, f)
    shutil.rmtree(os.path.join(folder, f"work_{result}"), True)
    done = subprocess.run([tensord, "train", f"job_{result}.json", "--model_base_path=model", f"--output={result}", f"--work_dir=work_{result}",
                           f"--events={result}.events"], cwd=folder, capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise Refused(f"exit {done.returncode}: {' '.join((done.stderr or done.stdout).split())[-400:]}")
    with open(os.path.join(folder, f"{result}.events")) as f:
        return json.load(f)["data"][::-1], out   # the list is newest first


def measured(events, out, want, folder):
    """What a run of ours made, as `differences` takes it, and findings besides."""
    import tensorflow as tf
    data = [e["data"] for e in events if e.get("type") == "metrics"]
    steps, epochs = [d for d in data if "metrics" not in d], [d["metrics"] for d in data if "metrics" in d]
    bad = [f"step {i} is told as {d['step']}" for i, d in enumerate(steps, 1) if d["step"] != i]
    before, after = (tf.train.load_checkpoint(os.path.join(d, "variables", "variables")) for d in (os.path.join(folder, "model", "1"), out))
    shapes, keys = after.get_variable_to_shape_map(), want["keys"]
    bad += [f"{k} is missing" for k in before.get_variable_to_shape_map() if k not in shapes] + [f"{k} is new" for k in shapes if k not in before.get_variable_to_shape_map()]
    values = {k: np.asarray(after.get_tensor(k)) for k in shapes}
    for k, v in values.items():
        if k in keys and not v.tobytes() == values[keys[k]].tobytes():
            bad.append(f"{k} does not hold the value of {keys[k]}")
        if k not in keys and k in before.get_variable_to_shape_map() and v.tolist() != np.asarray(before.get_tensor(k)).tolist():
            bad.append(f"{k} was not to be trained, and changed")
    loaded = tf.saved_model.load(out)
    reader = finetune_keras.Inputs(loaded.signatures[want["model"]["signature"]])
    batch = json.load(open(os.path.join(folder, "job.json")))["method"]["supervised"]["hyperparameters"]["batch_size"]
    rows = [json.loads(line) for line in open(os.path.join(folder, "train.jsonl"), encoding="utf-8") if line.strip()]
    predictions = {k: v.numpy() for k, v in reader.call(**reader.tensors(rows[:batch])).items()}
    return {"losses": [d["train_loss"] for d in steps], "rates": [d["learning_rate"] for d in steps], "epochs": epochs, "predictions": predictions,
            "variables": {k: values[k] for k in want["variables"] if k in values}}, bad


def compare(tensord, folder):
    """[(how far, finding)], the farthest first; (0, ..) are none."""
    want = read_expected(folder)
    try:
        events, out = train(tensord, folder)
    except (Refused, subprocess.TimeoutExpired) as e:
        return [(float("inf"), str(e))]
    got, bad = measured(events, out, want, folder)
    if os.path.basename(folder)[-1] in "05":
        with open(os.path.join(folder, "train.jsonl"), encoding="utf-8") as f:
            bad += other_forms(tensord, folder, want, [json.loads(line) for line in f if line.strip()], out)
    rows = [(float("inf"), b) for b in bad] + differences(got, want)
    return sorted(rows, key=lambda r: -r[0])


# ---------------------------------------------------------------- all

def work(args):
    """A child process: draws and compares some, a line of JSON for each."""
    for i in args.indices:
        folder, lost, start = os.path.join(args.out, f"{i:03d}"), Counter(), time.time()
        line = {"index": i}
        try:
            if args.redraw or not os.path.exists(os.path.join(folder, "expected.json")):
                draw(args.seed, i, folder, lost)
            line["kind"] = read_expected(folder)["kind"]
            if not args.draw_only:
                line["findings"] = [(r, why) for r, why in compare(args.tensord, folder) if r > 1 or args.verbose][:40 if args.verbose else 3]
        except Exception as e:
            line["findings"] = [(float("inf"), f"{type(e).__name__}: {e}; {traceback.format_exc().splitlines()[-3].strip()}")]
        print("DRAW " + json.dumps({**line, "lost": lost, "seconds": round(time.time() - start, 1)}), flush=True)


def child(args, indices):
    """Runs `work` on these; goes on after the one at which TensorFlow ended the process, should it."""
    left, got = list(indices), []
    while left:
        cmd = [sys.executable, os.path.abspath(__file__), args.out, "--seed", str(args.seed), "--tensord", args.tensord, "--draw", ",".join(map(str, left)), "--child"]
        cmd += ["--verbose"] * args.verbose + ["--redraw"] * args.redraw + ["--draw-only"] * args.draw_only
        p = subprocess.Popen(cmd, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        n = len(left)
        for line in p.stdout:
            if line.startswith("DRAW "):
                row = json.loads(line[5:])
                left.remove(row["index"])
                got.append(row)
                show(row, args)
        p.wait()
        if left and len(left) == n:
            row = {"index": left.pop(0), "kind": "?", "lost": {}, "findings": [[float("inf"), f"the drawing process ended with {p.returncode}"]]}
            got.append(row)
            show(row, args)
    return got


def show(row, args):
    for r, why in row.get("findings", []):
        print(f"{row['index']:03d} ({row.get('kind')}): {why} ({r:.3g} tolerances)", flush=True)
    if args.verbose:
        print(f"{row['index']:03d} ({row.get('kind')}): {row.get('seconds')} s", flush=True)


def main():
    from concurrent.futures import ThreadPoolExecutor
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("out")
    ap.add_argument("--jobs", type=int, default=300, help="jobs to draw")
    draw_seed.add_flag(ap)
    ap.add_argument("--draw", default="", help="these alone: numbers with commas between")
    ap.add_argument("--processes", type=int, default=1)
    ap.add_argument("--tensord", default=os.environ.get("TENSORD", "build/tensord"))
    ap.add_argument("--draw-only", action="store_true", help="make the jobs, run none")
    ap.add_argument("--redraw", action="store_true", help="draw again what OUT has")
    ap.add_argument("--verbose", action="store_true")
    ap.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    args = ap.parse_args()
    args.seed, args.tensord = draw_seed.chosen(args.seed), os.path.abspath(args.tensord)
    args.indices = [int(i) for i in args.draw.split(",")] if args.draw else list(range(args.jobs))
    if args.child:
        return work(args)
    draw_seed.say(args.seed)
    os.makedirs(args.out, exist_ok=True)
    with ThreadPoolExecutor(args.processes) as pool:
        rows = sum(pool.map(lambda c: child(args, c), [args.indices[i:i + CHUNK] for i in range(0, len(args.indices), CHUNK)]), [])
    lost = sum((Counter(r["lost"]) for r in rows), Counter())
    good = sum(not [f for f in r.get("findings", []) if f[0] > 1] for r in rows)
    print("drawn again: " + (", ".join(f"{n} {why}" for why, n in lost.most_common()) or "none"))
    print(f"FINETUNE_DRAWS {good} of {len(rows)} agree")
    return 0 if good == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
