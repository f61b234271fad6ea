"""Batching and scheduling over the wires, with unmodified clients: rows come back to the request they came from, what is not
row-wise is never batched, one bad request harms no other, deadlines, cancelled and refused requests, TF Serving's parameters.

    build/venv/bin/python tests/e2e/batching_test.py [-v] [TestCase.test]      $TENSORD: the daemon (default build/tensord)
"""
import concurrent.futures
import os
import re
import shutil
import sys
import time
import unittest

import grpc
import numpy as np
import requests
import tritonclient.grpc as tg

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import server  # noqa: E402
from server import CODE, PATIENCE, SANITIZED, Case  # noqa: E402
from messages import tf  # noqa: E402
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc  # noqa: E402

CLIENTS = 24
TURNS = 20
ONE_LANE = "--lanes=1"


def rows(seed, n, width=256):
    return np.random.default_rng(seed).standard_normal((n, width)).astype(np.float32)


class Batching(Case):
    OPTIONS = {"versions": {"batching": (1,)}}

    def setUp(self):
        self.predict_stub = prediction_service_pb2_grpc.PredictionServiceStub(self.d.channel)

    def predict(self, signature, timeout=30, model="batching", **inputs):
        q = predict_pb2.PredictRequest()
        q.model_spec.name, q.model_spec.signature_name = model, signature
        for name, value in inputs.items():
            q.inputs[name].CopyFrom(tf.make_tensor_proto(value))
        return {k: tf.make_ndarray(v) for k, v in self.predict_stub.Predict(q, timeout).outputs.items()}

    def many(self, ask, n=200):
        """ask(i) from many clients at once; the results in order, exceptions among them."""
        def one(i):
            try:
                return ask(i)
            except (grpc.RpcError, requests.RequestException) as e:
                return e
        with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
            return list(pool.map(one, range(n)))

    def batches(self):
        """Runs by rows, from the statistics."""
        stats = self.d.get("/v2/models/batching/stats").json()["model_stats"][0]
        return {int(b["batch_size"]): int(b["compute_infer"]["count"]) for b in stats["batch_stats"]}

    def ran_since(self, before):
        """The sizes of what ran since then."""
        return {n for n, count in self.batches().items() if count != before.get(n, 0)}

    def in_turns(self, turn, met):
        """turn() until met() holds of it: where the clients are slow, no request of a turn meets another."""
        for _ in range(TURNS):
            got = turn()
            if met(got):
                return got
        self.fail(f"no requests met in {TURNS} turns")


class Adaptive(Batching):
    FLAGS = (ONE_LANE,)

    def test_rows_come_back_to_their_request(self):
        asked = [rows(i, 1 + i % 3) for i in range(200)]
        want = self.predict("serving_default", x=np.concatenate(asked))["y"]
        before = self.batches()
        def turn():
            got = self.many(lambda i: self.predict("serving_default", x=asked[i])["y"])
            np.testing.assert_allclose(np.concatenate(got), want, rtol=1e-4, atol=1e-5)
        self.in_turns(turn, lambda _: max(self.ran_since(before)) > 3)

    def test_rows_over_rest_and_grpc_run_together(self):
        asked = [rows(i, 1) for i in range(120)]
        def ask(i):
            if i % 2:
                return self.predict("serving_default", x=asked[i])["y"]
            r = requests.post(f"http://127.0.0.1:{self.d.rest_port}/v1/models/batching:predict", json={"inputs": asked[i].tolist()}, timeout=30)
            return np.array(r.json()["outputs"], np.float32)
        got = self.many(ask, len(asked))
        want = self.predict("serving_default", x=np.concatenate(asked))["y"]
        np.testing.assert_allclose(np.concatenate(got), want, rtol=1e-4, atol=1e-5)

    def test_inner_shapes_that_differ_are_kept_apart(self):
        asked = [rows(i, 1, 1 + i % 4) for i in range(200)]
        for x, y in zip(asked, self.many(lambda i: self.predict("sizes", x=asked[i])["y"])):
            np.testing.assert_allclose(y, x.sum(1), rtol=1e-4, atol=1e-5)

    def test_a_bad_request_harms_no_other(self):
        self.predict("pick", i=np.array([1], np.int32))
        got = self.many(lambda i: self.predict("pick", i=np.array([i % 20], np.int32))["y"])
        for i, y in enumerate(got):
            if i % 20 < 16:
                self.assertEqual(y.tolist(), [float(i % 20)])
            else:
                self.assertEqual(y.code(), CODE.INVALID_ARGUMENT, y)
                self.assertIn("is not in [0, 16)", y.details())

    def test_what_is_not_row_wise_is_never_batched(self):
        asked = [rows(i, 2) for i in range(60)]
        for x, y in zip(asked, self.many(lambda i: self.predict("centred", x=asked[i])["y"], 60)):
            np.testing.assert_allclose(y, x - x.mean(0), rtol=1e-4, atol=1e-5)
        for x, y in zip(asked, self.many(lambda i: self.predict("total", x=asked[i])["y"], 60)):
            np.testing.assert_allclose(y, x.sum(), rtol=1e-3, atol=1e-3)
        counted = self.many(lambda i: self.predict("count", x=np.zeros(1, np.float32))["n"], 60)
        self.assertEqual(sorted(float(n[0]) for n in counted), [float(i + 1) for i in range(60)])
        log = "".join(self.d.log)
        for signature in ("centred", "total", "count"):
            self.assertRegex(log, f"signature '{signature}' is not row-wise, so its requests are not batched: .+")

    def test_batches_stay_where_a_signature_is_row_wise(self):
        asked = [rows(i, 1 + (i % 7 == 0) * (i % 5)) for i in range(200)]
        want = [self.predict("serving_default", x=x)["y"] for x in asked]
        self.predict("few", x=asked[1])
        before = self.batches()
        def turn():
            got = self.many(lambda i: self.predict("few", x=asked[i])["y"])
            for x, y, z in zip(asked, want, got):
                np.testing.assert_allclose(z, y if len(x) <= 3 else y[::-1], rtol=1e-4, atol=1e-5)
        self.in_turns(turn, lambda _: 3 in self.ran_since(before))
        self.assertLessEqual(max(self.ran_since(before)), 5, "what is the largest request alone")

    def test_a_request_is_not_run_after_its_deadline(self):
        self.predict("serving_default", x=rows(0, 1))
        results = self.many(lambda i: self.predict("serving_default", timeout=0.005 if i % 2 else 30, x=rows(i, 64)), 100)
        late = [r for r in results if isinstance(r, grpc.RpcError)]
        self.assertEqual({r.code() for r in late}, {CODE.DEADLINE_EXCEEDED})
        self.assertGreaterEqual(sum(isinstance(r, dict) for r in results), 50)

    def test_a_rest_request_names_its_timeout(self):
        url = f"http://127.0.0.1:{self.d.rest_port}/v1/models/batching:predict"
        body = {"inputs": rows(0, 64).tolist()}
        self.answers(requests.post(url, json=body, headers={"X-Request-Timeout": "20s"}, timeout=30), 200)
        self.answers(requests.post(url, json=body, headers={"X-Request-Timeout": "0.01ms"}, timeout=30), 504, "waited")
        self.answers(requests.post(url, json=body, headers={"X-Request-Timeout": "soon"}, timeout=30), 400, "X-Request-Timeout is 'soon', want")

    def test_priorities_over_v2(self):
        """Of requests that wait, those of priority 1 are answered first."""
        n = 200 if SANITIZED else 1000  # long enough that requests wait
        x = tg.InferInput("x", [n, 256], "FP32")
        x.set_data_from_numpy(rows(0, n))
        def ask(i):
            with tg.InferenceServerClient(f"127.0.0.1:{self.d.port}") as c:
                c.is_server_live()  # connected: what follows is the request's own time
                began = time.monotonic()
                c.infer("batching", [x], priority=i % 2)
                return time.monotonic() - began
        def medians():
            waits = self.many(ask, 50)
            return np.median(waits[1::2]), np.median(waits[::2])
        self.in_turns(medians, lambda m: m[0] < 0.6 * m[1])  # a fifth as a rule; without priorities within a twentieth of the others'

    def test_cancelled_requests_leave_the_queue(self):
        q = predict_pb2.PredictRequest()
        q.model_spec.name = "batching"
        q.inputs["x"].CopyFrom(tf.make_tensor_proto(rows(0, 2000)))
        calls = [self.predict_stub.Predict.future(q, 30) for _ in range(30)]
        time.sleep(0.02)
        for c in calls:
            c.cancel()
        began = time.monotonic()
        self.predict("serving_default", x=rows(0, 1))
        self.assertLess(time.monotonic() - began, 5 * PATIENCE)


class Parameters(Batching):
    """TF Serving's --batching_parameters_file."""

    FLAGS = ("--enable_batching", "--batching_parameters_file={dir}/batching.config")
    TEXT = """max_batch_size { value: 8 } batch_timeout_micros { value: 20000 } max_enqueued_batches { value: 2 }
              num_batch_threads { value: 1 } allowed_batch_sizes: 4 allowed_batch_sizes: 8 pad_variable_length_inputs: true
              max_execution_batch_size { value: 99 } thread_pool_name { value: "mine" }"""   # the former counts with splitting only
    OPTIONS = {"versions": {"batching": (1,), "widths": (1,)}, "files": {"batching.config": TEXT}}

    def test_a_task_larger_than_the_batch(self):
        with self.fails(CODE.INVALID_ARGUMENT, "Task size 9 is larger than maximum input batch size 8"):
            self.predict("serving_default", x=rows(0, 9))

    def test_batches_have_allowed_sizes(self):
        self.predict("serving_default", x=rows(0, 1))
        asked = [rows(i, 3) for i in range(40)]
        def ask(i):
            while True:
                try:
                    return self.predict("serving_default", x=asked[i])["y"]
                except grpc.RpcError as e:
                    self.assertEqual(e.code(), CODE.RESOURCE_EXHAUSTED)
                    time.sleep(0.01)
        for x, y in zip(asked, self.many(ask, 40)):
            self.assertEqual(y.shape, x.shape)
        ran = self.d.get("/metrics").text
        self.assertRegex(ran, r":tensorflow:serving:batching_session:padding_size_sum\{[^}]*\} [1-9]")
        self.assertRegex(ran, r':tensorflow:serving:batching_session:queuing_latency_count\{thread_pool_name="mine"\} [1-9]')

    def test_widths_that_differ_are_padded(self):
        self.predict("sizes", x=rows(0, 1, 3))
        asked = [rows(i, 2, 1 + i % 5) for i in range(8)]
        def ask(i):
            while True:
                try:
                    return self.predict("sizes", x=asked[i])["y"]
                except grpc.RpcError as e:
                    self.assertEqual(e.code(), CODE.RESOURCE_EXHAUSTED)
                    time.sleep(0.01)
        for x, y in zip(asked, self.many(ask, 8)):
            np.testing.assert_allclose(y, x.sum(1), rtol=1e-4, atol=1e-5)

    def test_widths_of_which_some_mix_rows_share_no_batch(self):
        """What was proven of one width holds for no other, nor for what padding makes of several."""
        for width in (3, 5, 2):
            self.predict("serving_default", x=rows(0, 1, width), model="widths")
        asked = [rows(i, 2, (3, 5, 2)[i % 3]) for i in range(90)]
        def ask(i):
            while True:
                try:
                    return self.predict("serving_default", x=asked[i], model="widths")["y"]
                except grpc.RpcError as e:
                    self.assertEqual(e.code(), CODE.RESOURCE_EXHAUSTED)
                    time.sleep(0.01)
        for x, y in zip(asked, self.many(ask, 90)):
            np.testing.assert_allclose(y, x.sum(1)[::-1] if x.shape[1] > 3 else x.sum(1), rtol=1e-4, atol=1e-5)

    def test_a_full_queue_answers_at_once(self):
        self.predict("serving_default", x=rows(0, 1))
        url = f"http://127.0.0.1:{self.d.rest_port}/v1/models/batching:predict"
        body = {"inputs": rows(0, 8).tolist()}
        def ask(i):
            began = time.monotonic()
            r = requests.post(url, json=body, timeout=30)
            return r, time.monotonic() - began
        for r, s in self.in_turns(lambda: [(r, s) for r, s in self.many(ask, 300) if r.status_code != 200], bool):
            self.answers(r, 429, "The batch scheduling queue to which this task was submitted is full", "max_enqueued_batches is 2")
            self.assertRegex(r.headers["Retry-After"], "^[0-9]+$")


class Ranges(Batching):
    """What is row-wise for a range of rows, under parameters that pad batches and split large requests."""

    FLAGS = ("--enable_batching", "--batching_parameters_file={dir}/batching.config")
    TEXT = """max_batch_size { value: 8 } batch_timeout_micros { value: 2000 } num_batch_threads { value: 1 } max_enqueued_batches { value: 99 }
              enable_large_batch_splitting { value: true } max_execution_batch_size { value: 3 }"""
    OPTIONS = {"versions": {"batching": (1,)}, "files": {"batching.config": TEXT}}

    def ask_all(self, signature, sizes, want_of):
        asked = [rows(i, sizes[i % len(sizes)]) for i in range(80)]
        want = [want_of(self.predict("serving_default", x=x)["y"]) for x in asked]
        self.predict(signature, x=asked[0])
        for y, z in zip(want, self.many(lambda i: self.predict(signature, x=asked[i])["y"], 80)):
            np.testing.assert_allclose(z, y, rtol=1e-4, atol=1e-5)

    def test_chunks_of_too_few_rows_are_not_made(self):
        self.ask_all("some", (4, 2, 3, 1, 5, 7), lambda y: y if len(y) > 1 else 0 * y)

    def test_requests_past_the_range_are_not_split(self):
        self.ask_all("few", (1, 2, 4, 5, 3), lambda y: y if len(y) <= 3 else y[::-1])


class PaddedRanges(Ranges):
    TEXT = """max_batch_size { value: 8 } batch_timeout_micros { value: 2000 } num_batch_threads { value: 1 } max_enqueued_batches { value: 99 }
              allowed_batch_sizes: 4 allowed_batch_sizes: 8"""
    OPTIONS = {"versions": {"batching": (1,)}, "files": {"batching.config": TEXT}}


class WrongParameters(unittest.TestCase):
    def fails_to_start(self, text, *words, flags=("--enable_batching", "--batching_parameters_file={dir}/b.config")):
        server.models()
        code, _, err = server.Server(*flags, files={"b.config": text}, wait=False).exits()
        self.assertEqual(code, 2, err)
        for w in words:
            self.assertIn(w, err)

    def test_wrong_parameters(self):
        self.fails_to_start("max_batch_size { value: 0 }", "max_batch_size is 0, want at least 1")
        self.fails_to_start("max_batch_size { value: 8 } allowed_batch_sizes: 4", "Last entry in allowed_batch_sizes must match max_batch_size")
        self.fails_to_start("max_batch_size { value: 8 } enable_large_batch_splitting { value: true } max_execution_batch_size { value: 9 }",
                            "max_execution_batch_size 9 is larger than max_batch_size 8")
        self.fails_to_start("max_batch_size { value: 8 } allowed_batch_sizes: 8 allowed_batch_sizes: 4",
                            "allowed_batch_sizes entries must be positive and monotonically increasing; entry 1 is 4")
        self.fails_to_start("max_batch_size 8", "Error parsing text-format tensorflow.serving.BatchingParameters")
        self.fails_to_start("", "without --enable_batching", flags=("--batching_parameters_file={dir}/b.config",))

    def test_parameters_of_one_version(self):
        """batching_params.pbtxt in the version's folder; a model without one is not batched."""
        server.models()
        with server.folder() as where:
            version = os.path.join(where, "1")
            os.mkdir(version)
            for name in ("saved_model.pb", "variables"):
                copy = shutil.copytree if name == "variables" else shutil.copy  # a link out of the version's folder is not followed
                copy(os.path.join(server.MODELS, "batching", "1", name), os.path.join(version, name))
            with open(os.path.join(version, "batching_params.pbtxt"), "w") as f:
                f.write("max_batch_size { value: 4 }")
            files = {"models.config": server.config(("m", where))}
            with server.serving("--enable_per_model_batching_parameters", versions={}, files=files) as d:
                r = d.post("/v1/models/m:predict", {"inputs": rows(0, 5).tolist()})
                self.assertEqual(r.status_code, 400)
                self.assertTrue(re.search("Task size 5 is larger than maximum input batch size 4", r.text), r.text)


class Policies(Batching):
    """The queue policies of a config.pbtxt: each priority waits in a queue of its own."""

    CONFIG = """max_batch_size: 4 instance_group { count: 1 } dynamic_batching { priority_levels: 3 default_priority_level: 2
                default_queue_policy { max_queue_size: 2 }
                priority_queue_policy { key: 1 value { default_timeout_microseconds: 1 } }
                priority_queue_policy { key: 3 value { default_timeout_microseconds: 1 timeout_action: DELAY } } }"""
    FLAGS = (ONE_LANE, "--model_config_file=", "--model_name=batching", "--model_base_path={dir}/batching")
    OPTIONS = {"versions": {"batching": (1,)}, "files": {"batching/config.pbtxt": CONFIG}}

    def outcomes(self, n=120, **kw):
        x = tg.InferInput("x", [4, 256], "FP32")
        x.set_data_from_numpy(rows(0, 4))
        def ask(_):
            with tg.InferenceServerClient(f"127.0.0.1:{self.d.port}") as c:
                try:
                    return "fine" if c.infer("batching", [x], **kw).as_numpy("y").shape == (4, 256) else "wrong"
                except tg.InferenceServerException as e:
                    return f"{e.status()} {e.message()}"
        return set(self.many(ask, n))

    def outcomes_with_a_refusal(self, **kw):
        return self.in_turns(lambda: self.outcomes(**kw), lambda found: found - {"fine"})

    def test_a_queue_s_limit_is_its_priority_s(self):
        self.assertEqual(self.outcomes(n=1), {"fine"})
        full = "StatusCode.RESOURCE_EXHAUSTED model 'batching': Exceeds maximum queue size: 2 requests of priority 2 wait and the limit is 2"
        for priority in (0, 2, 7):      # nothing and what there is not are the default one
            self.assertEqual(self.outcomes_with_a_refusal(priority=priority), {"fine", full})
        self.assertEqual(self.outcomes(priority=3), {"fine"})

    def test_what_waits_too_long_is_refused_or_delayed(self):
        refused = self.outcomes_with_a_refusal(priority=1) - {"fine"}
        self.assertTrue(refused)
        for what in refused:
            self.assertRegex(what, r"^StatusCode.UNAVAILABLE Request timeout expired: it waited \d+ ms for a worker$")
        self.assertEqual(self.outcomes(priority=3), {"fine"})


class Preferred(Batching):
    """preferred_batch_size: requests wait for others only until the smallest of these sizes can run."""

    CONFIG = """max_batch_size: 8 dynamic_batching { preferred_batch_size: [ 2, 8 ] max_queue_delay_microseconds: 5000000 }"""
    FLAGS = Policies.FLAGS
    OPTIONS = {"versions": {"batching": (1,)}, "files": {"batching/config.pbtxt": CONFIG}}

    def test_a_preferred_size_waits_for_no_larger_one(self):
        began = time.monotonic()
        self.predict("serving_default", x=rows(0, 2))
        self.assertIn((2, 256), {y.shape for y in self.many(lambda i: self.predict("serving_default", x=rows(i, 2))["y"], 4)})
        for n in self.many(lambda i: self.predict("serving_default", x=rows(i, 1))["y"].shape[0], 2):
            self.assertEqual(n, 1)
        self.assertLess(time.monotonic() - began, 5 * PATIENCE)


class Fairness(Batching):
    FLAGS = (ONE_LANE,)
    OPTIONS = {"versions": {"batching": (1,), "half": (1,)}}

    def test_a_flooded_model_leaves_the_other_its_share(self):
        big = rows(0, 32)
        self.predict("serving_default", x=big)
        ask_half = lambda: self.d.post("/v1/models/half:predict", {"instances": [1.0]})  # noqa: E731
        ask_half()
        alone = []
        for _ in range(20):
            began = time.monotonic()
            self.predict("serving_default", x=big)
            alone.append(time.monotonic() - began)
        with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
            flood = [pool.submit(self.predict, "serving_default", x=big) for _ in range(400)]
            waits = []
            while not all(f.done() for f in flood[:300]):
                began = time.monotonic()
                self.assertEqual(ask_half().status_code, 200)
                waits.append(time.monotonic() - began)
        # one batch of the other model, which may take four times as long as a lone run, and the clients' own processor time
        self.assertLess(np.median(waits), 8 * np.median(alone) + 0.05, (np.median(waits), np.median(alone), len(waits)))


if __name__ == "__main__":
    unittest.main()
