"""Draws of ops that touch files: checkpoints written and read again, file names, texts printed to a file, and the ops that tensord refuses.

TensorFlow works in a directory of this process that goes with it; tensord maps the same paths below its scratch directory, which is empty at first.
"""
import atexit
import functools
import shutil
import tempfile

import numpy as np

from draw_source import ANY, program
from draws_variable import key_of


@functools.lru_cache(None)
def home():
    """The directory TensorFlow may write to."""
    path = tempfile.mkdtemp(prefix="op_draws.")
    atexit.register(shutil.rmtree, path, True)
    return path


def path_of(s):
    return np.array(f"{home()}/{key_of(s)}", object)


def after(ops, then):
    import tensorflow as tf
    with tf.control_dependencies([o for o in ops if o is not None]):
        return then()


def values_of(s, n):
    return [s.wild(s.one([d for d in ANY if d != "string"] + ["float32", "string"]), s.shape(0, 3)) for _ in range(n)]


def names_of(s, n):
    """Names of n tensors; one is there twice or empty, rarely."""
    names = [f"{s.one(['w', 'layer/kernel', 'naïve', 'b'])}{i}" for i in range(n)]
    if n and s.chance(0.04):
        names[-1] = s.one([names[0], ""])
    return names


def slice_of(s, shape):
    """A part of a tensor of the shape, as a text; out of range rarely."""
    if not shape or 0 in shape or s.chance(0.5):
        return ""
    parts = []
    for d in shape:
        start = s.int(0, d - 1)
        parts.append("-" if s.chance(0.3) else f"{start},{s.int(1, d - start) + (9 if s.chance(0.02) else 0)}")
    return " ".join(str(d) for d in shape) + " " + ":".join(parts)


def dtype_of(v):
    return "string" if v.dtype == object else v.dtype.name


SLICED = ["float32", "float64", "int32", "int64", "int8", "uint8", "int16", "complex64"]   # TensorFlow reads parts of these


def checkpoint(s):
    """Tensors saved, and some of them read again in another order, whole or in part."""
    values = values_of(s, s.int(1, 4))
    names = names_of(s, len(values))
    asked = [int(i) for i in s.r.permutation(len(values))[:s.int(1, len(values))]]
    parts = [slice_of(s, values[i].shape) if names.count(names[i]) == 1 and dtype_of(values[i]) in SLICED else "" for i in asked]
    wanted, types = [names[i] for i in asked], [dtype_of(values[i]) for i in asked]
    if s.chance(0.04):
        wanted[0] = "not there"
    if s.chance(0.04):
        types[0] = s.one(["int8", "float64"])
    if s.chance(0.03):
        names = names + ["more"]
    elsewhere = s.chance(0.04)

    def call(raw, path, values):
        saved = raw.SaveV2(prefix=path, tensor_names=names, shape_and_slices=[""] * len(names), tensors=values)
        return after([saved], lambda: list(raw.RestoreV2(prefix=path + "x" if elsewhere else path, tensor_names=wanted, shape_and_slices=parts, dtypes=types)))
    return {"path": path_of(s), "values": values}, program(call)


def halves(op):
    """A tensor saved in two slices, read again whole or in part; all of it saved, or but one half."""
    def draw(s):
        rows, cols = s.int(2, 6), s.int(1, 5)
        cut = s.int(1, rows - 1)
        value = s.wild(s.one(["float32", "int32", "int64", "float64"]), (rows, cols))
        text = [f"{rows} {cols} 0,{cut}:-", f"{rows} {cols} {cut},{rows - cut}:-"]
        both = s.chance(0.9)
        asked = slice_of(s, (rows, cols))
        kind = dtype_of(value)

        def call(raw, path, top, bottom):
            data = [top, bottom] if both else [top]
            where = dict(tensor_names=["v"] * len(data))
            if op == "SaveV2":
                saved = raw.SaveV2(prefix=path, shape_and_slices=text[:len(data)], tensors=data, **where)
                return after([saved], lambda: list(raw.RestoreV2(prefix=path, tensor_names=["v"], shape_and_slices=[asked], dtypes=[kind])))
            saved = raw.SaveSlices(filename=path, shapes_and_slices=text[:len(data)], data=data, **where)
            return after([saved], lambda: raw.RestoreSlice(file_pattern=path, tensor_name="v", shape_and_slice=asked, dt=kind))
        return {"path": path_of(s), "top": value[:cut], "bottom": value[cut:]}, program(call)
    return draw


def first_save(s):
    """The first checkpoints: Save, and one tensor read again."""
    values = [s.array(s.one(["float32", "int32", "int64", "float64", "uint8", "int16"]), s.shape(0, 3)) for _ in range(s.int(1, 3))]
    names = [n or "unnamed" for n in names_of(s, len(values))]   # the first format took tensors without a name
    at = s.int(0, len(values) - 1)
    wanted, kind = names[at] if s.chance(0.95) else "not there", dtype_of(values[at])
    part = s.one([None, slice_of(s, values[at].shape)])

    def call(raw, path, values):
        saved = raw.Save(filename=path, tensor_names=names, data=values)
        if part is None:
            return after([saved], lambda: raw.Restore(file_pattern=path, tensor_name=wanted, dt=kind))
        return after([saved], lambda: raw.RestoreSlice(file_pattern=path, tensor_name=wanted, shape_and_slice=part, dt=kind))
    return {"path": path_of(s), "values": values}, program(call)


def merged(s):
    """Two checkpoints merged into one that is read."""
    one, two = values_of(s, s.int(1, 2)), values_of(s, s.int(1, 2))
    names = [f"one{i}" for i in range(len(one))] + [f"two{i}" for i in range(len(two))]
    types = [dtype_of(v) for v in one + two]
    missing, allow, delete = s.chance(0.1), s.chance(0.3), s.chance(0.5)

    def call(raw, path, one, two):
        ends = [path + "_temp/part0", path + "_temp/part1"]
        save = lambda prefix, names, values: raw.SaveV2(prefix=prefix, tensor_names=names, shape_and_slices=[""] * len(names), tensors=values)
        done = [save(ends[0], names[:len(one)], one), save(ends[1], names[len(one):], two)]
        ends = ends + [path + "_temp/part2"] if missing else ends
        done = [after(done, lambda: raw.MergeV2Checkpoints(checkpoint_prefixes=ends, destination_prefix=path, delete_old_dirs=delete, allow_missing_files=allow))]
        return after(done, lambda: list(raw.RestoreV2(prefix=path, tensor_names=names, shape_and_slices=[""] * len(names), dtypes=types)))
    return {"path": path_of(s), "one": one, "two": two}, program(call)


def sharded(s):
    return {"basename": s.array("string", ()), "shard": np.int32(s.int(-2, 120000)), "num_shards": np.int32(s.int(0, 120000))}, {}


def sharded_all(s):
    return {"basename": s.array("string", ()), "num_shards": np.int32(s.int(0, 120000))}, {}


def printed(s):
    """Texts printed to a file, and the file read."""
    path = str(path_of(s))
    stream, end = "file://" + path, s.one(["\n", "", "; "])
    lost = s.chance(0.1)
    inputs = {"one": s.array("string", ()), "two": s.array("string", () if s.chance(0.95) else (2,))}

    def call(raw, one, two):
        done = [raw.PrintV2(input=one, output_stream=stream, end=end)]
        done = [after(done, lambda: raw.PrintV2(input=two, output_stream=stream, end=end))]
        return after(done, lambda: raw.ReadFile(filename=path + "x" if lost else path))
    return inputs, program(call)


REFUSED_FILE = "refused: it touches files outside the model's directory"
REFUSED_PYTHON = "refused: it runs Python code of the process that made the model"
DRAWS = {"SaveV2": checkpoint, "RestoreV2": lambda s: s.one([checkpoint, halves("SaveV2")])(s), "SaveSlices": halves("SaveSlices"), "RestoreSlice": halves("SaveSlices"),
         "Save": first_save, "Restore": first_save, "MergeV2Checkpoints": merged, "ShardedFilename": sharded, "ShardedFilespec": sharded_all,
         "PrintV2": printed, "ReadFile": printed}
EXEMPT = {"WriteFile": REFUSED_FILE, "MatchingFiles": REFUSED_FILE, "PyFunc": REFUSED_PYTHON, "PyFuncStateless": REFUSED_PYTHON, "EagerPyFunc": REFUSED_PYTHON}
