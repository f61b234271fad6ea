#!/usr/bin/env python3
"""Holds the tree against tests/lint/rooms.txt: who may include whom, and how many files a room may have.

    tests/lint/rooms.py                  includes and sizes
    tests/lint/rooms.py --calls BUILD    calls, too: a symbol that an object of one room defines and one of another room uses must
                                         follow the same rule (through objects in BUILD, a build directory)
    tests/lint/rooms.py --draw           the rooms and the arrows between them, as text

The rule itself may have no circle. Prints each breach as FILE: what, and ends with exit status 1 when there is one."""
import argparse
import collections
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
RULE = os.path.join(ROOT, "tests/lint/rooms.txt")
FOLDERS = ("core", "proto", "kernels", "server", "clients")
MOST_FILES = 70
SOURCES = (".c", ".h", ".def", ".inc", ".cc", ".cu")


def tracked():
    out = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", *FOLDERS], cwd=ROOT, check=True, capture_output=True, text=True)
    return [f for f in out.stdout.split("\n") if f.endswith(SOURCES) and os.path.isfile(os.path.join(ROOT, f))]


def read_rule():
    """{room: set of rooms and single headers that it may include}"""
    rows = {}
    for line in open(RULE):
        line = line.split("#")[0].strip()
        if line:
            room, _, allowed = line.partition(":")
            rows[room.strip()] = allowed.split()
    rule = {}
    for room, allowed in rows.items():
        rule[room] = set()
        for a in allowed:
            folder = a[:-2] if a.endswith("/*") else None
            rule[room] |= {r for r in rows if r.startswith(folder + "/")} if folder else {a}
    return rule


def circle(rule):
    """A list of rooms that goes round, or None."""
    state, path = {}, []

    def visit(room):
        state[room] = 1
        path.append(room)
        for below in sorted(rule.get(room, ())):
            if below == room:
                continue
            if state.get(below) == 1:
                return path[path.index(below):] + [below]
            if below not in state and (found := visit(below)):
                return found
        path.pop()
        state[room] = 2
        return None

    for room in rule:
        if room not in state and (found := visit(room)):
            return found
    return None


def includes(files):
    """(file, included path) of our own headers"""
    for f in files:
        for path in re.findall(r'^[ \t]*#[ \t]*include[ \t]+"([^"]+)"', open(os.path.join(ROOT, f), errors="replace").read(), re.M):
            if path.split("/")[0] in FOLDERS:
                yield f, path


def object_symbols(build):
    """{file: (symbols that its object defines, symbols that it wants)}"""
    found = {}
    for folder in FOLDERS:
        for at, _, names in os.walk(os.path.join(build, folder)):
            for name in names:
                if not name.endswith((".c.o", ".cc.o")):
                    continue
                path = os.path.join(at, name)
                inside = re.sub(r"^.*?CMakeFiles/[^/]+\.dir/", "", path)
                source = os.path.normpath(f"{folder}/{inside[:-2]}")
                if not os.path.exists(os.path.join(ROOT, source)):
                    continue
                out = subprocess.run(["nm", "-P", path], capture_output=True, text=True).stdout
                defined, wanted = set(), set()
                for line in out.split("\n"):
                    parts = line.split()
                    if len(parts) >= 2:
                        (wanted if parts[1] == "U" else defined if parts[1].isupper() else set()).add(parts[0])
                found[source] = (defined, wanted)
    return found


def calls(build):
    """(file, file that defines what it uses, the symbol)"""
    symbols = object_symbols(build)
    home = {}
    for source, (defined, _) in symbols.items():
        for s in defined:
            home.setdefault(s, source)
    for source, (_, wanted) in symbols.items():
        for s in wanted & home.keys():
            if os.path.dirname(home[s]) != os.path.dirname(source):
                yield source, home[s], s


def main():
    args = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    args.add_argument("--calls", metavar="BUILD")
    args.add_argument("--draw", action="store_true")
    args = args.parse_args()
    rule, files, bad = read_rule(), tracked(), []
    if (round_trip := circle(rule)) is not None:
        bad.append(f"tests/lint/rooms.txt: the rule goes round: {' -> '.join(round_trip)}")
    size = collections.Counter(os.path.dirname(f) for f in files)
    for room in sorted(size):
        if room not in rule:
            bad.append(f"{room}: a room that tests/lint/rooms.txt does not know")
        if size[room] > MOST_FILES:
            bad.append(f"{room}: {size[room]} files, at most {MOST_FILES}")
    arrows = collections.Counter()
    for f, path in includes(files):
        room, other = os.path.dirname(f), os.path.dirname(path)
        if not os.path.exists(os.path.join(ROOT, path)) and not path.startswith("proto/schema/"):
            bad.append(f"{f}: includes {path}, which does not exist")
        if other != room:
            arrows[room, other] += 1
            if room in rule and other not in rule[room] and path not in rule[room]:
                bad.append(f"{f}: includes {path}; {room} may not include {other}")
    if args.calls:
        for f, other_file, symbol in calls(args.calls):
            room, other = os.path.dirname(f), os.path.dirname(other_file)
            header = os.path.splitext(other_file)[0] + ".h"
            if room in rule and not {other, header, other_file} & rule[room]:
                bad.append(f"{f}: uses {symbol} of {other_file}; {room} may not call {other}")
    if args.draw:
        for room in sorted(size):
            below = ", ".join(f"{b} ({n})" for (a, b), n in sorted(arrows.items()) if a == room)
            print(f"{room:18} {size[room]:3} files  -> {below}")
    for line in sorted(bad):
        print(line)
    print(f"rooms: {len(size)} rooms, {len(files)} files, {sum(arrows.values())} includes across rooms, {len(bad)} breaches")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
