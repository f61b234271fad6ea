"""TLS, mutual TLS and bearer tokens on both ports, and who may manage without tokens.

    build/venv/bin/python tests/e2e/access_test.py [-v] [Tokens.test_...]      certificates are made with openssl
"""
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import unittest

import grpc
import numpy as np
import requests
import tritonclient.grpc as tg
import tritonclient.http as th

import server
from certificates import Certificates
from server import CODE, Case, Server, serving

from grpc_health.v1 import health_pb2, health_pb2_grpc  # noqa: E402
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc  # noqa: E402
from messages import tf  # noqa: E402
from tensorflow_serving.apis import get_model_status_pb2, inference_pb2, model_management_pb2, model_service_pb2_grpc  # noqa: E402
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc  # noqa: E402

HALF = {"instances": [0]}


LIVE = "/inference.GRPCInferenceService/ServerLive"


def further_ports(d):
    return re.search(r"kserve_grpc_port=(\d+) kserve_rest_port=(\d+)", "".join(d.log)).groups()


def request(name="half"):
    r = predict_pb2.PredictRequest()
    r.model_spec.name = name
    r.inputs["x"].CopyFrom(tf.make_tensor_proto(np.float32([0])))
    return r


class Tls(Case):
    VERIFY = False

    @classmethod
    def setUpClass(cls):
        cls.c = Certificates()
        cls.FLAGS = ("--ssl_config_file={dir}/ssl",)
        cls.OPTIONS = {"files": {"ssl": cls.c.config(cls.VERIFY)}, "rest": "https"}
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        shutil.rmtree(cls.c.dir, True)

    def predict(self, ca="ca", client=None):
        pair = (self.c.text(client + ".key").encode(), self.c.text(client + ".pem").encode()) if client else (None, None)
        creds = grpc.ssl_channel_credentials(self.c.text(ca + ".pem").encode(), *pair)
        with grpc.secure_channel(f"127.0.0.1:{self.d.port}", creds) as channel:
            return list(prediction_service_pb2_grpc.PredictionServiceStub(channel).Predict(request(), 10).outputs["y"].float_val)

    def post(self, ca="ca", client=None):
        pair = (self.c.path(client + ".pem"), self.c.path(client + ".key")) if client else None
        return self.d.post("/v1/models/half:predict", HALF, verify=self.c.path(ca + ".pem"), cert=pair)

    def refused(self, **kw):
        with self.fails(CODE.UNAVAILABLE):
            self.predict(**kw)
        self.d.session.close()
        with self.assertRaises(requests.exceptions.ConnectionError):
            self.post(**kw)

    def test_a_good_client_is_served(self):
        self.assertEqual((self.predict(), self.post().json()), ([2.0], {"predictions": [2.0]}))

    def test_tritonclient_is_served(self):
        ca, pair = self.c.path("ca.pem"), (self.c.path("client.key"), self.c.path("client.pem")) if self.VERIFY else (None, None)
        files = {"keyfile": pair[0], "certfile": pair[1]} if self.VERIFY else {}
        http = th.InferenceServerClient(f"127.0.0.1:{self.d.rest_port}", ssl=True, ssl_options={"ca_certs": ca, **files})
        rpc = tg.InferenceServerClient(f"127.0.0.1:{self.d.port}", ssl=True, root_certificates=ca, private_key=pair[0], certificate_chain=pair[1])
        for lib, c in ((th, http), (tg, rpc)):
            x = lib.InferInput("x", [1], "FP32")
            x.set_data_from_numpy(np.float32([0]))
            self.assertEqual(c.infer("half", [x]).as_numpy("y").tolist(), [2.0])
            c.close()

    def test_a_client_that_does_not_know_the_authority_leaves(self):
        self.refused(ca="other")

    def test_a_plain_text_client_gets_nothing_and_harms_nothing(self):
        with grpc.insecure_channel(f"127.0.0.1:{self.d.port}") as channel, self.fails(CODE.UNAVAILABLE):
            prediction_service_pb2_grpc.PredictionServiceStub(channel).Predict(request(), 10)
        for port in (self.d.port, self.d.rest_port):
            with socket.create_connection(("127.0.0.1", port), 10) as s:
                s.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
                try:
                    data = s.recv(100)
                except ConnectionResetError:
                    data = b""
                self.assertFalse(data.startswith(b"HTTP/1.1 200"))
        self.assertEqual(self.predict(client="client"), [2.0])


class MutualTls(Tls):
    VERIFY = True

    def test_a_good_client_is_served(self):
        self.assertEqual((self.predict(client="client"), self.post(client="client").json()), ([2.0], {"predictions": [2.0]}))
        out = subprocess.run(["curl", "-sS", "--cacert", self.c.path("ca.pem"), "--cert", self.c.path("client.pem"), "--key",
                              self.c.path("client.key"), f"https://localhost:{self.d.rest_port}/healthz"], capture_output=True, text=True, timeout=30)
        self.assertEqual(out.stdout, '{"status": "ok"}\n', out.stderr)

    def test_a_client_without_a_certificate_is_refused(self):
        self.refused()

    def test_a_client_of_another_authority_is_refused(self):
        self.refused(client="stranger")

    def test_further_ports_are_no_way_round(self):
        with serving(*self.FLAGS, "--kserve_rest_port=auto", "--kserve_grpc_port=auto", **self.OPTIONS) as d:
            grpc_port, rest_port = further_ports(d)
            get = lambda **kw: requests.get(f"https://127.0.0.1:{rest_port}/v2", verify=self.c.path("ca.pem"), timeout=20, **kw)
            with self.assertRaises(requests.exceptions.ConnectionError):
                get()
            self.assertEqual(get(cert=(self.c.path("client.pem"), self.c.path("client.key"))).status_code, 200)
            creds = grpc.ssl_channel_credentials(self.c.text("ca.pem").encode())
            with grpc.secure_channel(f"127.0.0.1:{grpc_port}", creds) as c, self.fails(CODE.UNAVAILABLE):
                c.unary_unary(LIVE)(b"", timeout=10)


class TlsConfiguration(Case):
    @classmethod
    def setUpClass(cls):
        server.models()
        cls.c = Certificates()

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.c.dir, True)

    def test_wrong_configurations_end_the_start(self):
        for text, words in (("server_key: 5", "Error parsing text-format tensorflow.serving.SSLConfig"),
                            (self.c.config(True, custom_ca=""), "client_verify needs custom_ca"),
                            (self.c.config(False, server_key=""), "server_key and server_cert must hold PEM texts"),
                            (self.c.config(False, server_key="none"), "server_key and server_cert cannot be used: "),
                            (self.c.config(False, server_key=self.c.text("client.key")), "server_key and server_cert cannot be used: "),
                            (self.c.config(True, custom_ca="none"), "custom_ca cannot be used: ")):
            code, _, err = Server("--ssl_config_file={dir}/ssl", files={"ssl": text}, wait=False).exits()
            self.assertEqual(code, 2, err)
            self.assertIn(words, err)


TOKENS = """
# who may what
user-1   infer
half-1   infer,manage   half*
admin-1  infer,manage,debug
debug-1  debug
tail-1   infer          *half
"""


class Tokens(Case):
    FLAGS = ("--tokens_file={dir}/tokens", "--enable_debug_api", "--rest_api_enable_cors_support")
    OPTIONS = {"files": {"tokens": TOKENS}, "versions": {"half": (1,), "tf1": (1,)}}

    def ask(self, method, path, token=None, json=None, **kw):
        return self.d.http(method, path, json, headers={"Authorization": f"Bearer {token}"} if token else {}, **kw)

    def call(self, stub, method, message, token=None):
        return getattr(stub(self.d.channel), method)(message, 10, metadata=[("authorization", "Bearer " + token)] if token else None)

    def predict(self, token=None, name="half"):
        return list(self.call(prediction_service_pb2_grpc.PredictionServiceStub, "Predict", request(name), token).outputs["y"].float_val)

    def test_no_token_and_unknown_tokens(self):
        for path in ("/v1/models", "/v1/models/half", "/v1/models/half/metadata", "/v1/models/half/functions", "/metrics", "/v2", "/v2/health/live",
                     "/v2/models/half", "/v2/models/half/ready", "/", "/nothing"):
            r = self.answers(self.ask("GET", path), 401, "a bearer token is required")
            self.assertEqual(r.headers["WWW-Authenticate"], 'Bearer realm="tensord"')
        for token in ("user-", "user-1x", "x" * 300, "USER-1"):
            self.answers(self.ask("POST", "/v1/models/half:predict", token, HALF), 401, "token")
        self.answers(self.d.post("/v1/models/half:predict", HALF, headers={"Authorization": "Basic user-1"}), 401, "a bearer token is required")
        for token in (None, "user-", "x" * 300):
            with self.fails(CODE.UNAUTHENTICATED, "bearer token"):
                self.predict(token)

    def test_what_is_open(self):
        for path in ("/healthz", "/readyz"):
            self.assertEqual(self.ask("GET", path).status_code, 200)
        self.assertEqual(health_pb2_grpc.HealthStub(self.d.channel).Check(health_pb2.HealthCheckRequest(service="half"), timeout=10).status, 1)
        r = self.d.http("OPTIONS", "/v1/models/half:predict", headers={"Origin": "http://here"})
        self.assertEqual((r.status_code, r.headers["Access-Control-Allow-Headers"]), (200, "Content-Type, Authorization"))

    def test_inference_needs_its_scope(self):
        body = {"inputs": [{"name": "x", "shape": [1], "datatype": "FP32", "data": [0]}]}
        for token in ("user-1", "half-1", "admin-1"):
            self.assertEqual(self.ask("POST", "/v1/models/half:predict", token, HALF).json(), {"predictions": [2.0]})
            self.assertEqual(self.ask("POST", "/v2/models/half/infer", token, body).json()["outputs"][0]["data"], [2.0])
            self.assertEqual(self.predict(token), [2.0])
        for path, what in (("/v1/models/half:predict", HALF), ("/v2/models/half/infer", body)):
            self.answers(self.ask("POST", path, "debug-1", what), 403, "the bearer token lacks the scope 'infer'")
        with self.fails(CODE.PERMISSION_DENIED, "lacks the scope 'infer'"):
            self.predict("debug-1")
        self.assertEqual(self.d.post("/v1/models/half:predict", HALF, headers={"authorization": "bearer user-1"}).status_code, 200)

    def test_a_token_for_some_models(self):
        words = "the bearer token is not for model 'tf1'"
        for method, path, body in (("POST", "/v1/models/tf1:predict", HALF), ("GET", "/v1/models/tf1", None), ("GET", "/v1/models/tf1/metadata", None),
                                   ("POST", "/v1/models/tf1:reload", None), ("GET", "/v2/models/tf1", None)):
            self.answers(self.ask(method, path, "half-1", body), 403, words)
        self.assertEqual(self.ask("GET", "/v2/models/half:two", "half-1").status_code, 200)
        body = {"inputs": [{"name": "x", "shape": [1], "datatype": "FP32", "data": [0]}]}
        for name in ("tf1:half", "tf1%3Ahalf"):   # the pattern half* of another token's is for models, not for what stands behind a colon
            self.answers(self.ask("POST", f"/v2/models/{name}/infer", "tail-1", body), 403, words)
        with self.fails(CODE.PERMISSION_DENIED, words):
            self.d.channel.unary_unary("/inference.GRPCInferenceService/ModelReady")(b"\x0a\x08tf1:half", timeout=10, metadata=[("authorization", "Bearer tail-1")])
        self.assertEqual(self.ask("GET", "/v1/models", "half-1").status_code, 200)
        with self.fails(CODE.PERMISSION_DENIED, words):
            self.predict("half-1", "tf1")
        q = get_model_status_pb2.GetModelStatusRequest()
        q.model_spec.name = "tf1"
        with self.fails(CODE.PERMISSION_DENIED, words):
            self.call(model_service_pb2_grpc.ModelServiceStub, "GetModelStatus", q, "half-1")
        m = inference_pb2.MultiInferenceRequest()
        for name in ("half", "tf1"):
            m.tasks.add(method_name="tensorflow/serving/regress").model_spec.name = name
        with self.fails(CODE.PERMISSION_DENIED, words):
            self.call(prediction_service_pb2_grpc.PredictionServiceStub, "MultiInference", m, "half-1")
        with self.fails(CODE.PERMISSION_DENIED, "not for model '*'"):   # no model is all models
            self.call(prediction_service_pb2_grpc.PredictionServiceStub, "Predict", predict_pb2.PredictRequest(), "half-1")

    def test_management_and_debugging(self):
        self.answers(self.ask("POST", "/v1/models/half:reload", "user-1"), 403, "lacks the scope 'manage'")
        self.assertEqual(self.ask("POST", "/v1/models/half:reload", "half-1").status_code, 200)
        self.answers(self.ask("POST", "/v1/models/half:debug", "half-1", {"inputs": {"x": [0]}}), 403, "lacks the scope 'debug'")
        self.assertEqual(self.ask("POST", "/v1/models/half:debug", "debug-1", {"inputs": {"x": [0]}}).status_code, 200)
        q = model_management_pb2.ReloadConfigRequest()
        for name in ("half", "tf1"):
            q.config.model_config_list.config.add(name=name, base_path=self.d.base(name), model_platform="tensorflow")
        reload = lambda token: self.call(model_service_pb2_grpc.ModelServiceStub, "HandleReloadConfigRequest", q, token)
        with self.fails(CODE.PERMISSION_DENIED, "lacks the scope 'manage'"):
            reload("user-1")
        with self.fails(CODE.PERMISSION_DENIED, "not for model '*'"):
            reload("half-1")
        self.assertEqual(reload("admin-1").status.error_code, 0)

    def test_further_ports_are_no_way_round(self):
        with serving("--tokens_file={dir}/t", "--kserve_rest_port=auto", "--kserve_grpc_port=auto", files={"t": "a infer\n"}) as d:
            grpc_port, rest_port = further_ports(d)
            self.answers(requests.get(f"http://127.0.0.1:{rest_port}/v2", timeout=20), 401, "a bearer token is required")
            with grpc.insecure_channel(f"127.0.0.1:{grpc_port}") as c:
                with self.fails(CODE.UNAUTHENTICATED, "a bearer token is required"):
                    c.unary_unary(LIVE)(b"", timeout=10)
                self.assertEqual(c.unary_unary(LIVE)(b"", timeout=10, metadata=[("authorization", "Bearer a")]), b"\x08\x01")

    def test_streams(self):
        stub = reflection_pb2_grpc.ServerReflectionStub(self.d.channel)
        ask = lambda **kw: list(stub.ServerReflectionInfo(iter([reflection_pb2.ServerReflectionRequest(list_services="")]), timeout=10, **kw))
        with self.fails(CODE.UNAUTHENTICATED, "a bearer token is required"):
            ask()
        self.assertEqual(len(ask(metadata=[("authorization", "Bearer debug-1")])), 1)

    def test_sighup_rereads_the_file(self):
        with serving("--tokens_file={dir}/tokens", files={"tokens": "first infer\n"}) as d:
            def status(token):
                return d.post("/v1/models/half:predict", HALF, headers={"Authorization": "Bearer " + token}).status_code

            def write(text, words):
                n = len(d.log)
                with open(os.path.join(d.dir, "tokens"), "w") as f:
                    f.write(text)
                d.proc.send_signal(signal.SIGHUP)
                self.assertTrue(d.wait_log(words), d.log[n:])
            self.assertIn("other users may read it", "".join(d.log))
            self.assertEqual((status("first"), status("second")), (200, 401))
            write("second infer\n", "is read again")
            self.assertEqual((status("first"), status("second")), (401, 200))
            write("first infre\n", "line 1: scope 'infre', want infer, gradient, manage, train or debug; they stay as they are")
            self.assertEqual((status("first"), status("second")), (401, 200))

    def test_wrong_files_end_the_start(self):
        for text, words in (("a\n", "line 1: want TOKEN SCOPES [MODEL-GLOB]"), ("\na infer b c\n", "line 2: want TOKEN"), ("a root", "scope 'root'"),
                            ("x" * 300 + " infer", "a token of 300 bytes")):
            code, _, err = Server("--tokens_file={dir}/t", files={"t": text}, wait=False).exits()
            self.assertEqual(code, 2)
            self.assertIn(words, err)
        code, _, err = Server("--tokens_file={dir}/none", wait=False).exits()
        self.assertEqual(code, 2)
        self.assertIn("none: no such file", err)


# Runs in a network of its own, whose one interface has an address beside the loopback's: a peer there is another host.
ELSEWHERE = """
import subprocess, sys
subprocess.run("ip link set lo up && ip addr add 10.1.2.3/32 dev lo", shell=True, check=True)
sys.path.insert(0, sys.argv[1])
import grpc, requests, server
with server.serving("--bind_address=10.1.2.3", "--model_config_file={dir}/models.config", *sys.argv[3:]) as d:
    say = lambda r: print(r.status_code, r.text.replace(chr(10), " "))
    say(requests.post(f"http://10.1.2.3:{d.rest_port}/v1/models/half:reload", timeout=20))
    say(requests.post(f"http://10.1.2.3:{d.rest_port}/v1/models/half:predict", json={"instances": [0]}, timeout=20))
    with grpc.insecure_channel(f"10.1.2.3:{d.port}") as c:
        try:
            c.unary_unary("/tensorflow.serving.ModelService/HandleReloadConfigRequest")(bytes.fromhex(sys.argv[2]), timeout=20)
            print("OK")
        except grpc.RpcError as e:
            print(e.code().name, e.details())
"""


class Management(server.Alone):
    """Without a tokens file: this host only."""

    def test_other_hosts_may_not_manage(self):
        if subprocess.run(["unshare", "-rn", "ip", "link", "set", "lo", "up"], capture_output=True).returncode:
            self.skipTest("no network namespaces here")
        q = model_management_pb2.ReloadConfigRequest()
        q.config.model_config_list.config.add(name="half", base_path=os.path.join(server.MODELS, "half"), model_platform="tensorflow")

        def ask(*flags):
            args = ["unshare", "-rn", sys.executable, "-c", ELSEWHERE, server.HERE, q.SerializeToString().hex(), *flags]
            out = subprocess.run(args, capture_output=True, text=True, timeout=60)
            self.assertEqual(out.returncode, 0, out.stderr)
            return out.stdout.splitlines()
        reload, predict, configure = ask()
        self.assertRegex(reload, "^403 .*answered on this host only")
        self.assertRegex(predict, "^200 ")
        self.assertRegex(configure, "^PERMISSION_DENIED .*answered on this host only")
        reload, predict, configure = ask("--open_management")
        self.assertEqual((reload[:4], predict[:4], configure), ("200 ", "200 ", "OK"))


if __name__ == "__main__":
    unittest.main()
