"""TensorFlow behind a Python gRPC server: what a user without a model server writes, for the benchmark of saturation.

    python tests/bench/tf_server.py MODEL_DIR PORT          PredictionService.Predict of serving_default, four threads a core
"""
import concurrent.futures
import os
import sys

import grpc
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

model = tf.saved_model.load(sys.argv[1])
serve = model.signatures["serving_default"]


class Predict(prediction_service_pb2_grpc.PredictionServiceServicer):
    def Predict(self, request, context):
        out = serve(**{k: tf.constant(tf.make_ndarray(v)) for k, v in request.inputs.items()})
        answer = predict_pb2.PredictResponse()
        for k, v in out.items():
            answer.outputs[k].CopyFrom(tf.make_tensor_proto(v.numpy()))
        return answer


server = grpc.server(concurrent.futures.ThreadPoolExecutor(4 * os.cpu_count()))
prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(Predict(), server)
server.add_insecure_port(f"127.0.0.1:{sys.argv[2]}")
server.start()
print("ready", flush=True)
server.wait_for_termination()
