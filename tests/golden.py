"""Runs the golden cases of a suite against libtensord in process, without a server.

    python tests/golden.py SUITE [--lib build/libtensord.so] [--only GLOB,...] [--verbose] [--kernels fast|openblas|reference] [--passes-off LIST]

SUITE holds models/NAME and goldens/NAME/cases.json with npz files of "in/KEY" and "out/KEY" arrays (strings as KEY#bytes, KEY#offsets,
KEY#shape; bfloat16 as KEY#bf16). Each model is loaded once and its cases run in order. Models run in
a child process each (a crash costs one model). Prints failures and a last line "CASES n of m".

--lib build/tests/libtensord_second_device.so runs the suite on the tests' second device (tests/second_device.h).
"""
import argparse
import ctypes
import fnmatch
import glob
import json
import multiprocessing
import os
import sys
import tempfile

import numpy as np

try:
    import ml_dtypes
    BF16 = np.dtype(ml_dtypes.bfloat16)
except ImportError:
    BF16 = None

NUMBERS = {np.dtype(np.float32): 1, np.dtype(np.float64): 2, np.dtype(np.int32): 3, np.dtype(np.uint8): 4, np.dtype(np.int16): 5,
           np.dtype(np.int8): 6, np.dtype(np.complex64): 8, np.dtype(np.int64): 9, np.dtype(np.bool_): 10, np.dtype(np.uint16): 17,
           np.dtype(np.complex128): 18, np.dtype(np.float16): 19, np.dtype(np.uint32): 22, np.dtype(np.uint64): 23}
if BF16 is not None:
    NUMBERS[BF16] = 14
DTYPES = {n: d for d, n in NUMBERS.items()}
CODES = ["OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED",
         "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS",
         "UNAUTHENTICATED"]
MAX_RANK = 12
QUIET_S, PATIENCE = 120, 5  # of a processor; as many times longer where others have it


class Tensor(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("dtype", ctypes.c_int), ("rank", ctypes.c_int), ("dims", ctypes.c_int64 * MAX_RANK),
                ("data", ctypes.c_void_p), ("bytes", ctypes.c_size_t), ("owner", ctypes.c_void_p)]


class Bytes(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_void_p), ("length", ctypes.c_size_t)]


class Options(ctypes.Structure):
    _fields_ = [("tags", ctypes.c_char_p), ("kernels", ctypes.c_char_p), ("passes_off", ctypes.c_char_p), ("scratch_dir", ctypes.c_char_p),
                ("op_library", ctypes.c_char_p), ("threads", ctypes.c_int), ("devices", ctypes.c_char_p), ("device_module", ctypes.c_char_p),
                ("device_options", ctypes.c_char_p)]


class GradientOptions(ctypes.Structure):
    _fields_ = [("targets", ctypes.POINTER(ctypes.c_char_p)), ("n_targets", ctypes.c_int), ("wrt", ctypes.POINTER(ctypes.c_char_p)),
                ("n_wrt", ctypes.c_int), ("kind", ctypes.c_char_p), ("output_gradients", ctypes.POINTER(Tensor)),
                ("n_output_gradients", ctypes.c_int), ("vectors", ctypes.POINTER(Tensor)), ("n_vectors", ctypes.c_int),
                ("zero_unconnected", ctypes.c_int), ("recompute", ctypes.c_int)]


class GradientResult(ctypes.Structure):
    _fields_ = [("gradients", ctypes.POINTER(Tensor)), ("outputs", ctypes.POINTER(Tensor)), ("n_gradients", ctypes.c_int),
                ("n_outputs", ctypes.c_int)]


class Error(ctypes.Structure):
    _fields_ = [("code", ctypes.c_int), ("message", ctypes.c_char * 1024)]


class Failure(Exception):
    def __init__(self, e):
        super().__init__(f"{CODES[e.code]}: {e.message.decode(errors='replace')}")
        self.code, self.text = CODES[e.code], e.message.decode(errors="replace")


class Model:
    """A SavedModel loaded by libtensord."""

    def __init__(self, lib, folder, kernels=None, passes_off=None, scratch=None, threads=1, gpu=None, gpu_options=None):
        self.lib, self.handle, e = lib, ctypes.c_void_p(), Error()
        enc = lambda s: s.encode() if s else None
        opts = Options(None, enc(kernels), enc(passes_off), enc(scratch), None, threads, b"gpu" if gpu else None, enc(gpu), enc(gpu_options))
        if lib.tensord_load(folder.encode(), ctypes.byref(opts), ctypes.byref(self.handle), ctypes.byref(e)):
            raise Failure(e)

    def close(self):
        self.lib.tensord_free(self.handle)

    def run(self, signature, inputs):
        rows, keep = self.rows(inputs)
        out, n, e = ctypes.POINTER(Tensor)(), ctypes.c_int(), Error()
        if self.lib.tensord_run(self.handle, signature.encode(), rows, len(inputs), ctypes.byref(out), ctypes.byref(n), ctypes.byref(e)):
            raise Failure(e)
        return self.results(out, n.value)

    def gradient(self, signature, inputs, targets, wrt, kind=None, output_gradients=None, vectors=None, zero=False, recompute=False):
        """(gradients, outputs) by name; None for an unconnected source."""
        rows, keep = self.rows(inputs)
        seeds, keep2 = self.rows(output_gradients or {})
        along, keep3 = self.rows(vectors or {})
        names = lambda l: (ctypes.c_char_p * max(1, len(l)))(*[x.encode() for x in l])
        opts = GradientOptions(names(targets), len(targets), names(wrt), len(wrt), kind.encode() if kind else None, seeds,
                               len(output_gradients or {}), along, len(vectors or {}), int(zero), int(recompute))
        made, e = GradientResult(), Error()
        if self.lib.tensord_gradient(self.handle, signature.encode(), rows, len(inputs), ctypes.byref(opts), ctypes.byref(made),
                                     ctypes.byref(e)):
            raise Failure(e)
        return self.results(made.gradients, made.n_gradients), self.results(made.outputs, made.n_outputs)

    def results(self, out, n):
        result = {out[i].name.decode(): None if out[i].dtype == 0 else self.array(out[i]) for i in range(n)}
        self.lib.tensord_results_free(out, n)
        return result

    @staticmethod
    def rows(inputs):
        """The inputs as an array of Tensor, and what must outlive it."""
        keep, rows = [], (Tensor * max(1, len(inputs)))()
        for row, (name, value) in zip(rows, inputs.items()):
            a = np.asarray(value)
            row.name, row.rank = name.encode(), a.ndim
            row.dims[:a.ndim] = a.shape
            if a.dtype == object:
                items = [x.encode() if isinstance(x, str) else bytes(x) for x in a.reshape(-1).tolist()]
                strings = (Bytes * max(1, len(items)))()
                for s, x in zip(strings, items):
                    buf = ctypes.create_string_buffer(x, len(x) + 1)
                    keep.append(buf)
                    s.bytes, s.length = ctypes.cast(buf, ctypes.c_void_p), len(x)
                keep.append(strings)
                row.dtype, row.data, row.bytes = 7, ctypes.cast(strings, ctypes.c_void_p), len(items) * ctypes.sizeof(Bytes)
            else:
                a = np.ascontiguousarray(a).reshape(a.shape)
                keep.append(a)
                row.dtype, row.data, row.bytes = NUMBERS[a.dtype], a.ctypes.data_as(ctypes.c_void_p), a.nbytes
        return rows, keep

    @staticmethod
    def array(t):
        shape = list(t.dims[:t.rank])
        if t.dtype == 7:
            n = t.bytes // ctypes.sizeof(Bytes)
            rows = ctypes.cast(t.data, ctypes.POINTER(Bytes))
            a = np.empty(n, object)
            for i in range(n):
                a[i] = ctypes.string_at(rows[i].bytes, rows[i].length)
            return a.reshape(shape)
        raw = ctypes.string_at(t.data, t.bytes) if t.bytes else b""
        return np.frombuffer(raw, DTYPES[t.dtype]).reshape(shape)


def load_library(path):
    lib = ctypes.CDLL(path)
    lib.tensord_load.argtypes = [ctypes.c_char_p, ctypes.POINTER(Options), ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(Error)]
    lib.tensord_free.argtypes = [ctypes.c_void_p]
    lib.tensord_free.restype = None
    lib.tensord_run.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.POINTER(Tensor), ctypes.c_int, ctypes.POINTER(ctypes.POINTER(Tensor)),
                                ctypes.POINTER(ctypes.c_int), ctypes.POINTER(Error)]
    lib.tensord_gradient.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.POINTER(Tensor), ctypes.c_int, ctypes.POINTER(GradientOptions),
                                     ctypes.POINTER(GradientResult), ctypes.POINTER(Error)]
    lib.tensord_results_free.argtypes = [ctypes.POINTER(Tensor), ctypes.c_int]
    lib.tensord_results_free.restype = None
    return lib


def read_npz(path):
    z = np.load(path)
    sides = {"in/": {}, "out/": {}}
    for key in z.files:
        name = key.split("#")[0]
        prefix = "in/" if name.startswith("in/") else "out/"
        short = name[len(prefix):]
        if key.endswith("#bytes"):
            raw, off = z[key].tobytes(), z[name + "#offsets"]
            a = np.empty(len(off) - 1, object)
            for i in range(len(off) - 1):
                a[i] = raw[off[i]:off[i + 1]]
            sides[prefix][short] = a.reshape(z[name + "#shape"])
        elif key.endswith("#bf16"):
            sides[prefix][short] = z[key].view(BF16)
        elif "#" not in key:
            sides[prefix][short] = z[key]
    return sides["in/"], sides["out/"]


def differs(got, want, rtol, atol, shape_only):
    """None, or a sentence saying where got is not want."""
    if got.shape != want.shape:
        return f"shape {got.shape}, expected {want.shape}"
    if got.dtype != want.dtype:
        return f"dtype {got.dtype}, expected {want.dtype}"
    if shape_only:
        return None
    if want.dtype.kind in "fc" or want.dtype == BF16:
        wide = np.complex128 if want.dtype.kind == "c" else np.float64
        ok = np.isclose(got.astype(wide), want.astype(wide), rtol=rtol, atol=atol, equal_nan=True)
    else:
        ok = got == want
    if np.all(ok):
        return None
    i = int(np.argmin(np.asarray(ok).reshape(-1)))
    return f"{int(np.size(ok) - np.sum(ok))} of {np.size(ok)} values differ, first at {i}: {got.reshape(-1)[i]!r}, expected {want.reshape(-1)[i]!r}"


def judge(case, run):
    """None when the case agrees, else why not."""
    err = case.get("error")
    try:
        got = run()
    except Failure as f:
        if not err:
            return str(f)
        codes = err["code"] if isinstance(err["code"], list) else [err["code"]]
        if f.code not in codes:
            return f"{f}; expected {err['code']}"
        lacks = [w for w in err.get("contains", []) if w not in f.text]
        return f"text lacks {lacks}: {f.text}" if lacks else None
    if err:
        return f"succeeds, expected {err['code']}"
    want = case["outputs"]
    if set(got) != set(want):
        return f"outputs {sorted(got)}, expected {sorted(want)}"
    for k in want:
        d = differs(got[k], want[k], case.get("rtol", 1e-4), case.get("atol", 1e-5), k in case.get("shape_only", []))
        if d:
            return f"{k}: {d}"
    return None


def run_gradient(model, case):
    """What the case calls its outputs: "grad/SOURCE", and of long gradients samples and sums (suites/zoo/gradients)."""
    inputs = {k: v for k, v in case["inputs"].items() if not k.startswith("upstream/")}
    seeds = {k[len("upstream/"):]: v for k, v in case["inputs"].items() if k.startswith("upstream/")}
    targets = case["target"] if isinstance(case["target"], list) else [case["target"]]
    grads, outputs = model.gradient(case.get("signature", "serving_default"), inputs, targets, case["wrt"], output_gradients=seeds)
    got = {k: v for k, v in outputs.items() if k in case["outputs"]}
    for k in case.get("none_or_zero", []):
        grads[k] = np.zeros_like(case["outputs"][f"grad/{k}"]) if grads[k] is None else grads[k]
    for k, v in grads.items():
        if k in case.get("unconnected", []):
            if v is not None:
                got[f"grad/{k}"] = v
        elif k in case.get("samples", {}) and v is not None:
            flat = v.reshape(-1)
            got[f"grad_sample/{k}"] = flat[case["samples"][k]["indices"]]
            sums = {f"grad_sum/{k}": np.sum(flat, dtype=np.float64), f"grad_abs_sum/{k}": np.sum(np.abs(flat), dtype=np.float64)}
            got.update({name: value for name, value in sums.items() if name in case["outputs"]})
        else:
            got[f"grad/{k}"] = np.zeros(0) if v is None else v
    return got


def cases_of(args, name):
    """[(folder of the case's file, case)] of the suite's goldens, and of its folder gradients."""
    rows = []
    for part in ("goldens", "gradients"):
        folder = os.path.join(args.suite, part, name)
        if os.path.exists(os.path.join(folder, "cases.json")):
            with open(os.path.join(folder, "cases.json")) as f:
                rows += [(folder, c) for c in json.load(f)]
    if args.gradients:
        return [(f, c) for f, c in rows if c.get("kind") == "gradient"]
    return [(f, c) for f, c in rows if not args.no_gradient or c.get("kind") != "gradient"]


def check_model(args, name, queue):
    lib = load_library(args.lib)
    cases = cases_of(args, name)
    model, broken = None, None
    with tempfile.TemporaryDirectory() as scratch:
        try:
            model = Model(lib, os.path.abspath(os.path.join(args.suite, "models", name)), args.kernels, args.passes_off, scratch, gpu=args.gpu,
                          gpu_options=args.gpu_options)
        except Failure as f:
            broken = f
        part = None
        for folder, c in cases:
            if part is not None and folder != part and model:  # what is in `gradients` was made with the model as it loads
                model.close()
                model = Model(lib, os.path.abspath(os.path.join(args.suite, "models", name)), args.kernels, args.passes_off, scratch, gpu=args.gpu,
                              gpu_options=args.gpu_options)
            part = folder
            c["inputs"], c["outputs"] = read_npz(os.path.join(folder, c["file"])) if c.get("file") else ({}, {})

            def run():
                if broken:
                    raise broken
                if c.get("kind") == "gradient":
                    return run_gradient(model, c)
                if c.get("kind") == "load":
                    return {}
                for _ in range(args.times - 1):
                    model.run(c.get("signature", "serving_default"), c["inputs"])
                return model.run(c.get("signature", "serving_default"), c["inputs"])
            queue.put(("start", c["id"]))
            why = judge(c, run)
            queue.put((c["id"], f"{why[:400]}; again: {c['again']}" if why and "again" in c else why))
        if model:
            model.close()
    queue.put(None)


def seconds_of(pid):
    """Of a processor, what that process has had."""
    try:
        with open(f"/proc/{pid}/stat") as f:
            user, system = f.read().rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
    except OSError:
        return 0.0


def hangs(pid, quiet, had):
    """A process that has said nothing for so many seconds, since it had had so many of a processor: others may have those, or all stand
    still for a while."""
    return quiet > QUIET_S and (seconds_of(pid) - had > QUIET_S or quiet > PATIENCE * QUIET_S)


def run_model(args, name):
    """[(case, why)] of one model, in a child process."""
    ctx = multiprocessing.get_context("fork")
    queue = ctx.SimpleQueue()
    child = ctx.Process(target=check_model, args=(args, name, queue))
    child.start()
    rows, now, quiet, had = [], "load", 0, 0.0
    while True:
        if not queue._reader.poll(1):
            quiet += 1
            if not child.is_alive() and not queue._reader.poll(0):
                return rows + [(now, f"the process ended with {child.exitcode}")]
            if hangs(child.pid, quiet, had):
                child.kill()
                return rows + [(now, "hangs")]
            continue
        row, quiet, had = queue.get(), 0, seconds_of(child.pid)
        if row is None:
            break
        if row[0] == "start":
            now = row[1]
            continue
        rows.append(row)
    child.join()
    if child.exitcode:
        rows.append(("end", f"the process ended with {child.exitcode}"))
    return rows


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("suite")
    ap.add_argument("--lib", default="build/libtensord.so")
    ap.add_argument("--only", default="*")
    ap.add_argument("--verbose", action="store_true")
    ap.add_argument("--kernels")
    ap.add_argument("--passes-off")
    ap.add_argument("--gpu", metavar="MODULE", help="on a GPU, by this module (tests/host_cuda/golden.sh: on the host-run one)")
    ap.add_argument("--gpu-options", default="graph_run=1", help="as libtensord has them (server/tensord.h); by default plans are recorded at once")
    ap.add_argument("--times", type=int, default=1, help="how often each case runs; the last one is judged (a model with a state answers otherwise)")
    ap.add_argument("--gradients", action="store_true", help="gradient cases alone")
    ap.add_argument("--no-gradient", action="store_true", help="leave the gradient cases out")
    args = ap.parse_args()
    args.lib = os.path.abspath(args.lib)
    good = total = 0
    for folder in sorted(glob.glob(os.path.join(args.suite, "goldens", "*"))):
        name = os.path.basename(folder)
        if not any(fnmatch.fnmatch(name, g) for g in args.only.split(",")):
            continue
        rows = run_model(args, name)
        bad = [(c, w) for c, w in rows if w]
        good += len(rows) - len(bad)
        total += len(rows)
        for c, w in bad if args.verbose else bad[:1]:
            print(f"{name}: {len(bad)} of {len(rows)} fail; {c}: {w[:600]}")
    print(f"CASES {good} of {total}")
    return 0 if good == total and total else 1


if __name__ == "__main__":
    sys.exit(main())
