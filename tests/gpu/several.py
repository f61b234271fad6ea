"""Two GPUs or more of one machine: replicas that share requests, and a fine-tuning job whose sums go by NCCL.

    python3 tests/gpu/several.py --daemon build/tensord --gpu MODULE --model deploy/models/digits

Answers are held against those of the CPU, each GPU must have had some of them, and the losses of a job of two GPUs against those of one. Where
there is one GPU, one line says that nothing was tried; another one where NCCL is missing, without which the job's sums go by the host.
"""
import argparse
import concurrent.futures
import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

START_S, JOB_S, REQUESTS, AT_ONCE, ROWS = 30, 40, 96, 8, 5
NEAR = 1e-3


class Wrong(Exception):
    pass


def images(n, seed=1):
    r = random.Random(seed)
    return [[[float(r.randrange(17)) for _ in range(8)] for _ in range(8)] for _ in range(n)]


# ------------------------------------------------------------------ served

class Server:
    def __init__(self, port):
        self.address = f"http://127.0.0.1:{port}"

    def ask(self, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(self.address + path, data, START_S) as answer:
            return answer.read().decode()

    def predict(self, rows):
        return [p["probabilities"] for p in json.loads(self.ask("/v1/models/digits:predict", {"instances": rows}))["predictions"]]

    def gpus(self):
        return [d["name"] for d in json.loads(self.ask("/v1/devices"))["devices"]]

    def kernels(self):
        return {k: int(n) for k, n in re.findall(r'^tensord_gpu_kernels_total{device="([^"]*)"} (\d+)$', self.ask("/metrics"), re.M)}


@contextlib.contextmanager
def serving(args, *flags):
    with tempfile.TemporaryDirectory() as state, tempfile.TemporaryFile("w+") as log:
        d = subprocess.Popen([args.daemon, "--port=0", "--rest_api_port=auto", "--bind_address=127.0.0.1", "--model_name=digits",
                              "--model_base_path=" + os.path.abspath(args.model), "--state_dir=" + state, *flags], stdout=log, stderr=log)
        try:
            yield Server(port_of(d, log))
        finally:
            d.send_signal(signal.SIGTERM)
            try:
                d.wait(20)
            except subprocess.TimeoutExpired:
                d.kill()
                d.wait()


def port_of(d, log):
    stop = time.monotonic() + START_S
    while d.poll() is None and time.monotonic() < stop:
        log.seek(0)
        found = re.search(r"ready:.* rest_api_port=(\d+)", log.read())
        if found:
            return found.group(1)
        time.sleep(0.05)
    log.seek(0)
    raise Wrong("the daemon did not start: " + log.read()[-500:])


def far(got, want):
    return max(abs(a - b) for g, w in zip(got, want) for a, b in zip(g, w)) if len(got) == len(want) else float("inf")


def replicas(args, gpu_flags, rows):
    """None where there are no two GPUs; else what was seen."""
    with serving(args, *gpu_flags) as d:
        names = d.gpus()
        if len(names) < 2:
            return None
        before = d.kernels()
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            starts = [i % (len(rows) - ROWS) for i in range(REQUESTS)]
            answers = list(pool.map(lambda i: d.predict(rows[i:i + ROWS]), starts))
        had = {k: n - before.get(k, 0) for k, n in d.kernels().items()}
    with serving(args, "--devices=cpu") as d:
        want = d.predict(rows)
    worst = max(far(a, want[i:i + ROWS]) for i, a in zip(starts, answers))
    if worst > NEAR:
        raise Wrong(f"an answer of {', '.join(names)} is {worst:.2g} from the CPU's")
    if min(had.get(k, 0) for k in names) == 0:
        raise Wrong(f"requests did not go to all GPUs: kernels {had}")
    return f"{REQUESTS} requests, {AT_ONCE} at once: {', '.join(f'{had[k]} kernels on {k}' for k in names)}; at most {worst:.1g} from the CPU's answers"


# ------------------------------------------------------------------ trained

def train(args, gpu_flags, folder, rows, gpus):
    """(losses of the steps, what was said) of a job."""
    name = os.path.join(folder, f"of{gpus}")
    with open(name + ".jsonl", "w", encoding="utf-8") as f:
        f.writelines(json.dumps({"inputs": row, "targets": i % 10}) + "\n" for i, row in enumerate(rows))
    job = {"model": "digits", "training_file": name + ".jsonl", "seed": 5,
           "method": {"type": "supervised", "supervised": {"hyperparameters": {"n_epochs": 2, "batch_size": 16}}},
           "tensord": {"loss": {"name": "sparse_categorical_crossentropy", "output": "probabilities"}, "gpus": gpus,
                       "optimizer": {"name": "sgd", "learning_rate": 0.01}}}
    with open(name + ".job.json", "w", encoding="utf-8") as f:
        json.dump(job, f)
    p = subprocess.run([args.daemon, "train", name + ".job.json", "--model=digits=" + os.path.abspath(args.model), "--output=" + name,
                        "--work_dir=" + name + ".work", "--events=" + name + ".events", "--log_device_placement=true", *gpu_flags], capture_output=True, text=True, timeout=JOB_S)
    if p.returncode:
        raise Wrong(f"a job of {gpus} GPUs: exit {p.returncode}: {(p.stderr or p.stdout)[-500:]}")
    with open(name + ".events", encoding="utf-8") as f:
        data = [e["data"] for e in json.load(f)["data"][::-1] if e["type"] == "metrics"]
    return [d["train_loss"] for d in data if "metrics" not in d], p.stderr


def sums(args, gpu_flags, rows):
    with tempfile.TemporaryDirectory() as folder:
        (want, _), (got, said) = (train(args, gpu_flags, folder, rows, n) for n in (1, 2))
    if not want or len(got) != len(want) or any(abs(a - b) > NEAR * abs(b) for a, b in zip(got, want)):
        raise Wrong(f"the losses of two GPUs are {got}, of one {want}")
    how = re.search(r"2 GPUs sum by NCCL.*|the sums of 2 processes go by the host.*", said)
    if how is None:
        raise Wrong("how a job of two GPUs sums is not said: " + said[-500:])
    worst = max(abs(a - b) / abs(b) for a, b in zip(got, want))
    return f"a job of two GPUs: {len(got)} steps, losses at most {worst:.1g} of one's from it; {how.group()}"


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("daemon", "gpu", "model"):
        ap.add_argument("--" + name, required=True)
    args = ap.parse_args()
    gpu_flags = ["--devices=gpu", "--device_module=" + os.path.abspath(args.gpu)]
    rows = images(64)
    try:
        seen = replicas(args, gpu_flags, rows)
        print(seen or "left out: two GPUs are wanted, and there is one", flush=True)
        if seen:
            print(sums(args, gpu_flags, rows), flush=True)
    except (Wrong, OSError, ValueError, KeyError, subprocess.TimeoutExpired) as e:
        print(f"{type(e).__name__}: {e}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
