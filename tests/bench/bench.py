"""Runs the benchmarks and prints a Markdown table per section.   bench.py BUILD MODELS [--quick]

BUILD holds tensord and the bench programs; MODELS is what models.py made (may be missing: then only what the bundled digits model
can show is measured). Every ratio is between two programs that ran one right after the other, on the same cores.
"""
import argparse
import contextlib
import json
import math
import os
import re
import shutil
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DIGITS = os.path.join(ROOT, "deploy", "models", "digits")
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "3"}


def median(values):
    return sorted(values)[len(values) // 2]


def say(text=""):
    print(text, flush=True)


def table(head, rows):
    say("| " + " | ".join(head) + " |")
    say("|" + "|".join([" --- "] + [" ---: "] * (len(head) - 1)) + "|")
    for row in rows:
        say("| " + " | ".join(str(c) for c in row) + " |")
    say()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


# ---------------------------------------------------------------- a server

class Server:
    """build/tensord serving one base path as model m, on ports that were free a moment ago."""

    def __init__(self, build, base, *flags, env={}):
        self.grpc, self.rest = free_port(), free_port()
        self.state = tempfile.mkdtemp()
        self.started = time.perf_counter()
        self.process = subprocess.Popen(
            [os.path.join(build, "tensord"), "--bind_address=127.0.0.1", f"--port={self.grpc}", f"--rest_api_port={self.rest}",
             f"--state_dir={self.state}", "--model_name=m", f"--model_base_path={base}", *flags],
            stderr=subprocess.DEVNULL, env={**os.environ, **env})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(30)
        shutil.rmtree(self.state, ignore_errors=True)

    def get(self, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.rest}{path}", timeout=30) as r:
            return json.load(r)

    def versions(self):
        try:
            return {v["version"]: v for v in self.get("/v1/models")["models"][0]["versions"]}
        except (OSError, LookupError):
            return {}

    def wait(self, version="1", state="AVAILABLE"):
        while self.versions().get(version, {}).get("state", "END") != state:
            time.sleep(0.02)

    def memory(self):
        with open(f"/proc/{self.process.pid}/status") as f:
            rows = dict(re.findall(r"(VmRSS|RssAnon|RssFile):\s+(\d+) kB", f.read()))
        return [f"{int(rows[k]) / 1024:.1f}" for k in ("VmRSS", "RssAnon", "RssFile")]


def exchange(port, data, done):
    """Connects, sends, reads until done(answer) or the end; None when nobody listens yet."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=30) as s:
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        s.sendall(data)
        answer = b""
        while not done(answer):
            part = s.recv(1 << 20)
            if not part:
                return answer
            answer += part
        return answer
    return None


def rest_request(body):
    return (b"POST /v1/models/m:predict HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n"
            b"Content-Length: %d\r\n\r\n" % len(body)) + body


def varint(n):
    out = b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def field(number, data):
    return bytes([number << 3 | 2]) + varint(len(data)) + data


def grpc_request(name, dims, floats):
    """One Predict call as HTTP/2 frames: preface, SETTINGS, HEADERS with plain literals, DATA."""
    shape = b"".join(field(2, b"\x08" + varint(d)) for d in dims)
    tensor = b"\x08\x01" + field(2, shape) + field(4, struct.pack(f"<{len(floats)}f", *floats))
    message = field(1, field(1, b"m")) + field(2, field(1, name.encode()) + field(2, tensor))
    literal = lambda k, v: b"\x00" + varint(len(k)) + k + varint(len(v)) + v
    head = (literal(b":method", b"POST") + literal(b":scheme", b"http") + literal(b":authority", b"bench") +
            literal(b":path", b"/tensorflow.serving.PredictionService/Predict") + literal(b"te", b"trailers") +
            literal(b"content-type", b"application/grpc"))
    frame = lambda kind, flags, stream, data: struct.pack(">I", len(data))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + data
    body = b"\x00" + struct.pack(">I", len(message)) + message
    return b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b"") + frame(1, 4, 1, head) + frame(0, 1, 1, body)


def stream_ended(answer):
    """A frame with END_STREAM for stream 1 has come; the answer counts when a DATA frame came before it."""
    at = 0
    while len(answer) - at >= 9:
        size = int.from_bytes(answer[at:at + 3], "big")
        if answer[at + 3] in (0, 1) and answer[at + 4] & 1 and len(answer) >= at + 9 + size:
            return True
        at += 9 + size
    return False


def has_data(answer):
    at = 0
    while len(answer) - at >= 9:
        if answer[at + 3] == 0:
            return True
        at += 9 + int.from_bytes(answer[at:at + 3], "big")
    return False


# ---------------------------------------------------------------- 1: start

def first_answers(build, base, rest, grpc):
    """Milliseconds from exec to the listener, the first REST answer and, after it, the first gRPC answer; and the load's own."""
    with Server(build, base) as s:
        listening = None
        while True:
            answer = exchange(s.rest, rest, lambda a: False)
            now = time.perf_counter()
            listening = listening or (now if answer else None)
            if answer and answer[9:12] == b"200":
                break
            time.sleep(0.0002)
        while not has_data(exchange(s.grpc, grpc, stream_ended) or b""):
            time.sleep(0.0002)
        end = time.perf_counter()
        loaded = s.versions()["1"]["load_ms"]
        return [(t - s.started) * 1e3 for t in (listening, now, end)] + [loaded]


def section_start(build, models, quick):
    say("**Start to first answer** (exec to the first REST and the first gRPC answer, page cache warm; milliseconds, median / least"
        f" of {3 if quick else 10})\n")
    image, row = [[0.0] * 8] * 8, [1.0] * 64
    todo = [("digits, 0.1 MB", DIGITS, {"instances": [image]}, ("images", [1, 8, 8], [0.0] * 64))]
    for name, label, body, call in (("large", "perceptron, 103 MB", {"instances": [row]}, ("x", [1, 64], row)),):
        if os.path.isdir(os.path.join(models, name)):
            todo.append((label, os.path.join(models, name), body, call))
    rows = []
    for label, base, body, call in todo:
        request, frames = rest_request(json.dumps(body).encode()), grpc_request(*call)
        first_answers(build, base, request, frames)
        times = list(zip(*(first_answers(build, base, request, frames) for _ in range(3 if quick else 10))))
        rows.append([label] + [f"{median(t):.1f} / {min(t):.1f}" for t in times])
    table(["model", "listening", "REST answer", "both answers", "of it loading"], rows)


# ---------------------------------------------------------------- 2: memory

def reload(server, base):
    """Version 2 takes over from version 1, whose memory goes."""
    shutil.copytree(os.path.join(base, "1"), os.path.join(base, "2.part"))
    os.rename(os.path.join(base, "2.part"), os.path.join(base, "2"))
    server.wait("2")
    server.wait("1", "END")
    time.sleep(1)


def section_memory(build, models, quick):
    seconds = 5 if quick else 60
    say(f"**Resident memory** (MB: all / anonymous / file pages, which are shared with other processes)\n")
    rows = []
    image = json.dumps({"instances": [[[0.0] * 8] * 8]})
    todo = [("digits", DIGITS, image)]
    if os.path.isdir(os.path.join(models, "large")):
        todo.append(("perceptron, 103 MB", os.path.join(models, "large"), json.dumps({"instances": [[1.0] * 64]})))
    for label, source, body in todo:
        with tempfile.TemporaryDirectory() as base:
            shutil.copytree(os.path.join(source, "1"), os.path.join(base, "1"))
            with Server(build, base) as s:
                s.wait()
                time.sleep(2)
                row = [" / ".join(s.memory())]
                wrk(f"http://127.0.0.1:{s.rest}/v1/models/m:predict", body, 64, seconds)
                row.append(" / ".join(s.memory()))
                reload(s, base)
                row.append(" / ".join(s.memory()))
        rows.append([label] + row)
    table(["model", "idle", f"after {seconds} s of load", "after a reload"], rows)


# ---------------------------------------------------------------- 3: calls, 5: a large graph

def time_call(build, program, folder, case, seconds, cpu, **env):
    out = subprocess.run([os.path.join(build, program), folder, case, str(seconds), str(cpu)], capture_output=True, text=True,
                         env={**os.environ, **ONE_THREAD, **env})
    return [float(x) for x in out.stdout.split()] if out.returncode == 0 and out.stdout else None


def cases(models, listing="cases.txt"):
    path = os.path.join(models, listing)
    if not os.path.exists(path):
        return []
    with open(path) as f:
        return [line.rstrip("\n").split("\t") for line in f]


def has_tensorflow(build):
    return os.path.exists(os.path.join(build, "call_tensorflow"))


def section_calls(build, models, quick):
    rounds, seconds, cpu = (1, 0.2, 0) if quick else (3, 0.5, 0)
    say(f"**A call in process on one core, beside TensorFlow's C API** (microseconds, p50 / least; best of {rounds}, the two in turn;"
        " TensorFlow runs in the caller's thread)\n")
    if not has_tensorflow(build):
        say("skipped: call_tensorflow is not built (no TensorFlow in build/venv)\n")
        return
    rows, faster = [], 0
    for label, folder, case in cases(models):
        if label.startswith("functions"):
            continue
        best = {}
        for _ in range(rounds):
            for program in ("call_tensord", "call_tensorflow"):
                t = time_call(build, program, folder, case, seconds, cpu, BENCH_INTER="-1")
                if t is not None and (program not in best or t[2] < best[program][2]):
                    best[program] = t
        ours, theirs = best.get("call_tensord"), best.get("call_tensorflow")
        if ours is None or theirs is None:
            rows.append([label, "failed" if ours is None else f"{ours[2]:.1f}", "failed" if theirs is None else f"{theirs[2]:.1f}", ""])
            continue
        faster += ours[2] < theirs[2]
        rows.append([label, f"{ours[2]:.1f} / {ours[3]:.1f}", f"{theirs[2]:.1f} / {theirs[3]:.1f}", f"{ours[2] / theirs[2]:.2f}"])
    table(["model, case", "tensord", "TensorFlow", "ratio"], rows)
    say(f"{faster} of {len(rows)} faster than TensorFlow.\n")


def section_ops(build, models, quick):
    say("**One op a call, beside TensorFlow's C API on one thread** (microseconds, the least of a quarter of a second; those slower than 1.5 times)\n")
    rows, ratios = [], []
    for label, folder, case in cases(models, "op_cases.txt"):
        ours, theirs = (time_call(build, program, folder, case, 0.25, 0) for program in ("call_tensord", "call_tensorflow"))
        if ours is None or theirs is None:
            rows.append((float("inf"), [label, "failed" if ours is None else f"{ours[3]:.1f}", "failed" if theirs is None else f"{theirs[3]:.1f}", ""]))
            continue
        ratio = ours[3] / theirs[3]
        ratios.append(ratio)
        rows += [(ratio, [label, f"{ours[3]:.1f}", f"{theirs[3]:.1f}", f"{ratio:.2f}"])] if ratio > 1.5 else []
    table(["call", "tensord", "TensorFlow", "ratio"], [row for _, row in sorted(rows, key=lambda r: -r[0])])
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        say(f"{sum(r < 1 for r in ratios)} of {len(ratios)} faster than TensorFlow; geometric mean of the ratios {mean:.2f}.\n")


def section_graph(build, models, quick):
    say("**A graph of 700 functions, 3 MB: load and first call on one core** (milliseconds, median / least; cpu: processor time of both)\n")
    row = next((c for c in cases(models) if c[0].startswith("functions")), None)
    if row is None:
        say("skipped: no such model (models.py needs TensorFlow)\n")
        return
    rows = []
    times = list(zip(*filter(None, (time_call(build, "call_tensord", row[1], row[2], 0, 0) for _ in range(3 if quick else 10)))))
    cell = lambda v: f"{median(v) / 1e3:.0f} / {min(v) / 1e3:.0f}"
    if times:
        both = [a + b for a, b in zip(times[0], times[1])]
        rows.append(["tensord", cell(times[0]), cell(times[1]), cell(both), cell(times[5])])
    if has_tensorflow(build) and not quick:
        t = time_call(build, "call_tensorflow", row[1], row[2], 0, 0, BENCH_INTER="-1")
        if t:
            rows.append(["TensorFlow, once"] + [f"{v / 1e3:.0f}" for v in (t[0], t[1], t[0] + t[1], t[5])])
    table(["engine", "load", "first call", "both", "cpu"], rows)


# ---------------------------------------------------------------- 4: requests a second

WRK = """wrk.method = "POST"; wrk.body = %s; wrk.headers["Content-Type"] = "application/json"
function done(s, l) print(string.format("RESULT %%f %%f %%f %%d", s.requests / s.duration * 1e6, l:percentile(50), l:percentile(99),
  s.errors.status + s.errors.connect + s.errors.read + s.errors.timeout)) end"""


def wrk(url, body, connections, seconds):
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as f:
        f.write(WRK % json.dumps(body))
        f.flush()
        out = subprocess.run(["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "-s", f.name, url], capture_output=True, text=True)
    found = re.search(r"RESULT (\S+) (\S+) (\S+) (\d+)", out.stdout)
    return [float(x) for x in found.groups()] if found else None


def grpc_load(build, port, connections, seconds, shape="3", wire="v1"):
    out = subprocess.run([os.path.join(build, "tests", "grpc_load"), f"127.0.0.1:{port}", str(connections), str(seconds), "m", shape, wire],
                         capture_output=True, text=True)
    found = re.search(r": (\d+) calls/s, p50 (\d+) us, p99 (\d+) us, (\d+) failed", out.stdout)
    return [float(x) for x in found.groups()] if found else None


@contextlib.contextmanager
def echo(*command):
    p = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(0.3)
    try:
        yield p.pid
    finally:
        p.kill()
        p.wait()


def cpu_us(pid):
    """Processor time of all threads so far."""
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{task}/schedstat") as f:
            total += int(f.read().split()[0])
    return total / 1e3


def in_turn(rounds, measure, sides):
    """measure(port) of each (port, pid) in turn, every round in the other order. Of each side its rounds: what was measured, and
    the server's processor time a request; None for a round that failed."""
    seen = [[] for _ in sides]
    for n in range(rounds):
        for i in range(len(sides))[::-1 if n % 2 else 1]:
            port, pid = sides[i]
            before, started = cpu_us(pid), time.perf_counter()
            r = measure(port)
            used = (cpu_us(pid) - before) / (time.perf_counter() - started)
            seen[i].append(None if r is None else r + [used / max(r[0], 1)])
    return seen


def rate_row(label, connections, seen):
    """The median of each figure over the rounds, and of the rounds' ratios."""
    def cells(rounds):
        good = [r for r in rounds if r is not None]
        if not good:
            return ["failed", "", ""]
        rate, p50, p99, _, cpu = (statistics.median(column) for column in zip(*good))
        failed = sum(r[3] for r in good)
        return [f"{rate:.0f}", f"{p50:.0f} / {p99:.0f}" + (f", {failed:.0f} failed" if failed else ""), f"{cpu:.0f}"]
    ratios = [ours[0] / bare[0] for ours, bare in zip(*seen) if ours is not None and bare is not None and bare[0]]
    return [label, connections] + cells(seen[0]) + cells(seen[1]) + [f"{statistics.median(ratios):.2f}" if ratios else ""]


def rest_rows(build, label, base, body, plan):
    rows, port = [], free_port()
    with Server(build, base) as s, tempfile.NamedTemporaryFile() as f:
        s.wait()
        full = exchange(s.rest, rest_request(body.encode()), lambda a: False)
        f.write(full.split(b"\r\n\r\n", 1)[1])
        f.flush()
        threads = str(min(16, os.cpu_count()))
        with echo(os.path.join(build, "tests", "rest_echo"), str(port), threads, f.name) as bare:
            for connections in (1, 64):
                measure = lambda p: wrk(f"http://127.0.0.1:{p}/v1/models/m:predict", body, connections, plan[1])
                rows.append(rate_row(label, connections, in_turn(plan[0], measure, [(s.rest, s.process.pid), (port, bare)])))
    return rows


def section_rates(build, models, quick):
    plan = (1, 1) if quick else (9, 1)
    say("**Requests a second** (one load thread on the same machine; p50 / p99 and the server's processor time a request in microseconds; beside a bare libmicrohttpd echo and a bare"
        f" gRPC C-core echo of the same bytes; medians of {plan[0]} rounds of {plan[1]} s, in turn)\n")
    head = ["wire, model", "connections", "tensord", "p50 / p99", "cpu", "bare echo", "p50 / p99", "cpu", "ratio"]
    rows, trivial = [], os.path.join(models, "trivial")
    image = json.dumps({"instances": [[[0.0] * 8] * 8]})
    if shutil.which("wrk"):
        if os.path.isdir(trivial):
            rows += rest_rows(build, "REST, x / 2 + 2", trivial, '{"instances": [1.0, 2.0, 5.0]}', plan)
        rows += rest_rows(build, "REST, digits", DIGITS, image, plan)
    else:
        say("REST skipped: wrk is not installed\n")
    if os.path.isdir(trivial):
        port = free_port()
        with Server(build, trivial) as s, echo(os.path.join(build, "tests", "grpc_echo"), str(port), "2") as bare:
            s.wait()
            for connections in (1, 64):
                measure = lambda p: grpc_load(build, p, connections, plan[1])
                rows.append(rate_row("gRPC, x / 2 + 2", connections, in_turn(plan[0], measure, [(s.grpc, s.process.pid), (port, bare)])))
    else:
        say("gRPC skipped: no trivial model (models.py needs TensorFlow)\n")
    table(head, rows)


# ---------------------------------------------------------------- batching, and a large request

BATCHING = """max_batch_size { value: 32 } batch_timeout_micros { value: 2000 } max_enqueued_batches { value: 100 } num_batch_threads { value: %d }"""


@contextlib.contextmanager
def tensorflow_server(base):
    """TensorFlow behind a Python gRPC server; yields its port, None where there is no TensorFlow."""
    python, port = os.path.join(ROOT, "build", "venv", "bin", "python"), free_port()
    if not os.path.exists(python):
        yield None
        return
    p = subprocess.Popen([python, os.path.join(ROOT, "tests", "bench", "tf_server.py"), os.path.join(base, "1"), str(port)],
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    p.stdout.readline()
    try:
        yield port
    finally:
        p.kill()
        p.wait()
        p.stdout.close()


V2 = ("tensord, KServe v2", "pytriton")


PYTRITON_INSTALL = "/usr/bin/python3 -m venv build/pytriton && build/pytriton/bin/pip install nvidia-pytriton tensorflow-cpu"


@contextlib.contextmanager
def pytriton_server(build, base):
    """Yields its gRPC port and "", or None and why it is not measured. Its venv is BUILD/pytriton, or what $BENCH_PYTRITON names."""
    venv = os.environ.get("BENCH_PYTRITON") or os.path.join(build, "pytriton")
    python, shown = os.path.join(venv, "bin", "python"), os.path.relpath(venv, ROOT)
    if not os.path.exists(python):
        yield None, f"skipped: there is no {shown}/bin/python; `{PYTRITON_INSTALL}` makes build/pytriton, $BENCH_PYTRITON names another venv that has it"
        return
    ports = [free_port() for _ in range(3)]
    with tempfile.TemporaryFile("w+") as log:
        p = subprocess.Popen([python, os.path.join(ROOT, "tests", "bench", "pytriton_server.py"), os.path.join(base, "1"), *map(str, ports)],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            if any(line == "ready\n" for line in p.stdout):
                yield ports[0], ""
            else:
                p.wait(40)
                log.seek(0)
                lines = [line.strip() for line in log if line.strip()] or ["it printed nothing"]
                yield None, f"skipped: the server of {shown} ended with {p.returncode}: {lines[-1][:300]}".replace("|", "/")
        finally:
            p.stdin.close()
            try:
                p.wait(40)
            except subprocess.TimeoutExpired:
                p.kill()
                p.wait()


def section_batching(build, models, quick):
    base, seconds, rounds = os.path.join(models, "large"), 2 if quick else 5, 1 if quick else 3
    if not os.path.isdir(base):
        say("batching: no large model (models.py needs TensorFlow)\n")
        return
    say("**Saturation** (the 103 MB perceptron over gRPC, one row a request; requests a second, p50 / p99 in milliseconds;"
        f" best of {rounds}, the servers in turn)\n")
    with contextlib.ExitStack() as stack:
        params = stack.enter_context(tempfile.NamedTemporaryFile("w"))
        params.write(BATCHING % os.cpu_count())
        params.flush()
        flags = {"tensord": [], "tensord, --batching=false": ["--batching=false"],
                 "tensord, batching_parameters_file": ["--enable_batching", f"--batching_parameters_file={params.name}"]}
        ports = {}
        for name, f in flags.items():
            server = stack.enter_context(Server(build, base, *f))
            server.wait()
            ports[name] = server.grpc
        ports["tensord, KServe v2"] = ports["tensord"]
        ports["pytriton"], why_not = stack.enter_context(pytriton_server(build, base))
        ports["TensorFlow in a Python gRPC server"] = stack.enter_context(tensorflow_server(base))
        rows = []
        for connections in (1, 16, 64):
            best = {}
            for _ in range(rounds):
                for name, port in ports.items():
                    r = grpc_load(build, port, connections, seconds, "1x64", "v2" if name in V2 else "v1") if port is not None else None
                    if r is not None and (name not in best or r[0] > best[name][0]):
                        best[name] = r
            for name in ports:
                r = best.get(name)
                first = best.get("tensord")
                rows.append([name, connections] + ([f"{r[0]:.0f}", f"{r[1] / 1e3:.1f} / {r[2] / 1e3:.1f}" + (f", {r[3]:.0f} failed" if r[3] else ""),
                                                    f"{r[0] / first[0]:.2f}" if first else ""] if r else ["not measured", "", ""]))
        if why_not:
            rows = [row for row in rows if row[0] != "pytriton"] + [["pytriton", "", why_not, "", ""]]
    table(["server", "connections", "requests/s", "p50 / p99", "of tensord's"], rows)


def section_branches(build, models, quick):
    base, seconds, rounds = os.path.join(models, "towers"), 1 if quick else 4, 1 if quick else 3
    if not os.path.isdir(base):
        say("branches: no towers (models.py needs TensorFlow)\n")
        return
    say("**Parallel branches** (four equal towers of convolutions, one request at a time over gRPC while the other lanes idle; p50 / p99 in milliseconds;"
        f" best of {rounds}, the servers in turn)\n")
    flags = {"tensord": [], "tensord, --passes_off=parallel": ["--passes_off=parallel"]}
    with contextlib.ExitStack() as stack:
        ports, best = {}, {}
        for name, f in flags.items():
            server = stack.enter_context(Server(build, base, *f))
            server.wait()
            ports[name] = server.grpc
        for _ in range(rounds):
            for name, port in ports.items():
                r = grpc_load(build, port, 1, seconds, "1x64")
                if r is not None and (name not in best or r[1] < best[name][1]):
                    best[name] = r
    first = best.get("tensord")
    table(["server", "requests/s", "p50 / p99", "of tensord's p50"],
          [[name, f"{r[0]:.0f}", f"{r[1] / 1e3:.2f} / {r[2] / 1e3:.2f}", f"{r[1] / first[1]:.2f}" if first else ""] for name, r in best.items()])


def section_image(build, models, quick):
    base, python = os.path.join(models, "image"), os.path.join(ROOT, "build", "venv", "bin", "python")
    if not os.path.isdir(base) or not os.path.exists(python):
        say("image: no model or no build/venv (models.py needs TensorFlow)\n")
        return
    say("**One 1x224x224x3 float image** (602 KB of floats, to a model that answers its mean; the Python client's time is in it; milliseconds, median / least)\n")
    def ask(seconds, *more, env={}):
        with Server(build, base, env=env) as s:
            s.wait()
            out = subprocess.run([python, os.path.join(ROOT, "tests", "bench", "image.py"), str(s.rest), str(s.grpc), seconds, *more],
                                 capture_output=True, text=True).stdout
        return [line.split("\t") for line in out.splitlines()]

    timed, counter = ask("1" if quick else "4"), os.path.join(build, "copies")
    counted = ask("0.3", counter, env={"COPIES": counter, "LD_PRELOAD": os.path.join(build, "tests", "copies.so")})
    table(["wire", "ms", "request, KB", "copies"], [[r[0], f"{r[1]} / {r[2]}", f"{int(r[3]) / 1e3:.0f}", f"{int(c[4]) / int(c[3]):.2f}"]
                                                  for r, c in zip(timed, counted)])
    say("copies: bytes that memcpy and memmove move inside the server for a request, gRPC's library included, over the request's; values of JSON"
        " are read into their tensor besides, and the kernel's copy out of the socket is not counted.\n")


# ---------------------------------------------------------------- all

def machine():
    with open("/proc/cpuinfo") as f:
        info = f.read()
    name = re.search(r"model name\s*: (.*)", info)
    widest = next((x for x in ("avx512f", "avx2", "avx") if x in info), "no AVX")
    return f"{name.group(1) if name else 'unknown processor'} ({widest}), {os.cpu_count()} cores, Linux {os.uname().release}"


LONG = ("ops",)   # run only when they are named


def main():
    sections = {"start": section_start, "memory": section_memory, "calls": section_calls, "rates": section_rates, "batching": section_batching,
                "branches": section_branches, "image": section_image, "graph": section_graph, "ops": section_ops}
    a = argparse.ArgumentParser()
    a.add_argument("build")
    a.add_argument("models")
    a.add_argument("--quick", action="store_true")
    a.add_argument("--only", help="sections, of: " + ", ".join(sections))
    opts = a.parse_args()
    say(f"Machine: {machine()}.\n")
    for name, section in sections.items():
        if name not in opts.only.split(",") if opts.only else name in LONG:
            continue
        try:
            section(os.path.abspath(opts.build), os.path.abspath(opts.models), opts.quick)
        except Exception as problem:  # a benchmark that cannot run says so; it fails nothing
            say(f"{name}: not measured: {type(problem).__name__}: {problem}\n")


if __name__ == "__main__":
    main()
