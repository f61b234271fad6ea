"""No op by name in core: what core asks of an op is in the op's row (core/graph/op.h).

A string literal of core that is the name of an op in the table is a finding. Names are those that the rows in kernels/ spell
out (not what a macro pastes together). Comments, and texts with more in them than the name, are none.
"""
import re

from source import CODE, COMMENT_OR_TEXT, files, finish, text

ROW = re.compile(r'(?:\.name\s*=\s*|\b[A-Z][A-Z0-9_]*\(\s*)"(_?[A-Z][A-Za-z0-9]*)"')
BOTH = re.compile(r'\bBOTH\(\s*"(\w+)"')  # lookup.c: a row of that name, and one with V2
LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
STAY = {("core/run/variable.c", "Variable"): "the name of the object type, as error texts have it"}


def without_comments(path):
    """The file with its texts; comments are blank."""
    return COMMENT_OR_TEXT.sub(lambda m: m.group(0) if m.group(0)[0] in "\"'" else re.sub(r"[^\n]", " ", m.group(0)), text(path))


def main():
    ops = set()
    for path in files(("kernels",)):
        rows = without_comments(path)
        ops.update(ROW.findall(rows))
        ops.update(name + "V2" for name in BOTH.findall(rows))
    found = []
    for path in files(("core",), CODE):
        for n, line in enumerate(without_comments(path).split("\n"), 1):
            for name in LITERAL.findall(line):
                if name in ops and (path, name) not in STAY:
                    found.append(f'{path}:{n}: names the op "{name}": core asks the op\'s row')
    finish(found, "op_names")


if __name__ == "__main__":
    main()
