"""clang-tidy over all C files with the checks of .clang-tidy, as a build directory compiles them.   tests/lint/tidy.py BUILD [FILE...]

About a minute of processor time.
"""
import json
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from source import OURS, ROOT, files, finish

A_RUN = 20   # files


def check(build, tidy, some):
    line = [tidy, "-p", build, "--quiet", "--extra-arg=-Wno-unknown-warning-option", "--extra-arg=-Wno-ignored-optimization-argument", *some]
    out = subprocess.run(line, cwd=ROOT, capture_output=True, text=True)
    found = re.findall(r"^(\S+?:\d+):\d+: (?:error|warning): (.*)$", out.stdout, re.M)
    return [f"{os.path.relpath(at, ROOT)}: {text}" for at, text in found], out.returncode < 0


def main():
    build = os.path.abspath(sys.argv[1])
    tidy = shutil.which("clang-tidy-14") or shutil.which("clang-tidy")
    if tidy is None:
        sys.exit("clang-tidy is not installed")
    with open(os.path.join(build, "compile_commands.json")) as f:
        known = {os.path.relpath(os.path.join(row["directory"], row["file"]), ROOT) for row in json.load(f)}
    paths = sys.argv[2:] or [p for p in files(OURS, (".c",)) if p in known]
    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(lambda at: check(build, tidy, paths[at:at + A_RUN]), range(0, len(paths), A_RUN)))
    findings = sorted({f for some, _ in done for f in some} | {"clang-tidy itself crashed" for _, died in done if died})
    finish(findings, f"tidy: {len(paths)} files")


if __name__ == "__main__":
    main()
