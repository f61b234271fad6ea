"""Requests logged to TFRecord files as TensorFlow Serving's LoggingConfig asks, read back by TensorFlow.

    build/venv/bin/python tests/e2e/request_log_test.py [-v]
"""
import glob
import os
import resource
import time
import unittest

import numpy as np

import server
from server import Server, config, until

from messages import records_of, tf  # noqa: E402
from tensorflow_serving.apis import inference_pb2, predict_pb2, prediction_log_pb2, prediction_service_pb2_grpc, regression_pb2  # noqa: E402


def logging(prefix, rate=1.0, kind="tfrecord"):
    return f'logging_config {{ log_collector_config {{ type: "{kind}" filename_prefix: "{prefix}" }} sampling_config {{ sampling_rate: {rate} }} }}'


def daemon(models, *flags, **kw):
    """models: name -> further fields of its entry."""
    server.models()
    d = Server("--request_log_dir={dir}/logs", *flags, versions={m: (1,) for m in models}, wait=False, **kw)
    with open(os.path.join(d.dir, "models.config"), "w") as f:
        f.write(config(*((m, d.base(m), fields) for m, fields in models.items())))
    d.start()
    return d


def records(d, prefix):
    out = []
    for path in sorted(glob.glob(os.path.join(d.dir, "logs", prefix + "-*.tfrecord"))):
        out += [prediction_log_pb2.PredictionLog.FromString(r) for r in records_of(path)]
    return out


def counted(d, model, status):
    for line in d.get("/metrics").text.split("\n"):
        if line.startswith(f':tensorflow:serving:request_log_count{{model_name="{model}",status_code="{status}"}}'):
            return int(float(line.split()[-1]))
    return 0


class RequestLog(unittest.TestCase):
    def test_what_is_logged(self):
        d = daemon({"half": logging("half"), "tf1": logging("one"), "types": ""})
        try:
            stub = prediction_service_pb2_grpc.PredictionServiceStub(d.channel)
            r = predict_pb2.PredictRequest()
            r.model_spec.name = "half"
            r.inputs["x"].CopyFrom(tf.make_tensor_proto(np.float32([1, 2])))
            r.output_filter.append("y")
            answer = stub.Predict(r, 10)
            self.assertEqual(d.post("/v1/models/half:predict", {"instances": [5.0]}).json(), {"predictions": [4.5]})
            self.assertEqual(d.post("/v1/models/half:predict", {"instances": ["no"]}).status_code, 400)   # is not logged
            self.assertTrue(until(lambda: counted(d, "half", "OK") == 2))
            grpc_log, rest_log = records(d, "half")
            spec = grpc_log.log_metadata.model_spec
            self.assertEqual((spec.name, spec.version.value, spec.signature_name), ("half", 1, "serving_default"))
            self.assertEqual(grpc_log.log_metadata.sampling_config.sampling_rate, 1.0)
            self.assertLess(abs(grpc_log.log_metadata.timestamp_secs - time.time()), 60)
            np.testing.assert_array_equal(tf.make_ndarray(grpc_log.predict_log.request.inputs["x"]), np.float32([1, 2]))
            self.assertEqual(list(grpc_log.predict_log.request.output_filter), ["y"])
            np.testing.assert_array_equal(tf.make_ndarray(grpc_log.predict_log.response.outputs["y"]), tf.make_ndarray(answer.outputs["y"]))
            np.testing.assert_array_equal(tf.make_ndarray(rest_log.predict_log.response.outputs["y"]), np.float32([4.5]))

            examples = regression_pb2.RegressionRequest()
            examples.model_spec.name, examples.model_spec.signature_name = "tf1", "regress"
            for x in (2.0, 4.0):
                examples.input.example_list.examples.add().features.feature["x"].float_list.value.append(x)
            try:
                regressed = stub.Regress(examples, 10)
            except Exception as e:
                self.fail(f"{e}; signatures: {d.get('/v1/models/tf1/metadata').text[:600]}")
            self.assertTrue(until(lambda: counted(d, "tf1", "OK") == 1))
            one, = records(d, "one")
            self.assertEqual([e.SerializeToString() for e in one.regress_log.request.input.example_list.examples],
                             [e.SerializeToString() for e in examples.input.example_list.examples])
            self.assertEqual(one.regress_log.response.result, regressed.result)

            multi = inference_pb2.MultiInferenceRequest(input=examples.input)
            for method, signature in (("regress", "regress"), ("classify", "classify")):
                task = multi.tasks.add(method_name=f"tensorflow/serving/{method}")
                task.model_spec.name, task.model_spec.signature_name = "tf1", signature
            inferred = stub.MultiInference(multi, 10)
            self.assertTrue(until(lambda: counted(d, "tf1", "OK") == 2))
            both = records(d, "one")[1]
            self.assertEqual((both.multi_inference_log.request, both.multi_inference_log.response), (multi, inferred))
            spec = both.log_metadata.model_spec
            self.assertEqual((spec.name, spec.version.value, spec.signature_name), ("tf1", 1, "regress"))

            # A rate of nothing, by a new configuration; the others go on.
            with open(os.path.join(d.dir, "models.config"), "w") as f:
                f.write(config(("half", d.base("half"), logging("half", 0.0)), ("tf1", d.base("tf1"), ""), ("types", d.base("types"), "")))
            d.proc.send_signal(1)
            time.sleep(1)
            for _ in range(20):
                d.post("/v1/models/half:predict", {"instances": [5.0]})
            self.assertEqual(counted(d, "half", "OK"), 2)
            modes = {oct(os.stat(p).st_mode & 0o777) for p in glob.glob(os.path.join(d.dir, "logs", "*"))}
            self.assertEqual(modes, {"0o600"})
        finally:
            self.assertEqual(d.stop(), 0)

    def test_a_rate_samples(self):
        d = daemon({"half": logging("half", 0.25)})
        try:
            for _ in range(400):
                self.assertEqual(d.post("/v1/models/half:predict", {"instances": [5.0]}).status_code, 200)
            time.sleep(0.5)
            self.assertTrue(60 <= counted(d, "half", "OK") <= 145, counted(d, "half", "OK"))   # six standard deviations
        finally:
            self.assertEqual(d.stop(), 0)

    def test_a_full_disk_and_the_quota_cost_records_only(self):
        server.models()
        d = daemon({"half": logging("half")}, "--request_log_quota=20000")
        try:
            x = [float(i) for i in range(500)]
            for _ in range(20):
                self.assertEqual(d.post("/v1/models/half:predict", {"instances": x}).status_code, 200)
            self.assertTrue(until(lambda: counted(d, "half", "OK") + counted(d, "half", "RESOURCE_EXHAUSTED") == 20))
            ok = counted(d, "half", "OK")
            self.assertTrue(1 <= ok <= 5, ok)
            self.assertEqual(len(records(d, "half")), ok)
            self.assertLessEqual(sum(os.path.getsize(p) for p in glob.glob(os.path.join(d.dir, "logs", "*"))), 20000)
            self.assertEqual("".join(d.log).count("are not logged"), 1)
        finally:
            self.assertEqual(d.stop(), 0)

        d = daemon({"half": logging("half")})
        try:   # a file size limit is what a full disk looks like
            d.post("/v1/models/half:predict", {"instances": [1.0]})
            self.assertTrue(until(lambda: counted(d, "half", "OK") == 1))
            resource.prlimit(d.proc.pid, resource.RLIMIT_FSIZE, (1000, 1000))
            for _ in range(5):
                self.assertEqual(d.post("/v1/models/half:predict", {"instances": x}).status_code, 200)
            self.assertTrue(until(lambda: counted(d, "half", "UNAVAILABLE") == 5))
            self.assertEqual(len(records(d, "half")), 1)      # cut back to what is whole
        finally:
            self.assertEqual(d.stop(), 0)

    def test_what_is_refused(self):
        server.models()
        for fields, words in ((logging("half", kind=""), "log_collector_config of type '' is not known, 'tfrecord' is"),
                              (logging("half", kind="sawmill"), "type 'sawmill' is not known"),
                              (logging("half", 1.5), "sampling_rate 1.5, must be from 0 to 1"),
                              (logging("../half"), "filename_prefix '../half' must name files in --request_log_dir"),
                              (logging("/etc/half"), "filename_prefix '/etc/half' must name files in --request_log_dir")):
            d = Server("--request_log_dir={dir}/logs", wait=False)
            with open(os.path.join(d.dir, "models.config"), "w") as f:
                f.write(config(("half", d.base("half"), fields)))
            code, _, text = d.exits()
            self.assertEqual(code, 2, text)
            self.assertIn(words, text)
        d = Server(wait=False)
        with open(os.path.join(d.dir, "models.config"), "w") as f:
            f.write(config(("half", d.base("half"), logging("half"))))
        code, _, text = d.exits()
        self.assertEqual(code, 2)
        self.assertIn("the server was started without --request_log_dir", text)


if __name__ == "__main__":
    unittest.main()
