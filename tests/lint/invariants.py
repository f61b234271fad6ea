"""Every sentence that begins "Invariant" names its check:  Invariant (td_plan_check): a step's inputs have smaller ...

A check is a function  enum td_code NAME(const struct .. *, struct td_err *err)  that Debug builds run where the structure changes
hands, with TD_HOLDS (core/base/check.h). With --list, prints which file's invariant is held by which check.
"""
import re
import sys

from source import OURS, code, comments, files, finish

SENTENCE = re.compile(r"\bInvariants?\b(?:\s*\*?\s*\(([^)]*)\))?[^:.]{0,30}:")
HOLDS = re.compile(r"\bTD_HOLDS\((\w+)")
DEFINED = re.compile(r"^(?:static |TD_CHECK_FN )?enum td_code (\w+_check)\(", re.M)


def main():
    held, defined, findings, rows = set(), set(), [], []
    paths = files(OURS)
    for path in paths:
        text = code(path)
        held |= set(HOLDS.findall(text))
        defined |= set(DEFINED.findall(text))
    for path in paths:
        for number, comment in comments(path):
            for m in SENTENCE.finditer(comment):
                at = f"{path}:{number + comment.count(chr(10), 0, m.start())}"
                names = re.findall(r"\w+", m.group(1) or "")
                if path.endswith("base/check.h"):
                    continue
                if not names:
                    findings.append(f"{at}: an invariant that names no check: Invariant (td_x_check): ..")
                findings += [f"{at}: {n} is no check" for n in names if n not in defined]
                findings += [f"{at}: no Debug build runs {n} (TD_HOLDS)" for n in names if n in defined and n not in held]
                rows += [f"{at:50} {n}" for n in names]
    findings += [f"TD_HOLDS({n}, ..): there is no such check" for n in sorted(held - defined - {"check"})]
    if "--list" in sys.argv[1:]:
        print("\n".join(rows))
    finish(findings, f"invariants: {len(rows)} held by {len(held & defined)} checks")


if __name__ == "__main__":
    main()
