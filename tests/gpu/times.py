"""How long models take on a GPU and on the CPU of the same machine, in alternating turns.

    python tests/gpu/times.py --lib build/libtensord.so --gpu MODULE SUITE...

Of each suite's model, its first case that agrees on both; the least of many calls, in microseconds, through the C API: with the copies of
inputs and outputs. Never fails for a time.
"""
import argparse
import glob
import json
import os
import sys
import time

sys.path[:0] = [os.path.dirname(os.path.abspath(__file__)), os.path.dirname(os.path.dirname(os.path.abspath(__file__)))]
import golden  # noqa: E402

MOST = 12  # models of a suite


def first_cases(suite):
    """(model, signature, inputs) of the first run of each model that is to succeed."""
    for folder in sorted(glob.glob(os.path.join(suite, "goldens", "*")))[:MOST]:
        with open(os.path.join(folder, "cases.json"), encoding="utf-8") as f:
            cases = [c for c in json.load(f) if c.get("file") and c.get("kind") is None and not c.get("code")]
        for case in cases[:1]:
            yield os.path.basename(folder), case.get("signature", "serving_default"), golden.read_npz(os.path.join(folder, case["file"]))[0]


def least(run, seconds):
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        started = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - started)
    return best * 1e6


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("suites", nargs="+")
    ap.add_argument("--lib", required=True)
    ap.add_argument("--gpu", required=True)
    ap.add_argument("--seconds", type=float, default=0.4)
    args = ap.parse_args()
    lib = golden.load_library(args.lib)
    print("| model | GPU us | CPU us | CPU / GPU |\n|---|---|---|---|")
    for suite in args.suites:
        for name, signature, inputs in first_cases(suite):
            models = [golden.Model(lib, os.path.abspath(os.path.join(suite, "models", name)), gpu=g) for g in (args.gpu, None)]
            try:
                runs = [lambda m=m: m.run(signature, inputs) for m in models]
                for run in runs:
                    run()
                gpu, cpu = (min(least(r, args.seconds / 2) for _ in range(2)) for r in runs)
                print(f"| {os.path.basename(suite)}/{name} | {gpu:.0f} | {cpu:.0f} | {cpu / gpu:.2f} |", flush=True)
            except golden.Failure:
                pass
            for m in models:
                m.close()


if __name__ == "__main__":
    main()
