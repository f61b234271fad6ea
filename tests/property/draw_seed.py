"""The seed of a random test: a new one each run, printed, so that the run can be had again.

It is --seed, else $TD_SEED (what tests/run.sh passes on), else drawn. tests/run.sh shows the lines that begin with "SEED".
"""
import os
import random
import shlex
import sys


def add_flag(parser):
    parser.add_argument("--seed", type=int, help="the seed that an earlier run printed (default: $TD_SEED, else a new one)")


def chosen(seed):
    """The seed to use."""
    if seed is None:
        seed = int(os.environ.get("TD_SEED") or random.SystemRandom().randrange(1, 1000000))
    return seed


def say(seed):
    """Prints the seed and the command that has this run again."""
    flags = [a for i, a in enumerate(sys.argv[1:], 1) if not a.startswith("--seed") and sys.argv[i - 1] != "--seed"]
    print(f"SEED {seed}: again with  build/venv/bin/python {os.path.relpath(sys.argv[0])} {shlex.join(flags)} --seed {seed}", flush=True)
