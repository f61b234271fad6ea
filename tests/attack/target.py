"""The daemon under attack: started with modest limits, watched from outside, asked whether it is well, ended; and what its sanitizer wrote.

What is watched, every 0.2 s: resident memory, threads, descriptors. One that holds more than it ever may is ended, so that the machine survives.
"""
import collections
import contextlib
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

import generator  # noqa: F401  (finds the modules of tests/e2e)
import finetune_daemon
import management
import server
import valid

MAX_MEMORY = 1 << 30   # of the budget
BESIDES = 256 << 20    # what the program, its libraries, mapped models, gRPC's and the allocator's own buffers may take beside it
MODELS = {"half": (1, 2), "types": (1,), "tf1": (1,), "batching": (1,), "gradients": (1,), "widths": (1,), "parts": (1,)}
GRPCS = ("grpc_global_tim", "default-executo", "resolver-execut", "event_engine")   # threads of the library, which come and go by themselves
DAMAGED = ("d0", "d1", "d2", "d3")
FLAGS = (f"--max_memory={MAX_MEMORY}", "--max_request_bytes=33554432", "--max_connections_per_address=1000", "--grpc_channel_arguments=grpc.max_concurrent_streams=100",
         "--rest_api_head_timeout=5", "--rest_api_body_timeout=8", "--rest_api_idle_timeout=60", "--load_timeout=10", "--max_num_load_retries=0", "--num_load_threads=2",
         "--rest_api_timeout_in_ms=10000", "--default_deadline=10", "--file_system_poll_wait_seconds=1", "--max_jobs=4", "--upload_quota=268435456", "--state_quota=2147483648")
TESTS = os.path.join(generator.HERE, "..")


def sanitizer(program):
    """"", "asan" or "tsan"."""
    with open(program, "rb") as f:
        data = f.read()
    return "asan" if b"__asan_init" in data else "tsan" if b"__tsan_init" in data else ""


class Target(server.Server):
    def __init__(self, *flags):
        server.models()
        self.kind = sanitizer(server.DAEMON)
        super().__init__(*FLAGS, *flags, versions=MODELS, wait=False)
        for name in DAMAGED:
            os.mkdir(self.base(name))
        shutil.copytree(os.path.join(finetune_daemon.models(), "classes"), self.base("classes"))
        all_of_them = "model_version_policy { all {} }"
        with open(f"{self.dir}/models.config", "w") as f:
            f.write(server.config(*((m, self.base(m), all_of_them) for m in (*MODELS, *DAMAGED, "classes"))))
        self.reports = self.dir + ".reports"
        os.mkdir(self.reports)
        self.peak, self.now, self.over = (0, 0, 0), (0, 0, 0), threading.Event()
        self.start()
        self.watcher = threading.Thread(target=self.watch, daemon=True)
        self.watcher.start()

    def launch(self):
        common = f"log_path={self.reports}/report:allocator_may_return_null=1"
        env = {**os.environ, "ASAN_OPTIONS": f"detect_leaks=1:abort_on_error=0:{common}", "UBSAN_OPTIONS": f"print_stacktrace=1:log_path={self.reports}/report",
               "LSAN_OPTIONS": f"suppressions={TESTS}/lsan.supp:print_suppressions=0", "TSAN_OPTIONS": f"suppressions={TESTS}/tsan.supp:{common}"}
        self.proc = subprocess.Popen([a.replace("{dir}", self.dir) for a in self.args], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, errors="replace", env=env)
        self.reader = threading.Thread(target=self.read_log, daemon=True)
        self.reader.start()

    def read_log(self):
        """The first lines and the last ones."""
        for line in self.proc.stderr:
            self.log.append(line)
            if len(self.log) > 2000:
                del self.log[200:1000]

    # ---- from outside

    def holds(self):
        """(resident bytes, threads but for gRPC's own timers and pollers, descriptors); zeros when it is no more."""
        try:
            with open(f"/proc/{self.proc.pid}/status") as f:
                rows = dict(line.split(":", 1) for line in f)
            ours = sum(n for name, n in self.threads().items() if not name.startswith(GRPCS))
            return int(rows["VmRSS"].split()[0]) << 10, ours, sum(self.descriptors().values())
        except (OSError, KeyError):
            return 0, 0, 0

    def threads(self):
        """How many of each name."""
        names = collections.Counter()
        for path in glob.glob(f"/proc/{self.proc.pid}/task/*/comm"):
            with contextlib.suppress(OSError), open(path) as f:
                names[f.read().strip()] += 1
        return names

    def descriptors(self):
        """What they lead to, how often each."""
        names = collections.Counter()
        for path in glob.glob(f"/proc/{self.proc.pid}/fd/*"):
            with contextlib.suppress(OSError):
                names[re.sub(r":\[\d+\]", "", os.readlink(path))] += 1
        del names[next((n for n in names if n.startswith(self.reports)), None)]   # the sanitizer's own
        return names

    def watch(self):
        while not self.over.wait(0.2):
            self.now = self.holds()
            self.peak = tuple(max(a, b) for a, b in zip(self.peak, self.now))
            if self.now[0] > (8 if self.kind else 3) * MAX_MEMORY:
                self.log.append(f"target.py: it held {self.now[0] >> 20} MiB and was ended\n")
                self.proc.kill()

    def lives(self):
        return self.proc.poll() is None

    # ---- well?

    def answers(self):
        """Of some right requests what they are answered; each may change its answer only with its model."""
        out = {}
        for path, body in valid.DOCUMENTS:
            if not path.startswith("/v1/models/half/"):
                r = self.post(path, body)
                out[f"{path} {json.dumps(body)[:60]}"] = (r.status_code, r.json() if path.startswith("/v1") else r.json().get("outputs"))
        return out

    def restore(self):
        """Everything that management may have changed is as at the start."""
        for path in glob.glob(f"{self.dir}/widths/[2-9]") + glob.glob(f"{self.dir}/parts/[2-9]"):
            os.unlink(path)
        for name in DAMAGED:
            shutil.rmtree(self.base(name), True)
            os.mkdir(self.base(name))
        for job in self.get("/v1/fine_tuning/jobs?limit=100").json()["data"]:
            if job["status"] not in finetune_daemon.ENDED:
                self.post(f"/v1/fine_tuning/jobs/{job['id']}/cancel")
        self.post("/v2/systemsharedmemory/unregister")
        self.proc.send_signal(signal.SIGHUP)   # the list of models as it is in the file
        for name in management.FRESH + tuple(f"up{i}" for i in range(4)):
            self.post(f"/v2/repository/models/{name}/unload", {})
        for name in MODELS:
            self.post(f"/v2/repository/models/{name}/load", {})

    def settles(self, before, seconds):
        """Threads and descriptors are no more than before; returns what they are."""
        end = time.monotonic() + seconds
        now = self.holds()
        while (now[1] > before[1] or now[2] > before[2]) and time.monotonic() < end:
            time.sleep(0.2)
            now = self.holds()
        return now

    # ---- the end

    def end(self):
        """(exit code or None, seconds it took, what the sanitizers wrote)."""
        self.over.set()
        self.session.close()
        self.channel.close()
        begun = time.monotonic()
        if self.lives():
            self.proc.send_signal(signal.SIGTERM)
        try:
            code = self.proc.wait(120)
        except subprocess.TimeoutExpired:
            self.proc.kill()
            code = None
        took = time.monotonic() - begun
        self.reader.join(10)
        self.proc.stderr.close()
        self.proc.stdout.close()
        shutil.rmtree(self.dir, True)
        written = []
        for path in sorted(glob.glob(f"{self.reports}/*")):
            with open(path, errors="replace") as f:
                written.append(f.read())
        shutil.rmtree(self.reports, True)
        return code, took, [w for w in written if re.search("ERROR|WARNING|SUMMARY|runtime error", w)]


def program(name, target, *args, niced=0):
    """A program of this folder, started against the target; its last line is JSON."""
    flags = [f"--port={target.port}", f"--rest_api_port={target.rest_port}", *args]
    return subprocess.Popen(["nice", f"-n{niced}", sys.executable, os.path.join(generator.HERE, name + ".py"), *flags], stdout=subprocess.PIPE, text=True)


def told(process, seconds):
    """What it told when it had ended; a text when that is none."""
    try:
        out, _ = process.communicate(timeout=seconds)
        return json.loads(out.strip().splitlines()[-1])
    except (subprocess.TimeoutExpired, ValueError, IndexError) as e:
        process.kill()
        process.communicate()
        return f"{type(e).__name__}: {str(e)[:300]}"
