"""Many models in one process of which few fit: random requests, evictions, new versions, reloads, loads and unloads by command, for minutes.

    build/venv/bin/python tests/e2e/lazy_churn.py [--minutes=2] [--models=500] [--room=40] [--clients=12] [--seed=1]

Model number i, version v answers x + 1000 v + i: no answer may be another. Each model weighs some 300 kB; --room of them fit into
--max_resident_bytes. Fails on a wrong answer, on one that is refused for another cause than that the model is unloaded just now, when the
process holds more than it may, and when it does not end well. $TENSORD names the daemon, as for all tests here.
"""
import argparse
import collections
import json
import os
import random
import shutil
import struct
import sys
import tempfile
import threading
import time

import numpy as np
import tritonclient.grpc as triton

from server import ROOT, SANITIZED, Server, config

MARK = 12345678.0  # the constant in the graph's file that each model has its own in place of
ROWS = 64 << 10    # floats of weights


def save_base(where):
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    import tensorflow as tf

    class Base(tf.Module):
        def __init__(self):
            self.w = tf.Variable(tf.zeros([ROWS]))

        @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, name="x")])
        def f(self, x):
            return {"y": x + tf.constant(MARK) + tf.reduce_sum(self.w)}

    m = Base()
    tf.saved_model.save(m, where, signatures={"serving_default": m.f})


class Churn:
    def __init__(self, args):
        self.args, self.dir = args, tempfile.mkdtemp(prefix="tensord-churn.")
        base = os.path.join(ROOT, "build", "e2e", "churn")
        if not os.path.exists(f"{base}/saved_model.pb"):
            base = f"{self.dir}/base"
            save_base(base)
        self.base = base
        self.graph = open(f"{base}/saved_model.pb", "rb").read()
        assert self.graph.count(struct.pack("<f", MARK)) == 1
        self.names = [f"m{i}" for i in range(args.models)]
        self.lock = threading.Lock()
        self.versions = {n: {1} for n in self.names}  # those whose answers are right, now or a moment ago
        self.unloaded = collections.defaultdict(float)  # when a command has unloaded a model last, or is about to
        self.counts, self.times, self.trouble, self.over = collections.Counter(), [], [], threading.Event()

    def put(self, i, version):
        """The folder of a version, made aside."""
        to = f"{self.server.base(f'm{i}')}/{version}"
        shutil.copytree(self.base, to + ".part", ignore=shutil.ignore_patterns("saved_model.pb"))
        with open(to + ".part/saved_model.pb", "wb") as f:
            f.write(self.graph.replace(struct.pack("<f", MARK), struct.pack("<f", 1000.0 * version + i)))
        os.rename(to + ".part", to)

    def start(self):
        weight = 4 * ROWS + 60_000
        self.limit = self.args.room * weight
        self.server = s = Server("--lazy_loading", f"--max_resident_bytes={self.limit}", "--num_load_threads=3", versions={}, wait=False)
        for i, name in enumerate(self.names):
            os.mkdir(s.base(name))
            self.put(i, 1)
        with open(f"{s.dir}/models.config", "w") as f:
            f.write(config(*((n, s.base(n)) for n in self.names)))
        s.start()

    def note(self, what, text=""):
        with self.lock:
            self.counts[what] += 1
            if text and len(self.trouble) < 20:
                self.trouble.append(text)

    def judge(self, i, x, before, status, answer):
        """before: the versions whose answers would have been right when it was asked."""
        name = f"m{i}"
        with self.lock:
            right = before | self.versions[name]
            gone = time.time() - self.unloaded[name] < 110  # a request takes 100 s at most
        if status == 200 and any(answer == x + 1000 * v + i for v in right):
            self.note("right")
        elif status == 200:
            self.note("wrong", f"{name}: {x} gave {answer}, versions {sorted(right)}")
        elif status == 404 and gone:
            self.note("unloaded")
        else:
            self.note("failed", f"{name}: {status} {answer}")

    def client(self, seed):
        rng, http = random.Random(seed), __import__("requests").Session()
        v2 = triton.InferenceServerClient(f"127.0.0.1:{self.server.port}")
        hot = rng.sample(range(self.args.models), 8)
        while not self.over.is_set():
            i = rng.choice(hot) if rng.random() < 0.4 else rng.randrange(self.args.models)
            x, name = float(rng.randrange(100)), f"m{i}"
            with self.lock:
                before = set(self.versions[name])
            start = time.time()
            try:
                if rng.random() < 0.5:
                    r = http.post(f"http://127.0.0.1:{self.server.rest_port}/v1/models/{name}:predict", json={"instances": [x]}, timeout=100)
                    got = r.status_code, r.json()["predictions"][0] if r.status_code == 200 else r.text
                else:
                    given = triton.InferInput("x", [1], "FP32")
                    given.set_data_from_numpy(np.array([x], np.float32))
                    got = 200, float(v2.infer(name, [given], client_timeout=100).as_numpy("y")[0])
            except triton.InferenceServerException as e:
                got = (404 if "NOT_FOUND" in str(e.status()) else e.status()), e.message()
            self.judge(i, x, before, *got)
            with self.lock:
                self.times.append(time.time() - start)
        v2.close()

    def manager(self, seed):
        rng = random.Random(seed)
        v2 = triton.InferenceServerClient(f"127.0.0.1:{self.server.port}")
        while not self.over.is_set():
            i = rng.randrange(self.args.models)
            name, act = f"m{i}", rng.choice(["version", "version", "drop", "reload", "load", "unload"])
            try:
                getattr(self, act)(i, name, v2, rng)
                self.note(act)
            except Exception as e:  # noqa: BLE001: every failure is told
                self.note("failed", f"{act} {name}: {type(e).__name__}: {e}")
            time.sleep(rng.random() * 0.1)
        v2.close()

    def version(self, i, name, v2, rng):
        with self.lock:
            v = max(self.versions[name]) + 1
            if v > 9:
                return
            self.versions[name] = self.versions[name] | {v}
        self.put(i, v)

    def drop(self, i, name, v2, rng):
        """The latest version goes, and the one before it serves again."""
        here = sorted((int(d) for d in os.listdir(self.server.base(name)) if d.isdigit()), reverse=True)
        if len(here) > 1:
            gone = f"{self.server.base(name)}/{here[0]}"
            os.rename(gone, gone + ".gone")
            time.sleep(2.5)  # two polls: nobody reads it any more
            shutil.rmtree(gone + ".gone")

    def reload(self, i, name, v2, rng):
        r = self.server.session.post(f"http://127.0.0.1:{self.server.rest_port}/v1/models/{name}:reload", json={}, timeout=100)
        assert r.status_code == 200, r.text

    def load(self, i, name, v2, rng):
        v2.load_model(name)

    def unload(self, i, name, v2, rng):
        with self.lock:
            self.unloaded[name] = time.time()
        v2.unload_model(name)
        time.sleep(0.2)
        v2.load_model(name)

    def watch(self):
        """The most that it held, and what its metrics say of the limit."""
        self.rss, self.most = [], 0
        while not self.over.wait(1):
            with open(f"/proc/{self.server.proc.pid}/status") as f:
                rss = next(int(line.split()[1]) for line in f if line.startswith("VmRSS")) * 1024
            self.rss.append(rss)
            self.most = max(self.most, self.metric("tensord_resident_bytes"))

    def metric(self, name):
        text = self.server.session.get(f"http://127.0.0.1:{self.server.rest_port}/metrics", timeout=60).text
        return float(next(line.split()[1] for line in text.splitlines() if line.startswith(name + "{}")))

    def run(self):
        self.start()
        threads = [threading.Thread(target=self.client, args=(self.args.seed * 1000 + k,)) for k in range(self.args.clients)]
        threads += [threading.Thread(target=self.manager, args=(self.args.seed * 77 + k,)) for k in range(2)] + [threading.Thread(target=self.watch)]
        for t in threads:
            t.start()
        time.sleep(self.args.minutes * 60)
        self.over.set()
        for t in threads:
            t.join()
        evictions, loads = self.metric("tensord_evictions_total"), self.metric("tensord_cold_loads_total")
        code = self.server.stop()
        shutil.rmtree(self.server.dir, True)
        shutil.rmtree(self.dir, True)
        times, half = sorted(self.times), len(self.rss) // 2
        early, late = max(self.rss[:half]), max(self.rss[half:])
        report = {**self.counts, "p50_ms": 1000 * times[len(times) // 2], "p99_ms": 1000 * times[len(times) * 99 // 100], "evictions": evictions,
                  "cold_loads": loads, "limit": self.limit, "resident_most": self.most, "rss_early": early, "rss_late": late, "exit": code}
        print(json.dumps(report, indent=1))
        bad = [f"exit {code}: {''.join(self.server.log[-20:])}"] if code else []
        bad += self.trouble
        if self.most > 1.25 * self.limit:  # plans grow between two looks
            bad.append(f"{self.most} bytes were resident")
        if not SANITIZED and late > max(1.3 * early, 2 * self.limit + (250 << 20)):  # quarantines and shadows grow
            bad.append(f"from {early} to {late} bytes were held")
        if self.counts["right"] == 0 or evictions == 0:
            bad.append("nothing was evicted")
        print("\n".join(bad) or "no findings")
        return 1 if bad else 0


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--minutes", type=float, default=2)
    p.add_argument("--models", type=int, default=500)
    p.add_argument("--room", type=int, default=40)
    p.add_argument("--clients", type=int, default=12)
    p.add_argument("--seed", type=int, default=1)
    sys.exit(Churn(p.parse_args()).run())
