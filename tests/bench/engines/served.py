"""What serving adds to the engine: a lone request's p50 on each wire, beside the bare wire's and the engine's own; prints Markdown.

    python tests/bench/engines/served.py BUILD MODELS [--rounds 3] [--seconds 2] [--rows 1] [--only GLOB,...] [--wires NAME+...]

MODELS is what make.py wrote. The bare wires (grpc_echo.c, rest_echo.c) receive the same request and answer the same bytes with the library that
the server uses, and nothing else; that of "REST JSON, read" also reads the body's numbers, by simdjson (rest_echo_json), where libsimdjson-dev
is. The engine's time is that of the call in process on as many threads as the server has, one behind the other; and once more with a pause of
0.1 ms before each, in which the processor sleeps as it does between requests. All in turn, each the median of the rounds' p50s; "over"
is the served p50 over (bare wire + 1.1 x engine), the second time over the same with pauses.
"""
import argparse
import base64
import contextlib
import fnmatch
import http.client
import json
import os
import statistics
import subprocess
import sys
import tempfile

import numpy as np

sys.path.insert(1, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(1, os.path.dirname(os.path.abspath(__file__)))
import bench  # noqa: E402
import cases  # noqa: E402

PAUSE_US = 100
NUMBERS = {np.dtype(d): n for n, d in cases.DTYPES.items()}
KSERVE = {np.dtype(np.float32): "FP32", np.dtype(np.float64): "FP64", np.dtype(np.int32): "INT32", np.dtype(np.int64): "INT64"}
LUA = """wrk.method = "POST"; local f = io.open(%s, "rb"); wrk.body = f:read("*a"); f:close()
for k, v in pairs({%s}) do wrk.headers[k] = v end
function done(s, l) print(string.format("RESULT %%f %%d", l:percentile(50), s.errors.status + s.errors.connect + s.errors.read + s.errors.timeout)) end"""


def tensor_proto(a):
    """A TensorProto of the array: its bytes as tensor_content, strings as string_val."""
    shape = b"".join(bench.field(2, b"\x08" + bench.varint(d)) for d in a.shape)
    if a.dtype == object:
        return b"\x08\x07" + bench.field(2, shape) + b"".join(bench.field(8, v) for v in a.ravel())
    return b"\x08" + bench.varint(NUMBERS[a.dtype]) + bench.field(2, shape) + bench.field(4, a.tobytes())


def predict_request(tensors, signature):
    spec = bench.field(1, b"m") + bench.field(3, signature.encode())
    return bench.field(1, spec) + b"".join(
        bench.field(2, bench.field(1, name.encode()) + bench.field(2, tensor_proto(a))) for name, _, a in tensors)


def json_request(tensors, signature):
    value = lambda a: a.tolist() if a.dtype != object else np.vectorize(lambda v: {"b64": base64.b64encode(v).decode()}, otypes=[object])(a).tolist()
    return json.dumps({"signature_name": signature, "inputs": {name: value(a) for name, _, a in tensors}}).encode()


def binary_request(tensors):
    """(head, its bytes and the tensors'); None where KServe's binary extension is not for the tensors."""
    if any(a.dtype not in KSERVE for _, _, a in tensors):
        return None
    head = json.dumps({"inputs": [{"name": n, "shape": list(a.shape), "datatype": KSERVE[a.dtype], "parameters": {"binary_data_size": a.nbytes}}
                                  for n, _, a in tensors], "parameters": {"binary_data_output": True}}).encode()
    return len(head), head + b"".join(a.tobytes() for _, _, a in tensors)


class Wire:
    """The request in a file, and how to time it against a port."""

    def __init__(self, build, folder, name, path, body, headers, echo="rest_echo"):
        self.build, self.name, self.path, self.headers, self.bytes, self.echo = build, name, path, headers, len(body), echo
        self.file = os.path.join(folder, name.replace(" ", "_"))
        with open(self.file, "wb") as f:
            f.write(body)
        with open(self.file + ".lua", "w") as f:
            f.write(LUA % (json.dumps(self.file), ", ".join(f"[{json.dumps(k)}] = {json.dumps(str(v))}" for k, v in headers.items())))

    def p50(self, port, seconds):
        """Microseconds; None: requests failed."""
        if self.name.startswith("gRPC"):
            out = subprocess.run([os.path.join(self.build, "tests", "grpc_load"), f"127.0.0.1:{port}", "1", str(seconds), "@" + self.file],
                                 capture_output=True, text=True)
            return float(out.stdout.split("p50 ")[1].split()[0]) if out.returncode == 0 else None
        out = subprocess.run(["wrk", "-t1", "-c1", f"-d{max(1, round(seconds))}s", "-s", self.file + ".lua", f"http://127.0.0.1:{port}{self.path}"],
                             capture_output=True, text=True)
        found = out.stdout.split("RESULT ")[1].split()
        return float(found[0]) if found[1] == "0" else None

    @contextlib.contextmanager
    def bare(self, server):
        """The port of a bare server that answers this request's answer."""
        answer, port, threads = self.file + ".answer", bench.free_port(), str(min(16, os.cpu_count()))
        with open(answer, "wb") as f:
            f.write(self.answer(server))
        with bench.echo(os.path.join(self.build, "tests", self.echo), str(port), threads, answer):
            yield port

    def answer(self, server):
        if self.name.startswith("gRPC"):   # not asked for: some bytes of a small answer
            return bytes(4096)
        c = http.client.HTTPConnection("127.0.0.1", server.rest, timeout=60)
        with open(self.file, "rb") as f:
            c.request("POST", self.path, f.read(), {k: str(v) for k, v in self.headers.items()})
        r = c.getresponse()
        body = r.read()
        if r.status != 200:
            raise RuntimeError(f"{self.name}: {r.status} {body[:200]!r}")
        return body


def wires(args, folder, case):
    tensors, signature = cases.inputs(case), cases.Reader(case).blob().decode()
    out = [Wire(args.build, folder, "gRPC", "", predict_request(tensors, signature), {}, "grpc_echo")]
    binary = binary_request(tensors)
    if binary and signature == "serving_default":
        out.append(Wire(args.build, folder, "REST v2 binary", "/v2/models/m/infer", binary[1],
                        {"Content-Type": "application/octet-stream", "Inference-Header-Content-Length": binary[0]}))
    for name, echo in ("REST JSON", "rest_echo"), ("REST JSON, read", "rest_echo_json"):
        if os.path.exists(os.path.join(args.build, "tests", echo)):
            out.append(Wire(args.build, folder, name, "/v1/models/m:predict", json_request(tensors, signature),
                            {"Content-Type": "application/json"}, echo))
    return [w for w in out if not args.wires or w.name in args.wires.split("+")]


def median(values):
    good = [v for v in values if v is not None]
    return statistics.median(good) if good else None


def engine_us(args, model, case, pause_us):
    """p50 of the call in process, in microseconds."""
    out = subprocess.run([os.path.join(args.build, "call_tensord"), model, case, str(args.seconds), "0", str(len(os.sched_getaffinity(0)))],
                         capture_output=True, text=True, env={**os.environ, "BENCH_PAUSE_US": str(int(pause_us))})
    return float(out.stdout.split()[2])


def rows_of(args, name, model, case):
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as base, contextlib.ExitStack() as held:
        os.symlink(os.path.abspath(model), os.path.join(base, "1"))
        server = held.enter_context(bench.Server(args.build, base))
        server.wait()
        own, paused, seen, listed = [], [], {}, wires(args, folder, case)
        ports = {w.name: held.enter_context(w.bare(server)) for w in listed}
        for _ in range(args.rounds):
            own.append(engine_us(args, model, case, 0))
            paused.append(engine_us(args, model, case, PAUSE_US))
            for w in listed:
                seen.setdefault(w.name, []).append((w.p50(ports[w.name], args.seconds),
                                                    w.p50(server.grpc if w.name == "gRPC" else server.rest, args.seconds)))
        for w in listed:
            bare, served = median(b for b, _ in seen[w.name]), median(s for _, s in seen[w.name])
            times = [bare, median(own), median(paused), served]
            over = [f"{served / (bare + 1.1 * engine):.2f}" for engine in times[1:3]] if bare and served else ["", ""]
            yield [name, w.name, f"{w.bytes / 1e3:.0f}", *(f"{v:.0f}" if v else "failed" for v in times), " / ".join(over)]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("build")
    p.add_argument("models")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--seconds", type=float, default=2)
    p.add_argument("--rows", default="1")
    p.add_argument("--only", default="*")
    p.add_argument("--wires", default="")
    args = p.parse_args()
    bench.say("| model | wire | request, KB | bare wire, us | engine, us | with pauses, us | served, us | over |\n| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name, rows, model, _, case in bench.cases(args.models, "rows.tsv"):
        if rows in args.rows.split(",") and any(fnmatch.fnmatch(name, g) for g in args.only.split(",")):
            for row in rows_of(args, f"{name} x{rows}", model, case):
                bench.say("| " + " | ".join(row) + " |")


main()
