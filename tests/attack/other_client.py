"""The other client: well-behaved, asks for predictions over REST and gRPC at a steady rate while somebody attacks, on connections that it keeps.

    build/venv/bin/python tests/attack/other_client.py --port 8500 --rest_api_port 8501 --seconds 60 [--rate 20]

Every answer must be right, and the connection last. Until SIGTERM or the end; its last line is a JSON object: how many, how many failed
(and how the first did), milliseconds at the median, the 99th percentile, at most.
"""
import argparse
import http.client
import json
import signal
import threading
import time

import generator
import grpc
import valid
import wire

BODY, WANT = b'{"instances": [1.0, 2.0, 3.0]}', [0.5, 1.0, 1.5]   # y = x / 2 + a constant of the version


def rest(port):
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=30)

    def ask():
        try:
            c.request("POST", "/v1/models/half:predict", BODY, {"Content-Type": "application/json"})
            r = c.getresponse()
            text = r.read()
        except Exception:
            c.close()   # one failure is counted once: the next request connects anew
            raise
        assert r.status == 200, f"{r.status} {text[:300]}"
        return json.loads(text)["predictions"]
    return ask, c.close


def rpc(port):
    channel = grpc.insecure_channel(f"127.0.0.1:{port}", [("grpc.use_local_subchannel_pool", 1)])
    call = channel.unary_unary(valid.INFER, request_serializer=None, response_deserializer=None)

    def ask():
        raw = next(v for n, _, v in wire.fields(call(valid.HALF_V2, 30)) if n == 6)
        return list(memoryview(raw).cast("f"))
    return ask, channel.close


def keep_asking(ask, rate, until, came):
    first = ask()
    while not generator.over.is_set() and (begun := time.monotonic()) < until:
        try:
            y = ask()
            if [v - y[0] for v in y] != [v - WANT[0] for v in WANT]:
                came["failed"].append(f"answered {y}, at first {first}")
        except Exception as e:  # noqa: BLE001
            came["failed"].append(f"{type(e).__name__}: {str(e)[:500]}")
            time.sleep(0.1)
        came["ms"].append((time.monotonic() - begun) * 1000)
        generator.over.wait(max(0, 1 / rate - (time.monotonic() - begun)))


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("--port", type=int, default=8500)
    ap.add_argument("--rest_api_port", type=int, default=8501)
    ap.add_argument("--seconds", type=float, default=60)
    ap.add_argument("--rate", type=float, default=20, help="requests a second on each wire")
    args = ap.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: generator.over.set())
    until, wires = time.monotonic() + args.seconds, {"REST": rest(args.rest_api_port), "gRPC": rpc(args.port)}
    came = {w: {"ms": [], "failed": []} for w in wires}
    threads = [threading.Thread(target=keep_asking, args=(wires[w][0], args.rate, until, came[w])) for w in wires]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    out = {}
    for w, c in came.items():
        ms = sorted(c["ms"]) or [0]
        out[w] = {"requests": len(ms), "failed": len(c["failed"]), "first": c["failed"][:3], "p50": ms[len(ms) // 2], "p99": ms[len(ms) * 99 // 100], "max": ms[-1]}
        wires[w][1]()
    print(json.dumps(out), flush=True)


if __name__ == "__main__":
    main()
