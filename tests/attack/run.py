"""Attacks a daemon of its own with the generators of this folder, beside another client, and says whether it bore them.

    build/venv/bin/python tests/attack/run.py --minutes 30 [--kinds all] [--tensord build/tensord] [--seed N]

--kinds: of KINDS some, by comma, or `all` of them: one after the other, each for so many minutes with a daemon of its own. `soak` is all at
once and gently, beside right load on both wires (valid_load.py) and fine-tuning jobs (jobs.py). --together: what is named, all at once.

What must hold: the process lives; resident memory stays below --max_memory and target.BESIDES (not asked of a sanitizer's build); the other
client gets every answer, right, 99 of 100 within a second (--no-latency where other programs share the machine); no generator saw a promise
broken; afterwards the models answer as before, and threads and descriptors are as many as at the start; attacked again, SIGTERM ends it with 0
within 20 s (60 s of a sanitizer's build; open requests have 12), and no sanitizer reports. Ends with a table, what was found, and what INTERNAL answers were seen; exit code 1
when anything was found.
"""
import argparse
import collections
import os
import sys
import time

import generator
import draw_seed

KINDS = ("http1_frames", "http2_frames", "grpc_messages", "documents", "slow_clients", "management", "damaged_models")
BESIDE = ("valid_load", "jobs")
GENTLE = 0.05   # seconds between two turns of a lane in a soak
P99_MS = 1000


def parse():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("--minutes", type=float, default=1)
    ap.add_argument("--kinds", default="all", help=", ".join(KINDS + BESIDE) + "; all; soak")
    ap.add_argument("--together", action="store_true", help="all at once")
    ap.add_argument("--tensord", help="the daemon (default: $TENSORD, else build/tensord)")
    ap.add_argument("--no-latency", action="store_true", help="the other client's time is told, not judged")
    draw_seed.add_flag(ap)
    args = ap.parse_args()
    if args.tensord:
        os.environ["TENSORD"] = os.path.abspath(args.tensord)
    args.seed = draw_seed.chosen(args.seed)
    return args


class Round:
    """Some kinds at once against one daemon."""

    def __init__(self, kinds, args, pace=0):
        import target   # after $TENSORD is set
        self.kinds, self.args, self.pace, self.bad, self.t = kinds, args, pace, [], target
        self.d = target.Target()
        self.begun = time.monotonic()

    def start(self, seconds):
        return {k: self.t.program(k, self.d, f"--folder={self.d.dir}", f"--seconds={seconds}", f"--seed={self.args.seed}", f"--pace={0 if k in BESIDE else self.pace}", niced=5)
                for k in self.kinds}

    def attack(self):
        t, seconds = self.t, self.args.minutes * 60
        self.first = self.d.answers()
        self.before, self.names = self.d.holds(), (self.d.threads(), self.d.descriptors())
        other = t.program("other_client", self.d, f"--seconds={seconds + 600}")
        time.sleep(0.5)
        programs = self.start(seconds)
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.d.lives():
            time.sleep(0.2)
        if not self.d.lives():
            self.bad.append("the daemon ended: " + "".join(self.d.log[-15:]))
        for p in programs.values():
            p.terminate()
        self.came = {k: t.told(p, 90) for k, p in programs.items()}
        time.sleep(1)   # some more answers when all is over
        other.terminate()
        self.other = t.told(other, 60)

    def judge(self):
        d, t = self.d, self.t
        for kind, came in self.came.items():
            self.bad += [f"{kind}: {f}" for f in (came["findings"] if isinstance(came, dict) else [f"told nothing: {came}"])]
        if not isinstance(self.other, dict):
            self.bad.append(f"the other client told nothing: {self.other}")
            self.other = {}
        for wire, o in self.other.items():
            if o["failed"]:
                self.bad.append(f"{o['failed']} of {o['requests']} requests of the other client failed over {wire}: {o['first']}")
            if o["p99"] >= P99_MS and not self.args.no_latency:
                self.bad.append(f"the other client's 99th percentile over {wire} is {o['p99']:.0f} ms")
        if d.peak[0] > t.MAX_MEMORY + t.BESIDES and not d.kind:
            self.bad.append(f"{d.peak[0] >> 20} MiB were resident, with --max_memory={t.MAX_MEMORY >> 20} MiB")
        if d.lives():
            self.afterwards()
        again = self.start(30)   # it ends while it is attacked
        time.sleep(3)
        code, self.took, reports = d.end()
        for p in again.values():
            p.terminate()
        for p in again.values():
            t.told(p, 60)
        if code != 0:
            self.bad.append(f"exit code {code}: {''.join(d.log[-15:])}")
        if self.took > (60 if d.kind else 20):
            self.bad.append(f"SIGTERM took {self.took:.0f} s")
        self.bad += [f"report: {r[:6000]}" for r in reports]

    def afterwards(self):
        """All as it was?"""
        self.d.restore()
        end = time.monotonic() + 30
        while (now := self.d.answers()) != self.first and time.monotonic() < end:
            time.sleep(0.5)
        self.bad += [f"{what}: {a} at first, {now.get(what)} afterwards" for what, a in self.first.items() if now.get(what) != a]
        self.d.session.close()
        self.after = self.d.settles(self.before, 90)
        names = self.d.threads(), self.d.descriptors()
        for what, a, b, first, now in zip(("threads", "descriptors"), self.before[1:], self.after[1:], self.names, names):
            if b > a:
                self.bad.append(f"{a} {what} before, {b} afterwards; new are {dict(now - first)}")

    def row(self, kind):
        c = self.came[kind] if isinstance(self.came[kind], dict) else {"requests": 0, "seconds": 1, "came": {}}
        some = ", ".join(f"{k} {n}" for k, n in collections.Counter(c["came"]).most_common(7))
        return f"| {kind} | {c['seconds']:.0f} | {c['requests']} | {c['requests'] / c['seconds']:.0f} | {some} |"

    def tell(self):
        print("\n| kind | s | requests | a second | what came |\n| --- | ---: | ---: | ---: | --- |", *map(self.row, self.kinds), sep="\n")
        for wire, o in self.other.items():
            print(f"other client, {wire}: {o['requests']} requests, {o['failed']} failed, p50 {o['p50']:.1f} ms, p99 {o['p99']:.1f} ms, at most {o['max']:.0f} ms")
        mib = lambda n: n >> 20
        after = getattr(self, "after", (0, 0, 0))
        print(f"{self.d.kind or 'no sanitizer'}: resident {mib(self.before[0])} MiB before, {mib(self.d.peak[0])} at most, {mib(after[0])} afterwards; threads {self.before[1]}, "
              f"{self.d.peak[1]}, {after[1]}; descriptors {self.before[2]}, {self.d.peak[2]}, {after[2]}; SIGTERM took {self.took:.1f} s")
        for kind, came in self.came.items():
            for n, first in came["notes"][:30] if isinstance(came, dict) else []:
                print(f"  note, {kind}, {n} times: {first}")
        for b in self.bad:
            print("FOUND", b)
        print(flush=True)


def main():
    args = parse()
    draw_seed.say(args.seed)
    soak = args.kinds == "soak"
    kinds = KINDS + BESIDE if soak else KINDS if args.kinds == "all" else tuple(args.kinds.split(","))
    rounds = [kinds] if soak or args.together else [(k,) for k in kinds]
    bad = 0
    for some in rounds:
        r = Round(some, args, GENTLE if soak else 0)
        try:
            r.attack()
            r.judge()
            r.tell()
        finally:
            r.d.proc.kill()
        bad += len(r.bad)
    print(f"ATTACK {len(rounds)} rounds of {args.minutes:g} minutes, {bad} findings, seed {args.seed}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
