"""A new version takes over each second while 64 gRPC and 64 REST clients ask without a pause; and what ten million requests and a thousand
takeovers leave in memory.

    cmake --build build --target grpc_load          # needs wrk, too
    build/venv/bin/python tests/attack/reloads.py --minutes 5 [--tensord build/tensord]
    build/venv/bin/python tests/attack/reloads.py --count 10000000 --takeovers 1000

A takeover: a copy of the model appears as version N + 1, `:reload` answers once it serves and N is gone, its folder is removed. With --minutes:
as many minutes without takeovers, then with one each second: no request fails, and the 99th percentile is within 1.2 of before (told; judged
unless --no-latency). With --count: resident memory after so many requests (half on each wire) and after so many takeovers, each against that
after a warm-up of the same kind, at rest: grown by less than 0.25 MB (what it differs by, up and down, between two looks) and 2 MB. The warm-up
is half as many requests: stacks and arenas come to their high-water mark over some millions. The daemon's environment is that of
deploy/tensord.service and of the image: the allocator keeps no blocks by thread, whose fill goes on rising ever more slowly, to some 20 KiB
each (--thread-blocks: let it, and judge 1 MB).
"""
import argparse
import os
import shutil
import sys
import threading
import time

import generator

sys.path.append(os.path.join(generator.HERE, "..", "bench"))

import bench  # noqa: E402

CLIENTS, SLICE = 64, 30   # connections on each wire; seconds of one run of the load programs
BODY = '{"instances": [1.0, 2.0, 3.0]}'
WIRES = ("REST", "gRPC")


class Serving:
    """A daemon with one model, m."""

    def __init__(self):
        import server   # after $TENSORD is set
        import target
        server.models()
        self.source = os.path.join(server.MODELS, "half", "1")
        self.d = server.Server(versions={}, wait=False)
        self.base, self.version, self.took = self.d.base("m"), 1, []
        shutil.copytree(self.source, os.path.join(self.base, "1"))
        with open(f"{self.d.dir}/models.config", "w") as f:
            f.write(server.config(("m", self.base)))
        self.d.start()
        self.build, self.kind = os.path.dirname(server.DAEMON), target.sanitizer(server.DAEMON)

    def take_over(self):
        """Version N + 1 for N."""
        begun, part = time.monotonic(), os.path.join(self.d.dir, "part")
        shutil.copytree(self.source, part)
        os.rename(part, os.path.join(self.base, str(self.version + 1)))
        r = self.d.post("/v1/models/m:reload")
        rows = {v["version"]: v["state"] for v in self.d.get("/v1/models/m").json()["model_version_status"]}
        if r.status_code != 200 or rows.get(str(self.version + 1)) != "AVAILABLE":
            raise AssertionError(f"version {self.version + 1} did not take over: {r.text} {rows}")
        shutil.rmtree(os.path.join(self.base, str(self.version)))
        self.version += 1
        self.took.append(time.monotonic() - begun)

    def load(self, seconds):
        """[requests, requests a second, p50, p99 in us, failed] by wire, both at once."""
        out = {}

        def run(wire, call):
            found = call()
            out[wire] = [found[0] * seconds, *found] if found else [0, 0, 0, 0, 1]
        threads = [threading.Thread(target=run, args=("REST", lambda: bench.wrk(f"http://127.0.0.1:{self.d.rest_port}/v1/models/m:predict", BODY, CLIENTS, seconds))),
                   threading.Thread(target=run, args=("gRPC", lambda: bench.grpc_load(self.build, self.d.port, CLIENTS, seconds)))]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        return out

    def resident(self):
        """KiB at rest."""
        time.sleep(6)   # server/base/trim.h looks each two seconds, and gives back what is free at the first of these without requests
        with open(f"/proc/{self.d.proc.pid}/status") as f:
            return next(int(line.split()[1]) for line in f if line.startswith("VmRSS"))


class Told:
    """Sums of runs of the load programs, and what was wrong."""

    def __init__(self):
        self.runs, self.bad = {}, []

    def add(self, phase, out):
        for wire, row in out.items():
            self.runs.setdefault((phase, wire), []).append(row)
            if row[4]:
                self.bad.append(f"{row[4]:.0f} requests failed over {wire}, {phase}")

    def row(self, phase, wire):
        """Requests, a second, p50 and p99 (medians of the runs) in ms, failed."""
        n, rate, p50, p99, failed = zip(*self.runs[phase, wire])
        return sum(n), sum(rate) / len(rate), bench.median(p50) / 1e3, bench.median(p99) / 1e3, sum(failed)

    def table(self):
        bench.table(["", "requests", "a second", "p50, ms", "p99, ms", "failed"],
                    [[f"{w}, {p}", f"{r[0]:.0f}", f"{r[1]:.0f}", f"{r[2]:.2f}", f"{r[3]:.2f}", f"{r[4]:.0f}"] for p, w in self.runs for r in [self.row(p, w)]])


def reload_each_second(s, told, args):
    """--minutes without takeovers, then with."""
    seconds = args.minutes * 60
    slices = max(1, round(seconds / SLICE))
    s.load(3)
    for _ in range(slices):
        told.add("before", s.load(int(seconds / slices)))
    over, wrong = threading.Event(), []

    def each_second():
        while not over.is_set():
            begun = time.monotonic()
            try:
                s.take_over()
            except Exception as e:  # noqa: BLE001
                wrong.append(f"{type(e).__name__}: {e}")
            over.wait(max(0, 1 - (time.monotonic() - begun)))
    t = threading.Thread(target=each_second)
    t.start()
    for _ in range(slices):
        told.add("with takeovers", s.load(int(seconds / slices)))
    over.set()
    t.join()
    told.bad += wrong[:5]
    told.table()
    took = sorted(s.took) or [0]
    print(f"{len(s.took)} takeovers, each {took[len(took) // 2] * 1e3:.0f} ms at the median, {took[-1] * 1e3:.0f} ms at most; {len(wrong)} failed")
    for wire in WIRES:
        ratio = told.row("with takeovers", wire)[3] / max(1e-6, told.row("before", wire)[3])
        print(f"p99 over {wire}: {ratio:.2f} of before")
        if ratio > 1.2 and not args.no_latency:
            told.bad.append(f"p99 over {wire} is {ratio:.2f} of before")


def memory(s, told, args):
    """Grown by --count requests, then by --takeovers."""
    def requests(n):
        done = 0
        while done < n:
            out = s.load(10)
            told.add("counted", out)
            done += sum(row[0] for row in out.values()) or n

    def takeovers(n):
        for _ in range(n):
            s.take_over()
    for what, run, n, warm, most in (("requests", requests, args.count, max(args.count // 2, min(args.count, 200000)), 1024 if args.thread_blocks else 256), ("takeovers", takeovers, args.takeovers, 50, 2048)):
        if n:
            run(warm)
            before = s.resident()
            run(n)
            after = s.resident()
            print(f"{n} {what}: {before} KiB resident before, {after} after: {after - before:+d} KiB", flush=True)
            if after - before > most and not s.kind:
                told.bad.append(f"{n} {what} left {after - before} KiB")
    if told.runs:
        told.table()


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("--minutes", type=float, default=0)
    ap.add_argument("--count", type=int, default=0, help="requests")
    ap.add_argument("--takeovers", type=int, default=0)
    ap.add_argument("--tensord", help="the daemon (default: $TENSORD, else build/tensord)")
    ap.add_argument("--no-latency", action="store_true")
    ap.add_argument("--thread-blocks", action="store_true")
    args = ap.parse_args()
    if args.tensord:
        os.environ["TENSORD"] = os.path.abspath(args.tensord)
    if not args.thread_blocks:
        os.environ["GLIBC_TUNABLES"] = "glibc.malloc.tcache_count=0"
    s, told = Serving(), Told()
    try:
        if args.minutes:
            reload_each_second(s, told, args)
        if args.count or args.takeovers:
            memory(s, told, args)
    finally:
        code = s.d.stop()
    told.bad += [f"exit code {code}: {''.join(s.d.log[-10:])}"] if code else []
    print(*(f"FOUND {b}" for b in told.bad), f"RELOADS {len(told.bad)} findings", sep="\n")
    return 1 if told.bad else 0


if __name__ == "__main__":
    sys.exit(main())
