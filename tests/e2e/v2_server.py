"""What the tests of KServe v2 share: a daemon with `half` and `types`, tritonclient on both of its ports, inputs, and checks of what goes wrong."""
import contextlib
import http.client
import json
import unittest

import ml_dtypes
import numpy as np
import tritonclient.grpc as tg
import tritonclient.http as th
from tritonclient.utils import InferenceServerException

import server
from server import MODELS, ROOT  # noqa: F401

CODES = {400: "INVALID_ARGUMENT", 404: "NOT_FOUND", 501: "UNIMPLEMENTED", 503: "UNAVAILABLE"}

# name in the model, KServe's name, values
TYPES = [
    ("bool", "BOOL", np.array([True, False])),
    ("int8", "INT8", np.int8([-128, 127])),
    ("int16", "INT16", np.int16([-32768, 32767])),
    ("int32", "INT32", np.int32([-2**31, 2**31 - 1])),
    ("int64", "INT64", np.int64([-2**63, 2**63 - 1])),
    ("uint8", "UINT8", np.uint8([0, 255])),
    ("uint16", "UINT16", np.uint16([0, 65535])),
    ("uint32", "UINT32", np.uint32([0, 2**32 - 1])),
    ("uint64", "UINT64", np.uint64([0, 2**64 - 1])),
    ("float16", "FP16", np.float16([-0.5, 65504])),
    ("float32", "FP32", np.float32([0.1, -1e-40])),
    ("float64", "FP64", np.float64([0.1, 1e300])),
    ("bfloat16", "BF16", np.array([1.5, -2.0], ml_dtypes.bfloat16)),
    ("string", "BYTES", np.array(["h\u00e9".encode(), b""], dtype=object)),
]


def setUpModule():
    server.models()


class Daemon(server.Server):
    """Serves `half` (in versions that may come and go) and `types`; rest and grpc are tritonclient's."""

    def __init__(self, *flags, versions=(1, 2)):
        super().__init__(*flags, versions={"half": versions, "types": (1,)})

    def start(self):
        super().start()
        self.rest = th.InferenceServerClient(f"127.0.0.1:{self.rest_port}")
        self.grpc = tg.InferenceServerClient(f"127.0.0.1:{self.port}")

    def call(self, method, path, body=b"", headers=None):
        c = http.client.HTTPConnection("127.0.0.1", self.rest_port, timeout=30)
        with contextlib.closing(c):
            c.request(method, path, body if isinstance(body, bytes) else json.dumps(body).encode(), headers or {})
            r = c.getresponse()
            return r.status, r.headers, r.read()

    def stop(self):
        self.rest.close()
        self.grpc.close()
        return super().stop()


def tensor(name, values, datatype="FP32", binary=True):
    t = th.InferInput(name, list(values.shape), datatype)
    t.set_data_from_numpy(values, binary_data=binary)
    return t


def fp32(name, values, binary=True):
    return tensor(name, np.float32(values), binary=binary)


def value(lib, name, values, datatype="FP32"):
    t = lib.InferInput(name, list(np.shape(values)), datatype)
    t.set_data_from_numpy(np.asarray(values, np.float32 if datatype == "FP32" else None))
    return t


class Case(unittest.TestCase):
    FLAGS = ()

    @classmethod
    def setUpClass(cls):
        cls.d = Daemon(*cls.FLAGS)
        cls.wires = ((th, cls.d.rest), (tg, cls.d.grpc))

    @classmethod
    def tearDownClass(cls):
        code = cls.d.stop()
        assert code == 0, f"exit {code}: {''.join(cls.d.log[-5:])}"

    @contextlib.contextmanager
    def fails(self, status, *words, code=None):
        """The status over HTTP, or the same one's name over gRPC."""
        with self.assertRaises(InferenceServerException) as e:
            yield
        self.assertIn(str(e.exception.status()), (str(status), f"StatusCode.{code or CODES.get(status)}"), e.exception)
        for w in words:
            self.assertIn(w, e.exception.message())
