"""Runs fine-tuning jobs whose numbers TensorFlow has told, by `tensord train`, on the host-run CUDA device or another, and compares.

    python tests/host_cuda/finetune.py SUITE BUILD [--only GLOB,...] [--cpu]

SUITE holds folders with model/ (a SavedModel), job.json and rows, expected.json (step losses, learning rates, metrics by epoch, variables,
tolerances) and expected.npz ("in/NAME", "out/NAME": what the tuned model predicts; "out/var:KEY": its variables); or what
tests/property/finetune_draws.py --draw-only has made, whose predictions it leaves out. Of a result are compared: each
step's loss and learning rates; each epoch's metrics; every trained variable, also under a second key that Keras 3 gives it; that all
other keys keep their bytes; what it predicts, on the CPU, by build/libtensord.so. Prints what differs and a last line "JOBS n of m".

TensorFlow reads the checkpoints, after all jobs, and never shares a process with libtensord (both bring a regex library).
"""
import argparse
import fnmatch
import glob
import json
import multiprocessing
import os
import resource
import shutil
import subprocess
import sys
import tempfile

os.environ.update(CUDA_VISIBLE_DEVICES="", TF_CPP_MIN_LOG_LEVEL="3")
import numpy as np  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
import golden  # noqa: E402

SECONDS, PATIENCE = 300, 6  # of a processor; as many times longer where others have it
NEAR = {"loss_rtol": 1e-3, "loss_atol": 1e-6, "metric_rtol": 2e-3, "metric_atol": 1e-4, "variable_rtol": 2e-3, "variable_atol": 1e-5}  # finetune_draws.py
LIBRARY = os.path.join(HERE, "..", "..", "build", "libtensord.so")


def expected(folder):
    """What a job must give: expected.json, inputs and outputs of expected.npz, as the suite has them; also of a job that was drawn."""
    with open(os.path.join(folder, "expected.json"), encoding="utf-8") as f:
        want = json.load(f)
    if "tolerances" in want:
        return want, *golden.read_npz(os.path.join(folder, "expected.npz"))
    arrays = np.load(os.path.join(folder, "expected.npz"))
    values = {"var:" + k[len("variable:"):]: arrays[k] for k in arrays.files if k.startswith("variable:")}
    variables = [{"key": k, "name": twin, "trained": "var:" + k in values} for k, twin in want["keys"].items()]
    return {"steps": len(want["losses"]), "losses": want["losses"], "learning_rates": want["rates"], "variables": variables, "tolerances": NEAR,
            "epochs": [{"epoch": i, **e} for i, e in enumerate(want["epochs"], 1)]}, {}, values


class Item:
    """A job of the suite in a scratch folder, with links to its files."""

    def __init__(self, folder, scratch):
        self.folder, self.scratch = os.path.abspath(folder), scratch
        self.want, self.inputs, self.outputs = expected(folder)
        with open(os.path.join(folder, "job.json"), encoding="utf-8") as f:
            self.signature = json.load(f)["tensord"].get("signature", "serving_default")
        os.makedirs(os.path.join(scratch, "base"))
        drawn = os.path.join(self.folder, "model", "1")
        os.symlink(drawn if os.path.isdir(drawn) else os.path.join(self.folder, "model"), os.path.join(scratch, "base", "1"))
        for name in os.listdir(folder):
            if os.path.isfile(os.path.join(folder, name)):
                os.symlink(os.path.join(self.folder, name), os.path.join(scratch, name))

    def train(self, tensord, flags):
        """None, or how the job failed."""
        command = [tensord, "train", "job.json", "--model_base_path=base", "--output=result", "--work_dir=work", "--events=events", *flags]
        done = subprocess.run(command, cwd=self.scratch, capture_output=True, text=True, timeout=PATIENCE * SECONDS,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS)))
        said = " ".join((done.stderr or done.stdout).split())
        return f"exit {done.returncode}: {said[-1500:]}" if done.returncode else None

    def events(self):
        with open(os.path.join(self.scratch, "events"), encoding="utf-8") as f:
            data = [e["data"] for e in json.load(f)["data"][::-1] if e["type"] == "metrics"]
        return [d for d in data if "metrics" not in d], [d for d in data if "metrics" in d]

    def judge_events(self):
        steps, epochs = self.events()
        near, bad = self.want["tolerances"], []
        if [s["step"] for s in steps] != list(range(1, self.want["steps"] + 1)) or len(epochs) != len(self.want["epochs"]):
            return [f"{len(steps)} steps and {len(epochs)} epochs, expected {self.want['steps']} and {len(self.want['epochs'])}"]
        for s, loss in zip(steps, self.want["losses"]):
            if not np.isclose(s["train_loss"], loss, near["loss_rtol"], near["loss_atol"]):
                bad.append(f"step {s['step']}: loss {s['train_loss']}, expected {loss}")
        for s, rates in zip(steps, self.want["learning_rates"]):
            if not np.allclose(s["learning_rate"], rates, 1e-4, 1e-9):
                bad.append(f"step {s['step']}: learning rates {s['learning_rate']}, expected {rates}")
        for got, want in zip(epochs, self.want["epochs"]):
            for side in set(want) & {"train", "validation"}:
                for name, value in want[side].items():
                    have = (got["metrics"][side] or {}).get(name)
                    if have is None or not np.isclose(have, value, near["metric_rtol"], near["metric_atol"]):
                        bad.append(f"epoch {want['epoch']}: {side} {name} {have}, expected {value}")
        return bad

    def judge_variables(self):
        import tensorflow as tf
        old, new = (tf.train.load_checkpoint(os.path.join(self.scratch, d, "variables", "variables")) for d in ("base/1", "result"))
        near, bad, keys = self.want["tolerances"], [], set(new.get_variable_to_shape_map())
        trained = {v["key"]: v for v in self.want["variables"] if v["trained"]}
        same = lambda a, b: np.asarray(a).dtype == np.asarray(b).dtype and np.asarray(a).tolist() == np.asarray(b).tolist()
        names = {}
        for k, v in trained.items():
            names.setdefault(v["name"], []).append(k)
        other = {v["key"]: v["name"] for v in self.want["variables"] if not v["trained"]}
        for k in sorted(old.get_variable_to_shape_map()):
            if k not in keys:
                bad.append(f"{k} is missing")
                continue
            got, before = new.get_tensor(k), old.get_tensor(k)
            twin = next((t for t in names.get(other.get(k), []) if same(old.get_tensor(t), before)), None)
            if k in trained:
                rtol, atol = (6e-3, 1e-3) if before.dtype == np.float16 else (near["variable_rtol"], near["variable_atol"])  # one rounding is 1e-3
                why = golden.differs(np.asarray(got), self.outputs["var:" + k], rtol, atol, False)
                if why:
                    bad.append(f"{k}: {why}")
            elif not same(got, new.get_tensor(twin) if twin else before):
                bad.append(f"{k} does not hold the value of {twin}" if twin else f"{k} was not to be trained, and changed")
        return bad + [f"{k} is new" for k in sorted(keys - set(old.get_variable_to_shape_map()))]

    def judge_predictions(self):
        """In a process of its own."""
        if not self.inputs:
            return []
        with multiprocessing.get_context("fork").Pool(1) as pool:
            return pool.apply(self.ask)

    def ask(self):
        near, bad = self.want["tolerances"], []
        try:
            model = golden.Model(golden.load_library(LIBRARY), os.path.join(self.scratch, "result"), scratch=self.scratch)
            got = model.run(self.signature, self.inputs)
            model.close()
        except golden.Failure as f:
            return [f"the result: {f}"]
        for k, v in self.outputs.items():
            if not k.startswith(("before/", "var:")):
                why = golden.differs(got[k], v, near["prediction_rtol"], near["prediction_atol"], False) if k in got else "missing"
                if why:
                    bad.append(f"prediction {k}: {why}")
        return bad


def run(folder, scratch, args, flags):
    """The job, and what is wrong with it but for its checkpoint."""
    item = Item(folder, scratch)
    try:
        why = item.train(os.path.join(args.build, "tensord"), flags)
        return item, [why] if why else item.judge_events() + item.judge_predictions()
    except subprocess.TimeoutExpired:
        return item, [f"not done in {PATIENCE * SECONDS} s"]
    except (OSError, ValueError, KeyError) as e:  # it has written what cannot be read
        return item, [f"{type(e).__name__}: {e}"]


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("suite")
    ap.add_argument("build")
    ap.add_argument("--only", default="*")
    ap.add_argument("--cpu", action="store_true", help="on the CPU, for comparison")
    args = ap.parse_args()
    args.build = os.path.abspath(args.build)
    flags = [] if args.cpu else ["--devices=gpu", f"--device_module={args.build}/tests/host_cuda/tensord_cuda.so"]
    folders = [os.path.dirname(p) for p in sorted(glob.glob(os.path.join(args.suite, "*", "expected.json")))]
    folders = [f for f in folders if any(fnmatch.fnmatch(os.path.basename(f), g) for g in args.only.split(","))]
    with tempfile.TemporaryDirectory(prefix="tensord-finetune.") as scratch:
        rows = [run(f, os.path.join(scratch, os.path.basename(f)), args, flags) for f in folders]
        for item, bad in rows:
            if os.path.isdir(os.path.join(item.scratch, "result")):
                bad += item.judge_variables()
            for why in bad[:3]:
                print(f"{os.path.basename(item.folder)} fail; {why}", flush=True)
    good = sum(not bad for _, bad in rows)
    print(f"JOBS {good} of {len(rows)}")
    return 0 if rows and good == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
