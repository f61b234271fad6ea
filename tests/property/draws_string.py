"""Draws of string ops."""
import numpy as np

from draw_source import F, I


def string_split(s):
    return {"input": s.array("string", (s.int(0, 5),)), "sep": np.array(s.one(["", ",", " ", "l"]), object)}, {"maxsplit": s.int(-1, 2)}


def substr(s):
    x = s.array("string", s.shape(0, 2))
    return {"input": x, "pos": s.array("int32", (), -3, 3), "len": s.array("int32", (), 0, 4)}, {"unit": s.one(["BYTE", "UTF8_CHAR"])}


DRAWS = {
    "StringSplitV2": string_split, "Substr": substr,
    **{op: (lambda s: ({"input": s.array("string", s.shape(0, 2))}, {})) for op in "StringLength StringStrip StringLower StringUpper".split()},
    "StringToHashBucketFast": lambda s: ({"input": s.array("string", s.shape(0, 2))}, {"num_buckets": s.int(1, 1000)}),
    "AsString": lambda s: ({"input": s.array(s.one(F + I + ["bool"]), s.shape(0, 2))}, {}),
}
