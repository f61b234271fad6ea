"""Draws ops, attributes, dtypes, shapes and values at random, asks TensorFlow for the answers, and writes them as a suite that golden.py runs.

    python tests/property/op_draws.py OUT [--each 1 | --draws N] [--seed N] [--only GLOB,...] [--jobs 1]
    python tests/property/op_draws.py OUT --draw OP.SEED,...     # these draws again: golden.py prints this line of a case that fails
    python tests/golden.py OUT --lib build/libtensord.so
    python tests/property/op_draws.py --list                     # the ops that are drawn
    python tests/property/op_draws.py --missing build/tensorctl  # the registered ops that are neither drawn nor exempt (or a file of names)

Draws go round the ops, so that any number of them covers all ops evenly; without --seed they are others each time (draw_seed.py), and the seed is printed. What a draw is: draw_source.py; models and cases are written by draw_suite.py. A family of ops is a module
draws_*.py with up to three tables:
  DRAWS   {op: draw}
  EXEMPT  {op: why it is not drawn}: what TensorFlow answers cannot be compared
  KNOWN   {op: (predicate of inputs and attributes, why these draws are left out)}: differences that are meant, as narrow as can be said
TensorFlow and libtensord never share a process (both bring a regex library). The work is done by child processes: a draw that ends TensorFlow's process is left out and named.
"""
import argparse
import fnmatch
import glob
import importlib
import json
import os
import subprocess
import sys
import zlib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")   # TensorFlow's own kernels, whatever the CPU
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")   # what Multinomial draws depends on how many threads share its rows
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import draw_seed  # noqa: E402
A_MODEL = 250


class Families:
    """The tables of all families: draws, exempt, known."""

    def __init__(self):
        self.draws, self.exempt, self.known, home = {}, {}, {}, {}
        for path in sorted(glob.glob(os.path.join(HERE, "draws_*.py"))):
            name = os.path.basename(path)[:-3]
            module = importlib.import_module(name)
            for op in list(module.DRAWS) + list(getattr(module, "EXEMPT", {})):
                if op in home:
                    raise SystemExit(f"op_draws: {op} of {name} is in {home[op]} too: an op has one draw")
                home[op] = name
            self.draws.update(module.DRAWS)
            self.exempt.update(getattr(module, "EXEMPT", {}))
            self.known.update(getattr(module, "KNOWN", {}))


def registered(source):
    """Names of the ops that tensord registers: from tensorctl, or a file of a name a line."""
    if os.access(source, os.X_OK) and not source.endswith(".txt"):
        text = subprocess.run([source, "ops"], check=True, capture_output=True, text=True).stdout
    else:
        with open(source) as f:
            text = f.read()
    rows = [line.split() for line in text.splitlines()]
    return [r[0] for r in rows if r and not r[0].isdigit()]


def rounds(labels, n, seed):
    """[(label, its own seed)]: n of them, round robin. A label's seeds hang on its name alone, so that a new op leaves the others' draws as they were."""
    own = lambda label, turn: seed * 1000003 + (zlib.crc32(label.encode()) + turn) % 1000003
    return [(labels[i % len(labels)], own(labels[i % len(labels)], i // len(labels))) for i in range(n if labels else 0)]


def plan(args, draws):
    """[(model, [(op, seed)])]: round robin over the ops, cut into models."""
    if args.draw:
        rows = [(d.rsplit(".", 1)[0], int(d.rsplit(".", 1)[1])) for d in args.draw.split(",")]
    else:
        ops = [op for op in sorted(draws) if any(fnmatch.fnmatchcase(op, g) for g in args.only.split(","))]
        if not ops:
            raise SystemExit(f"op_draws: --only {args.only} names no op that is drawn")
        rows = rounds(ops, args.draws or args.each * len(ops), args.seed)
    return [(f"draws_{at}", rows[at:at + A_MODEL]) for at in range(0, len(rows), A_MODEL)]


def work(args, families):
    """A child process: writes its share of the models, one after another. Says before each draw which it is, behind each model how many cases and what was left out."""
    import draw_suite
    left_out, done = args.left_out.split(","), args.done.split(",")
    for i, (name, rows) in enumerate(plan(args, families.draws)):
        if i % args.jobs == args.job and name not in done:
            say = lambda op, seed: print("at", op, seed, flush=True)
            rows = [r for r in rows if f"{r[0]}.{r[1]}" not in left_out]
            n, lost = draw_suite.write_model(args.out, name, rows, families, say)
            print("model", name, n, json.dumps(lost), flush=True)


class Child:
    """A job's process, started again behind a draw that ended it. What else than op_draws runs so (grad_draws.py) says its script and its further flags."""
    script, flags = os.path.abspath(__file__), ()

    def __init__(self, args, job):
        self.args, self.job, self.done, self.left_out, self.cases, self.ended, self.lost = args, job, [], [], 0, [], Counter()
        self.start()

    def start(self):
        a = self.args
        line = [sys.executable, self.script, a.out, "--draws", a.draws, "--each", a.each, "--seed", a.seed, "--only", a.only, "--draw", a.draw,
                *(w for f in self.flags for w in (f"--{f}", getattr(a, f))), "--jobs", a.jobs, "--job", self.job, "--done", ",".join(self.done), "--left-out", ",".join(self.left_out)]
        self.process = subprocess.Popen([str(x) for x in line], stdout=subprocess.PIPE, text=True)

    def finish(self):
        while True:
            now = None
            for line in self.process.stdout:
                word = line.split(None, 3)
                if word[:1] == ["at"]:
                    now = f"{word[1]}.{word[2]}"
                elif word[:1] == ["model"]:
                    self.done.append(word[1])
                    self.cases += int(word[2])
                    self.lost += Counter(json.loads(word[3]))
            rc = self.process.wait()
            if rc == 0:
                return
            if rc > 0 or now is None or len(self.ended) > 1000:
                raise SystemExit(f"op_draws: drawing failed at {now}")
            self.ended.append(now)
            self.left_out.append(now)
            self.start()


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("out", nargs="?")
    ap.add_argument("--each", type=int, default=1, help="draws an op")
    ap.add_argument("--draws", type=int, default=0, help="draws in all, in place of --each")
    draw_seed.add_flag(ap)
    ap.add_argument("--only", default="*", help="draw these ops alone: globs with commas between")
    ap.add_argument("--draw", default="", help="make these draws: OP.SEED with commas between")
    ap.add_argument("--jobs", type=int, default=1, help="processes that draw")
    ap.add_argument("--list", action="store_true", help="print the ops covered")
    ap.add_argument("--missing", metavar="TENSORCTL", help="print the registered ops that have no draw")
    ap.add_argument("--job", type=int, help=argparse.SUPPRESS)
    ap.add_argument("--done", default="", help=argparse.SUPPRESS)
    ap.add_argument("--left-out", default="", help=argparse.SUPPRESS)
    args = ap.parse_args()
    families = Families()
    draws, exempt = families.draws, families.exempt
    if args.missing:
        lacking = [op for op in registered(args.missing) if op not in draws and op not in exempt]
        print("\n".join(lacking + [f"{len(lacking)} ops without a draw; {len(draws)} are drawn, {len(exempt)} exempt"]))
        return 1 if lacking else 0
    if args.list or not args.out:
        print("\n".join(sorted(draws)))
        return 0
    args.seed = draw_seed.chosen(args.seed)
    if args.job is not None:
        work(args, families)
        return 0
    draw_seed.say(args.seed)
    return draw_all(args, families)


def draw_all(args, families):
    """Runs the jobs; prints how many cases there are, and how many draws came to none."""
    children = [Child(args, job) for job in range(args.jobs)]
    with ThreadPoolExecutor(args.jobs) as readers:   # each reads its child: a pipe that nobody reads would stop it
        list(readers.map(Child.finish, children))
    lost = sum((c.lost for c in children), Counter({"TensorFlow's process ended": sum(len(c.ended) for c in children)}))
    print(f"{sum(c.cases for c in children)} cases of {len({op for _, rows in plan(args, families.draws) for op, _ in rows})} ops in {args.out}")
    print(f"SKIPPED {sum(lost.values())} draws" + "".join(f"; {n} {why}" for why, n in sorted(lost.items()) if n)
          + "".join(f" {e}" for c in children for e in c.ended))
    return 0


if __name__ == "__main__":
    sys.exit(main())
