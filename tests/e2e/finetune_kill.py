"""kill -9 at random moments of jobs and of the daemon, and file systems that fill up: no finished job is lost, no half-written version is ever
there or served, and every result is, byte for byte, that of an uninterrupted job.

    python tests/e2e/finetune_kill.py [--kills 200] [--full 50] [--seed S]

Kills: jobs of two kinds run one after the other; of each the child is killed, or the daemon (and started again at once), once or several
times, each at a random moment from the creation to a little past the end (by steps). When it has ended, its version, its events and its result file must be those
of the uninterrupted job, and all jobs before it must still be told as succeeded.

Full: models and state on a tmpfs of their own (in a mount namespace of this process; needs root), which is filled up to a random rest at a
random moment. The job fails with a sentence, or succeeds with the same bytes; the model answers as before; with room again the next job succeeds.

The servers' folders are on a tmpfs where there is one (a killed process loses nothing that the kernel has), so that waiting for a disk is no part of it.

All the while a thread lists the base path: a version must be whole when its name is first seen, and must not change afterwards. Prints what went
wrong, then  FINETUNE_KILL n of m runs as they should.
"""
import argparse
import ctypes
import glob
import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "property"))
import draw_seed
import finetune_daemon as fd
import requests

ROWS = fd.lines(fd.class_rows(400))
VALID = fd.lines(fd.class_rows(60, 2))
SPACE = 24 << 20   # of the tmpfs, bytes


def jobs():
    """By name: one that saves often (in the middle of epochs, of accumulated gradients), one that saves by epochs alone."""
    often = fd.class_job(checkpoint_steps=20)
    by_epoch = fd.class_job(optimizer={"name": "nadam", "learning_rate": 1e-3}, gradient_accumulation_steps=1, ema=None,
                            early_stopping={"monitor": "val_loss", "patience": 40, "restore_best": True})
    return {"often": often, "by_epoch": by_epoch}


def digest(folder):
    """{path: hash} of every file."""
    return {os.path.relpath(f, folder): hashlib.sha256(open(f, "rb").read()).hexdigest()
            for f in glob.glob(os.path.join(folder, "**"), recursive=True) if os.path.isfile(f)}


class Watch(threading.Thread):
    """Lists a base path all the time; what it saw of each version at first sight."""

    def __init__(self, base):
        super().__init__(daemon=True)
        self.base, self.seen, self.done, self.looks = base, {}, False, 0

    def run(self):
        while not self.done:
            self.looks += 1
            for n in os.listdir(self.base):
                if not n.startswith(".") and n not in self.seen:
                    try:
                        self.seen[n] = digest(os.path.join(self.base, n))
                    except OSError as e:
                        self.seen[n] = {"": f"gone while it was read: {e}"}
            time.sleep(.001)

    def judge(self):
        """Findings: versions that changed after they were first seen, or are no longer there."""
        bad = []
        for n, was in self.seen.items():
            folder = os.path.join(self.base, n)
            now = digest(folder) if os.path.isdir(folder) else None
            if now != was:
                bad.append(f"version {n} was seen with {len(was)} files, and then changed ({'gone' if now is None else sorted(set(was.items()) ^ set(now.items()))[:4]})")
        return bad


class Harness:
    def __init__(self, seed, folder=None):
        self.dice, self.bad, self.succeeded = random.Random(seed), [], []
        self.d = fd.Daemon("--file_system_poll_wait_seconds=1", f"--state_quota={1 << 30}", names=("classes",), folder=folder)
        self.base = self.d.base("classes")
        self.files = {"train": self.d.upload(ROWS), "valid": self.d.upload(VALID, "valid.jsonl")}
        self.rows = fd.class_rows(8)
        self.before = self.d.predict("classes", self.rows, 1)
        self.want = {}

    def say(self, text):
        self.bad.append(text)
        print(text, flush=True)

    def spec(self, name):
        job = {**jobs()[name], "training_file": self.files["train"]}
        return {**job, "validation_file": self.files["valid"]} if name == "by_epoch" else job

    def create(self, name):
        r = self.d.create(self.spec(name))
        assert r.status_code == 200, r.text
        return r.json()["id"]

    def result(self, job):
        """What a finished job left: its version's files (a new checkpoint may be packed as it likes, so bytes of all files), steps, result file."""
        version = job["fine_tuned_model"].rsplit("/", 1)[1]
        csv = self.d.get(f"/v1/files/{job['result_files'][0]}/content").content
        return {"files": digest(os.path.join(self.base, version)), "steps": self.d.steps(job["id"]), "csv": csv, "rows": job["trained_tokens"]}

    def uninterrupted(self):
        for name in jobs():
            start = time.time()
            job = self.d.wait(self.create(name))
            assert job["status"] == "succeeded", job
            self.want[name] = {**self.result(job), "seconds": time.time() - start}
            self.succeeded.append(job["id"])
            print(f"{name}: {len(self.want[name]['steps'])} steps and epochs in {self.want[name]['seconds']:.2f} s uninterrupted", flush=True)

    def judge(self, name, job, what):
        """Findings about a job that has ended."""
        if job["status"] != "succeeded":
            return self.say(f"{what}: {job['status']}: {job['error']}")
        got, want = self.result(job), self.want[name]
        for k in ("files", "csv", "rows"):
            if got[k] != want[k]:
                self.say(f"{what}: other {k} than uninterrupted" + (f": {sorted(set(got[k].items()) ^ set(want[k].items()))[:4]}" if k == "files" else
                                                                    f": {got[k]} for {want[k]}" if k == "rows" else ""))
        if got["steps"] != want["steps"]:
            i = next((i for i, (a, b) in enumerate(zip(got["steps"], want["steps"])) if a != b), min(len(got["steps"]), len(want["steps"])))
            self.say(f"{what}: {len(got['steps'])} events for {len(want['steps'])}; the first other one is {got['steps'][i:i + 1]} for {want['steps'][i:i + 1]}")
        self.succeeded.append(job["id"])

    def tidy(self):
        """Findings about what lies around, and old versions away so that the server need not hold hundreds."""
        left = [n for n in os.listdir(self.base) if n.startswith(".")]
        if left:
            self.say(f"left in the base path: {left}")
        for n in self.d.versions("classes")[:-3]:
            if n != "1" and len(self.d.versions("classes")) > 12:
                shutil.rmtree(os.path.join(self.base, n), True)

    def all_there(self, what):
        listed = {}
        after = ""
        while True:
            page = self.d.get(f"/v1/fine_tuning/jobs?limit=100{after}").json()
            listed.update({j["id"]: j["status"] for j in page["data"]})
            if not page["has_more"]:
                break
            after = "&after=" + page["last_id"]
        lost = [i for i in self.succeeded if listed.get(i) != "succeeded"]
        if lost:
            self.say(f"{what}: finished jobs are lost: {[(i, listed.get(i)) for i in lost]}")
        if self.d.predict("classes", self.rows, 1) != self.before:
            self.say(f"{what}: version 1 answers differently")


# ---------------------------------------------------------------- kills

def kill_once(h, target):
    """True when there was something to kill."""
    if target == "daemon":
        h.d.kill()
        h.d.start()
        return True
    pids = h.d.children()
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    return bool(pids)


def wait_for(h, i, name, moment):
    """Until about this part of the job's steps is done: under 0 it is before the first, over 1 about its end or after it."""
    total = len(h.want[name]["steps"])
    while 0 < moment:
        job = h.d.job(i)
        if job["status"] in fd.ENDED or (job.get("progress") or {}).get("step", 0) >= min(moment, 1) * total * .96:
            break
        time.sleep(.005)
    time.sleep(h.dice.uniform(0, .08) if 0 <= moment < 1 else h.dice.uniform(0, .4))


def killed_jobs(h, kills):
    """Runs until so many kills; returns how many jobs."""
    n, done = 0, {"child": 0, "daemon": 0, "late": 0}
    while done["child"] + done["daemon"] < kills:
        name = h.dice.choice(list(jobs()))
        watch = Watch(h.base)
        watch.start()
        i, n, what = h.create(name), n + 1, []
        for moment in sorted(h.dice.uniform(-.1, 1.08) for _ in range(h.dice.choice([1, 1, 2, 3, 4]))):
            wait_for(h, i, name, moment)
            target = h.dice.choice(["child", "daemon"])
            status = h.d.job(i)
            if kill_once(h, target):
                done[target] += 1
                done["late"] += status["status"] in fd.ENDED
                what.append(f"{target} at {status['status']} {(status.get('progress') or {}).get('step')}")
        what = f"kill {done['child'] + done['daemon']}, job {name} {i}, killed: {what}"
        try:
            job = h.d.wait(i)
            watch.done = True
            watch.join()
            h.judge(name, job, what)
            for b in watch.judge():
                h.say(f"{what}: {b}")
            h.all_there(what)
            h.tidy()
        except (AssertionError, OSError, requests.RequestException) as e:
            h.say(f"{what}: {type(e).__name__}: {str(e)[:600]}")
            if h.d.proc.poll() is not None:
                h.say(f"{what}: the daemon ended by itself with {h.d.proc.returncode}: {''.join(h.d.log[-10:])}")
                h.d.start()
    print(f"{n} jobs: children killed {done['child']} times, daemons {done['daemon']} times; {done['late']} of them after the job had ended", flush=True)
    return n


# ---------------------------------------------------------------- file systems that fill up

def own_mounts():
    """From here on, mounts are this process' own. False: not allowed here."""
    if ctypes.CDLL(None, use_errno=True).unshare(0x00020000):   # CLONE_NEWNS
        return False
    return subprocess.run(["mount", "--make-rprivate", "/"], capture_output=True).returncode == 0


def fill(path, rest):
    """A file that takes all but `rest` bytes of the file system."""
    s = os.statvfs(path)
    n = max(0, s.f_bavail * s.f_frsize - rest)
    with open(os.path.join(path, "ballast"), "wb") as f:
        try:
            os.posix_fallocate(f.fileno(), 0, n) if n else None
        except OSError:
            pass


def one_full(h, folder, name, turn):
    watch = Watch(h.base)
    watch.start()
    moment, rest = h.dice.uniform(0, 1.05 * h.want[name]["seconds"]), h.dice.choice([0, 4096, h.dice.randrange(1 << 16), h.dice.randrange(3 << 20)])
    i = h.create(name)
    time.sleep(moment)
    fill(folder, rest)
    what = f"full {turn}, job {name} {i}, {rest} bytes left after {moment:.2f} s"
    try:
        job = h.d.wait(i, seconds=20)
    except AssertionError:   # its end may have no room in the database
        job = None
    if h.d.predict("classes", h.rows, 1) != h.before:
        h.say(f"{what}: version 1 answers differently while there is no room")
    os.unlink(os.path.join(folder, "ballast"))
    job = job or h.d.wait(i)
    watch.done = True
    watch.join()
    for b in watch.judge():
        h.say(f"{what}: {b}")
    if job["status"] == "succeeded":
        h.judge(name, job, what)
    elif job["status"] != "failed" or not job["error"]["message"] or job["fine_tuned_model"]:
        h.say(f"{what}: {job['status']}, {job['error']}, {job['fine_tuned_model']}")
    h.all_there(what)
    h.tidy()
    return job["status"], (job["error"] or {}).get("message", "")


def full_disks(seed, n):
    """In a child process, so that its mounts end with it. Returns how many runs there were, and findings."""
    if not own_mounts():
        print("file systems of our own are not allowed here: none is filled up")
        return 0, []
    folder, ends, sentences = tempfile.mkdtemp(prefix="tensord-full."), {}, set()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SPACE}", "tmpfs", folder], check=True)
    h = Harness(seed, folder=folder)
    try:
        h.uninterrupted()
        for turn in range(n):
            try:
                name = h.dice.choice(list(jobs()))
                status, message = one_full(h, folder, name, turn)
                ends[status] = ends.get(status, 0) + 1
                sentences.add(message[:160])
                if status == "failed" and turn % 5 == 0:
                    h.judge(name, h.d.wait(h.create(name)), f"full {turn}, with room again")
                for v in h.d.versions("classes")[:-1]:
                    if v != "1":
                        shutil.rmtree(os.path.join(h.base, v))
            except (AssertionError, OSError, requests.RequestException) as e:
                h.say(f"full {turn}: {type(e).__name__}: {str(e)[:600]}")
                if os.path.exists(os.path.join(folder, "ballast")):
                    os.unlink(os.path.join(folder, "ballast"))
                if h.d.proc.poll() is not None:
                    h.say(f"full {turn}: the daemon ended by itself with {h.d.proc.returncode}: {''.join(h.d.log[-10:])}")
                    h.d.start()
        print(f"{n} file systems filled up: {ends}", *sorted(sentences), sep="\n  ", flush=True)
    finally:
        h.d.dir = tempfile.mkdtemp(prefix="tensord-full.")
        h.d.stop()
        subprocess.run(["umount", "-l", folder])
        os.rmdir(folder)
    return n, h.bad


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("--kills", type=int, default=200)
    ap.add_argument("--full", type=int, default=50)
    draw_seed.add_flag(ap)
    args = ap.parse_args()
    args.seed = draw_seed.chosen(args.seed)
    draw_seed.say(args.seed)
    if os.access("/dev/shm", os.W_OK):
        tempfile.tempdir = "/dev/shm"
    runs, bad = 0, []
    if args.kills:
        h = Harness(args.seed)
        try:
            h.uninterrupted()
            runs += killed_jobs(h, args.kills)
        finally:
            code = h.d.stop()
        bad += h.bad + ([f"the daemon ended with {code}"] if code else [])
    if args.full:
        n, findings = full_disks(args.seed, args.full)
        runs, bad = runs + n, bad + findings
    wrong = len(bad)
    print(f"FINETUNE_KILL {runs - min(runs, wrong)} of {runs} runs as they should; {wrong} findings")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
