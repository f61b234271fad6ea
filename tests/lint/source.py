"""What the lints share: the tree's C files, a file without its comments and texts, and how findings are told.

A lint is a program without arguments that prints "path:line: finding" lines, then one line of sum, and exits 1 when
there are findings. It reads the working tree, not git's index, so that it judges what is about to be committed.
"""
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
OURS = ("core", "proto", "kernels", "server", "clients")
CODE = (".c", ".h", ".cc", ".cu", ".cuh", ".def", ".inc")


def files(tops=OURS + ("tests",), endings=(".c", ".h", ".cc")):
    """Paths from the root of the files under tops with one of the endings, sorted."""
    found = []
    for top in tops:
        for folder, below, names in os.walk(os.path.join(ROOT, top)):
            below[:] = [b for b in below if b not in ("__pycache__", "build")]
            found += [os.path.relpath(os.path.join(folder, n), ROOT) for n in names if n.endswith(tuple(endings))]
    return sorted(found)


def text(path):
    with open(os.path.join(ROOT, path), encoding="utf-8", errors="replace") as f:
        return f.read()


COMMENT_OR_TEXT = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.S)


def blank(match):
    whole = match.group(0)
    if whole[0] in "\"'":
        return whole[0] + " " * (len(whole) - 2) + whole[-1]
    return re.sub(r"[^\n]", " ", whole)


def code(path):
    """The file with its comments and the insides of its texts as blanks: every line and column stays where it is."""
    return COMMENT_OR_TEXT.sub(blank, text(path))


def comments(path):
    """[(line number, text)] of the file's comments."""
    whole, out = text(path), []
    for m in COMMENT_OR_TEXT.finditer(whole):
        if m.group(0)[0] == "/":
            out.append((whole.count("\n", 0, m.start()) + 1, m.group(0)))
    return out


def exceptions(name):
    """{(path, what): reason} of a list beside the lints: lines "path what  reason ..."; # begins a comment."""
    rows = {}
    for number, line in enumerate(text(os.path.join("tests/lint", name)).splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            words = line.split(None, 2)
            if len(words) < 3:
                sys.exit(f"tests/lint/{name}:{number}: want: path, what, and the reason")
            rows[words[0], words[1]] = words[2]
    return rows


def finish(findings, what):
    for f in findings:
        print(f)
    print(f"{what}: {len(findings)} findings")
    sys.exit(1 if findings else 0)
