"""assets.extra/tf_serving_warmup_requests: replayed before a version serves, and what happens when it is wrong.

    build/venv/bin/python tests/e2e/warmup_test.py [-v] [Warmup.test_...]
"""
import os
import shutil
import time
import unittest

import numpy as np

import server
from server import MODELS, Server, serving

from messages import tf  # noqa: E402
from tensorflow_serving.apis import prediction_log_pb2  # noqa: E402


def log_of_every_kind(signatures=("serving_default", "classify", "regress")):
    predict, classify, regress = signatures
    rows = [prediction_log_pb2.PredictionLog() for _ in range(4)]
    q = rows[0].predict_log.request
    q.model_spec.name, q.model_spec.signature_name = "another name", predict
    q.inputs["x"].CopyFrom(tf.make_tensor_proto(np.float32([1, 2, 3])))
    q.output_filter.append("y")
    rows[1].classify_log.request.model_spec.signature_name = classify
    rows[2].regress_log.request.model_spec.signature_name = regress
    for method, name in (("classify", classify), ("regress", regress)):
        t = rows[3].multi_inference_log.request.tasks.add(method_name="tensorflow/serving/" + method)
        t.model_spec.name, t.model_spec.signature_name = "half", name
    for request in (rows[1].classify_log.request, rows[2].regress_log.request, rows[3].multi_inference_log.request):
        request.input.example_list.examples.add().features.feature["x"].float_list.value.append(2.0)
    return rows


class Warmup(server.Alone):
    def with_records(self, *records):
        """A version folder of `half` that holds these warm-up records (messages or bytes), or a file of those bytes."""
        where = os.path.join(self.enterContext(server.folder()), "1")
        shutil.copytree(os.path.join(MODELS, "half", "1"), where)
        os.mkdir(os.path.join(where, "assets.extra"))
        path = os.path.join(where, "assets.extra", "tf_serving_warmup_requests")
        if len(records) == 1 and isinstance(records[0], bytearray):
            with open(path, "wb") as f:
                f.write(records[0])
        else:
            with tf.io.TFRecordWriter(path) as w:
                for r in records:
                    w.write(r if isinstance(r, bytes) else r.SerializeToString())
        return os.path.dirname(where)

    def served(self, base, *flags):
        return serving(*flags, versions={}, files={"models.config": server.config(("half", base))})

    def traces(self, d):
        return {f["name"]: (f["traces"], sum(int(c["calls"]) for c in f["concrete"])) for f in d.get("/v1/models/half/functions").json()["functions"]}

    def test_records_of_every_kind_are_replayed_before_the_version_serves(self):
        base = self.with_records(*log_of_every_kind())
        with self.served(base, "--lanes=1") as d:   # a slow request would be two calls on two idle lanes
            self.assertTrue(d.wait_log("Number of warmup records read: 4"))
            before = self.traces(d)
            self.assertEqual([before[s] for s in ("serving_default", "classify", "regress", "two")], [(1, 1), (1, 2), (1, 2), (0, 0)])
            self.assertEqual(d.get("/v2/models/half/stats").json()["model_stats"][0]["inference_count"], 0)
            d.post("/v1/models/half:predict", {"instances": [1, 2, 3]})
            d.post("/v1/models/half:regress", {"signature_name": "regress", "examples": [{"x": 5.0}]})
            after = self.traces(d)
            self.assertEqual((after["serving_default"], after["regress"]), ((1, 2), (1, 3)))   # nothing was traced again

    def test_iterations_and_switching_it_off(self):
        base = self.with_records(*log_of_every_kind())
        with self.served(base, "--num_request_iterations_for_warmup=5", "--lanes=1") as d:
            self.assertEqual(self.traces(d)["serving_default"], (1, 5))
        with self.served(base, "--enable_model_warmup=false") as d:
            self.assertEqual(self.traces(d)["serving_default"], (0, 0))
        with self.served(self.with_records(prediction_log_pb2.PredictionLog()), "--num_request_iterations_for_warmup=0") as d:
            self.assertTrue(d.wait_log("Number of warmup records read: 1"))

    def fails_to_load(self, base, code, *words):
        with self.served(base, "--max_num_load_retries=0") as d:
            status = d.get("/v1/models/half").json()["model_version_status"][0]
            self.assertEqual((status["state"], status["status"]["error_code"]), ("END", code), status)
            for w in words:
                self.assertIn(w, status["status"]["error_message"])
            self.answers(d.post("/v1/models/half:predict", {"instances": [1]}), 404, "Servable not found")
            self.assertEqual(d.get("/readyz").status_code, 503)

    def test_a_record_that_fails_fails_the_load(self):
        wrong = log_of_every_kind()
        wrong[0].predict_log.request.model_spec.signature_name = "none"
        self.fails_to_load(self.with_records(*log_of_every_kind(), wrong[0]), "FAILED_PRECONDITION", "record 5", 'Serving signature key "none" not found.')
        self.fails_to_load(self.with_records(*log_of_every_kind(("serving_default", "two", "regress"))), "INVALID_ARGUMENT", "record 2", "Expected one input Tensor")
        for field, number in (("session_run_log", 5), ("predict_streamed_log", 7)):
            r = prediction_log_pb2.PredictionLog()
            getattr(r, field).SetInParent()
            self.fails_to_load(self.with_records(r), "UNIMPLEMENTED", f"Unsupported log_type for warmup: {number}")
        self.fails_to_load(self.with_records(b"\x32\xff\xff\xff\xff\x7f"), "INVALID_ARGUMENT", "record 1")

    def test_a_corrupt_file_fails_the_load(self):
        words = "Please verify your warmup data is in TFRecord format."
        self.fails_to_load(self.with_records(bytearray(b"this is no TFRecord")), "DATA_LOSS", words, "corrupted record at 0")
        self.fails_to_load(self.with_records(bytearray(b"short")), "DATA_LOSS", words, "truncated record at 0")

    def test_at_most_a_thousand_records(self):
        row = log_of_every_kind()[0]
        with self.served(self.with_records(*[row] * 1000), "--lanes=1") as d:
            self.assertEqual(self.traces(d)["serving_default"], (1, 1000))
        self.fails_to_load(self.with_records(*[row] * 1001), "INVALID_ARGUMENT", "Number of warmup records exceeds the maximum (1000)")

    def test_the_old_version_serves_when_the_new_one_s_warm_up_fails(self):
        with serving("--max_num_load_retries=0", versions={"half": (1,)}) as d:
            bad = self.with_records(bytearray(b"this is no TFRecord"))
            os.rename(os.path.join(bad, "1"), os.path.join(d.base("half"), "7"))
            self.assertTrue(d.wait_log("version: 7} failed: DATA_LOSS"))
            self.assertEqual(d.post("/v1/models/half:predict", {"instances": [0]}).json(), {"predictions": [2.0]})

    def test_stopping_ends_a_warm_up(self):
        long = prediction_log_pb2.PredictionLog()
        q = long.predict_log.request
        q.model_spec.signature_name = "slow"
        q.inputs["n"].CopyFrom(tf.make_tensor_proto(np.int64(1 << 60)))
        s = Server(versions={}, files={"models.config": server.config(("half", self.with_records(long)))}, wait=False)
        s.launch()
        time.sleep(1)
        self.assertEqual((s.stop(), s.log[-1].split()[-1]), (0, "stopped"))


if __name__ == "__main__":
    unittest.main()
