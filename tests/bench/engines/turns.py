"""tensord, TensorFlow, ONNX Runtime and OpenVINO on the same calls, in turn on the same cores; prints Markdown.

    python tests/bench/engines/turns.py BUILD MODELS PYTHON [--rounds 3] [--seconds 1] [--threads 1,2] [--rows 1,8,32] [--only GLOB,...] [--engines NAME,...]

MODELS is what make.py wrote, PYTHON has onnxruntime and openvino. Each turn is a process of its own, pinned to as many cores as the call may use
threads; the engines' order turns each round. Times are the least of all rounds. Before any of them counts, the outputs are held against
TensorFlow's: an engine that differs is shown as such, and never as the best.
"""
import argparse
import fnmatch
import os
import subprocess
import sys
import tempfile

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(1, os.path.dirname(HERE))
import bench  # noqa: E402
import cases  # noqa: E402

ENGINES = ("tensord", "tensorflow", "onnxruntime", "openvino")
RTOL, ATOL = 5e-3, 5e-4   # the second of the output's largest magnitude


class Call:
    """A row of rows.tsv with so many threads."""

    def __init__(self, args, row, threads):
        (self.name, rows, self.model, self.onnx, self.case), self.args, self.threads = row, args, threads
        self.rows, self.answers = int(rows), {}

    def command(self, engine):
        python = [self.args.python, os.path.join(HERE, "call_peer.py"), engine]
        return {"tensord": [f"{self.args.build}/call_tensord", self.model], "tensorflow": [f"{self.args.build}/call_tensorflow", self.model],
                "onnxruntime": [*python, self.onnx], "openvino": [*python, self.model]}[engine] + [self.case, str(self.args.seconds), "0", str(self.threads)]

    def run(self, engine):
        """[load, first, p50, least, calls, cpu, MB held at most], or None."""
        if engine == "onnxruntime" and self.onnx == "-":
            return None
        with tempfile.NamedTemporaryFile() as answer, tempfile.TemporaryFile("w+") as out:
            line = self.command(engine) + ([answer.name] if engine not in self.answers else [])
            p = subprocess.Popen(line, stdout=out, stderr=subprocess.DEVNULL)
            _, status, used = os.wait4(p.pid, 0)
            p.returncode = os.waitstatus_to_exitcode(status)
            out.seek(0)
            words = out.read().split()
            if p.returncode != 0 or len(words) < 6:
                return None
            if engine not in self.answers:
                self.answers[engine] = cases.answer(answer.name)
        return [float(w) for w in words[-6:]] + [used.ru_maxrss / 1024]

    def agrees(self, engine):
        """Whether its outputs are TensorFlow's: by name, else each is one of them."""
        want, got = self.answers.get("tensorflow"), self.answers[engine]
        if want is None:   # nothing to hold it against
            return True
        near = lambda a, b: a.shape == b.shape and np.allclose(a, b, rtol=RTOL, atol=ATOL * max(1e-30, float(np.abs(b).max(initial=0))))
        return all(near(got[k], b) if k in got else any(near(a, b) for a in got.values()) for k, b in want.items())


def in_turn(call, engines, rounds):
    """{engine: the least of each figure}"""
    seen = {e: [] for e in engines}
    for n in range(rounds):
        for e in engines[n % len(engines):] + engines[:n % len(engines)]:
            row = call.run(e)
            if row:
                seen[e].append(row)
    return {e: [min(c) for c in zip(*rows)] for e, rows in seen.items() if rows}


def cell(call, best, engine):
    if engine not in best:
        return "no"
    us = best[engine][3]
    return (f"{us / 1e3:.1f} ms" if us >= 1e4 else f"{us:.1f} us") + ("" if call.agrees(engine) else " DIFFERS")


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("build", "models", "python"):
        ap.add_argument(name)
    ap.add_argument("--rounds", type=int, default=3)
    ap.add_argument("--seconds", type=float, default=1)
    ap.add_argument("--threads", default="1,2")
    ap.add_argument("--rows", default="1,8,32")
    ap.add_argument("--only", default="*")
    ap.add_argument("--engines", default=",".join(ENGINES))
    args = ap.parse_args()
    engines = args.engines.split(",")
    rows = [line.rstrip("\n").split("\t") for line in open(os.path.join(args.models, "rows.tsv"))]
    rows = [r for r in rows if r[1] in args.rows.split(",") and any(fnmatch.fnmatchcase(r[0], g) for g in args.only.split(","))]
    print(bench.machine() + "\n")
    for threads in (int(t) for t in args.threads.split(",")):
        times, starts = [], []
        for row in rows:
            call = Call(args, row, threads)
            best = in_turn(call, engines, args.rounds)
            peers = [best[e][3] for e in best if e != "tensord" and call.agrees(e)]
            over = f"{best['tensord'][3] / min(peers):.2f}" if peers and "tensord" in best and call.agrees("tensord") else "-"
            times.append([call.name, row[1], *(cell(call, best, e) for e in engines), over])
            if call.rows == 1:
                starts.append([call.name, *(f"{best[e][0] / 1e3:.0f} / {best[e][1] / 1e3:.0f} ms, {best[e][6]:.0f} MB" if e in best else "no" for e in engines)])
            print(*times[-1], sep=" | ", file=sys.stderr, flush=True)
        print(f"**A call with {threads} thread{'s' if threads > 1 else ''}** (least of {args.rounds} rounds of {args.seconds:g} s)\n")
        bench.table(["model", "rows", *engines, "over the best peer"], times)
        print(f"\n**Load / first answer of one row, memory at most** ({threads} thread{'s' if threads > 1 else ''})\n")
        bench.table(["model", *engines], starts)
        print()


if __name__ == "__main__":
    main()
