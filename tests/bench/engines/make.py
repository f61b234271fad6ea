"""Makes what the engines are timed on, once: SavedModels by seed, the same in ONNX, and cases of 1, 8 and 32 rows.

    python tests/bench/engines/make.py OUT [--suites DIR] [--maker FILE] [--only GLOB,...]

OUT/models/NAME      SavedModels: resnet50, mobilenet_v2, efficientnet_b0, bert_base, lstm512 of --maker (a file as tests/large.py has them;
                     without one ResNet50 and MobileNetV2 of Keras by seed), and links to models of the suites zoo and keras
OUT/onnx/NAME.onnx   what tf2onnx made of it
OUT/cases/NAME.ROWS  a call (tests/bench/call.h)
OUT/rows.tsv         name, rows, model, ONNX file or -, case
"""
import argparse
import fnmatch
import os
import subprocess
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[1:1] = [os.path.dirname(HERE), os.path.join(HERE, "..", "..")]

import numpy as np  # noqa: E402
import large  # noqa: E402

LARGE = ["resnet50", "mobilenet_v2", "efficientnet_b0", "bert_base", "lstm512"]
ZOO = ["keras_lstm", "tf1_mnist_conv", "keras_mnist_mlp", "text_bilstm", "tfx_taxi_wide_deep", "tfx_penguin_keras"]
ROWS = (1, 8, 32)


class Own:
    """ResNet50 and MobileNetV2 without --maker."""

    @staticmethod
    def inputs(name, batch=1):
        return {"image": np.random.default_rng(123).uniform(-1, 1, (batch, 224, 224, 3)).astype(np.float32)}

    @staticmethod
    def make(name, folder):
        import keras
        keras.utils.set_random_seed(7)
        make = {"resnet50": keras.applications.ResNet50, "mobilenet_v2": keras.applications.MobileNetV2}[name]
        make(weights=None, input_tensor=keras.Input((224, 224, 3), name="image")).export(folder, verbose=False)


def maker_of(path):
    return large.load_maker(path) if path else Own


def of_rows(inputs, rows):
    """The inputs of a golden case, repeated to so many rows; None where they are not rows."""
    counts = {a.shape[0] for a in inputs.values() if a.ndim}
    if len(counts) != 1 or any(a.ndim == 0 for a in inputs.values()) or 0 in counts:
        return None
    return {k: np.concatenate([a] * -(-rows // a.shape[0]))[:rows] for k, a in inputs.items()}


def large_cases(args):
    """(name, folder, signature's name, inputs by rows)"""
    maker = maker_of(args.maker)
    for name in LARGE if args.maker else ["resnet50", "mobilenet_v2"]:
        if not wanted(args, name):
            continue
        folder = os.path.join(args.out, "models", name)
        if not os.path.exists(folder):
            maker.make(name, folder + ".part")
            os.rename(folder + ".part", folder)
        yield name, folder, "serving_default", lambda rows, name=name: maker.inputs(name, rows)


def suite_cases(args):
    import models
    for suite, names in (("zoo", ZOO), ("keras", None)):
        seen = set()
        for name, _, folder, signature, inputs in models.zoo_cases(os.path.join(args.suites, suite)):
            if name not in seen and (names is None or name in names) and wanted(args, name):
                seen.add(name)
                yield name, folder, signature, lambda rows, inputs=inputs: of_rows(inputs, rows)


def wanted(args, name):
    return any(fnmatch.fnmatchcase(name, g) for g in args.only.split(","))


def to_onnx(folder, signature, path):
    """Whether tf2onnx can; what it says otherwise goes to PATH.log."""
    if not os.path.exists(path) and not os.path.exists(path + ".log"):
        with open(path + ".log", "w") as log:
            done = subprocess.run([sys.executable, "-m", "tf2onnx.convert", "--saved-model", folder, "--signature_def", signature, "--tag", "serve",
                                   "--opset", "17", "--output", path], stdout=log, stderr=log).returncode == 0
        if done:
            os.remove(path + ".log")
    return os.path.exists(path)


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("out")
    ap.add_argument("--suites", default="")
    ap.add_argument("--maker", default="")
    ap.add_argument("--only", default="*")
    args = ap.parse_args()
    import models
    for part in ("models", "onnx", "cases"):
        os.makedirs(os.path.join(args.out, part), exist_ok=True)
    with open(os.path.join(args.out, "rows.tsv"), "w") as listing:
        for name, folder, signature, inputs in [*large_cases(args), *(suite_cases(args) if args.suites else [])]:
            onnx, has = os.path.join(args.out, "onnx", name + ".onnx"), models.signatures(folder)[signature]
            converted = to_onnx(folder, signature, onnx)
            for rows in ROWS:
                given, case = inputs(rows), os.path.join(args.out, "cases", f"{name}.{rows}")
                if given is not None and set(given) <= set(has.inputs):
                    models.write_case(case, has, signature, given)
                    listing.write("\t".join([name, str(rows), os.path.abspath(folder), os.path.abspath(onnx) if converted else "-", os.path.abspath(case)]) + "\n")
            print(name, "" if converted else "no ONNX: " + onnx + ".log", flush=True)


if __name__ == "__main__":
    main()
