"""From exec to the first answer of large models: without a cache of packed weights, with an empty one, and with what that start left.

    python tests/bench/start.py BUILD MODEL... [--rounds 5] [--cores 0,1] [--nice -15] [--maker FILE]

MODEL: a SavedModel of the maker (a file as tests/large.py has them: inputs(NAME)), whose folder has the model's name. Its status is asked
for over REST until it serves, then one request is sent; the page cache is warm from the second round on. Prints least / median, in
milliseconds.
"""
import argparse
import json
import os
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[1:1] = [os.path.join(HERE, "..")]
import large  # noqa: E402

LOAD_S, WRITE_S, QUIET_S = 20, 120, 4
STATUS = b"GET /v1/models/m/versions/1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


def request_of(maker, name):
    inputs = {k: (a.round(3) if a.dtype.kind == "f" else a).tolist() for k, a in maker.inputs(name, 1).items()}
    body = json.dumps({"inputs": inputs}).encode()
    return b"POST /v1/models/m:predict HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body


def exchange(port, request):
    """The answer whole, or None where nobody listens."""
    try:
        with socket.create_connection(("127.0.0.1", port)) as s:
            s.sendall(request)
            answer = b""
            while part := s.recv(1 << 20):
                answer += part
            return answer
    except OSError:
        return None


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def resident(pid):
    text = open(f"/proc/{pid}/status").read()
    return [int(re.search(rf"{k}:\s+(\d+)", text).group(1)) / 1024 for k in ("RssAnon", "RssFile")]


def start(args, base, state, cache_bytes, request, then=lambda: None):
    """(exec to the listener, to the model being there, to the first answer; the second call), in ms; (anonymous, file) MB."""
    port = free_port()
    command = ["nice", "-n", str(args.nice), "taskset", "-c", args.cores, os.path.join(args.build, "tensord"), "--port=0", f"--rest_api_port={port}",
               "--bind_address=127.0.0.1", "--model_name=m", f"--model_base_path={base}", f"--state_dir={state}", "--log_level=error",
               f"--packed_cache_bytes={cache_bytes}"]
    begin = time.perf_counter()
    with subprocess.Popen(command) as p:
        try:
            listening = None
            while True:
                status = exchange(port, STATUS)
                listening = listening or (status and time.perf_counter())
                if status and b"AVAILABLE" in status:
                    break
                if time.perf_counter() - begin > LOAD_S:
                    sys.exit(f"not loaded after {LOAD_S} s: {(status or b'')[-200:]}")
                time.sleep(0.0005)
            loaded = time.perf_counter()
            answer = exchange(port, request)
            if not answer or answer[9:12] != b"200":
                sys.exit(f"no answer: {(answer or b'')[-200:]}")
            end = time.perf_counter()
            exchange(port, request)
            second = time.perf_counter() - end
            memory = resident(p.pid)
            then()
        finally:
            p.send_signal(signal.SIGTERM)
    return [(t - begin) * 1e3 for t in (listening, loaded, end)] + [second * 1e3], memory


def written(state):
    """Waits until no more files come."""
    folder, seen, since, begin = os.path.join(state, "packed"), -1, time.monotonic(), time.monotonic()
    while time.monotonic() - since < QUIET_S and time.monotonic() - begin < WRITE_S:
        now = len(os.listdir(folder)) if os.path.isdir(folder) else 0
        if now != seen:
            seen, since = now, time.monotonic()
        time.sleep(0.1)


def main():
    args = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    args.add_argument("build")
    args.add_argument("models", nargs="+", metavar="MODEL")
    args.add_argument("--rounds", type=int, default=5)
    args.add_argument("--cores", default="0-1")
    args.add_argument("--nice", type=int, default=0)
    args.add_argument("--maker", required=True)
    args = args.parse_args()
    maker = large.load_maker(args.maker)
    print("| model | packed weights | listening | loaded | first answer | second call | anonymous, file MB |\n| --- | --- | ---: | ---: | ---: | ---: | ---: |")
    for model in args.models:
        name = os.path.basename(model.rstrip("/"))
        request = request_of(maker, name)
        with tempfile.TemporaryDirectory() as scratch:
            base, state = os.path.join(scratch, "m"), os.path.join(scratch, "state")
            os.makedirs(base)
            os.symlink(os.path.abspath(model), os.path.join(base, "1"))
            start(args, base, state, 1 << 40, request, lambda: written(state))
            rows = {"none kept": [], "mapped": []}
            for _ in range(args.rounds):
                for kind, cache_bytes in (("none kept", 0), ("mapped", 1 << 40)):
                    rows[kind].append(start(args, base, state, cache_bytes, request))
            for kind, found in rows.items():
                times = [f"{min(t):.0f} / {statistics.median(t):.0f}" for t in zip(*(r[0] for r in found))]
                print(f"| {name} | {kind} | {' | '.join(times)} | {', '.join(f'{min(m):.0f}' for m in zip(*(r[1] for r in found)))} |", flush=True)


if __name__ == "__main__":
    main()
