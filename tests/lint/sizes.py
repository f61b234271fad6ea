"""Sizes: files <= 600 lines, headers <= 200, lines <= 110 columns, functions <= 100 lines and <= 7 parameters.

A table (.def, and .inc of the tests) may be longer and wider: a row stands on one line.
What is larger for a reason stands in sizes.exceptions with it; a line there that excuses nothing is a finding too.
Functions are measured by universal-ctags.
"""
import json
import os
import subprocess

from source import CODE, ROOT, exceptions, files, finish, text

FILE, HEADER, COLUMNS, FUNCTION, PARAMETERS = 600, 200, 110, 100, 7


def functions():
    """{path, name, line, end, signature} of every function, as ctags sees them."""
    line = ["ctags", "--languages=C,C++", "--kinds-C=f", "--kinds-C++=f", "--fields=+neS", "--output-format=json", "-f", "-", "-L", "-"]
    run = subprocess.run(line, cwd=ROOT, input="\n".join(files()), capture_output=True, text=True, check=True)
    return [json.loads(row) for row in run.stdout.splitlines()]


def parameters(signature):
    """How many parameters stand in "(..)"; commas inside of a parameter's own parentheses do not count."""
    inside, depth, n = signature[1:-1].strip(), 0, 1
    for c in inside:
        depth += (c in "([") - (c in ")]")
        n += c == "," and depth == 0
    return 0 if inside in ("", "void") else n


def measured():
    """(path, line, what, size, limit) of everything that has a limit; what is as in sizes.exceptions."""
    for path in files(endings=CODE):
        lines = text(path).splitlines()
        if path.endswith(".def") or (path.startswith("tests/") and path.endswith(".inc")):
            continue
        yield path, 1, "lines", len(lines), HEADER if path.endswith(".h") and not path.startswith("tests/") else FILE
        for number, line in enumerate(lines, 1):
            yield path, number, "columns", len(line), COLUMNS
    for f in functions():
        yield f["path"], f["line"], f"lines:{f['name']}", f.get("end", f["line"]) - f["line"] + 1, FUNCTION
        yield f["path"], f["line"], f"parameters:{f['name']}", parameters(f.get("signature", "()")), PARAMETERS


def main():
    excused, used, findings = exceptions("sizes.exceptions"), set(), []
    for path, line, what, size, limit in measured():
        if size > limit and (path, what) in excused:
            used.add((path, what))
        elif size > limit:
            unit, _, name = what.partition(":")
            findings.append(f"{path}:{line}: {name + ': ' if name else ''}{size} {unit}, want <= {limit}")
    findings += [f"tests/lint/sizes.exceptions: {path} {what} needs no exception" for path, what in sorted(set(excused) - used)]
    finish(findings, "sizes")


if __name__ == "__main__":
    main()
