"""The files of a call (tests/bench/call.h): its inputs, and the answer that a program wrote."""
import struct

import numpy as np

DTYPES = {1: np.float32, 2: np.float64, 3: np.int32, 4: np.uint8, 5: np.int16, 6: np.int8, 9: np.int64, 10: np.bool_, 19: np.float16}
STRING, BFLOAT16 = 7, 14


class Reader:
    def __init__(self, path):
        with open(path, "rb") as f:
            self.bytes = f.read()
        self.at = 0

    def numbers(self, kind, n=1):
        got = struct.unpack_from(f"{n}{kind}", self.bytes, self.at)
        self.at += struct.calcsize(f"{n}{kind}")
        return got if n != 1 else got[0]

    def blob(self):
        n = self.numbers("i")
        self.at += n
        return self.bytes[self.at - n:self.at]

    def tensor(self, counted):
        """(name, node, array)"""
        name, node, dtype, rank = self.blob().decode(), self.blob().decode(), self.numbers("i"), self.numbers("i")
        shape = struct.unpack_from(f"{rank}q", self.bytes, self.at)
        self.at += 8 * rank
        count = self.numbers("i") if counted else 0
        if dtype == STRING:
            a = np.empty(count, object)
            a[:] = [self.blob() for _ in range(count)]
        elif dtype == BFLOAT16:   # as floats
            a = (np.frombuffer(self.blob(), np.uint16).astype(np.uint32) << 16).view(np.float32)
        else:
            a = np.frombuffer(self.blob(), DTYPES[dtype])
        return name, node, a.reshape(shape)


def inputs(path):
    """[(key of the signature, "node:port", array)]"""
    r = Reader(path)
    r.blob()
    return [r.tensor(True) for _ in range(r.numbers("i"))]


def answer(path):
    """{name: array}"""
    r, out = Reader(path), {}
    while r.at < len(r.bytes):
        name, _, a = r.tensor(False)
        out[name] = a
    return out


def write_answer(path, outputs):
    """outputs: {name: array}; those of strings are left out."""
    numbers = {np.dtype(d): n for n, d in DTYPES.items()}
    with open(path, "wb") as f:
        for name, a in outputs.items():
            if a.dtype in numbers:
                text, data = name.encode(), np.ascontiguousarray(a).tobytes()
                f.write((struct.pack("i", len(text)) + text) * 2 + struct.pack(f"ii{a.ndim}q", numbers[a.dtype], a.ndim, *a.shape))
                f.write(struct.pack("i", len(data)) + data)
