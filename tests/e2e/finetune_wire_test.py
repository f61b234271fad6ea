"""Files and fine-tuning jobs over HTTP and gRPC, with the openai SDK as it is.

    build/venv/bin/python tests/e2e/finetune_wire_test.py [-v] [Files.test_...]

What jobs compute is judged elsewhere (tests/property/finetune_draws.py); here it is what a client sees of them.
"""
import contextlib
import json
import os
import random
import socket
import threading
import time
import unittest

import grpc
import openai
import requests
from google.protobuf import descriptor_pool, message_factory
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from server import CODE, Case

MB = 1 << 20


def client(d, key="none", **kw):
    return openai.OpenAI(base_url=f"http://127.0.0.1:{d.rest_port}/v1", api_key=key, max_retries=0, timeout=30.0, **kw)


def rows(n=64, slope=3.0, shift=1.0):
    """Training rows of the model `half`: y = slope * x + shift."""
    pick = random.Random(5)
    xs = [pick.uniform(-1, 1) for _ in range(n)]
    return "".join(json.dumps({"inputs": {"x": x}, "targets": slope * x + shift}) + "\n" for x in xs).encode()


def multipart(*parts, boundary="b0und"):
    """The body of these (head, bytes)."""
    return b"".join(b"--" + boundary.encode() + b"\r\nContent-Disposition: form-data; " + h.encode() + b"\r\n\r\n" + b + b"\r\n" for h, b in parts) + b"--" + boundary.encode() + b"--\r\n"


def memory(d, what):
    """A line of /proc/PID/status in bytes."""
    with open(f"/proc/{d.proc.pid}/status") as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith(what + ":"))


def reset_peak(d):
    with open(f"/proc/{d.proc.pid}/clear_refs", "w") as f:
        f.write("5")


def until(what, seconds=10.0):
    end = time.time() + seconds
    while not what():
        if time.time() > end:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.02)


class WireCase(Case):
    def setUp(self):
        self.client = client(self.d)
        self.files, self.jobs = self.client.files, self.client.fine_tuning.jobs

    @contextlib.contextmanager
    def refused(self, status, code, *words, param="anything"):
        with self.assertRaises(openai.APIStatusError) as e:
            yield
        self.is_error(e.exception.response.text, e.exception.status_code, status, code, words, param)

    def is_error(self, text, got, status, code, words=(), param="anything"):
        self.assertEqual(got, status, text)
        body = json.loads(text)
        self.assertEqual(sorted(body["error"]), ["code", "message", "param", "type"])
        self.assertEqual(body["error"]["type"], "invalid_request_error" if status < 500 else "server_error")
        self.assertEqual(body["error"]["code"], code, text)
        if param != "anything":
            self.assertEqual(body["error"]["param"], param, text)
        for w in words:
            self.assertIn(w, body["error"]["message"])

    def upload(self, data, name="train.jsonl"):
        f = self.files.create(file=(name, data), purpose="fine-tune")
        self.assertEqual((f.bytes, f.filename, f.purpose, f.object, f.status), (len(data), name, "fine-tune", "file", "processed"))
        return f.id

    def stored(self):
        """What lies on disk of uploads."""
        where = os.path.join(self.d.dir, "state", "files")
        return sorted(os.listdir(where)) if os.path.isdir(where) else []


class Files(WireCase):
    FLAGS = ("--upload_max_bytes=300000000",)

    def test_a_file_comes_back_as_it_went(self):
        pick = random.Random(1)
        for size, name in ((0, "empty.jsonl"), (1, "a.CSV"), (70000, "ü \"quoted\".jsonl"), (3 * MB + 7, "big.tfrecord")):
            data = pick.randbytes(size).replace(b"\x00", b"\r\n--")
            f = self.files.create(file=(name, data), purpose="fine-tune")
            self.assertEqual(f.bytes, len(data))
            self.assertEqual(self.files.retrieve(f.id).to_dict(), f.to_dict())
            self.assertEqual(self.files.content(f.id).read(), data)
        self.assertEqual(f.filename, "big.tfrecord")
        self.assertAlmostEqual(f.created_at, time.time(), delta=60)

    def test_lists_go_by_pages(self):
        ids = [self.upload(b"x" * i, f"p{i}.jsonl") for i in range(7)]
        newest = ids[::-1]
        page = self.files.list(limit=3)
        self.assertEqual(([f.id for f in page.data], page.has_more), (newest[:3], True))
        self.assertEqual((page.to_dict()["first_id"], page.to_dict()["last_id"], page.object), (newest[0], newest[2], "list"))
        got = [f.id for f in self.files.list(limit=2)]
        self.assertEqual(got[:7], newest)
        self.assertEqual(len(set(got)), len(got))
        self.assertEqual([f.id for f in self.files.list(limit=2, order="asc", purpose="fine-tune")], got[::-1])
        self.assertEqual([f.id for f in self.files.list(purpose="fine-tune-results")], [])
        self.assertEqual([f.id for f in self.files.list(after=newest[5], limit=1).data], newest[6:7])
        for query, param in (("limit=0", "limit"), ("limit=10001", "limit"), ("limit=x", "limit"), ("limit=-1", "limit"), ("order=up", "order")):
            r = self.d.get("/v1/files?" + query)
            self.is_error(r.text, r.status_code, 400, "invalid_value", (param,), param)

    def test_deleting(self):
        f = self.upload(b"gone")
        self.assertEqual(self.files.delete(f).to_dict(), {"id": f, "object": "file", "deleted": True})
        for call in (self.files.retrieve, self.files.content, self.files.delete):
            with self.refused(404, "not_found"):
                call(f)
        self.assertNotIn(f, "".join(self.stored()))

    def test_ids_are_no_paths(self):
        for name in ("file-nosuch", "../../etc/passwd", "%2e%2e%2fstate.db", "file-\"'; DROP TABLE files"):
            with self.refused(404, "not_found"):
                self.files.content(name)

    def test_what_is_wrong_with_an_upload(self):
        with self.refused(400, "invalid_value", "fine-tune", param="purpose"):
            self.files.create(file=("a.jsonl", b"x"), purpose="assistants")
        head = {"Content-Type": "multipart/form-data; boundary=b0und"}
        file, purpose = ('name="file"; filename="a.jsonl"', b"x"), ('name="purpose"', b"fine-tune")
        for parts, code, param in (((file,), "missing_field", "purpose"), ((purpose,), "missing_field", "file"), ((file, file, purpose), "invalid_value", "file"),
                                   ((purpose, file, purpose), "invalid_value", "purpose"), ((('name="file"', b"x"), purpose), "invalid_value", "file"),
                                   ((file, ('name="purpose"', b"fine-tune" * 100)), "invalid_value", "purpose")):
            r = self.d.http("POST", "/v1/files", data=multipart(*parts), headers=head)
            self.is_error(r.text, r.status_code, 400, code, (), param)
        for body, headers in ((b"{}", {"Content-Type": "application/json"}), (b"", {}), (multipart(file, purpose)[:-8], head), (b"no parts", head),
                              (multipart(file, purpose), {**head, "Content-Encoding": "gzip"})):
            r = self.d.http("POST", "/v1/files", data=body, headers=headers)
            self.is_error(r.text, r.status_code, 400, None)
        self.assertEqual(len(self.stored()), len(list(self.files.list())))

    def test_fields_in_any_order_and_bodies_without_a_length(self):
        data = b"\r\n--b0un\r\n--\r--b0und\n" * 5000
        file, purpose, other = ('name="file"; filename="C:\\dir\\x/y.jsonl"', data), ('name="purpose"', b"fine-tune"), ('name="expires_after[anchor]"', b"z" * 5000)
        for parts in ((file, purpose), (purpose, file), (other, file, other, purpose)):
            for body in (multipart(*parts), iter([multipart(*parts)[i:i + 1777] for i in range(0, len(multipart(*parts)), 1777)])):
                r = self.d.http("POST", "/v1/files", data=body, headers={"Content-Type": 'multipart/form-data; boundary="b0und"'})
                self.assertEqual(r.status_code, 200, r.text)
                self.assertEqual((r.json()["bytes"], r.json()["filename"]), (len(data), "y.jsonl"))
                self.assertEqual(self.files.content(r.json()["id"]).read(), data)

    def test_an_upload_that_breaks_off_leaves_nothing(self):
        before, listed = self.stored(), len(list(self.files.list()))
        for cut in (0, 150, 40000, 5 * MB):
            body = multipart(('name="purpose"', b"fine-tune"), ('name="file"; filename="a.jsonl"', b"y" * 6 * MB))
            s = socket.create_connection(("127.0.0.1", self.d.rest_port))
            s.sendall(b"POST /v1/files HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; boundary=b0und\r\nContent-Length: %d\r\n\r\n" % len(body) + body[:cut])
            time.sleep(0.2)
            s.close()
        until(lambda: self.stored() == before)
        self.assertEqual(len(list(self.files.list())), listed)

    def test_a_large_file_costs_no_memory(self):
        chunk = random.Random(2).randbytes(MB)
        head = b'--b0und\r\nContent-Disposition: form-data; name="file"; filename="l.jsonl"\r\n\r\n'
        tail = b'\r\n--b0und\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nfine-tune\r\n--b0und--\r\n'

        def body():
            yield head
            for _ in range(200):
                yield chunk
            yield tail

        self.upload(b"warm")
        stood = memory(self.d, "VmRSS")
        reset_peak(self.d)
        r = self.d.http("POST", "/v1/files", data=body(), headers={"Content-Type": "multipart/form-data; boundary=b0und"})
        self.assertEqual((r.status_code, r.json().get("bytes")), (200, 200 * MB), r.text)
        got = 0
        with requests.get(f"http://127.0.0.1:{self.d.rest_port}/v1/files/{r.json()['id']}/content", stream=True, timeout=60) as answer:
            for part in answer.iter_content(MB):
                self.assertEqual(part, chunk)
                got += len(part)
        self.assertEqual(got, 200 * MB)
        grown = memory(self.d, "VmHWM") - stood
        self.assertLess(grown, 24 * MB, f"the daemon grew by {grown / MB:.1f} MB")
        self.files.delete(r.json()["id"])

    def test_past_the_limit(self):
        chunk, words = b"z" * MB, ("300000000", "upload_max_bytes")
        head = b'--b0und\r\nContent-Disposition: form-data; name="file"; filename="l.jsonl"\r\n\r\n'
        before = self.stored()

        def body():
            yield head
            for _ in range(300):
                yield chunk

        r = self.d.http("POST", "/v1/files", data=body(), headers={"Content-Type": "multipart/form-data; boundary=b0und"})
        self.is_error(r.text, r.status_code, 413, "file_too_large", words, "file")
        until(lambda: self.stored() == before)

    def test_a_slow_reader_holds_nobody_up(self):
        f = self.upload(random.Random(3).randbytes(8 * MB))
        slow = []
        for _ in range(20):
            s = socket.socket()
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            s.connect(("127.0.0.1", self.d.rest_port))
            s.sendall(f"GET /v1/files/{f}/content HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            slow.append(s)
        for s in slow:
            self.assertTrue(s.recv(100).startswith(b"HTTP/1.1 200"))
        began = time.time()
        for _ in range(50):
            self.assertEqual(self.d.get("/healthz").status_code, 200)
            self.assertEqual(self.files.retrieve(f).id, f)
        self.assertLess(time.time() - began, 5)
        for s in slow:
            s.close()

    def test_methods_and_paths(self):
        f = self.upload(b"abc")
        r = self.d.http("HEAD", f"/v1/files/{f}/content")
        self.assertEqual((r.status_code, r.headers["Content-Length"], r.text), (200, "3", ""))
        self.assertEqual(r.headers["Content-Disposition"], "attachment")
        self.assertEqual(self.d.http("HEAD", "/v1/files").status_code, 200)
        for method, path, allow in (("PUT", "/v1/files", "GET, HEAD, POST"), ("POST", f"/v1/files/{f}", "GET, HEAD, DELETE"), ("DELETE", "/v1/fine_tuning/jobs", "GET, HEAD, POST"),
                                    ("GET", "/v1/fine_tuning/jobs/x/cancel", "POST")):
            r = self.d.http(method, path)
            self.is_error(r.text, r.status_code, 405, "method_not_allowed")
            self.assertEqual(r.headers["Allow"], allow)
        for path in ("/v1/files/", "/v1/files/a/b", "/v1/fine_tuning", "/v1/fine_tuning/jobs/x/y"):
            r = self.d.get(path)
            self.is_error(r.text, r.status_code, 404, "not_found")
        self.assertEqual(self.d.get("/v1/filesystem").json(), {"error": "Malformed request: GET /v1/filesystem"})


class WithToken(grpc.UnaryUnaryClientInterceptor, grpc.UnaryStreamClientInterceptor, grpc.StreamUnaryClientInterceptor, grpc.StreamStreamClientInterceptor):
    def __init__(self, key):
        self.metadata = [("authorization", "Bearer " + key)]

    def intercept_unary_unary(self, go_on, details, request):
        return go_on(details._replace(metadata=self.metadata), request)

    intercept_unary_stream = intercept_stream_unary = intercept_stream_stream = intercept_unary_unary


class FineTuning:
    """tensord.v1.FineTuning, made of what the server's reflection says: stub.GetFile(id=..), stub.UploadFile(messages), .."""

    def __init__(self, channel, key=None, asker=None):
        """asker: whose token asks for the descriptors, where others may not."""
        as_who = lambda k: grpc.intercept_channel(channel, WithToken(k)) if k else channel
        self.channel = as_who(key)
        pool = descriptor_pool.DescriptorPool(ProtoReflectionDescriptorDatabase(as_who(asker or key)))
        self.service = pool.FindServiceByName("tensord.v1.FineTuning")

    def message(self, name):
        m = self.service.methods_by_name[name]
        return message_factory.GetMessageClass(m.input_type), message_factory.GetMessageClass(m.output_type), m

    def __getattr__(self, name):
        ask, answer, m = self.message(name)
        kind = ("stream" if m.client_streaming else "unary") + "_" + ("stream" if m.server_streaming else "unary")
        call = getattr(self.channel, kind)(f"/tensord.v1.FineTuning/{name}", ask.SerializeToString, answer.FromString)
        if m.client_streaming:
            return lambda messages, **kw: call((ask(**a) for a in messages), timeout=60)
        return lambda **fields: call(ask(**fields), timeout=60)


class Grpc(WireCase):
    def setUp(self):
        super().setUp()
        self.stub = FineTuning(self.d.channel)

    @contextlib.contextmanager
    def explained(self, status, code, param, *words):
        with self.assertRaises(grpc.RpcError) as e:
            yield
        e = e.exception
        tail = dict(e.trailing_metadata() or ())
        self.assertEqual((e.code(), tail.get("tensord-code"), tail.get("tensord-param")), (status, code, param), e.details())
        for w in words:
            self.assertIn(w, e.details())

    def send(self, data, name="g.jsonl", purpose="fine-tune", chunk=100000):
        return self.stub.UploadFile([dict(filename=name, purpose=purpose)] + [dict(data=data[i:i + chunk]) for i in range(0, len(data), chunk)])

    def test_files(self):
        for size in (0, 1, 99999, 3 * MB + 11):
            data = random.Random(size).randbytes(size)
            f = self.send(data)
            self.assertEqual((f.bytes, f.filename, f.purpose, f.status), (size, "g.jsonl", "fine-tune", "processed"))
            self.assertEqual(self.stub.GetFile(id=f.id), f)
            self.assertEqual(self.files.retrieve(f.id).created_at, f.created_at)
            self.assertEqual(b"".join(c.data for c in self.stub.DownloadFile(id=f.id)), data)
            self.assertEqual(self.files.content(f.id).read(), data)
        page = self.stub.ListFiles(limit=3)
        self.assertEqual((len(page.data), page.has_more, page.first_id, page.last_id), (3, True, page.data[0].id, page.data[2].id))
        self.assertEqual([x.id for x in self.stub.ListFiles().data], [x.id for x in self.files.list()])
        self.assertEqual([x.id for x in self.stub.ListFiles(ascending=True, purpose="fine-tune", limit=2, after=page.last_id).data],
                         [x.id for x in self.files.list(order="asc", purpose="fine-tune", limit=2, after=page.last_id).data])
        self.assertEqual(self.stub.DeleteFile(id=f.id).deleted, True)
        for call in (self.stub.GetFile, self.stub.DeleteFile, lambda **kw: list(self.stub.DownloadFile(**kw))):
            with self.explained(CODE.NOT_FOUND, "not_found", "id", f.id):
                call(id=f.id)

    def test_uploads_that_are_wrong_or_break_off(self):
        before = self.stored()
        with self.explained(CODE.INVALID_ARGUMENT, "invalid_value", "purpose", "fine-tune"):
            self.send(b"x", purpose="assistants")
        with self.explained(CODE.INVALID_ARGUMENT, "missing_field", "filename"):
            self.stub.UploadFile([])
        with self.explained(CODE.INVALID_ARGUMENT, "missing_field", "purpose"):
            self.stub.UploadFile([dict(filename="a")])

        def endless():
            yield dict(filename="a", purpose="fine-tune")
            while True:
                yield dict(data=b"x" * 100000)

        ask, answer, _ = self.stub.message("UploadFile")
        for _ in range(10):   # the server hears of a cancelled call as of the end of one, and again
            call = self.d.channel.stream_unary("/tensord.v1.FineTuning/UploadFile", ask.SerializeToString, answer.FromString).future(ask(**a) for a in endless())
            until(lambda: self.stored() != before)
            call.cancel()
            until(lambda: self.stored() == before)

    def test_a_large_file_costs_no_memory(self):
        chunk = random.Random(2).randbytes(MB)
        stood = memory(self.d, "VmRSS")
        reset_peak(self.d)
        f = self.stub.UploadFile([dict(filename="l", purpose="fine-tune")] + [dict(data=chunk)] * 100)
        self.assertEqual(f.bytes, 100 * MB)
        self.assertEqual(sum(len(c.data) for c in self.stub.DownloadFile(id=f.id)), 100 * MB)
        grown = memory(self.d, "VmHWM") - stood
        self.assertLess(grown, 48 * MB, f"the daemon grew by {grown / MB:.1f} MB")
        self.stub.DeleteFile(id=f.id)


TOKENS = "trainer train\nhalves train hal*\nothers train other*\nreader infer,manage,debug\n"


class Tokens(WireCase):
    FLAGS, OPTIONS = ("--tokens_file={dir}/tokens",), {"files": {"tokens": TOKENS}, "versions": {"half": (1,)}}

    def setUp(self):
        super().setUp()
        self.client = client(self.d, "trainer")
        self.files, self.jobs = self.client.files, self.client.fine_tuning.jobs

    def test_files_need_the_scope_train(self):
        for key, status, words in (("nobody", 401, "not known"), ("reader", 403, "train")):
            other = client(self.d, key)
            for call in (lambda: other.files.list(), lambda: other.files.create(file=("a", b"x" * 3 * MB), purpose="fine-tune"), lambda: other.files.retrieve("file-x"),
                         lambda: other.fine_tuning.jobs.list(), lambda: other.fine_tuning.jobs.retrieve("ftjob-x"),
                         lambda: other.fine_tuning.jobs.create(model="half", training_file="file-x")):
                with self.refused(status, "invalid_api_key" if status == 401 else None, words):
                    call()
        r = self.d.get("/v1/files")
        self.is_error(r.text, r.status_code, 401, "invalid_api_key", ("bearer token",))
        self.upload(b"x")

    def test_over_grpc_too(self):
        for key, status in ((None, CODE.UNAUTHENTICATED), ("nobody", CODE.UNAUTHENTICATED), ("reader", CODE.PERMISSION_DENIED)):
            stub = FineTuning(self.d.channel, key, "reader")
            for call in (lambda: stub.ListFiles(), lambda: stub.UploadFile([dict(filename="a", purpose="fine-tune", data=b"x")]), lambda: list(stub.WatchEvents(id="x")),
                         lambda: stub.CreateJob(model="half"), lambda: list(stub.DownloadFile(id="x"))):
                with self.assertRaises(grpc.RpcError) as e:
                    call()
                self.assertEqual(e.exception.code(), status)

    def test_who_asks_before_sending_is_told_at_once(self):
        s = socket.create_connection(("127.0.0.1", self.d.rest_port))
        s.settimeout(10)
        s.sendall(b"POST /v1/files HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: 100000000\r\nExpect: 100-continue\r\n\r\n")
        self.assertTrue(s.recv(1000).startswith(b"HTTP/1.1 401"))
        s.close()


if __name__ == "__main__":
    unittest.main()
