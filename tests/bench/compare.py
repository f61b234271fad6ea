"""Two builds of tensord side by side, in turn on one machine: is the second slower than the first anywhere?

    python3 tests/bench/compare.py OLD_BUILD NEW_BUILD MODELS [--rounds 5] [--only calls,ops,graph,start,rates]

Each round runs old, new and old again (the order turns), so that a row has two ratios: new / old, and old / old, which is what the
machine alone does to a figure. A row counts as slower when the median of new / old is above 1.05 and above every old / old of its
rounds' middle half. MODELS is what models.py and op_calls.py made (tests/bench/run.sh leaves it in build/bench); both builds need the
bench programs (run.sh builds them). Prints Markdown; nothing here fails a test.
"""
import argparse
import json
import os
import statistics
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import bench  # noqa: E402


def quartiles(values):
    values = sorted(values)
    return values[len(values) // 4], values[(3 * len(values)) // 4]


def in_turn(rounds, measure, sides):
    """Figures of the three sides (old, new, old again), a list each; rounds in which one failed are left out."""
    seen = ([], [], [])
    for n in range(rounds):
        figures = [None] * 3
        for i in ((0, 1, 2), (1, 2, 0), (2, 0, 1))[n % 3]:
            figures[i] = measure(sides[i])
        if all(figures):
            for i in range(3):
                seen[i].append(figures[i])
    return seen


def row(label, unit, seen, digits=1):
    """([cells], slower?, ratio) of one figure, smaller is better."""
    if not seen[0]:
        return [label, "failed", "", "", ""], False, None
    ratios = [b / a for a, b in zip(seen[0], seen[1])]
    alone = [b / a for a, b in zip(seen[0], seen[2])]
    ratio, (low, high) = statistics.median(ratios), quartiles(alone)
    slower = ratio > 1.05 and ratio > high
    cells = [label, f"{statistics.median(seen[0]):.{digits}f} {unit}", f"{statistics.median(seen[1]):.{digits}f} {unit}",
             f"{ratio:.2f}" + (" slower" if slower else ""), f"{low:.2f} .. {high:.2f}"]
    return cells, slower, ratio


def show(title, rows):
    bench.say(f"**{title}**\n")
    bench.table(["row", "old", "new", "new / old", "old / old"], [cells for cells, _, _ in rows])
    ratios = [r for _, _, r in rows if r]
    if ratios:
        bench.say(f"{len(ratios)} rows, {sum(s for _, s, _ in rows)} slower; geometric mean of new / old {statistics.geometric_mean(ratios):.3f}\n")


def calls(a, listing, title, seconds):
    rows = []
    for label, folder, case in bench.cases(a.models, listing):
        if not label.startswith("functions"):
            time = lambda build: (bench.time_call(build, "call_tensord", folder, case, seconds, 0) or [0] * 3)[2]
            rows.append(row(label, "us", in_turn(a.rounds, time, a.sides)))
    if listing == "op_cases.txt":
        rows = [r for r in rows if r[1]] + [r for r in rows if not r[1]]
    show(title, rows)


def graph(a):
    found = next((c for c in bench.cases(a.models) if c[0].startswith("functions")), None)
    if found is None:
        return
    rows = []
    for i, name in ((0, "load"), (1, "first call"), (5, "processor time of both")):
        time = lambda build: (bench.time_call(build, "call_tensord", found[1], found[2], 0, 0) or [0] * 6)[i] / 1e3
        rows.append(row(f"700 functions: {name}", "ms", in_turn(2 * a.rounds, time, a.sides)))
    show("A large graph", rows)


def start(a):
    image = [[0.0] * 8] * 8
    request = bench.rest_request(json.dumps({"instances": [image]}).encode())
    frames = bench.grpc_request("images", [1, 8, 8], [0.0] * 64)
    time = lambda build: bench.first_answers(build, bench.DIGITS, request, frames)[1]
    show("Start to the first REST answer", [row("digits", "ms", in_turn(2 * a.rounds, time, a.sides))])


def rates(a):
    """Both servers stay up; the load goes from one to the other. The figure is microseconds a request."""
    rows, trivial = [], os.path.join(a.models, "trivial")
    for label, base, body in (("x / 2 + 2", trivial, '{"instances": [1.0, 2.0, 5.0]}'),
                              ("digits", bench.DIGITS, json.dumps({"instances": [[[0.0] * 8] * 8]}))):
        if not os.path.isdir(base):
            continue
        with bench.Server(a.old, base) as old, bench.Server(a.new, base) as new, bench.Server(a.old, base) as again:
            servers = [old, new, again]
            for s in servers:
                s.wait()
            for connections in (1, 64):
                def rest(s):
                    r = bench.wrk(f"http://127.0.0.1:{s.rest}/v1/models/m:predict", body, connections, 1)
                    return 1e6 / r[0] if r and r[0] else None

                def grpc(s):
                    r = bench.grpc_load(a.old, s.grpc, connections, 1)
                    return 1e6 / r[0] if r and r[0] else None
                for wire, measure in (("REST", rest), ("gRPC", grpc)):
                    if wire == "gRPC" and base != trivial:
                        continue
                    rows.append(row(f"{wire}, {label}, {connections} connections", "us", in_turn(2 * a.rounds, measure, servers)))
    show("Requests: microseconds each, one load thread on the same machine", rows)


def main():
    sections = {"calls": lambda a: calls(a, "cases.txt", "A call in process on one core (p50)", 0.3),
                "graph": graph, "start": start, "rates": rates,
                "ops": lambda a: calls(a, "op_cases.txt", "One op a call (p50); slower ones first", 0.08)}
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("old")
    p.add_argument("new")
    p.add_argument("models")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--only", help="sections, of: " + ", ".join(sections))
    a = p.parse_args()
    a.sides = (a.old, a.new, a.old)
    bench.say(bench.machine() + "\n")
    for name, run in sections.items():
        if not a.only or name in a.only.split(","):
            run(a)


if __name__ == "__main__":
    main()
