"""Requests that are right, of the models that tests/e2e/models.py makes: what the generators damage, and what must be answered meanwhile."""
import gzip
import json
import struct

import wire
from wire import entry, message

PREDICTION, INFERENCE = "/tensorflow.serving.PredictionService/", "/inference.GRPCInferenceService/"
PREDICT, INFER, STREAM = PREDICTION + "Predict", INFERENCE + "ModelInfer", INFERENCE + "ModelStreamInfer"
FLOAT, STRING, INT64, INT32 = 1, 7, 9, 3
JSON = "application/json"


# ---- protobuf

def floats(*values):
    return struct.pack(f"<{len(values)}f", *values)


def tensor(dtype, shape, content):
    """TensorProto; content: bytes of the elements, or a list of strings."""
    dims = b"".join(wire.field(2, wire.LEN, message((1, n))) for n in shape)
    data = [(4, content)] if isinstance(content, bytes) else [(8, s) for s in content]
    return message((1, dtype), (2, dims), *data)


def spec(model, signature=None, version=None):
    return message((1, model), (2, message((1, version)) if version else None), (3, signature))


def predict(model, signature=None, version=None, keep=(), **inputs):
    return message((1, spec(model, signature, version)), *((2, entry(k, v)) for k, v in inputs.items()), *((3, k) for k in keep))


def example(x):
    return message((1, message((1, entry("x", message((2, message((1, floats(x))))))))))


def of_examples(model, signature):
    """ClassificationRequest and RegressionRequest."""
    return message((1, spec(model, signature)), (2, message((1, message((1, example(1.0)), (1, example(2.0)))))))


def infer(model, *inputs, outputs=(), version=None):
    """ModelInferRequest; inputs: (name, dtype, shape, bytes)."""
    shaped = [(5, message((1, n), (2, t), (3, b"".join(map(wire.varint, s))))) for n, t, s, _ in inputs]
    return message((1, model), (2, version), (3, "id"), *shaped, *((6, message((1, o))) for o in outputs), *((7, d) for *_, d in inputs))


def gradient():
    return message((1, spec("gradients")), (2, entry("x", tensor(FLOAT, (1, 4), floats(1, 2, 3, 4)))), (3, "probs"), (4, "x"), (4, "var:dense/*"))


X = floats(1, 2, 3)
HALF = predict("half", x=tensor(FLOAT, (3,), X))
HALF_V2 = infer("half", ("x", "FP32", (3,), X))
MESSAGES = [   # (method, request)
    (PREDICT, HALF),
    (PREDICT, predict("half", "two", a=tensor(FLOAT, (2,), floats(1, 2)), b=tensor(INT64, (2,), struct.pack("<2q", 1, 2)), keep=("sum", "text"))),
    (PREDICT, predict("half", version=1, x=tensor(FLOAT, (0,), b""))),
    (PREDICT, predict("types", "text", s=tensor(STRING, (2,), [b"one", b"two"]))),
    (PREDICT, predict("types", "rows", x=tensor(FLOAT, (2, 4), floats(*range(8))))),
    (PREDICT, predict("tf1", x=tensor(FLOAT, (2, 1), floats(1, 2)))),
    (PREDICT, predict("batching", "sizes", x=tensor(FLOAT, (2, 5), floats(*range(10))))),
    (PREDICT, predict("batching", "pick", i=tensor(INT32, (3,), struct.pack("<3i", 1, 2, 3)))),
    (PREDICTION + "Classify", of_examples("half", "classify")),
    (PREDICTION + "Regress", of_examples("half", "regress")),
    (PREDICTION + "Regress", of_examples("tf1", "regress")),
    (PREDICTION + "MultiInference", message((1, message((1, spec("half", "regress")), (2, "tensorflow/serving/regress"))),
                                            (1, message((1, spec("half", "classify")), (2, "tensorflow/serving/classify"))),
                                            (2, message((1, message((1, example(1.0)))))))),
    (PREDICTION + "GetModelMetadata", message((1, spec("half")), (2, "signature_def"))),
    ("/tensorflow.serving.ModelService/GetModelStatus", message((1, spec("half")))),
    (INFER, HALF_V2),
    (INFER, infer("types", ("x", "FP32", (2, 4), floats(*range(8))), outputs=("scores",))),
    (INFER, infer("half", ("x", "FP32", (3,), X), version="1")),
    (INFERENCE + "ModelMetadata", message((1, "types"))),
    (INFERENCE + "ModelConfig", message((1, "half"))),
    (INFERENCE + "ModelStatistics", message((1, "half"))),
    (INFERENCE + "RepositoryIndex", message((2, 1))),
    (INFERENCE + "ModelReady", message((1, "half"))),
    (INFERENCE + "TraceSetting", message((1, entry("trace_rate", message((1, "1000")))), (2, "half"))),
    (INFERENCE + "LogSettings", message((1, entry("log_verbose_level", message((2, 0)))))),
    ("/tensord.v1.Debug/Gradient", gradient()),
    ("/tensord.v1.Models/List", b""),
    ("/tensord.v1.Models/Functions", message((1, spec("half")))),
    ("/tensord.v1.Models/Devices", b""),
    ("/tensord.v1.Models/RestartDevice", message((1, "/device:GPU:0"))),
    ("/tensord.v1.FineTuning/ListJobs", message((1, 10))),
    ("/grpc.health.v1.Health/Check", message((1, "half"))),
    ("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", message((3, "inference.proto"))),
]
STREAMS = [STREAM, "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"]


# ---- JSON

DOCUMENTS = [   # (path, body)
    ("/v1/models/half:predict", {"instances": [1.0, 2.0, 3]}),
    ("/v1/models/half:predict", {"inputs": {"x": [1.0, 2.0]}, "signature_name": "serving_default"}),
    ("/v1/models/half/versions/1:predict", {"signature_name": "two", "instances": [{"a": 1.5, "b": 2}, {"a": 2.5, "b": -3}]}),
    ("/v1/models/types:predict", {"signature_name": "text", "instances": ["one", {"b64": "dHdv"}]}),
    ("/v1/models/types:predict", {"signature_name": "rows", "inputs": [[1, 2, 3, 4], [5, 6, 7, 8]]}),
    ("/v1/models/tf1:predict", {"instances": [[1.0], [2.0]]}),
    ("/v1/models/batching:predict", {"signature_name": "sizes", "instances": [[1, 2, 3], [4, 5, 6]]}),
    ("/v1/models/batching:predict", {"signature_name": "pick", "instances": [0, 3, 15]}),
    ("/v1/models/half:classify", {"signature_name": "classify", "examples": [{"x": 1.0}, {"x": [2.0]}]}),
    ("/v1/models/half:regress", {"signature_name": "regress", "context": {}, "examples": [{"x": 1.0}, {"x": [2.0]}]}),
    ("/v1/models/gradients:gradient", {"inputs": {"x": [[1, 2, 3, 4]]}, "target": "probs", "wrt": ["x", "var:dense/*"], "output_gradients": {"probs": [[1, 0, 0]]}}),
    ("/v1/models/gradients:gradient", {"signature_name": "pair", "inputs": {"x": [1, 2], "z": [3, 4]}, "target": ["a", "b"], "wrt": ["x", "z"]}),
    ("/v2/models/half/infer", {"id": "1", "inputs": [{"name": "x", "shape": [2], "datatype": "FP32", "data": [1, 2]}], "outputs": [{"name": "y", "parameters": {"binary_data": False}}]}),
    ("/v2/models/types:text/infer", {"inputs": [{"name": "s", "shape": [2], "datatype": "BYTES", "data": ["one", "two"]}]}),
    ("/v2/models/types:rows/infer", {"inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [[1, 2, 3, 4]]}], "parameters": {"sequence_id": 3}}),
    ("/v2/models/half/versions/1/infer", {"inputs": [{"name": "x", "shape": [2], "datatype": "FP32", "data": [1, 2], "parameters": {"note": "x"}}]}),
]
PATHS = ["/healthz", "/readyz", "/metrics", "/v1/devices", "/v1/models", "/v1/models/half", "/v1/models/half/metadata", "/v1/models/half/functions", "/v1/models/half/versions/1", "/v1/models/none",
         "/v1/models/half/labels/none", "/v2", "/v2/health/live", "/v2/health/ready", "/v2/models", "/v2/models/half", "/v2/models/half/config", "/v2/models/half/stats", "/v2/models/stats",
         "/v2/models/half/ready", "/v2/repository/index", "/v2/trace/setting", "/v2/logging", "/v2/systemsharedmemory/status", "/v1/files", "/v1/fine_tuning/jobs", "/"]


def binary_infer():
    """Body and header of a v2 request with its tensor behind the JSON."""
    head = json.dumps({"inputs": [{"name": "x", "shape": [3], "datatype": "FP32", "parameters": {"binary_data_size": 12}}],
                       "outputs": [{"name": "y", "parameters": {"binary_data": True}}]}).encode()
    return head + X, [("Inference-Header-Content-Length", str(len(head)))]


def sound_requests():
    """[(method, path, headers, body)] that a server with `half` answers with 200, and always with the same bytes."""
    out = [("POST", path, [("Content-Type", JSON)], json.dumps(body).encode()) for path, body in DOCUMENTS if "/half" in path]
    packed = gzip.compress(out[0][3])
    body, extra = binary_infer()
    return out + [("POST", out[0][1], [("Content-Encoding", "gzip")], packed), ("POST", "/v2/models/half/infer", [("Content-Type", "application/octet-stream"), *extra], body),
                  ("GET", "/healthz", [], b""), ("GET", "/v1/models/half/metadata", [], b""), ("HEAD", "/healthz", [], b"")]
