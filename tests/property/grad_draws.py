"""Draws ops, attributes, dtypes, shapes and values at random, asks TensorFlow for their gradients, and writes them as a suite that golden.py runs.

    python tests/property/grad_draws.py OUT [--each 1 | --draws N] [--second N] [--seed N] [--only GLOB,...] [--jobs 1]
    python tests/property/grad_draws.py OUT --draw OP.SEED,...     # these draws again, second_OP.SEED those of second order
    python tests/golden.py OUT --lib build/libtensord.so
    python tests/property/grad_draws.py --list                     # the ops that are drawn

Ops are those that TensorFlow has a gradient for and op_draws.py draws, by the same draws_*.py. How a draw becomes a case: grad_suite.py. OUT/refused.txt says what
TensorFlow did not answer, OUT/differences.txt which of its gradients are not what central differences say and not explained (ROUGH): then the exit status is 1.
What differs is explained in grad_known.py:
  EXEMPT, NO_SECOND  {op: why it is not drawn, or not to second order}
  KNOWN   {op, or second_op: (predicate of inputs and attributes, why these draws are left out)}: TensorFlow's gradient is not one, or not determined
  WRONG   the same: TensorFlow's gradient is not one, so that central differences are the expected answer, element by element
  ROUGH   {op: why TensorFlow's gradient, or ours with it, is not the derivative}
"""
import argparse
import fnmatch
import json
import os
import sys
from collections import Counter

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import draw_seed  # noqa: E402
import grad_known  # noqa: E402
import grad_programs  # noqa: E402
import op_draws  # noqa: E402
A_MODEL, TRIES = 200, 8


def differentiated():
    """The ops that TensorFlow's registry has a gradient function for."""
    from tensorflow.python.framework import ops
    from tensorflow.python.ops import (array_grad, ctc_ops, data_flow_grad, image_grad, linalg_grad, list_ops, manip_grad, math_grad, nn_grad,  # noqa: F401
                                       optional_grad, random_grad, rnn_grad, sparse_grad, tensor_array_grad, while_v2, cond_v2, resource_variable_ops)
    from tensorflow.python.ops.ragged import ragged_array_ops, ragged_conversion_ops  # noqa: F401
    return {op for op, entry in ops.gradient_registry._registry.items() if entry["type"] is not None}


def drawn(families):
    return sorted(op for op in differentiated() if op in families.draws and op not in grad_known.EXEMPT)


def plan(args, ops):
    """[(model, [(label, seed)])]: round robin over the ops, first order and then second."""
    if args.draw:
        rows = [(d.rsplit(".", 1)[0], int(d.rsplit(".", 1)[1])) for d in args.draw.split(",")]
    else:
        asked = lambda labels: [x for x in labels if any(fnmatch.fnmatchcase(x, g) for g in args.only.split(","))]
        first, second = asked(ops), asked([f"second_{op}" for op in ops if op not in grad_known.NO_SECOND])
        if not first + second:
            raise SystemExit(f"grad_draws: --only {args.only} names no op that is drawn")
        rows = op_draws.rounds(first, args.draws or args.each * len(first), args.seed) + op_draws.rounds(second, args.second, args.seed)
    return [(f"grads_{at}", rows[at:at + A_MODEL]) for at in range(0, len(rows), A_MODEL)]


def work(args, families):
    """A child process, as op_draws.work."""
    import grad_suite
    left_out, done = args.left_out.split(","), args.done.split(",")

    def say(label, seed):
        print("at", label, seed, flush=True)
        return f"{label}.{seed}" not in left_out
    for i, (name, rows) in enumerate(plan(args, drawn(families))):
        if i % args.jobs == args.job and name not in done:
            n, lost = grad_suite.write_model(args.out, name, rows, families, 1 if args.draw else TRIES, say)
            print("model", name, n, json.dumps(lost), flush=True)


class Child(op_draws.Child):
    script, flags = os.path.abspath(__file__), ("second",)


def unexplained(out):
    """The draws whose gradient central differences deny, but those of ROUGH."""
    path = os.path.join(out, "differences.txt")
    rows = open(path).read().splitlines() if os.path.exists(path) else []
    return [r for r in rows if r.split(".")[0] not in grad_known.ROUGH]


def cases_by_op(out):
    """How many cases there are of each label."""
    count = Counter()
    for folder, _, files in os.walk(os.path.join(out, "goldens")):
        if "cases.json" in files:
            with open(os.path.join(folder, "cases.json")) as f:
                count.update(c["signature"].rsplit("_", 1)[0] for c in json.load(f))
    return count


def draw_all(args):
    os.makedirs(args.out, exist_ok=True)
    children = [Child(args, job) for job in range(args.jobs)]
    with op_draws.ThreadPoolExecutor(args.jobs) as readers:
        list(readers.map(Child.finish, children))
    lost = sum((c.lost for c in children), Counter({"TensorFlow's process ended": sum(len(c.ended) for c in children)}))
    count = cases_by_op(args.out)
    second = {k: n for k, n in count.items() if k.startswith("second_")}
    first = {k: n for k, n in count.items() if k not in second}
    print(f"{sum(first.values())} gradients of {len(first)} ops, at least {min(first.values(), default=0)} each; {sum(second.values())} of second order of {len(second)} ops; in {args.out}")
    print(f"SKIPPED {sum(lost.values())} draws" + "".join(f"; {n} {why}" for why, n in sorted(lost.items()) if n) + "".join(f" {e}" for c in children for e in c.ended))
    wrong = unexplained(args.out)
    print("\n".join(f"TensorFlow's gradient is not the derivative: {w}" for w in wrong))
    return 1 if wrong else 0


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("out", nargs="?")
    ap.add_argument("--each", type=int, default=1, help="draws an op")
    ap.add_argument("--draws", type=int, default=0, help="draws in all, in place of --each")
    ap.add_argument("--second", type=int, default=0, help="draws of second order besides")
    draw_seed.add_flag(ap)
    ap.add_argument("--only", default="*", help="draw these ops alone: globs with commas between")
    ap.add_argument("--draw", default="", help="make these draws: OP.SEED with commas between")
    ap.add_argument("--jobs", type=int, default=1, help="processes that draw")
    ap.add_argument("--list", action="store_true", help="print the ops covered")
    ap.add_argument("--job", type=int, help=argparse.SUPPRESS)
    ap.add_argument("--done", default="", help=argparse.SUPPRESS)
    ap.add_argument("--left-out", default="", help=argparse.SUPPRESS)
    args = ap.parse_args()
    families = op_draws.Families()
    families.known = grad_known.KNOWN
    families.draws.update(grad_programs.DRAWS)
    if args.list or not args.out:
        print("\n".join(drawn(families)))
        return 0
    args.seed = draw_seed.chosen(args.seed)
    if args.job is not None:
        work(args, families)
        return 0
    draw_seed.say(args.seed)
    return draw_all(args)


if __name__ == "__main__":
    sys.exit(main())
