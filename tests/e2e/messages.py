"""TensorFlow's messages, and what else of TensorFlow it takes to ask a server, without TensorFlow, whose import takes six seconds of a processor.

    from messages import tf     # before anything of tensorflow or tensorflow_serving

The generated modules are the packages' own (tensorflow.core.*, tensorflow_serving.apis.*): only tensorflow/__init__.py is not run. `tf` has
make_tensor_proto and make_ndarray, which grpc_test.py holds against TensorFlow's, and files of records. Models that a test makes with TensorFlow are
made by a process of their own (server.made), where `tf` is TensorFlow itself.
"""
import importlib.util
import os
import struct
import sys
import types

import numpy as np

WHOLE = "TENSORD_TESTS_MAKE" in os.environ   # server.made
if not WHOLE and "tensorflow" not in sys.modules:
    spec = importlib.util.find_spec("tensorflow")
    package = types.ModuleType("tensorflow")
    package.__path__, package.__spec__, package.__file__ = list(spec.submodule_search_locations), spec, spec.origin
    sys.modules["tensorflow"] = package

import ml_dtypes  # noqa: E402
from tensorflow.core.framework import tensor_pb2, types_pb2  # noqa: E402

BF16 = np.dtype(ml_dtypes.bfloat16)
# dtype: (DataType, its field of TensorProto, whether several values go as bytes)
DTYPES = {np.dtype(t): (getattr(types_pb2, "DT_" + name), field, raw) for t, name, field, raw in (
    (np.float32, "FLOAT", "float_val", True), (np.float64, "DOUBLE", "double_val", True), (np.int32, "INT32", "int_val", True),
    (np.uint8, "UINT8", "int_val", True), (np.int16, "INT16", "int_val", True), (np.int8, "INT8", "int_val", True),
    (np.int64, "INT64", "int64_val", True), (np.uint16, "UINT16", "int_val", False), (np.uint32, "UINT32", "uint32_val", True),
    (np.uint64, "UINT64", "uint64_val", True), (np.bool_, "BOOL", "bool_val", False), (np.float16, "HALF", "half_val", True),
    (BF16, "BFLOAT16", "half_val", True), (np.complex64, "COMPLEX64", "scomplex_val", False),
    (np.complex128, "COMPLEX128", "dcomplex_val", False), (object, "STRING", "string_val", False))}
BY_NUMBER = {number: (t, field) for t, (number, field, _) in DTYPES.items()}
PARTS = {"scomplex_val": np.float32, "dcomplex_val": np.float64, "half_val": np.uint16}  # what such a field's numbers are


def make_tensor_proto(values, shape=None):
    a = np.asarray(values)
    if a.dtype.kind in "SU":
        a = np.vectorize(lambda x: x.encode() if isinstance(x, str) else bytes(x), otypes=[object])(np.asarray(values, object))
    elif not isinstance(values, (np.ndarray, np.generic)):  # Python's own numbers are narrow
        a = a.astype({"i": np.int32, "f": np.float32}.get(a.dtype.kind, a.dtype))
    if shape is not None:
        a = a.reshape(shape)
    number, field, raw = DTYPES[a.dtype]
    t = tensor_pb2.TensorProto(dtype=number)
    t.tensor_shape.SetInParent()
    for d in a.shape:
        t.tensor_shape.dim.add().size = d
    if raw and a.size > 1:
        t.tensor_content = a.tobytes()
    else:
        flat = np.ascontiguousarray(a).reshape(-1)
        getattr(t, field).extend((flat.view(PARTS[field]) if field in PARTS else flat).tolist())
    return t


def make_ndarray(t):
    dtype, field = BY_NUMBER[t.dtype]
    shape = [d.size for d in t.tensor_shape.dim]
    if t.tensor_content:
        return np.frombuffer(t.tensor_content, dtype).reshape(shape).copy()
    values = list(getattr(t, field))
    a = np.empty(len(values), object)
    a[:] = values
    if field in PARTS:
        a = a.astype(PARTS[field]).view(dtype)
    n = int(np.prod(shape))
    if 0 < a.size < n:  # the last stands for the rest
        a = np.concatenate([a, np.repeat(a[-1:], n - a.size)])
    return a.astype(dtype).reshape(shape)


def crc32c_masked(data):
    """As TFRecord has it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = CRC[(crc ^ byte) & 255] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def crc_row(n):
    for _ in range(8):
        n = n >> 1 ^ (0x82F63B78 if n & 1 else 0)
    return n


CRC = [crc_row(n) for n in range(256)]


class TFRecordWriter:
    def __init__(self, path):
        self.file = open(path, "wb")

    def write(self, record):
        length = struct.pack("<Q", len(record))
        for part in (length, record):
            self.file.write(part + struct.pack("<I", crc32c_masked(part)))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()


def records_of(path):
    """The records of a file, whose sums are right."""
    found, at = [], 0
    with open(path, "rb") as f:
        data = f.read()
    while at < len(data):
        n, = struct.unpack_from("<Q", data, at)
        record = data[at + 12:at + 12 + n]
        assert struct.unpack_from("<I", data, at + 8)[0] == crc32c_masked(data[at:at + 8]), f"{path}: a length's sum at {at}"
        assert struct.unpack_from("<I", data, at + 12 + n)[0] == crc32c_masked(record), f"{path}: a record's sum at {at}"
        found.append(record)
        at += 16 + n
    return found


class Few:
    """What there is of `tf`."""
    make_tensor_proto, make_ndarray = staticmethod(make_tensor_proto), staticmethod(make_ndarray)
    io = types.SimpleNamespace(TFRecordWriter=TFRecordWriter)


if WHOLE:
    import tensorflow as tf  # noqa: E402
else:
    tf = Few
