"""Every signature of the suites' models beside the other engines, a line each, the slowest beside its best peer first; prints Markdown.

    python tests/bench/engines/sweep.py BUILD OUT PYTHON --suites DIR [--of keras,seeds,zoo] [--only GLOB,...] [--rows 1,32] [--rounds 2] [--seconds 0.1]
                                        [--threads 1] [--engines tensord,tensorflow,..] [--list 40]

To find slow kernels by: run.sh times what people serve, and long enough for a table; this is short and wide. A signature is called with the largest
of its answered golden cases: its rows repeated to 1 and to 32, or as it is where its inputs have no rows in common. OUT holds cases and what tf2onnx
made (run.sh's folder, build/engines; tried once for a model's first signature). A line with DIFFERS has other numbers than TensorFlow's: drawn ones, and states
that calls change. BUILD has call_tensord and call_tensorflow, which run.sh builds.
"""
import argparse
import fnmatch
import os
import sys
import types

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[1:1] = [os.path.dirname(HERE), os.path.join(HERE, "..", "..")]

import bench  # noqa: E402
import make  # noqa: E402
import models  # noqa: E402
import turns  # noqa: E402


def largest_cases(suite):
    """{(model, signature): (folder, inputs)}: of its answered golden cases the one with most elements."""
    found, sizes = {}, {}
    for model, _, folder, signature, inputs in models.answered_cases(suite):
        size = sum(a.size for a in inputs.values())
        if size > sizes.get((model, signature), -1):
            sizes[model, signature] = size
            found[model, signature] = folder, inputs
    return found


def of_wanted_rows(inputs, wanted):
    """[(what the line says of its rows, inputs)]"""
    by_rows = [(str(n), make.of_rows(inputs, n)) for n in wanted] if inputs else []
    return by_rows if by_rows and by_rows[0][1] is not None else [("-", inputs)]


def rows_of(args, suite):
    """Rows as rows.tsv has them: name, rows, model, ONNX file or -, case."""
    first = set()
    for (model, signature), (folder, inputs) in largest_cases(os.path.abspath(os.path.join(args.suites, suite))).items():
        name = f"{suite}/{model}:{signature}"
        has = models.signatures(folder).get(signature)
        if has is None or not set(inputs) <= set(has.inputs) or not any(fnmatch.fnmatchcase(name, g) for g in args.only.split(",")):
            continue
        onnx = os.path.join(args.out, "onnx", model + ".onnx")
        converted = model not in first and "onnxruntime" in args.engines and make.to_onnx(folder, signature, onnx)
        first.add(model)
        for rows, given in of_wanted_rows(inputs, args.rows):
            case = os.path.join(args.out, "cases", name.replace("/", ".") + "." + rows)
            models.write_case(case, has, signature, given)
            yield name, rows, folder, onnx if converted else "-", case


class Bounded(turns.Call):
    """One that may wait for ever: for room in a queue."""

    def command(self, engine):
        return ["timeout", "30", *super().command(engine)]


def timed(args, row):
    """(ratio to the best peer or None, cells)"""
    name, rows, *files = row
    call = Bounded(types.SimpleNamespace(build=args.build, python=args.python, seconds=args.seconds), (name, "1", *files), args.threads)
    engines = [e for e in args.engines if e != "openvino" or files[1] != "-"]   # which, as ONNX Runtime, is given a model's first signature
    best = turns.in_turn(call, engines, args.rounds)
    peers = [best[e][3] for e in best if e != "tensord" and (e == "tensorflow" or call.agrees(e))]
    ratio = best["tensord"][3] / min(peers) if peers and "tensord" in best else None
    return ratio, [name, rows, *(turns.cell(call, best, e) for e in args.engines), "-" if ratio is None else f"{ratio:.2f}"]


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("build", "out", "python"):
        ap.add_argument(name)
    ap.add_argument("--suites", required=True)
    ap.add_argument("--of", default="keras,seeds,zoo")
    ap.add_argument("--only", default="*")
    ap.add_argument("--rows", default=[1, 32], type=lambda s: [int(n) for n in s.split(",")])
    ap.add_argument("--rounds", type=int, default=2)
    ap.add_argument("--seconds", type=float, default=0.1)
    ap.add_argument("--threads", type=int, default=1)
    ap.add_argument("--engines", default=list(turns.ENGINES), type=lambda s: s.split(","))
    ap.add_argument("--list", type=int, default=40)
    args = ap.parse_args()
    for part in ("onnx", "cases"):
        os.makedirs(os.path.join(args.out, part), exist_ok=True)
    lines = []
    for suite in args.of.split(","):
        for row in rows_of(args, suite):
            lines.append(timed(args, row))
            print(*lines[-1][1], sep=" | ", file=sys.stderr, flush=True)
    lines.sort(key=lambda line: -(line[0] or 0))
    print(bench.machine() + "\n")
    bench.table(["signature", "rows", *args.engines, "over the best peer"], [cells for _, cells in lines[:args.list]])
    known = [ratio for ratio, _ in lines if ratio is not None]
    print(f"{sum(r <= 1 for r in known)} of {len(known)} are no slower than their best peer; {len(lines) - len(known)} cannot be compared.")


if __name__ == "__main__":
    main()
