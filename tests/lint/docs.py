#!/usr/bin/env python3
"""Holds README.md, docs/ and comments against the tree: every path of the repository that they name is there, every link leads
somewhere, every flag is one of tensord's, tensorctl's or of a tool that is named below, docs/README.md lists every page, the program
that is shown is the one that the tests run, and the README keeps its size.

    tests/lint/docs.py        from anywhere; prints what is wrong, one a line, and exits with 1 if anything is
"""
import glob
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ROOMS = ("core", "kernels", "proto", "server", "clients", "tests", "deploy", "docs")
README_LINES, README_COLUMNS = 200, 120

# Flags of other programs that the pages show.
OTHERS = """flag preset build install prefix target test-dir output-on-failure cflags libs health-cmd no-healthcheck gpus read-only
    http-restricted-api grpc-restricted-protocol grpc-use-ssl trace-config exit-timeout-secs rate-limit""".split()


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        return f.read()


def pages():
    return ["README.md"] + sorted(os.path.relpath(p, ROOT) for p in glob.glob(os.path.join(ROOT, "docs", "*.md")))


def expand(text):
    """core/{a,b}/c as core/a/c and core/b/c."""
    m = re.search(r"\{([^{}]*)\}", text)
    return [text] if m is None else [p for one in m.group(1).split(",") for p in expand(text[:m.start()] + one.strip() + text[m.end():])]


def paths(text):
    """Paths of the repository in a text; what is built or made is none."""
    for m in re.finditer(r"(?<![\w/.$-])(?:%s)/[\w./*{},-]*" % "|".join(ROOMS), text):
        yield m.group(0).rstrip(".,-")


def missing_paths(text):
    for named in paths(text):
        for path in expand(named):
            if not glob.glob(os.path.join(ROOT, path)):
                yield f"no such path: {path}"


def sources():
    out = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [f for f in out.split("\n") if re.search(r"\.(c|h|def|inc|cc|proto|py|sh|supp)$|CMakeLists.txt$", f) and "/corpus/" not in f
            and not f.startswith("tests/lint/") and os.path.isfile(os.path.join(ROOT, f))]


def stale_paths(text):
    """Files that a source names; NAME and <name> stand for others, and what protoc-c makes is built."""
    for path in paths(text):
        if re.search(r"\.(c|h|def|inc|cc|proto|py|sh|txt|md)$", path) and not re.search(r"[A-Z]{2}|pb-c|^tests/lint/", path):
            if not any(glob.glob(os.path.join(ROOT, p)) for p in expand(path)):
                yield f"names {path}, which is not there"


def missing_links(page, text):
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        full = os.path.join(ROOT, os.path.dirname(page), path) if path else os.path.join(ROOT, page)
        if not os.path.exists(full):
            yield f"link to nowhere: {target}"
        elif anchor and anchor not in anchors(full):
            yield f"no such heading: {target}"


def anchors(path):
    with open(path, encoding="utf-8") as f:
        heads = re.findall(r"^#+ (.*)$", f.read(), re.M)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in heads}


def known_flags():
    known = set(OTHERS)
    (table,) = glob.glob(os.path.join(ROOT, "server/**/options.def"), recursive=True)
    with open(table, encoding="utf-8") as f:
        known.update(re.findall(r"^(?:BOOL|INT|REAL|TEXT|PORT|LIST|ALIAS|NONE)\((\w+)", f.read(), re.M))
    for path in sources():
        if path == "clients/verbs.def" or path.endswith((".py", ".sh")):
            known.update(re.findall(r"--([a-z][\w-]*)", read(path)))
    return {flag.replace("-", "_") for flag in known}


def unknown_flags(text, known):
    for flag in re.findall(r"(?<![\w-])--([a-zA-Z][\w-]*)", text):
        if flag.replace("-", "_") not in known:
            yield f"no such flag: --{flag}"


def unlisted(text):
    for page in pages():
        if page not in ("README.md", "docs/README.md") and f"({os.path.basename(page)})" not in text:
            yield f"does not list {page}"


def wrong_example(text):
    """The program that a page shows, against the file of the tests."""
    program = read("tests/embed_example.c")
    program = program[program.index("#include"):].replace('"server/tensord.h"', '"tensord.h"')
    if f"```c\n{program}```" not in text:
        yield "the program is not that of tests/embed_example.c"


def size(text):
    lines = text.split("\n")
    if len(lines) - 1 > README_LINES:
        yield f"{len(lines) - 1} lines, want at most {README_LINES}"
    for i, line in enumerate(lines, 1):
        if len(line) > README_COLUMNS:
            yield f"line {i}: {len(line)} columns, want at most {README_COLUMNS}"


def main():
    known = known_flags()
    wrong = []
    for page in pages():
        text = read(page)
        found = [*missing_paths(text), *missing_links(page, text), *unknown_flags(text, known)]
        found += {"README.md": size, "docs/README.md": unlisted, "docs/embedding.md": wrong_example}.get(page, lambda _: ())(text)
        wrong += [f"{page}: {what}" for what in dict.fromkeys(found)]
    n_sources = 0
    for source in sources():
        wrong += [f"{source}: {what}" for what in dict.fromkeys(stale_paths(read(source)))]
        n_sources += 1
    print("\n".join(wrong) if wrong else f"{len(pages())} pages and {n_sources} sources: every path, link and flag that they name is there")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
