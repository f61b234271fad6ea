"""One 1x224x224x3 float image to a model that answers its mean, over every wire: milliseconds a request, one connection.

    python tests/bench/image.py REST_PORT GRPC_PORT SECONDS [COPIES]      prints WIRE MEDIAN LEAST REQUEST_BYTES COPIED_BYTES a line

COPIES: the file of tests/bench/copies.c, which the server was started with; without it nothing is known to be copied.
"""
import http.client
import json
import os
import struct
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import grpc
import numpy as np
import tensorflow as tf
import tritonclient.grpc as tg
from tensorflow_serving.apis import predict_pb2

rest, port, seconds = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])


def copied():
    if len(sys.argv) < 5:
        return 0
    with open(sys.argv[4], "rb") as f:
        return struct.unpack("<Q", f.read(8))[0]


image = np.random.default_rng(1).random((1, 224, 224, 3), np.float32)
connection = http.client.HTTPConnection("127.0.0.1", rest)
channel = grpc.insecure_channel(f"127.0.0.1:{port}", [("grpc.max_send_message_length", -1)])


def post(path, body, **headers):
    def send():
        connection.request("POST", path, body, headers)
        r = connection.getresponse()
        text = r.read()
        assert r.status == 200, text
    return send


def call(path, body):
    return lambda: channel.unary_unary(path)(body)


def predict(value):
    q = predict_pb2.PredictRequest()
    q.model_spec.name = "m"
    q.inputs["x"].CopyFrom(value)
    return q.SerializeToString()


def typed():
    t = tf.make_tensor_proto(image)
    content = tf.make_tensor_proto(0.0)
    content.tensor_shape.CopyFrom(t.tensor_shape)
    del content.float_val[:]
    content.float_val.extend(image.ravel().tolist())
    return content


def binary_v2():
    head = json.dumps({"inputs": [{"name": "x", "shape": list(image.shape), "datatype": "FP32", "parameters": {"binary_data_size": image.nbytes}}],
                       "outputs": [{"name": "y", "parameters": {"binary_data": True}}]}).encode()
    return head + image.tobytes(), str(len(head))


def grpc_v2():
    x = tg.InferInput("x", list(image.shape), "FP32")
    x.set_data_from_numpy(image)
    q = tg.service_pb2.ModelInferRequest(model_name="m", inputs=[x._get_tensor()])
    q.raw_input_contents.append(image.tobytes())
    return q.SerializeToString()


v2_body, v2_head = binary_v2()
row = json.dumps({"instances": np.round(image, 4).tolist()}).encode()
service, infer = "/tensorflow.serving.PredictionService/Predict", "/inference.GRPCInferenceService/ModelInfer"
wires = {"REST v1 JSON": (post("/v1/models/m:predict", row), len(row)),
         "REST v2 binary": (post("/v2/models/m/infer", v2_body, **{"Inference-Header-Content-Length": v2_head}), len(v2_body)),
         "gRPC v1 float_val": (call(service, predict(typed())), image.nbytes),
         "gRPC v1 tensor_content": (call(service, predict(tf.make_tensor_proto(image))), image.nbytes),
         "gRPC v2 raw": (call(infer, grpc_v2()), image.nbytes)}
for name, (send, size) in wires.items():
    send()
    before = copied()
    took, until = [], time.perf_counter() + seconds
    while time.perf_counter() < until:
        began = time.perf_counter()
        send()
        took.append(time.perf_counter() - began)
    took.sort()
    print(f"{name}\t{took[len(took) // 2] * 1e3:.2f}\t{took[0] * 1e3:.2f}\t{size}\t{(copied() - before) / len(took):.0f}", flush=True)
