"""tensord on a GPU beside PyTorch and ONNX Runtime, served and with 1 to 8 streams; prints Markdown with date and machine.

    python tests/gpu/bench/run.py --build DIR --gpu MODULE --models DIR [--daemon FILE --load FILE] [--size full] [--seconds 0.25] [--budget 200]
                                  [--rows 64,8,1] [--peers eager,onnx,compiled] [--peer-python FILE]

DIR of the build has libtensord.so, tensord and grpc_load; the models are make.py's. What an engine cannot do is "no", and why is told below.
Parts are asked in the order of what they are worth; at the budget's end, or when it is told to end, it prints what it has.
"""
import argparse
import collections
import json
import os
import platform
import re
import selectors
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(1, HERE)
import nets  # noqa: E402

PRECISIONS = ("f32", "tf32", "bf16")
ENGINES = ("tensord", "eager", "compiled", "onnx")
TITLES = {"tensord": "tensord", "eager": "PyTorch", "compiled": "PyTorch compiled", "onnx": "ONNX Runtime"}
NEAR = {"f32": 2e-3, "tf32": 3e-2, "bf16": 1e-1}  # of the largest output in f32
PEAKS = (("H200", 989e12), ("H100", 989e12), ("A100", 312e12), ("L40S", 362e12), ("B200", 2250e12))  # dense bf16 of the SXM boards
STREAMS = (1, 2, 4, 8)
SHARES = {"eager": 0.5, "onnx": 0.4, "compiled": 1.0}  # of the time that is left


class Results:
    def __init__(self):
        self.calls = {}                                  # (engine, model, precision, rows): microseconds
        self.answers = {}                                # the same: some numbers
        self.no = collections.OrderedDict()              # (engine, model, precision): why
        self.placed, self.rates, self.served = {}, {}, []  # by (model, precision); and streams
        self.left_out = []

    def take(self, line):
        key = (line["engine"], line["model"], line["precision"])
        if "no" in line:
            self.no[key] = line["no"]
        elif "on_gpu" in line:
            self.placed[key[1:]] = line
        elif "rate" in line:
            self.rates[(*key[1:], line["streams"])] = line["rate"]
        else:
            self.calls[(*key, line["rows"])], self.answers[(*key, line["rows"])] = line["us"], line["answer"]

    def agrees(self, key):
        """With what tensord says in f32, or another where it says nothing."""
        _, model, precision, rows = key
        wanted = next((self.answers[k] for e in ENGINES for k in [(e, model, "f32", rows)] if k in self.answers and k != key), None)
        got = self.answers[key]
        return wanted is None or (len(got) == len(wanted) and
                                  all(abs(a - b) <= NEAR[precision] * max(map(abs, wanted)) for a, b in zip(got, wanted)))

    def best_rate(self, model, precision):
        """Rows a second of the engine by itself, whichever way it is asked."""
        return max([1e6 * rows / us for (e, m, p, rows), us in self.calls.items() if (e, m, p) == ("tensord", model, precision)] +
                   [r for (m, p, _), r in self.rates.items() if (m, p) == (model, precision)], default=None)


# ------------------------------------------------------------------ what is run

class Bench:
    def __init__(self, args):
        self.args, self.results, self.end = args, Results(), time.monotonic() + args.budget

    def left(self):
        return self.end - time.monotonic()

    def lines(self, command, most, env):
        """Takes each line of JSON as it comes, for at most so many seconds. Returns how it ended otherwise than well."""
        stop = time.monotonic() + min(most, self.left())
        p = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE if self.args.quiet else None, env=env,
                             start_new_session=True)
        buffer, watched = b"", selectors.DefaultSelector()
        watched.register(p.stdout, selectors.EVENT_READ)
        if p.stderr:
            watched.register(p.stderr, selectors.EVENT_READ)
        try:
            while time.monotonic() < stop:
                for ready, _ in watched.select(max(0.01, stop - time.monotonic())):
                    got = os.read(ready.fd, 65536)
                    if not got:
                        watched.unregister(ready.fileobj)
                    elif ready.fileobj is p.stdout:
                        *whole, buffer = (buffer + got).split(b"\n")
                        for line in whole:
                            if line.startswith(b'{"engine"'):
                                self.results.take(json.loads(line))
                                print(line.decode()[:120], file=sys.stderr, flush=True)
                if not watched.get_map():
                    return p.wait() and f"exit {p.returncode}"
            return "in part, for want of time"
        finally:
            if p.poll() is None:
                os.killpg(p.pid, signal.SIGKILL)
                p.wait()

    def engine(self):
        a = self.args
        for precision in a.precisions.split(","):
            for name in a.only.split(","):
                streams = ["--streams", ",".join(map(str, STREAMS))] if (name, precision) in (("resnet50", "f32"), ("bert_base", "f32"), ("bert_base", "bf16")) else []
                self.part(f"tensord {name} {precision}", 30, [sys.executable, os.path.join(HERE, "ours.py"), "--lib", os.path.join(a.build, "libtensord.so"), "--gpu", a.gpu, "--models",
                          a.models, "--model", name, "--precision", precision, "--rows", a.rows, "--size", a.size, "--seconds", str(a.seconds), *streams])

    def part(self, name, most, command, env=None):
        why = "for want of time" if self.left() < 5 else self.lines(command, most, env)
        if why:
            self.results.left_out.append(f"{name} ({why})")

    def peers(self):
        # The libraries that tests/gpu/pack.sh has packed are ours alone: Python's own may be newer there.
        a, env = self.args, {**os.environ, "LD_LIBRARY_PATH": os.environ.get("PEER_LIBRARY_PATH", os.environ.get("LD_LIBRARY_PATH", ""))}
        for peer in (p for p in a.peers.split(",") if p):
            # Compiling takes longer than all the rest: what is asked of most, first, and no small batches.
            first, rows = (",".join(sorted(a.only.split(","))), a.rows.split(",")[0]) if peer == "compiled" else (a.only, a.rows)
            order = ",".join(reversed(a.precisions.split(","))) if peer == "compiled" else a.precisions
            self.part(TITLES[peer], self.left() * SHARES[peer], [a.peer_python, os.path.join(HERE, "peers.py"), peer, "--size", a.size, "--seconds", str(a.seconds),
                      "--rows", rows, "--precisions", order, "--only", first], env)

    def served(self):
        a = self.args
        for name, precision in (("bert_base", "f32"), ("bert_base", "bf16"), ("resnet50", "f32")):
            if name not in a.only.split(",") or precision not in a.precisions.split(","):
                continue
            own = self.results.best_rate(name, precision)
            for flags in ((), ("--lanes=4",)):
                if own is None or self.left() < 8:
                    self.results.left_out.append(f"served {name} {precision} {' '.join(flags)}".strip() + " (for want of time)")
                    continue
                rate, said = serve(a, name, precision, flags, min(a.seconds * 10, 2.5), self.left())
                print("served", name, precision, *flags, said, file=sys.stderr, flush=True)
                self.results.served.append((name, precision, flags, rate, own, said))


def field(number, payload):
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def varint(n):
    out = b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def request(name, size):
    """A PredictRequest of one row."""
    entries = b""
    for key, a in nets.inputs(name, size, 1).items():
        shape = b"".join(field(2, b"\x08" + varint(n)) for n in a.shape)
        tensor = b"\x08" + varint({"float32": 1, "int32": 3}[str(a.dtype)]) + field(2, shape) + field(4, a.tobytes())
        entries += field(2, field(1, key.encode()) + field(2, tensor))
    return field(1, field(1, b"model")) + entries


def serve(a, name, precision, flags, seconds, most):
    """(calls a second, what the load says) of the daemon with so many requests at once."""
    folder = os.path.abspath(os.path.join(a.models, name + (".bf16" if precision == "bf16" else "")))
    line = [a.daemon, "--port=auto", "--rest_api_port=0", "--bind_address=127.0.0.1", "--model_name=model", "--model_base_path=" + folder, "--devices=gpu", "--device_module=" + os.path.abspath(a.gpu),
            *flags]
    with tempfile.NamedTemporaryFile() as file, tempfile.TemporaryDirectory() as state, tempfile.TemporaryFile("w+") as log:
        file.write(request(name, a.size))
        file.flush()
        d = subprocess.Popen([*line, "--state_dir=" + state], stderr=log, stdout=log, start_new_session=True)
        try:
            port, stop = None, time.monotonic() + min(most, 30)
            while port is None and d.poll() is None and time.monotonic() < stop:
                time.sleep(0.05)
                log.seek(0)
                found = re.search(r"ready: port=(\d+)", log.read())
                port = found and found.group(1)
            if port is None:
                log.seek(0)
                return None, "no: " + (log.read().strip().splitlines() or ["the daemon did not start"])[-1][:160]
            out = subprocess.run([a.load, "127.0.0.1:" + port, str(a.concurrent), str(seconds), "@" + file.name], capture_output=True, text=True, timeout=max(5, min(most, 6 * seconds + 20)))
            rate = re.search(r"([\d.]+) calls/s", out.stdout)
            return (float(rate.group(1)) if rate and out.returncode == 0 else None), (out.stdout or out.stderr).strip()[:160]
        except subprocess.TimeoutExpired:
            return None, "no: the load did not end"
        finally:
            os.killpg(d.pid, signal.SIGTERM)
            try:
                d.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(d.pid, signal.SIGKILL)
                d.wait()


# ------------------------------------------------------------------ what is printed

def table(head, rows):
    print("| " + " | ".join(map(str, head)) + " |\n|" + "---|" * len(head))
    for r in rows:
        print("| " + " | ".join(map(str, r)) + " |")
    print()


def machine():
    try:
        gpu = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"], capture_output=True, text=True, timeout=20).stdout.strip().splitlines()[0]
    except (OSError, IndexError, subprocess.SubprocessError):
        gpu = "no GPU: the tests' host-run CUDA device, which says nothing about speed"
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo", encoding="utf-8") if line.startswith("model name")), platform.machine())
    return gpu, f"{time.strftime('%Y-%m-%d %H:%M', time.gmtime())} UTC; {gpu}; {os.cpu_count()} cores of {cpu}"


def shown(us):
    return f"{us / 1e3:.2f} ms" if us >= 1e3 else f"{us:.0f} us"


def print_calls(r, args):
    lines = []
    for precision in args.precisions.split(","):
        for model in args.only.split(","):
            for n in [int(n) for n in args.rows.split(",")]:
                keys = {e: (e, model, precision, n) for e in ENGINES}
                peers = [r.calls[k] for e, k in keys.items() if e != "tensord" and k in r.calls and r.agrees(k)]
                ours = r.calls.get(keys["tensord"])
                cells = [shown(r.calls[k]) + ("" if r.agrees(k) else " DIFFERS") if k in r.calls else "no" if k[:3] in r.no else "-" for k in keys.values()]
                lines.append([model, precision, n, *cells, f"{ours / min(peers):.2f}" if peers and ours else "-"])
    print("**A call**, from the host's memory and to it: the median\n")
    table(["model", "precision", "rows", *TITLES.values(), "over the best peer"], lines)


def print_flops(r, args, gpu):
    us, peak = r.calls.get(("tensord", "bert_base", "bf16", 64)), next((p for name, p in PEAKS if name in gpu), None)
    if us:
        speed = nets.bert_flops(args.size, 64) / us * 1e6
        print(f"BERT-base, 64 rows in bf16: {speed / 1e12:.1f} TFLOP/s of products" + (f", {100 * speed / peak:.0f}% of the dense peak\n" if peak else "\n"))


def print_all(r, args):
    gpu, about = machine()
    print(f"\n### tests/gpu/bench\n\n{about}\n")
    print_calls(r, args)
    print_flops(r, args, gpu)
    if r.rates:
        print("**Streams**: rows a second of so many threads with 8 rows each\n")
        table(["model", "precision", *STREAMS, "8 over 1"], [[m, p, *(f"{r.rates[m, p, s]:.0f}" if (m, p, s) in r.rates else "-" for s in STREAMS),
              f"{r.rates[m, p, 8] / r.rates[m, p, 1]:.2f}" if (m, p, 8) in r.rates else "-"] for m, p in sorted({k[:2] for k in r.rates})])
    if r.served:
        print(f"**Served** over gRPC, {args.concurrent} requests of one row at once, beside the engine's own best rate (aim: 0.9)\n")
        table(["model", "precision", "flags", "rows a second", "engine", "share", "load"], [[m, p, " ".join(f) or "-", f"{rate:.0f}" if rate else "no", f"{own:.0f}",
              f"{rate / own:.2f}" if rate else "-", said] for m, p, f, rate, own, said in r.served])
    if r.placed:
        print("**Placed**: steps of the graph on the GPU, and on the host but for reads of variables and shapes\n")
        aside = ("ReadVariableOp ", "Shape ")
        table(["model", "precision", "GPU", "on the host"], [[m, p, v["on_gpu"], ", ".join(o for o in v["ops"] if not o.startswith(aside)) or "none"] for (m, p), v in r.placed.items()])
    for (engine, model, precision), why in r.no.items():
        print(f"- no: {TITLES[engine]}, {model} in {precision}: " + why.splitlines()[0][:160])
    if r.left_out:
        print("- left out: " + "; ".join(r.left_out))
    sys.stdout.flush()


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("build", "gpu", "models"):
        ap.add_argument("--" + name, required=True)
    ap.add_argument("--daemon", help="tensord; without one nothing is served")
    ap.add_argument("--load", help="grpc_load of tests/bench")
    ap.add_argument("--size", default="full")
    ap.add_argument("--rows", default="64,8,1")
    ap.add_argument("--seconds", type=float, default=0.25, help="for each call")
    ap.add_argument("--budget", type=float, default=200, help="seconds for all")
    ap.add_argument("--peers", default="eager,onnx,compiled")
    ap.add_argument("--peer-python", default=sys.executable)
    ap.add_argument("--only", default=",".join(nets.NAMES), help="models")
    ap.add_argument("--precisions", default=",".join(PRECISIONS))
    ap.add_argument("--concurrent", type=int, default=256, help="requests")
    ap.add_argument("--quiet", action="store_true", help="what the engines say besides is not shown")
    args = ap.parse_args()
    bench = Bench(args)

    def stop(*_):
        raise SystemExit("told to end")
    signal.signal(signal.SIGTERM, stop)
    try:
        bench.engine()
        if args.daemon:
            bench.served()
        bench.peers()
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print_all(bench.results, args)
    engine = [k for k in bench.results.no if k[0] == "tensord" and k[2] == "f32"]
    wrong = [k for k in bench.results.calls if k[0] == "tensord" and not bench.results.agrees(k)]
    return 1 if engine or wrong or not bench.results.calls else 0


if __name__ == "__main__":
    sys.exit(main())
