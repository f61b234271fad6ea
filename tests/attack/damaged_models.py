"""SavedModels that were right before bits were turned, files cut, parts of others put in or links laid, while versions come and go.

Each goes into one of the base paths d0 .. d3 below --folder (as a copy that is renamed, or in place, piece by piece), or comes with a load
command; then it is asked for its metadata and for answers. All it may cost is an error of that version.
"""
import glob
import json
import os
import shutil
import stat
import tempfile

import generator
import management
import valid
import wire

E2E = os.path.dirname(management.HALF)
SOURCES = ["half/1", "half/2", "types/1", "tf1/1", "gradients/1", "widths/1", "parts/1"]
BASES = ("d0", "d1", "d2", "d3")
PREDICTS = [(path.split(":")[1], body) for path, body in valid.DOCUMENTS if path.startswith("/v1/")]


MOST = 1 << 24   # bytes of a file


def file(path, flags):
    """Never what a link leads to: another lane may have laid one there since this one looked."""
    return open(path, "rb" if flags == os.O_RDONLY else "wb", opener=lambda p, _: os.open(p, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644))


def read(path):
    with file(path, os.O_RDONLY) as f:
        return f.read(MOST)


def files(folder):
    """Those below it; no link is followed: one to '..' would lead round for ever."""
    found = [os.path.join(at, name) for at, _, names in os.walk(folder) for name in names]
    return [p for p in found if stat.S_ISREG(os.lstat(p).st_mode)]


def damaged(a, path, data):
    """One file's bytes; the graph mostly by its structure."""
    other = os.path.join(E2E, a.dice.choice(SOURCES), os.path.basename(path))
    spliced = read(other) if os.path.exists(other) else b""
    if path.endswith("saved_model.pb") and a.dice.chance(0.8):
        for _ in range(a.dice.choice((1, 1, 2, 4))):
            data = wire.damaged(a.dice, data)
        return data[:MOST]
    return a.dice.damaged(data, spliced)


def damage(a, folder):
    """Of the files below it one or two."""
    found = files(folder)
    for path in a.dice.sample(found, min(len(found), a.dice.choice((1, 1, 1, 2)))):
        how = a.dice.randrange(12)
        if how == 0:
            os.unlink(path)
        elif how == 1:
            os.unlink(path)
            os.symlink(a.dice.choice(("/etc/passwd", "/proc/self/environ", "..", path, "/dev/zero", "saved_model.pb")), path)
        elif how == 2:
            os.unlink(path)
            a.dice.choice((os.mkfifo, os.mkdir))(path)
        elif how == 3:
            with file(path, os.O_WRONLY) as f:
                f.truncate(a.dice.number() & (1 << 22) - 1)
        else:
            data = damaged(a, path, read(path))
            with file(path, os.O_WRONLY | os.O_TRUNC) as f:
                f.write(data)


def copy(a):
    """A damaged copy, beside the base paths."""
    where = tempfile.mkdtemp(prefix="damaged.", dir=a.folder)
    to = os.path.join(where, "v")
    shutil.copytree(os.path.join(E2E, a.dice.choice(SOURCES)), to)
    if a.dice.chance(0.95):
        damage(a, to)
    return where, to


def put(a):
    """A version comes, changes in place, or goes."""
    base = os.path.join(a.folder, a.dice.choice(BASES))
    target = os.path.join(base, str(a.dice.randrange(1, 6)))
    if os.path.lexists(target) and a.dice.chance(0.6):
        if a.dice.chance(0.5):
            damage(a, target)
        else:
            shutil.rmtree(target)
    elif not os.path.lexists(target):
        where, to = copy(a)
        if a.dice.chance(0.3):   # piece by piece
            os.mkdir(target)
            for name in os.listdir(to):
                shutil.move(os.path.join(to, name), target)
                generator.over.wait(a.dice.random() * 0.3)
        else:
            os.rename(to, target)
        shutil.rmtree(where)
    a.tell("put")


def load(a):
    """The files come with a command; what has come is asked."""
    where, to = copy(a)
    parameters = {"config": "{}"}
    for path in files(to):
        data = read(path)
        parameters[f"file:1/{os.path.relpath(path, to)}"] = management.base64.b64encode(data).decode() if len(data) < 1 << 22 else ""
    shutil.rmtree(where)
    model = f"up{a.lane}"
    status, _ = management.rest(a, "POST", f"/v2/repository/models/{model}/load", {"parameters": parameters})
    if status == 200:
        ask(a, model)
    if a.dice.chance(0.3):
        management.rest(a, "POST", f"/v2/repository/models/{model}/unload", {})


def ask(a, model):
    for path in a.dice.sample(("", "/metadata", "/functions"), 2):
        management.rest(a, "GET", f"/v1/models/{model}{path}")
    for kind, body in a.dice.sample(PREDICTS, 4):
        management.rest(a, "POST", f"/v1/models/{model}:{kind}", json.dumps(body).encode())


def turn(a):
    try:
        (load if not a.folder or a.dice.chance(0.7) else put)(a)
        if a.dice.chance(0.3):
            ask(a, a.dice.choice(BASES))
            management.rest(a, "POST", f"/v1/models/{a.dice.choice(BASES)}:reload")
    except (FileNotFoundError, FileExistsError, NotADirectoryError, IsADirectoryError, shutil.Error):
        pass   # another lane was there


def finish(a):
    for f in glob.glob(os.path.join(a.folder or "/nowhere", "damaged.*")):
        shutil.rmtree(f, True)


if __name__ == "__main__":
    generator.run("damaged_models", turn, finish=finish)
