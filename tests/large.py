"""Runs large models (ResNet50, a BERT encoder ...) through libtensord and compares digests of their answers.

    python tests/large.py MAKER DIR [NAME...]      a longer test: a minute or so, 2 GB of memory

MAKER is a Python file that knows the models: inputs(name) gives the inputs of one call, EXPECTED["NAME/OUTPUT"] the digest of
each output (mean, standard deviation, largest magnitude, first five values), and `MAKER DIR NAME` makes the SavedModel
DIR/NAME with TensorFlow. Models that are not there are made first, with --make. The exit status is 0 when all agree.
"""
import argparse
import importlib.util
import os
import subprocess
import sys
import time

import numpy as np

import golden

RTOL, ATOL = 2e-3, 2e-4   # the second of the output's largest magnitude


def load_maker(path):
    spec = importlib.util.spec_from_file_location("maker", path)
    maker = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(maker)
    return maker


def digest(value):
    v = value.astype(np.float64)
    return [v.mean(), v.std(), np.abs(v).max(), *v.reshape(-1)[:5]]


def compare(name, outputs, expected):
    """Lines that say what differs."""
    wanted = {k.split("/", 1)[1]: v for k, v in expected.items() if k.startswith(name + "/")}
    wrong = [f"outputs {sorted(outputs)}, want {sorted(wanted)}"] if set(outputs) != set(wanted) else []
    for key in sorted(set(outputs) & set(wanted)):
        got, want = digest(outputs[key]), wanted[key]
        if not np.allclose(got, want, rtol=RTOL, atol=ATOL * want[2]):
            wrong.append(f"{key}: {np.round(got, 5).tolist()}, want {want}")
    return wrong


def run(lib, name, folder, maker, args):
    start = time.perf_counter()
    model = golden.Model(lib, folder, args.kernels, args.passes_off)
    try:
        loaded, inputs, times = time.perf_counter(), maker.inputs(name), []
        for _ in range(args.repeat + 1):
            begin = time.perf_counter()
            outputs = model.run("serving_default", inputs)
            times.append(time.perf_counter() - begin)
        wrong = compare(name, outputs, maker.EXPECTED)
        spent = [1e3 * t for t in (loaded - start, times[0], min(times[1:] or times))]
    finally:
        model.close()
    print(f"{name}: {'agrees' if not wrong else 'DIFFERS'}; load %.0f ms, first call %.0f ms, best later call %.1f ms" % tuple(spent), flush=True)
    for line in wrong:
        print("    " + line)
    return not wrong


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("maker")
    p.add_argument("dir")
    p.add_argument("names", nargs="*")
    p.add_argument("--make", action="store_true", help="make models that are not there")
    p.add_argument("--lib", default=os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "build", "libtensord.so"))
    p.add_argument("--kernels")
    p.add_argument("--passes-off")
    p.add_argument("--repeat", type=int, default=5, help="calls after the first")
    args = p.parse_args()
    maker, lib, failed = load_maker(args.maker), golden.load_library(args.lib), []
    names = args.names or sorted({k.split("/", 1)[0] for k in maker.EXPECTED})
    for name in names:
        folder = os.path.join(args.dir, name)
        if args.make and not os.path.exists(os.path.join(folder, "saved_model.pb")):
            subprocess.run([sys.executable, args.maker, args.dir, name], check=True)
        try:
            ok = run(lib, name, folder, maker, args)
        except golden.Failure as e:
            ok = False
            print(f"{name}: FAILS: {e}", flush=True)
        failed += [] if ok else [name]
    print(f"LARGE {len(names) - len(failed)} of {len(names)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
