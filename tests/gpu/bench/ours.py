"""tensord on a GPU through the C API, one model in one precision: a line of JSON for each number of rows, as peers.py prints them.

    python tests/gpu/bench/ours.py --lib LIBTENSORD --gpu MODULE --models DIR --model NAME --precision f32|tf32|bf16 --rows 64,8,1
                                   [--size full] [--seconds 0.25] [--streams 1,2,4,8]

--streams: besides, that many threads at once with 8 rows each, on as many streams. The first line tells what of the graph runs on the GPU.
A time is the median of calls that take inputs in the host's memory and give outputs there.
"""
import argparse
import ctypes
import json
import os
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[1:1] = [HERE, *(d for d in (os.path.dirname(HERE), os.path.dirname(os.path.dirname(HERE))) if os.path.exists(os.path.join(d, "golden.py")))]

import golden  # noqa: E402
import nets  # noqa: E402
from clock import median, say  # noqa: E402

OPTIONS = {"f32": "", "tf32": "tf32=1", "bf16": ""}


class Caller:
    """The same call again and again, with as little of Python in it as there can be."""

    def __init__(self, model, inputs):
        self.model, self.n = model, len(inputs)
        self.rows, self.keep = model.rows(inputs)
        self.out, self.count, self.error = ctypes.POINTER(golden.Tensor)(), ctypes.c_int(), golden.Error()

    def __call__(self):
        m = self.model
        if m.lib.tensord_run(m.handle, b"serving_default", self.rows, self.n, ctypes.byref(self.out), ctypes.byref(self.count), ctypes.byref(self.error)):
            raise golden.Failure(self.error)
        m.lib.tensord_results_free(self.out, self.count)


def placement(model):
    """(steps on the GPU, on the host, ops on the host)"""
    lib, text, e = model.lib, ctypes.c_char_p(), golden.Error()
    lib.tensord_debug_json.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p]
    options = json.dumps({"mode": "placement", "max_nodes": 1000000}).encode()
    if lib.tensord_debug_json(model.handle, b"serving_default", None, 0, options, ctypes.byref(text), ctypes.byref(e)):
        raise golden.Failure(e)
    steps = [n for n in json.loads(text.value)["nodes"] if n["placed"] == "step"]
    host = [n["op"] for n in steps if not (n["device"] or "").startswith("/device:GPU")]
    return len(steps) - len(host), len(host), sorted({f"{op} x{host.count(op)}" for op in host})


def rate(model, inputs, streams, seconds):
    """Rows a second of so many threads."""
    callers = [Caller(model, inputs) for _ in range(streams)]
    rows, counts = len(next(iter(inputs.values()))), [0] * streams
    for c in callers:
        c()
    stop = time.perf_counter() + seconds

    def go(i):
        while time.perf_counter() < stop:
            callers[i]()
            counts[i] += 1
    threads, started = [threading.Thread(target=go, args=(i,)) for i in range(streams)], time.perf_counter()
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return sum(counts) * rows / (time.perf_counter() - started)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("lib", "gpu", "models", "model", "precision"):
        ap.add_argument("--" + name, required=True)
    ap.add_argument("--rows", default="64,8,1")
    ap.add_argument("--size", default="full")
    ap.add_argument("--seconds", type=float, default=0.5)
    ap.add_argument("--streams", default="")
    args = ap.parse_args()
    lib = golden.load_library(args.lib)
    folder = os.path.join(args.models, args.model + (".bf16" if args.precision == "bf16" else ""), "1")
    about = {"engine": "tensord", "model": args.model, "precision": args.precision}
    try:
        model = golden.Model(lib, folder, gpu=args.gpu, gpu_options=OPTIONS[args.precision])
        on, off, ops = placement(model)
        say(about, on_gpu=on, on_host=off, ops=ops)
        for rows in (int(r) for r in args.rows.split(",")):
            inputs = nets.inputs(args.model, args.size, rows)
            answer = model.run("serving_default", inputs)
            say(about, rows=rows, us=median(Caller(model, inputs), args.seconds), answer=[float(v) for v in next(iter(answer.values()))[0][:64]])
        model.close()
        for streams in (int(s) for s in args.streams.split(",") if s):
            model = golden.Model(lib, folder, gpu=args.gpu, gpu_options=f"{OPTIONS[args.precision]},streams={streams}".strip(","))
            say(about, streams=streams, rate=rate(model, nets.inputs(args.model, args.size, 8), streams, args.seconds))
            model.close()
    except golden.Failure as e:
        say(about, no=f"{e.code}: {e.text}"[:200])


if __name__ == "__main__":
    main()
