"""What the end-to-end tests share: the models, a daemon that serves them, and ways to ask it.

A test module calls server.models() once, then starts Server(...); see traps_test.py. $TENSORD names the daemon (default build/tensord).
"""
import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import grpc
import requests

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
MODELS = os.path.join(ROOT, "build", "e2e")
DAEMON = os.environ.get("TENSORD", os.path.join(ROOT, "build", "tensord"))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

SANITIZED = "TENSORD_SANITIZED" in os.environ  # a sanitizer's build: what it holds, and how it ends in a sandbox, is its own
PATIENCE = 8 if SANITIZED else 1   # and so much slower it computes
JOB_S = 600  # a server's job only gets what processors have left (nice 19), and tests beside it leave little
CODE = grpc.StatusCode
UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


def held(pid, field="VmHWM"):
    """Bytes, a line of /proc/PID/status: VmHWM is the most that was resident since the start or forget_peak(), VmRSS what is now."""
    with open(f"/proc/{pid}/status") as f:
        return next(int(line.split()[1]) << 10 for line in f if line.startswith(field + ":"))


def forget_peak(pid):
    """From here on VmHWM is counted anew."""
    with open(f"/proc/{pid}/clear_refs", "w") as f:
        f.write("5")


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def until(what, seconds=15.0):
    """Whether what() came to hold within that time."""
    end = time.monotonic() + seconds
    while not what():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def models():
    """Makes the models that are missing, in a process of its own; one test at a time."""
    with made_alone():
        make_models()


@contextlib.contextmanager
def made_alone():
    os.makedirs(MODELS, exist_ok=True)
    with open(os.path.join(MODELS, ".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def make_models():
    if not all(os.path.exists(os.path.join(MODELS, m, "saved_model.pb")) for m in ("half/1", "half/2", "types/1", "tf1/1", "batching/1", "widths/1", "branches/1", "gradients/1", "parts/1")):
        subprocess.run([sys.executable, os.path.join(HERE, "models.py"), MODELS], check=True)


def made(make, *args):
    """A folder with what the test's function make(where, *args) has made with TensorFlow: by a process of its own, where nobody has yet, as
    it is written now; kept for the other builds. Not to be changed."""
    source = make.__code__.co_filename
    with open(source, "rb") as f:
        mark = hashlib.sha256(f.read() + repr((make.__qualname__, args)).encode()).hexdigest()[:16]
    module = os.path.basename(source)[:-3]
    where = os.path.join(MODELS, "made", f"{module}-{mark}")
    with made_alone():
        if not os.path.exists(where):
            with tempfile.TemporaryDirectory(dir=MODELS) as scratch:
                call = f"import functools, {module} as m; functools.reduce(getattr, {make.__qualname__.split('.')}, m)({scratch + '/new'!r}, *{args!r})"
                os.mkdir(scratch + "/new")
                subprocess.run([sys.executable, "-c", call], check=True, cwd=HERE, env={**os.environ, "TENSORD_TESTS_MAKE": "1"})
                os.makedirs(os.path.dirname(where), exist_ok=True)
                os.rename(scratch + "/new", where)
    return where


def copy_of(folder, to):
    shutil.copytree(folder, to, copy_function=shutil.copy, dirs_exist_ok=True)


def config(*entries):
    """ModelServerConfig text; an entry is (name, base path[, further fields])."""
    rows = (f'config {{ name: "{e[0]}" base_path: "{e[1]}" model_platform: "tensorflow" {"".join(e[2:])} }}' for e in entries)
    return "model_config_list {\n" + "\n".join(rows) + "\n}\n"


class Server:
    """One daemon. Its models are served from links in a folder of its own, so that versions may come and go."""

    def __init__(self, *flags, versions={"half": (1,)}, labels="", files={}, wait=True, rest="http"):
        """versions: the numbers to link, by model; files: written to the server's folder, {dir} in flags is its path."""
        self.dir = tempfile.mkdtemp(prefix="tensord-e2e.")
        self.rest_scheme, self.session = rest, requests.Session()
        for model, numbers in versions.items():
            os.mkdir(self.base(model))
            for v in numbers:
                self.add(model, v)
        files = {"models.config": config(*((m, self.base(m), "model_version_policy { all {} }" + labels) for m in versions)), **files}
        for name, text in files.items():
            with open(os.path.join(self.dir, name), "w") as f:
                f.write(text)
        self.args = [DAEMON, "--bind_address=127.0.0.1", "--port=auto", "--rest_api_port=auto", "--model_config_file={dir}/models.config",
                     "--state_dir={dir}/state", *flags]
        self.log, self.port, self.rest_port, self.channel = [], None, None, None
        if wait:
            self.start()

    def base(self, model):
        return os.path.join(self.dir, model)

    def add(self, model, version, source=None):
        os.symlink(os.path.join(MODELS, model, str(source or version)), os.path.join(self.base(model), str(version)))

    def launch(self):
        self.proc = subprocess.Popen([a.replace("{dir}", self.dir) for a in self.args], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.reader = threading.Thread(target=lambda: self.log.extend(self.proc.stderr), daemon=True)
        self.reader.start()

    def start(self):
        self.launch()
        while True:
            text = "".join(self.log)
            m = re.search(r"ready: port=(\d+) rest_api_port=(\d+)", text)
            if m:
                self.port, self.rest_port = int(m.group(1)), int(m.group(2))
                break
            if not self.reader.is_alive():
                self.stop()
                raise RuntimeError("the daemon did not start: " + text)
            time.sleep(0.02)
        self.channel = grpc.insecure_channel(f"127.0.0.1:{self.port}", UNLIMITED)

    def exits(self):
        """Runs a daemon that is to end by itself: its exit code and what it wrote."""
        p = subprocess.run([a.replace("{dir}", self.dir) for a in self.args], capture_output=True, text=True, timeout=60)
        shutil.rmtree(self.dir, True)
        return p.returncode, p.stdout, p.stderr

    def stub(self, kind):
        return kind(self.channel)

    def http(self, method, path, json=None, **kw):
        return self.session.request(method, f"{self.rest_scheme}://127.0.0.1:{self.rest_port}{path}", json=json, timeout=30, **kw)

    def post(self, path, json=None, **kw):
        return self.http("POST", path, json, **kw)

    def get(self, path, **kw):
        return self.http("GET", path, **kw)

    def wait_log(self, words, seconds=20):
        return until(lambda: words in "".join(self.log), seconds)

    def stop(self, sig=signal.SIGTERM):
        self.session.close()
        if self.channel is not None:
            self.channel.close()
        if self.proc.poll() is None:
            self.proc.send_signal(sig)
        try:
            return self.proc.wait(30)
        finally:
            self.proc.kill()
            self.reader.join(10)
            self.proc.stderr.close()
            self.proc.stdout.close()
            shutil.rmtree(self.dir, True)


@contextlib.contextmanager
def folder():
    where = tempfile.mkdtemp(prefix="tensord-e2e.")
    try:
        yield where
    finally:
        shutil.rmtree(where, True)


@contextlib.contextmanager
def serving(*flags, **kw):
    """A server for one test: it must end with exit status 0."""
    s = Server(*flags, **kw)
    try:
        yield s
    finally:
        code = s.stop()
        assert code == 0, f"exit {code}: {''.join(s.log[-30:])}"


class Case(unittest.TestCase):
    """Tests on one daemon (cls.d), started with cls.FLAGS, and checks of what goes wrong."""

    FLAGS, OPTIONS = (), {}

    @classmethod
    def setUpClass(cls):
        models()
        cls.d = Server(*cls.FLAGS, **cls.OPTIONS)

    @classmethod
    def tearDownClass(cls):
        code = cls.d.stop()
        assert code == 0, f"exit {code}: {''.join(cls.d.log[-30:])}"

    @contextlib.contextmanager
    def fails(self, code, *words):
        with self.assertRaises(grpc.RpcError) as e:
            yield
        self.assertEqual(e.exception.code(), code, e.exception.details())
        for w in words:
            self.assertIn(w, e.exception.details())

    def answers(self, response, status, *words):
        """A REST answer with this status; an error holds these words."""
        self.assertEqual(response.status_code, status, response.text)
        text = response.json()["error"] if status >= 400 and response.text.startswith("{") else response.text
        for w in words:
            self.assertIn(w, text)
        return response


class Alone(Case):
    """Tests that start their daemons themselves. Models of the module's own are made once, by make, and copied to cls.where."""

    make = None

    @classmethod
    def setUpClass(cls):
        models()
        cls.where = tempfile.mkdtemp(prefix="tensord-e2e.")
        if cls.make:
            copy_of(made(cls.make), cls.where)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.where, True)
