"""Who may do what without a token: this host, and neither a page in a browser on it nor a proxy.

    build/venv/bin/python tests/e2e/local_only_test.py [-v] [Management.test_...]
"""
import contextlib
import hashlib
import io
import json
import os
import re
import subprocess
import time
import unittest

import grpc
import openai
import tritonclient.http as th

import server
from http_attack_test import converse, request, statuses
from server import CODE, Case, serving

JSON = b"Content-Type: application/json"
ACTS = (  # method, path, body
    (b"POST", b"/v1/models/half:reload", b""), (b"POST", b"/v2/repository/models/half/load", b"{}"), (b"POST", b"/v2/logging", b"{}"),
    (b"POST", b"/v2/trace/setting", b"{}"), (b"GET", b"/v2/systemsharedmemory/status", b""), (b"POST", b"/v2/systemsharedmemory/unregister", b""),
    (b"GET", b"/v1/files", b""), (b"GET", b"/v1/fine_tuning/jobs", b""), (b"POST", b"/v1/models/half:debug", b'{"inputs": {"x": [1]}}'))
RELOAD = "/tensorflow.serving.ModelService/HandleReloadConfigRequest"


class Management(Case):
    FLAGS = ("--enable_debug_api",)

    def ask(self, method, path, body, *headers, host=b"localhost", **kw):
        kind = [JSON] if body and not any(h.lower().startswith(b"content-type") for h in headers) else []
        answer = converse(self.d, request(b"Host: " + host, b"Connection: close", *kind, *headers, method=method, path=path, body=body, host=False, **kw))
        return statuses(answer)[0], answer

    def test_this_host_may(self):
        for act in ACTS:
            for host in (b"localhost", b"LOCALHOST:%d" % self.d.rest_port, b"127.0.0.1", b"127.5.5.5:1", b"[::1]:8501"):
                self.assertEqual(self.ask(*act, host=host)[0], 200, (act, host))
            self.assertEqual(self.ask(*act, b"Content-Type: Application/JSON; charset=utf-8")[0], 200, act)

    def test_other_names_may_not(self):
        for act in ACTS:
            for host in (b"evil.example", b"localhost.evil.example:8501", b"10.0.0.1", b"127.0.0.1.nip.io", b"[::2]"):
                status, answer = self.ask(*act, host=host)
                self.assertEqual(status, 403, (act, host))
                self.assertIn(b"answered on this host only", answer)
        status, answer = self.ask(b"POST", b"http://localhost/v1/models/half:reload", b"")   # as to a proxy
        self.assertEqual(status, 403, answer)

    def test_browsers_and_proxies_may_not(self):
        for act in ACTS:
            for header in (b"Origin: http://evil.example", b"Origin: null", b"Origin: http://localhost:8501", b"Referer: http://localhost/", b"Sec-Fetch-Site: same-origin",
                           b"Forwarded: for=1.2.3.4", b"X-Forwarded-For: 127.0.0.1", b"x-forwarded-host: localhost", b"Via: 1.1 proxy", b"X-Real-IP: 1.2.3.4"):
                status, answer = self.ask(*act, header)
                self.assertEqual(status, 403, (act, header))
                self.assertIn(b"which the header " + header.split(b":")[0], answer)

    def test_bodies_that_pages_can_send_may_not(self):
        for method, path, body in ACTS:
            for kind in (b"text/plain", b"application/x-www-form-urlencoded", b"multipart/form-data; boundary=x", b"application/jsonx", b"text/plain; application/json") if body else ():
                status, answer = self.ask(method, path, body, b"Content-Type: " + kind)
                self.assertEqual(status, 403, (path, kind))
                self.assertIn(b"content-type is application/json", answer)
        self.assertEqual(self.ask(b"POST", b"/v1/files", b"x", b"Content-Type: text/plain")[0], 403)
        form = b"Content-Type: multipart/form-data; boundary=x"
        self.assertEqual(self.ask(b"POST", b"/v1/files", b"--x--", form, b"Origin: http://evil.example")[0], 403)

    def test_inference_stays_open(self):
        for header in (b"Origin: http://evil.example", b"X-Forwarded-For: 1.2.3.4", b"Content-Type: text/plain"):
            self.assertEqual(self.ask(b"POST", b"/v1/models/half:predict", b'{"instances": [0]}', header, host=b"models.example")[0], 200)

    def test_clients_that_people_use_may(self):
        client = openai.OpenAI(base_url=f"http://localhost:{self.d.rest_port}/v1", api_key="none")
        made = client.files.create(file=("rows.jsonl", io.BytesIO(b'{"inputs": {"x": 1}}\n')), purpose="fine-tune")
        self.assertEqual([f.id for f in client.files.list()], [made.id])
        client.files.delete(made.id)
        triton = th.InferenceServerClient(f"localhost:{self.d.rest_port}")
        triton.load_model("half")
        triton.update_log_settings({"log_verbose_level": 0})
        triton.close()
        url = f"localhost:{self.d.rest_port}"
        for args in (["-X", "POST", url + "/v1/models/half:reload"], ["-H", "content-type: application/json", "-d", "{}", url + "/v2/logging"],
                     ["-d", '{"instances": [0]}', url + "/v1/models/half:predict"]):
            out = subprocess.run(["curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", *args], capture_output=True, text=True, timeout=30)
            self.assertEqual(out.stdout, "200", args)
        out = subprocess.run([os.path.join(os.path.dirname(server.DAEMON), "tensorctl"), "reload", "half", f"--server=localhost:{self.d.port}"], capture_output=True, text=True, timeout=30)
        self.assertEqual(out.returncode, 0, out.stderr)

    def test_grpc(self):
        call = self.d.channel.unary_unary("/tensord.v1.Models/Reload")
        half = b"\x0a\x04half"
        call(half, timeout=10)
        for key in ("x-forwarded-for", "forwarded", "via", "origin", "referer", "sec-fetch-site"):
            with self.fails(CODE.PERMISSION_DENIED, "answered on this host only", key):
                call(half, timeout=10, metadata=[(key, "localhost")])

    def test_grpc_that_names_another_host(self):
        """As Host over REST: a name that was made to resolve to this host does not do, but for a UNIX socket clients have names of their own."""
        def reload(authority, target):
            with grpc.insecure_channel(target, [("grpc.default_authority", authority)]) as channel:
                channel.unary_unary("/tensord.v1.Models/Reload")(b"\x0a\x04half", timeout=10)
        here = f"127.0.0.1:{self.d.port}"
        for authority in ("evil.example", "localhost.evil.example:8500", "127.0.0.1.nip.io", "10.0.0.1:8500"):
            with self.fails(CODE.PERMISSION_DENIED, "answered on this host only", authority):
                reload(authority, here)
        for authority in ("localhost", "LocalHost:1", "127.0.0.1:8500", "[::1]:8500"):
            reload(authority, here)
        with serving("--grpc_socket_path={dir}/socket") as d:
            reload("tensord.example", f"unix:{d.dir}/socket")

    def test_open_management(self):
        with serving("--open_management") as d:
            answer = converse(d, request(b"Connection: close", b"Origin: http://a", method=b"POST", path=b"/v1/models/half:reload", body=b""))
            self.assertEqual(statuses(answer), [200])


TOKENS = """
all-1   infer,manage,train,debug
star-1  manage        *
half-1  infer,manage,train   half*
half-2  infer,manage,train   half*
one-1   infer,manage  ?
"""


class Tokens(Case):
    """A token that is for some models sees and touches these."""

    FLAGS = ("--tokens_file={dir}/tokens",)
    OPTIONS = {"files": {"tokens": TOKENS}, "versions": {"half": (1,), "tf1": (1,)}}

    def ask(self, token, method, path, body=None, **kw):
        return self.d.http(method, path, body, headers={"Authorization": "Bearer " + token}, **kw)

    def rpc(self, token, path, message=b""):
        return self.d.channel.unary_unary(path)(message, timeout=10, metadata=[("authorization", "Bearer " + token)])

    def test_lists_show_its_models(self):
        for token, names in (("half-1", ["half"]), ("all-1", ["half", "tf1"]), ("star-1", ["half", "tf1"]), ("one-1", [])):
            self.assertEqual([m["name"] for m in self.ask(token, "GET", "/v1/models").json()["models"]], names)
            self.assertEqual([m["id"] for m in self.ask(token, "GET", "/v1/models").json()["data"]], names)
            self.assertEqual(self.ask(token, "GET", "/v2/models").json()["models"], names)
            self.assertEqual([m["name"] for m in self.ask(token, "POST", "/v2/repository/index").json()], names)
            for path in ("/inference.GRPCInferenceService/RepositoryIndex", "/tensord.v1.Models/List"):
                reply = self.rpc(token, path)
                self.assertEqual((b"half" in reply, b"tf1" in reply), ("half" in names, "tf1" in names), path)

    def test_what_concerns_all_models(self):
        for method, path, body in (("GET", "/metrics", None), ("GET", "/v2/models/stats", None), ("GET", "/v2/trace/setting", None), ("POST", "/v2/trace/setting", {}),
                                   ("GET", "/v2/logging", None), ("POST", "/v2/logging", {})):
            for token in ("half-1", "one-1"):
                self.answers(self.ask(token, method, path, body), 403, "not for model '*'")
            for token in ("all-1", "star-1"):
                self.assertEqual(self.ask(token, method, path, body).status_code, 200, (token, path))
        self.assertEqual(self.ask("half-1", "GET", "/v2/models/half/stats").status_code, 200)
        self.answers(self.ask("half-1", "GET", "/v2/models/tf1/stats"), 403, "not for model 'tf1'")
        for path in ("TraceSetting", "LogSettings", "ModelStatistics"):
            with self.fails(CODE.PERMISSION_DENIED, "not for model '*'"):
                self.rpc("half-1", "/inference.GRPCInferenceService/" + path)
            self.rpc("all-1", "/inference.GRPCInferenceService/" + path)

    def test_regions_are_their_token_s(self):
        name = f"tensord_e2e_{os.getpid()}"
        path = "/dev/shm/" + name
        with open(path, "wb") as f:
            f.write(bytes(8))
        try:
            for token in ("half-1", "half-2", "all-1"):
                r = self.ask(token, "POST", "/v2/systemsharedmemory/region/r/register", {"key": "/" + name, "offset": 0, "byte_size": 8})
                self.assertEqual(r.status_code, 200, r.text)
            listed = lambda token: [row["name"] for row in self.ask(token, "GET", "/v2/systemsharedmemory/status").json()]
            self.assertEqual(listed("half-1"), ["r"])
            self.ask("half-1", "POST", "/v2/systemsharedmemory/unregister")
            self.rpc("half-1", "/inference.GRPCInferenceService/SystemSharedMemoryUnregister")
            self.assertEqual((listed("half-1"), listed("half-2"), listed("all-1")), ([], ["r"], ["r"]))
            body = {"inputs": [{"name": "x", "shape": [1], "datatype": "FP32", "parameters": {"shared_memory_region": "r", "shared_memory_byte_size": 4}}]}
            self.assertEqual(self.ask("half-2", "POST", "/v2/models/half/infer", body).json()["outputs"][0]["data"], [2.0])
            self.assertEqual(self.ask("half-1", "POST", "/v2/models/half/infer", body).status_code, 404)
        finally:
            os.unlink(path)

    def test_files_are_their_token_s(self):
        send = lambda token: self.d.http("POST", "/v1/files", files={"file": ("rows.jsonl", io.BytesIO(b"{}\n"))}, data={"purpose": "fine-tune"},
                                         headers={"Authorization": "Bearer " + token}).json()["id"]
        mine, other = send("half-1"), send("half-2")
        self.assertEqual([f["id"] for f in self.ask("half-1", "GET", "/v1/files").json()["data"]], [mine])
        for method, path in (("GET", ""), ("GET", "/content"), ("DELETE", "")):
            self.assertEqual(self.ask("half-1", method, f"/v1/files/{other}{path}").status_code, 404)
        job = {"model": "half", "training_file": other, "tensord": {"loss": {"name": "mse"}}}
        r = self.ask("half-1", "POST", "/v1/fine_tuning/jobs", job)
        self.assertEqual(r.status_code, 400, r.text)
        field = b"\x0a" + bytes([len(other)]) + other.encode()
        for path in ("GetFile", "DeleteFile"):
            with self.fails(CODE.NOT_FOUND):
                self.rpc("half-1", "/tensord.v1.FineTuning/" + path, field)
        self.assertNotIn(other.encode(), self.rpc("half-1", "/tensord.v1.FineTuning/ListFiles"))
        self.assertEqual(self.ask("half-2", "GET", f"/v1/files/{other}/content").text, "{}\n")
        self.assertEqual(self.ask("half-2", "DELETE", f"/v1/files/{other}").status_code, 200)


class Audit(Case):
    """Each refusal and each act is told, with who, on both wires and in both formats; and nobody fills a disk with it."""

    FLAGS = ("--tokens_file={dir}/tokens", "--log_format=json")
    OPTIONS = {"files": {"tokens": TOKENS}, "versions": {"half": (1,), "tf1": (1,)}}

    def lines(self, n):
        found = []
        for _ in range(200):
            found = [row for row in map(json.loads, list(self.d.log)) if row["level"] == "AUDIT"]
            if len(found) >= n:
                break
            time.sleep(0.02)
        return found

    def test_acts_and_refusals(self):
        ask = lambda token, method, path, body=None: self.d.http(method, path, body, headers={"Authorization": "Bearer " + token} if token else {}).status_code
        rpc = lambda token, path, message: self.d.channel.unary_unary(path)(message, timeout=10, metadata=[("authorization", "Bearer " + token)])
        digest = lambda token: hashlib.sha256(token.encode()).hexdigest()[:8]
        for step, want in ((lambda: ask("half-1", "POST", "/v1/models/half:reload"), (f'act="POST /v1/models/half:reload" wire=http from=127.0.0.1 token={digest("half-1")} outcome=OK', "half")),
                           (lambda: ask("half-1", "POST", "/v1/models/tf1:reload"), (f'token={digest("half-1")} outcome=PERMISSION_DENIED why="the bearer token is not for model \'tf1\'"', "tf1")),
                           (lambda: ask(None, "POST", "/v1/models/half:predict", {"instances": [0]}), ("token=- outcome=UNAUTHENTICATED", None)),
                           (lambda: ask("all-1", "POST", "/v2/logging", {"log_info": False, "log_warning": False, "log_error": False}), ('act="POST /v2/logging"', None)),
                           (lambda: ask("half-1", "DELETE", "/v1/files/file-x"), ("outcome=NOT_FOUND", None)),
                           (lambda: rpc("half-1", "/tensord.v1.Models/Reload", b"\x0a\x04half"), (f'act="/tensord.v1.Models/Reload" wire=grpc from=ipv4:127.0.0.1:', "half")),
                           (lambda: rpc("half-1", "/tensord.v1.Models/Reload", b"\x0a\x03tf1"), (f'token={digest("half-1")} outcome=PERMISSION_DENIED', "tf1")),
                           (lambda: rpc("x", "/inference.GRPCInferenceService/ServerLive", b""), (f'token={digest("x")} outcome=UNAUTHENTICATED', None))):
            before = len(self.lines(0))
            with contextlib.suppress(grpc.RpcError):
                step()
            rows = self.lines(before + 1)[before:]
            self.assertEqual(len(rows), 1, rows)
            self.assertIn(want[0], rows[0]["message"])
            if want[1]:
                self.assertEqual(rows[0]["model"], want[1])
        before = len(self.lines(0))
        ask("half-1", "GET", "/v1/files")   # who only asks is not told
        ask("half-1", "POST", "/v1/models/half:predict", {"instances": [0]})
        self.assertEqual(len(self.lines(0)), before)

    def test_many_refusals_are_few_lines(self):
        before = len(self.lines(0))
        begun = time.monotonic()
        for _ in range(300):
            self.assertEqual(self.d.get("/v1/models").status_code, 401)
        seconds = time.monotonic() - begun
        time.sleep(1.1)
        self.d.get("/v1/models")
        told = lambda rows: sum(int(n) for r in rows for n in re.findall(r"left_out=(\d+)", r["message"]))   # by the next line of a later second
        until = time.monotonic() + 5   # what reads the log may be behind
        rows = self.lines(before + 1)[before:]
        while len(rows) + told(rows) < 301 and time.monotonic() < until:
            time.sleep(0.02)
            rows = self.lines(before + 1)[before:]
        self.assertGreaterEqual(len(rows) + told(rows), 301)
        self.assertGreater(told(rows), 0)
        self.assertLess(len(rows), 11 * (seconds + 3))


class Names(Case):
    """Names that are no UTF-8 are refused wherever they come in: what lists them is always valid."""

    def test_names(self):
        upload = {"parameters": {"config": "{}", "file:1/saved_model.pb": ""}}
        self.answers(self.d.post("/v2/repository/models/%FF%FE/load", upload), 400, "no UTF-8")
        self.answers(self.d.post("/v1/models/a%C3:predict", {"instances": [0]}), 400, "no UTF-8")
        load = "/inference.GRPCInferenceService/RepositoryModelLoad"
        with self.fails(CODE.INVALID_ARGUMENT, "UTF-8"):
            self.d.channel.unary_unary(load)(b"\x12\x02\xff\xfe", timeout=10)
        entry = b"\x0a\x07file:\xff/" + b"\x12\x02\x22\x00"
        with self.fails(CODE.INVALID_ARGUMENT, "UTF-8"):
            self.d.channel.unary_unary(load)(b"\x12\x04half\x1a" + bytes([len(entry)]) + entry, timeout=10)
        with self.fails(CODE.INVALID_ARGUMENT, "UTF-8"):
            self.d.channel.unary_unary("/inference.GRPCInferenceService/SystemSharedMemoryRegister")(b"\x0a\x01\xff\x12\x02/a\x20\x01", timeout=10)
        r = self.d.post("/v2/repository/models/half/load", data=b'{"parameters": {"config": "{}", "file:1/\xff": ""}}', headers={"Content-Type": "application/json"})
        self.assertEqual(r.status_code, 400, r.text)
        config = b"\x0a\x02\xff\xfe\x12\x02/a\x22\x0atensorflow"
        with self.fails(CODE.INVALID_ARGUMENT, "UTF-8"):
            self.d.channel.unary_unary(RELOAD)(b"\x0a" + bytes([len(config) + 4]) + b"\x0a" + bytes([len(config) + 2]) + b"\x0a" + bytes([len(config)]) + config, timeout=10)
        for path in ("/metrics", "/v1/models", "/v2/models"):
            self.d.get(path).content.decode("utf-8")
        self.d.post("/v2/repository/index").content.decode("utf-8")
        self.d.channel.unary_unary("/inference.GRPCInferenceService/RepositoryIndex")(b"", timeout=10).decode("utf-8")

    def test_texts_of_messages(self):
        """Whatever protobuf calls a string: settings, base paths, labels, signatures, ids."""
        def field(n, *parts):
            data = b"".join(p if isinstance(p, bytes) else p.encode() for p in parts)
            return bytes([n << 3 | 2, len(data)]) + data

        bad, v2, v1 = b"\xff\xfe", "/inference.GRPCInferenceService/", "/tensorflow.serving."
        served = field(1, "half") + field(4, "tensorflow")
        for path, message in (
                (v2 + "TraceSetting", field(1, field(1, "trace_mode"), field(2, field(1, bad)))), (v2 + "TraceSetting", field(1, field(1, bad), field(2, field(1, "1")))),
                (v2 + "LogSettings", field(1, field(1, "log_file"), field(2, field(3, bad)))),
                (v2 + "ModelInfer", field(1, "half") + field(3, bad)), (v2 + "ModelReady", field(1, bad)),
                (RELOAD, field(1, field(1, field(1, served, field(2, bad))))), (RELOAD, field(1, field(1, field(1, served, field(2, "/a"), field(8, field(1, bad)))))),
                (v1 + "PredictionService/Predict", field(1, field(1, "half"), field(3, bad))), (v1 + "PredictionService/Predict", field(1, field(1, bad))),
                ("/tensord.v1.Models/Reload", field(1, bad)), ("/tensord.v1.FineTuning/GetJob", field(1, bad)), ("/grpc.health.v1.Health/Check", field(1, bad))):
            with self.fails(CODE.INVALID_ARGUMENT, "UTF-8"):
                self.d.channel.unary_unary(path)(message, timeout=10)
        for path in ("/v2/trace/setting", "/v2/logging"):
            self.d.get(path).content.decode("utf-8")


if __name__ == "__main__":
    unittest.main()
