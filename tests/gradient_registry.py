"""Holds what our ops say of their gradients against TensorFlow's registry.

    build/venv/bin/python tests/gradient_registry.py BUILD/tensorctl

An op that TensorFlow differentiates has a gradient here, or is refused, or its row says why it is missing (grad_missing). One that TensorFlow
calls NotDifferentiable is "not" here. Where a row is silent the op is missing "TensorFlow registers none": then TensorFlow does register none.
"""
import json
import os
import subprocess
import sys

os.environ.update(CUDA_VISIBLE_DEVICES="", TF_CPP_MIN_LOG_LEVEL="3")

# Registered with a function that gives none of the inputs anything.
GIVE_NOTHING = {"ArgMax", "ArgMin", "Ceil", "Floor", "FloorDiv", "LoopCond", "Rint", "Round", "TruncateDiv"}
SILENT = "TensorFlow registers none"


def registry():
    """({op types with a gradient}, {those that are NotDifferentiable})"""
    import tensorflow  # registers most of them
    from tensorflow.python.framework import ops
    from tensorflow.python.ops import gradients  # noqa: F401: registers the others
    rows = ops.gradient_registry._registry
    return {k for k, v in rows.items() if v["type"] is not None}, {k for k, v in rows.items() if v["type"] is None}


def finding(op, differentiated, none):
    """None, or what is wrong with the op's row."""
    name, is_, why = op["name"], op["gradient"], op.get("gradient_why")
    if name in differentiated:
        if is_ == "yes" or "refused" in op or (is_ == "not" and name in GIVE_NOTHING):
            return None
        return None if is_ == "missing" and why != SILENT else f"TensorFlow differentiates it; here: {is_}, {why}"
    if name in none and is_ != "not":
        return f"TensorFlow calls it NotDifferentiable; here: {is_}"
    return None if is_ == "yes" or why else "missing without a reason"


def main():
    ops = json.loads(subprocess.run([sys.argv[1], "ops", "--json"], check=True, capture_output=True, text=True).stdout)["ops"]
    differentiated, none = registry()
    assert len(differentiated) > 300 and len(none) > 100, "TensorFlow's registry is not all there"
    wrong = [(op["name"], why) for op in ops if (why := finding(op, differentiated, none))]
    for name, why in wrong:
        print(f"{name}: {why}")
    count = {k: sum(op["gradient"] == k for op in ops) for k in ("yes", "not", "missing")}
    print(f"{len(ops)} ops: {count['yes']} differentiable, {count['not']} not, {count['missing']} missing; {len(wrong)} findings")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
