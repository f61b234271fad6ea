"""Draws of the string ops: case, length, parts, joins, numbers in words, base64, regular expressions, Unicode, fingerprints.

Words are made of pieces that ops treat apart: blanks, separators, digits, signs, UTF-8 of one to four bytes, cut and overlong sequences, surrogates,
bytes that are no character, NUL.
"""
import numpy as np

from draw_source import C, F, H, I, S

PIECES = [b"", b"a", b"B", b"zz", b" ", b"\t", b"\n", b",", b",,", b".", b"1", b"23", b"-", b"+", b"e", b"0", b"Hello World", b"\0", "é".encode(),
          "ß".encode(), "İ".encode(), "ﬁ".encode(), "σς".encode(), "日本".encode(), "😀".encode(), "e\u0301".encode(), "\u00a0\u2003".encode(), b"\xff", b"\xc3", b"\xe6\x97",
          b"\xf0\x9f\x98", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\x80", b"\x7f", b"\x1b"]
ASCII = [p for p in PIECES if all(c < 128 for c in p)]


def word(s, pieces=PIECES):
    return b"".join(s.one(pieces) for _ in range(s.int(0, 4)))


def words(s, shape, pieces=PIECES):
    flat = np.empty(int(np.prod(shape)), object)
    for i in range(len(flat)):
        flat[i] = word(s, pieces)
    return flat.reshape(shape)


def scalar(b):
    return np.array(b, object)


def of_words(name="input", pieces=PIECES, **choices):
    """An op of one string tensor; each attribute is drawn from its choices."""
    return lambda s: ({name: words(s, s.shape(0, 3), pieces)}, {k: s.one(v) for k, v in choices.items()})


def join(s):
    shape = s.shape(0, 3)
    parts = [words(s, () if s.chance(0.3) else shape if s.chance(0.97) else s.shape(0, 3)) for _ in range(s.int(1, 4))]
    return {"inputs": parts}, {"separator": word(s, ASCII)}


def substr(s):
    x, d = words(s, s.shape(0, 3)), s.one(I)
    at = () if s.chance(0.4) else x.shape if s.chance(0.7) else s.alike(x.shape)
    pos, size = s.array(d, at, -3, 4 if s.chance(0.8) else 12), s.array(d, at if s.chance(0.95) else s.shape(0, 2), 0 if s.chance(0.9) else -2, 5)
    return {"input": x, "pos": pos, "len": size}, {"unit": s.one(["BYTE", "UTF8_CHAR"])}


def bucket(name, strong=False):
    def draw(s):
        attrs = {"num_buckets": s.one([1, 2, 10, 1000, 1 << 40])}
        if strong:
            attrs["key"] = [s.int(-9, 9), s.int(0, 1 << 60)]
        return {name: words(s, s.shape(0, 3))}, attrs
    return draw


def split_one(s):
    shape = (s.int(0, 5),) if s.chance(0.9) else s.shape(0, 2)
    return {"input": words(s, shape, ASCII), "delimiter": scalar(s.one([b"", b",", b" ", b", ", b"al", b"\n\t"]))}, {"skip_empty": s.chance(0.5)}


def split_two(s):
    shape = (s.int(0, 5),) if s.chance(0.9) else s.shape(0, 2)
    return {"input": words(s, shape), "sep": scalar(s.one([b"", b",", b" ", b",,", b"\xc3", b"l", b"zz"]))}, {"maxsplit": s.int(-2, 3)}


def splits(s, n):
    """Row splits of n values, wrong rarely."""
    cuts = np.sort(s.array("int64", (s.int(0, 4),), 0, n))
    row = np.concatenate([[0], cuts, [n]])
    if s.chance(0.05):
        row[s.int(0, len(row) - 1)] += s.one([-1, 1, 7])
    return row.astype(s.one(I)) if s.chance(0.95) else np.zeros(s.int(0, 1), s.one(I))


def ngrams(s):
    x = words(s, (s.int(0, 8),), ASCII)
    return {"data": x, "data_splits": splits(s, len(x))}, {
        "separator": s.one([" ", "", "|"]), "ngram_widths": [s.int(1, 4) if s.chance(0.97) else s.int(-1, 0) for _ in range(s.int(0, 3))],
        "left_pad": s.one(["", "L", "<s>"]), "right_pad": s.one(["", "R", "</s>"]), "pad_width": s.one([-1, 0, 1, 2, 5]),
        "preserve_short_sequences": s.chance(0.5)}


def as_string(s):
    d = s.one(F + H + I + ["int8", "int16", "uint8", "uint16", "uint32", "uint64", "bool", "string"] + C)
    x = s.array(d, s.shape(0, 3), -1000 if s.chance(0.5) else -2, 1000 if s.chance(0.5) else 2)
    if d in F and x.size and s.chance(0.5):
        x = x * np.asarray(s.one([1e-9, 1e9, 1e30, np.inf, np.nan, 0]), d)
    attrs = {"width": s.one([-1, -1, 0, 3, 12]), "fill": s.one(["", "0", " ", "+", "-", "#"] if s.chance(0.9) else ["x", "00"])}
    if d in F + H + C:
        attrs.update(precision=s.one([-1, -1, 0, 2, 9, 20]), **s.one([{}, {}, {"scientific": True}, {"shortest": True}, {"scientific": True, "shortest": True}]))
    elif s.chance(0.1):
        attrs["precision"] = 2
    return {"input": x}, attrs


NUMBERS = ["0", "-0", "1", "-1", "+7", " 12", "12 ", "3.5", "-2.25e3", "1e400", "-1e400", "1e-400", "nan", "inf", "-Infinity", "0x1p3", "0x10", "2147483647", "2147483648",
           "-2147483649", "4294967295", "4294967296", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "18446744073709551615",
           "18446744073709551616", "1_000", "1,5", ".5", "5.", "1e", "e1", "--1", "1 2", "0.1", "16777217", "3.4028236e38", "1e-45", "123456789.123456789"]


def to_number(s):
    good = s.chance(0.5)
    pick = [n for n in NUMBERS[:4] + ["12", "345"]] if good else NUMBERS + ["", "abc", "\u0661"]
    x = np.array([s.one(pick) for _ in range(s.int(1, 3) if not good else s.int(0, 6))], object)
    return {"string_tensor": x}, {"out_type": s.one(F + I + ["uint32", "uint64"])}


def string_format(s):
    n = s.int(0, 3)
    parts = [s.array(s.one(F + H + I + S + C + ["bool", "string"]), s.shape(0, 3)) for _ in range(n)]
    mark = s.one(["%s", "{}", "@@"])
    slots = n if s.chance(0.95) else n + 1
    template = "".join(s.one(["a", "", " - ", "%", "é"]) + mark for _ in range(slots)) + s.one(["", "end"])
    return {"inputs": parts}, {"template": template, "placeholder": mark, "summarize": s.one([-1, 0, 1, 2, 3, 10])}


def reduce_join(s):
    x = words(s, s.shape(0, 4))
    axes = s.r.permutation(x.ndim)[:s.int(0, x.ndim)].astype("int32") - (x.ndim if s.chance(0.3) else 0)
    if s.chance(0.05):
        axes = np.append(axes, s.one([x.ndim, -x.ndim - 1, 0])).astype("int32")
    axes = axes[0] if len(axes) == 1 and s.chance(0.5) else axes
    return {"inputs": x, "reduction_indices": axes}, {"keep_dims": s.chance(0.5), "separator": s.one(["", ",", "\0"])}


def segment_join(s):
    x, n = words(s, s.shape(1, 3), ASCII), s.int(0, 4)
    ids = s.array(s.one(I), x.shape[:s.int(1 if s.chance(0.97) else 0, x.ndim)], -1 if s.chance(0.3) else 0, n if s.chance(0.1) else max(n - 1, 0))
    return {"inputs": x, "segment_ids": ids, "num_segments": np.array(n, s.one(I))}, {"separator": s.one(["", ",", "--"])}


def decode_base64(s):
    import base64
    x = words(s, s.shape(0, 2))
    for at in np.ndindex(x.shape):
        code = base64.urlsafe_b64encode(x[at])
        x[at] = s.one([code, code.rstrip(b"="), code.rstrip(b"=")]) if s.chance(0.9) else s.one([code + b"=", b"+/", code + b"\n", b"a", b"====", b"A===", b"AB=C", b"ab~d"])
    return {"input": x}, {}


PATTERNS = ["a", "", ".", ".*", "^a", "a$", "[a-z]+", "(a)(b)?", "(?i)hello", "\\d+", "\\s", "\\pL", "[^a]", "(,|\\.)", "l+?", "(l)(l)", "\\bW", "\\x00", "日", "(?s).+", "\\C", "x{0,3}", "(?P<n>l)o"]
BAD_PATTERNS = ["(", "[", "a**", "\\1", "(?=a)", "\\", "a{1001}", "*", "(?<n>"]
REWRITES = ["", "x", "\\0", "<\\0>", "\\1", "\\\\", "[\\1\\0]", "é"]


def pattern(s):
    return s.one(PATTERNS) if s.chance(0.95) else s.one(BAD_PATTERNS)


def rewrite(s):
    return s.one(REWRITES) if s.chance(0.95) else s.one(["\\", "\\9", "\\a"])


def regex_replace(s):
    return {"input": words(s, s.shape(0, 2)), "pattern": scalar(pattern(s).encode()), "rewrite": scalar(rewrite(s).encode())}, {"replace_global": s.chance(0.5)}


def regex_match(s):
    return {"input": words(s, s.shape(0, 2)), "pattern": scalar(pattern(s).encode())}, {}


ENCODINGS = ["UTF-8", "UTF-8", "UTF-8", "UTF-16-BE", "UTF-16-LE", "UTF-16", "UTF-32-BE", "UTF-32-LE", "ISO-8859-1", "US-ASCII", "windows-1252", "latin1", "Shift_JIS", "EUC-JP", "GB18030", "KOI8-R", "utf8"]


def encoded(s, shape):
    """Words and the name of an encoding, of that encoding mostly."""
    name = s.one(ENCODINGS) if s.chance(0.98) else "no-such-encoding"
    x = words(s, shape)
    if s.chance(0.6):
        for at in np.ndindex(x.shape):
            text = x[at].decode("utf-8", "ignore")
            try:
                x[at] = text.encode({"UTF-16-BE": "utf-16-be", "UTF-16-LE": "utf-16-le", "UTF-32-BE": "utf-32-be", "UTF-32-LE": "utf-32-le"}.get(name, name), "ignore")
            except LookupError:
                pass
    return x, name


def error_rule(s):
    return {"errors": s.one(["replace", "replace", "ignore", "strict"]), "replacement_char": s.one([65533, 65533, 63, 32, 0x1F600] if s.chance(0.95) else [-1, 0xD800, 0x110000])}


def unicode_decode(splits_types):
    def draw(s):
        x, name = encoded(s, s.shape(0, 2))
        return {"input": x}, dict(error_rule(s), input_encoding=name, replace_control_characters=s.chance(0.3), Tsplits=s.one(splits_types))
    return draw


def unicode_transcode(s):
    x, name = encoded(s, s.shape(0, 2))
    return {"input": x}, dict(error_rule(s), input_encoding=name, output_encoding=s.one(["UTF-8", "UTF-16-BE", "UTF-32-BE"]), replace_control_characters=s.chance(0.3))


POINTS = [0, 9, 13, 31, 32, 65, 97, 127, 128, 159, 233, 0x3A9, 0x5D0, 0x627, 0x915, 0x3042, 0x65E5, 0xAC00, 0xD7FF, 0xD800, 0xDFFF, 0xE000, 0xFDD0, 0xFFFD, 0xFFFE, 0xFFFF, 0x10000, 0x1F600, 0x10FFFF,
          0x110000, -1, 2**31 - 1, -2**31]


def points(s, shape, most=len(POINTS)):
    return np.array([s.one(POINTS[:most]) for _ in range(int(np.prod(shape)))], "int32").reshape(shape)


def unicode_encode(s):
    x = points(s, (s.int(0, 8),), len(POINTS) if s.chance(0.4) else 19)
    return {"input_values": x, "input_splits": splits(s, len(x))}, dict(error_rule(s), output_encoding=s.one(["UTF-8", "UTF-16-BE", "UTF-32-BE"]))


def fingerprint(s):
    d = s.one(F + H + I + S + C + ["bool", "string"])
    shape = s.shape(0 if s.chance(0.1) else 1, 3)
    if d == "string" and 0 in shape[1:]:
        shape = (2, 3)   # of rows without words TensorFlow's answer is not initialised
    return {"data": s.array(d, shape), "method": scalar(b"farmhash64" if s.chance(0.95) else b"md5")}, {}


DRAWS = {
    "StringJoin": join, "StringLower": of_words(encoding=["", "utf-8"]), "StringUpper": of_words(encoding=["", "utf-8"]), "StringStrip": of_words(),
    "StringLength": of_words(unit=["BYTE", "UTF8_CHAR"]), "Substr": substr, "StringToHashBucket": bucket("string_tensor"), "StringToHashBucketFast": bucket("input"),
    "StringToHashBucketStrong": bucket("input", True), "StringSplit": split_one, "StringSplitV2": split_two, "StringNGrams": ngrams, "AsString": as_string,
    "StringToNumber": to_number, "StringFormat": string_format, "ReduceJoin": reduce_join, "UnsortedSegmentJoin": segment_join,
    "EncodeBase64": of_words(pad=[False, True]), "DecodeBase64": decode_base64, "RegexReplace": regex_replace, "RegexFullMatch": regex_match,
    "StaticRegexReplace": lambda s: ({"input": words(s, s.shape(0, 2))}, {"pattern": pattern(s), "rewrite": rewrite(s), "replace_global": s.chance(0.5)}),
    "StaticRegexFullMatch": lambda s: ({"input": words(s, s.shape(0, 2))}, {"pattern": pattern(s)}),
    "UnicodeDecode": unicode_decode(I),
    "UnicodeDecodeWithOffsets": unicode_decode(["int64"]),   # TensorFlow ends its process with int32 splits
     "UnicodeEncode": unicode_encode, "UnicodeTranscode": unicode_transcode,
    "UnicodeScript": lambda s: ({"input": points(s, s.shape(0, 3))}, {}), "Fingerprint": fingerprint,
}
