"""Makes a few hundred SavedModels of every origin, asks TensorFlow for their answers and gradients, and writes them as a suite.

    python tests/unseen/unseen.py OUT [--only GLOB,...] [--again] [--list]        then: python tests/golden.py OUT, or any checker of suites against a server

The makers are the functions marked @model in the makers_*.py beside this file. OUT/models/NAME and OUT/goldens/NAME are left alone when they are there
already (--again: made anew). TensorFlow runs in a child process: where it crashes on a case, the case is left out and a new child goes on.
"""
import argparse
import fnmatch
import glob
import importlib
import json
import os
import shutil
import subprocess
import sys
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]
import golden  # noqa: E402
import gradients  # noqa: E402
import harness  # noqa: E402

HANGS, DEATHS = 240, 20   # seconds a case may take; children that may die


def parse():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("out")
    ap.add_argument("--only", default="*")
    ap.add_argument("--again", action="store_true")
    ap.add_argument("--list", action="store_true")
    ap.add_argument("--gradients", action="store_true", help="only the gradient cases, of models that were made without")
    ap.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    return ap.parse_args()


def make(out, name, died):
    """One model and its cases, but for those that TensorFlow died over. What is being done is noted, for when it dies."""
    maker, meta = harness.MAKERS[name]
    folder = os.path.join(out, "models", name)
    shutil.rmtree(folder, ignore_errors=True)

    def say(case):
        note(out, name, case)
        return (name, case) not in died
    note(out, name, "making")
    cases = list(maker(folder))
    suite = harness.Suite(out, name, meta, say)
    for c in cases:
        suite.add(c)
    suite.close()
    return len(suite.rows) + differentiate(out, name, died)


def differentiate(out, name, died):
    """The gradient cases of a model that is made: of each signature's first case that has an answer. Returns how many."""
    def say(case):
        note(out, name, case)
        return (name, case) not in died
    note(out, name, "gradients")
    meta, folder, firsts = harness.MAKERS[name][1], os.path.join(out, "goldens", name), {}
    with open(os.path.join(folder, "cases.json")) as f:
        for c in json.load(f):
            if "error" not in c and c["signature"] not in firsts:
                firsts[c["signature"]] = golden.read_npz(os.path.join(folder, c["file"]))[0] if "file" in c else {}
    return gradients.write(out, name, meta, firsts, say) if (name, "gradients") not in died else 0


def note(out, name, case):
    with open(os.path.join(out, "now.txt"), "w") as f:
        f.write(f"{name} {case}")


def child(args):
    import keras
    import tensorflow as tf
    tf.get_logger().setLevel("ERROR")
    died = {tuple(line.split()) for line in open(os.path.join(args.out, "died.txt"))}
    for name in missing(args):
        if (name, "making") in died:
            continue
        keras.backend.clear_session()
        keras.utils.set_random_seed(len(name) * 7 + ord(name[0]))
        start = time.perf_counter()
        try:
            count = differentiate(args.out, name, died) if args.gradients else make(args.out, name, died)
            print(f"{name}: {count} cases, {time.perf_counter() - start:.1f} s", flush=True)
        except Exception as e:
            with open(os.path.join(args.out, "failed.txt"), "a") as f:
                f.write(f"{name}\n{traceback.format_exc()}\n")
            print(f"{name}: NOT MADE: {type(e).__name__}: {' '.join(str(e).split())[:300]}", flush=True)
            shutil.rmtree(os.path.join(args.out, "gradients" if args.gradients else "goldens", name), ignore_errors=True)


def asked(args):
    return [n for n in harness.MAKERS if any(fnmatch.fnmatch(n, g) for g in args.only.split(","))]


def missing(args):
    made = lambda n, part="goldens": os.path.exists(os.path.join(args.out, part, n, "cases.json"))
    return [n for n in asked(args) if (made(n) and not made(n, "gradients") if args.gradients else not made(n))]


def watched(process, now):
    """The exit status of the child; it is killed when one case takes longer than HANGS seconds."""
    while True:
        try:
            return process.wait(5)
        except subprocess.TimeoutExpired:
            if time.time() - os.path.getmtime(now) > HANGS:
                process.kill()


def parent(args):
    """Runs children until one comes to the end."""
    os.makedirs(args.out, exist_ok=True)
    for n in asked(args) if args.again else []:
        shutil.rmtree(os.path.join(args.out, "goldens", n), ignore_errors=True)
    died, now = (os.path.join(args.out, n) for n in ("died.txt", "now.txt"))
    open(died, "w").close()
    # TensorFlow's own kernels, whatever the CPU: oneDNN's softmax, which it takes on AVX-512, has its own answer to NaN
    env = {**os.environ, "TF_ENABLE_ONEDNN_OPTS": "0", "TF_CPP_MIN_LOG_LEVEL": "3", "KERAS_BACKEND": "tensorflow", "CUDA_VISIBLE_DEVICES": "-1", "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, os.path.abspath(__file__), args.out, "--only", args.only, "--child"] + ["--gradients"] * args.gradients
    for _ in range(DEATHS):
        note(args.out, "nothing", "yet")
        code = watched(subprocess.Popen(command, env=env), now)
        if code == 0:
            break
        with open(now) as f, open(died, "a") as g:
            last = f.read()
            g.write(last + "\n")
        print(f"TensorFlow died ({code}) over {last}", flush=True)
    failed = missing(args)
    count = sum(len(json.load(open(f))) for f in glob.glob(os.path.join(args.out, "goldens", "*", "cases.json")) + glob.glob(os.path.join(args.out, "gradients", "*", "cases.json")))
    skipped = sum(int(open(f).read()) for f in glob.glob(os.path.join(args.out, "goldens", "*", "skipped.txt")))
    print(f"SKIPPED {skipped} cases that TensorFlow cannot answer, or that differ as is meant")
    print(f"{len(asked(args)) - len(failed)} models, {count} cases in {args.out}; not made: {', '.join(failed) or 'none'}")
    return 1 if failed else 0


def main():
    args = parse()
    for path in sorted(glob.glob(os.path.join(HERE, "makers_*.py"))):
        importlib.import_module(os.path.basename(path)[:-3])
    if args.list:
        print("\n".join(harness.MAKERS))
        return 0
    return child(args) if args.child else parent(args)


if __name__ == "__main__":
    sys.exit(main())
