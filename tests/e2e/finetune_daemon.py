"""What the end-to-end tests of fine-tuning share: models with rows for them, and a daemon whose jobs are driven over REST and which may be killed."""
import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time

import server

STEP_KEYS = ("step", "total_steps", "epoch", "train_loss", "learning_rate", "valid_loss", "metrics")
ENDED = ("succeeded", "failed", "cancelled")
WAIT_S = server.JOB_S


def models():
    """The folder that holds them."""
    out = os.path.join(server.MODELS, "finetune")
    with server.made_alone():
        if not os.path.exists(os.path.join(out, "ids", "1", "saved_model.pb")):
            subprocess.run([sys.executable, os.path.join(server.HERE, "models_finetune.py"), out], check=True, capture_output=True)
    return out


def class_rows(n, seed=1):
    r = random.Random(seed)
    rows = []
    for _ in range(n):
        x = [round(r.gauss(0, 1), 3) for _ in range(32)]
        rows.append({"inputs": x, "targets": (x[0] > 0) * 2 + (x[1] + x[2] > 0)})
    return rows


def lines(rows):
    return "".join(json.dumps(r) + "\n" for r in rows)


def class_job(**tensord):
    """A job whose progress is more than weights: slots, sums of gradients, averages, a shuffled order, metrics."""
    return {"model": "classes/versions/1", "seed": 5, "method": {"type": "supervised", "supervised": {"hyperparameters": {"n_epochs": 8, "batch_size": 16}}},
            "tensord": {"loss": {"name": "sparse_categorical_crossentropy", "from_logits": True},
                        "optimizer": {"name": "adam", "learning_rate": 1e-3, "schedule": {"name": "cosine", "decay_steps": 300}}, "metrics": ["accuracy"],
                        "gradient_accumulation_steps": 3, "ema": {"momentum": .9}, **tensord}}


class Daemon(server.Server):
    """A server of copies of these models whose folder outlives it; kill() and start() as often as one likes."""

    def __init__(self, *flags, names=("classes", "ids"), folder=None, wait=True, files={}):
        super().__init__(*flags, versions={}, wait=False, files=files)
        if folder:
            shutil.rmtree(self.dir)
            self.dir = folder
        for n in names:
            shutil.copytree(os.path.join(models(), n), self.base(n))
        with open(os.path.join(self.dir, "models.config"), "w") as f:
            f.write(server.config(*((n, self.base(n), "model_version_policy { all {} }") for n in names)))
        if wait:
            self.start()

    def start(self):
        self.log = []
        super().start()

    def kill(self):
        """kill -9, and what is left of it reaped."""
        self.session.close()
        if self.channel is not None:
            self.channel.close()
        self.proc.kill()
        self.proc.wait()
        self.reader.join(10)
        self.proc.stderr.close()
        self.proc.stdout.close()

    def children(self):
        """Processes of its jobs."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/stat") as f:
                    if int(f.read().rsplit(")", 1)[1].split()[1]) == self.proc.pid:
                        found.append(int(pid))
            except (OSError, IndexError):
                pass
        return found

    def upload(self, text, name="train.jsonl", **kw):
        data = text if isinstance(text, bytes) else text.encode()
        r = self.http("POST", "/v1/files", files={"file": (name, io.BytesIO(data))}, data={"purpose": "fine-tune"}, **kw)
        assert r.status_code == 200, r.text
        return r.json()["id"]

    def create(self, job, text=None, **kw):
        """The answer of POST /v1/fine_tuning/jobs; text: rows, uploaded first."""
        if text is not None:
            job = {**job, "training_file": self.upload(text)}
        return self.post("/v1/fine_tuning/jobs", job, **kw)

    def job(self, i):
        r = self.get(f"/v1/fine_tuning/jobs/{i}")
        assert r.status_code == 200, r.text
        return r.json()

    def wait(self, i, until=ENDED, seconds=WAIT_S):
        end = time.time() + seconds
        while True:
            j = self.job(i)
            if j["status"] in until:
                return j
            assert time.time() < end, f"still {j['status']} after {seconds} s: {j}\n{''.join(self.log[-20:])}"
            time.sleep(.02)

    def events(self, i):
        """Oldest first."""
        got, after = [], ""
        while True:
            page = self.get(f"/v1/fine_tuning/jobs/{i}/events?limit=1000{after}").json()
            got += page["data"]
            if not page["has_more"]:
                return got[::-1]
            after = "&after=" + page["last_id"]

    def steps(self, i):
        """The data of its metrics events in order."""
        return [{k: e["data"].get(k) for k in STEP_KEYS} for e in self.events(i) if e["type"] == "metrics"]

    def versions(self, name):
        return sorted(n for n in os.listdir(self.base(name)) if not n.startswith("."))

    def predict(self, name, rows, version=None):
        r = self.post(f"/v1/models/{name}{f'/versions/{version}' if version else ''}:predict", {"instances": [x["inputs"] for x in rows]})
        assert r.status_code == 200, r.text
        return r.json()["predictions"]

    def stop(self, sig=signal.SIGTERM):
        if self.proc.poll() is not None:
            shutil.rmtree(self.dir, True)
            return self.proc.returncode
        return super().stop(sig)
