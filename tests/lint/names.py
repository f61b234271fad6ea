"""Names: functions that nobody may call, those that belong to one file, words that were retired, and what is left over.

  banned       strcpy, strcat, sprintf ..: no length, or no error          nowhere, tests included
  at home      malloc, free, printf, abort, exit ..: in their files (HOME)  clients and tests have their own
  retired      words of names.retired, as words of an identifier or of a file's name; the list says which stay, and why
  left over    TODO, FIXME, XXX without an issue's number, #if 0
"""
import fnmatch
import os
import re

from source import CODE, OURS, code, comments, exceptions, files, finish

BANNED = "strcpy strncpy strcat strncat stpcpy sprintf vsprintf strtok atoi atol atoll atof gets alloca rand srand".split()
HOME = {
    "malloc": ("mem.c", "buffer.c"), "calloc": ("mem.c",), "realloc": ("mem.c",),
    "free": ("mem.c", "buffer.c"),
    "strdup": (), "strndup": ("embed.c",), "asprintf": (), "vasprintf": (),   # embed.c: what callers of the C API free
    "printf": (), "puts": (), "putchar": (),
    "abort": ("status.c",), "exit": (), "_exit": ("main.c", "drain.c", "local_ranks.c"), "quick_exit": (),
}
CALL = re.compile(r"(?<![\w.>])(" + "|".join(BANNED + list(HOME)) + r")\s*\(")
LEFT_OVER = re.compile(r"\b(TODO|FIXME|XXX)\b(?!\s*\(?#\d)")
IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def retired():
    """{word: PATH:NAME globs that may have it}"""
    rows = {}
    for (word, keeps), _ in exceptions("names.retired").items():
        rows.setdefault(word, set()).update(keeps.split(",") if keeps != "-" else ())
    return rows


def words_of(name):
    return {w.lower() for w in WORDS.findall(name)}


def calls(path, line, number):
    for m in CALL.finditer(line):
        name = m.group(1)
        if name in BANNED:
            yield f"{path}:{number}: {name} is banned"
        elif path.startswith(OURS[:-1]) and os.path.basename(path) not in HOME[name]:
            yield f"{path}:{number}: {name} belongs to {' and '.join(HOME[name]) or 'no file of the daemon'}"


def coined(path, names, number, gone):
    for name in sorted(names):
        for word in sorted(words_of(name) & set(gone)):
            if not any(fnmatch.fnmatchcase(f"{path}:{name}", keep) for keep in gone[word]):
                yield f"{path}:{number}: {name} has the retired word '{word}'"


def main():
    findings, gone = [], retired()
    for path in files(endings=CODE):
        seen = set()
        stem = os.path.splitext(os.path.basename(path))[0]
        for number, line in enumerate([stem] + code(path).splitlines()):   # line 0: the file's own name
            findings += calls(path, line, number) if number else []
            if re.match(r"\s*#\s*if\s+0\b", line):
                findings.append(f"{path}:{number}: #if 0")
            findings += coined(path, set(IDENTIFIER.findall(line)) - seen, number, gone)
            seen |= set(IDENTIFIER.findall(line))
        findings += [f"{path}:{number}: {m.group(1)}" for number, c in comments(path) for m in LEFT_OVER.finditer(c)]
    finish(findings, "names")


if __name__ == "__main__":
    main()
