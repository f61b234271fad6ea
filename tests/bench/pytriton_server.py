"""NVIDIA's pytriton (a real Triton with its Python backend) in front of TensorFlow, for the benchmark of saturation.

    build/pytriton/bin/python tests/bench/pytriton_server.py MODEL_DIR GRPC_PORT HTTP_PORT METRICS_PORT

Its Triton brings a Python interpreter of its own that must fit the one that runs this: Debian 12's 3.11.2 does, 3.11.7 does not ("module
'_thread' ... _recursion_count"). So:

    /usr/bin/python3 -m venv build/pytriton && build/pytriton/bin/pip install nvidia-pytriton tensorflow-cpu

bench.py looks there, or in the venv that $BENCH_PYTRITON names.
"""
import os
import sys
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import tensorflow as tf
from pytriton.decorators import batch
from pytriton.model_config import DynamicBatcher, ModelConfig, Tensor
from pytriton.triton import Triton, TritonConfig

serve = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
grpc_port, http_port, metrics_port = (int(a) for a in sys.argv[2:5])
tensors = lambda specs: [Tensor(name=n, dtype=s.dtype.as_numpy_dtype, shape=tuple(s.shape[1:])) for n, s in specs.items()]


@batch
def infer(**inputs):
    return {n: t.numpy() for n, t in serve(**{k: tf.constant(v) for k, v in inputs.items()}).items()}


with tempfile.TemporaryDirectory() as workspace:
    config = TritonConfig(grpc_port=grpc_port, http_port=http_port, metrics_port=metrics_port, grpc_address="127.0.0.1", http_address="127.0.0.1")
    with Triton(config=config, workspace=os.path.join(workspace, "w")) as triton:
        triton.bind(model_name="m", infer_func=infer, inputs=tensors(serve.structured_input_signature[1]), outputs=tensors(serve.structured_outputs),
                    config=ModelConfig(max_batch_size=64, batcher=DynamicBatcher()))
        triton.run()
        print("ready", flush=True)
        sys.stdin.read()     # until whoever started it closes this
