"""Files and fine-tuning jobs over HTTP and gRPC, with the openai SDK as it is.

    build/venv/bin/python tests/e2e/finetune_wire_test.py [-v] [Files.test_...]

What jobs compute is judged elsewhere (tests/property/finetune_draws.py); here it is what a client sees of them.
"""
import contextlib
import fcntl
import json
import os
import pty
import random
import re
import socket
import struct
import subprocess
import termios
import threading
import time
import unittest

import grpc
import openai
import requests
from google.protobuf import descriptor_pool, message_factory
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

import server
from server import CODE, DAEMON, PATIENCE, Case, folder, serving

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


def grown(d, since):
    """Bytes; a sanitizer's memory says nothing: 0."""
    with open(f"/proc/{d.proc.pid}/maps") as f:
        return 0 if re.search("lib[at]san", f.read()) else server.held(d.proc.pid) - since


def until(what, seconds=10.0):
    assert server.until(what, seconds), f"not within {seconds} s: {what}"


class WireCase(Case):
    maxDiff = None

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
            s.sendall(b"POST /v1/files HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=b0und\r\nContent-Length: %d\r\n\r\n" % len(body) + body[:cut])
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
        stood = server.held(self.d.proc.pid, "VmRSS")
        server.forget_peak(self.d.proc.pid)
        r = self.d.http("POST", "/v1/files", data=body(), headers={"Content-Type": "multipart/form-data; boundary=b0und"})
        self.assertEqual((r.status_code, r.json().get("bytes")), (200, 200 * MB), r.text)
        got = 0
        with requests.get(f"http://127.0.0.1:{self.d.rest_port}/v1/files/{r.json()['id']}/content", stream=True, timeout=60) as answer:
            for part in answer.iter_content(MB):
                self.assertEqual(part, chunk)
                got += len(part)
        self.assertEqual(got, 200 * MB)
        self.assertLess(grown(self.d, stood), 24 * MB)
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
            s.sendall(f"GET /v1/files/{f}/content HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            slow.append(s)
        for s in slow:
            self.assertTrue(s.recv(100).startswith(b"HTTP/1.1 200"))
        began = time.time()
        for _ in range(50):
            self.assertEqual(self.d.get("/healthz").status_code, 200)
            self.assertEqual(self.files.retrieve(f).id, f)
        self.assertLess(time.time() - began, 5 * PATIENCE)
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


ENDS = ("succeeded", "failed", "cancelled")


def job(file, epochs=2, batch=16, **tensord):
    """The body of a job that tunes `half`."""
    return {"model": "half", "training_file": file, "seed": 3, "method": {"type": "supervised", "supervised": {"hyperparameters": {"n_epochs": epochs, "batch_size": batch, "learning_rate": 0.05}}},
            "tensord": {"loss": {"name": "mse"}, "optimizer": {"name": "sgd"}, **tensord}}


class JobCase(WireCase):
    def create(self, body):
        return self.jobs.create(**{k: body[k] for k in ("model", "training_file", "seed", "method", "suffix", "metadata") if k in body}, extra_body={"tensord": body["tensord"]})

    def wait(self, id, *states, seconds=server.JOB_S):
        got = []
        until(lambda: got.append(self.jobs.retrieve(id)) or got[-1].status in (states or ENDS), seconds)
        return got[-1]

    def listed(self, id):
        return [e.to_dict() for e in self.jobs.list_events(id, limit=1000)][::-1]

    def stream(self, id, after=None, **kw):
        """The lines of a stream of events, as they come."""
        head = {"Last-Event-ID": after} if after else {}
        return requests.get(f"http://127.0.0.1:{self.d.rest_port}/v1/fine_tuning/jobs/{id}/events?stream=true", headers=head, stream=True, timeout=60, **kw)

    def heard(self, id, after=None):
        """(ids, events, last data line, comments) of a stream read to its end."""
        with self.stream(id, after) as r:
            self.assertEqual((r.status_code, r.headers["Content-Type"], r.headers["Cache-Control"]), (200, "text/event-stream", "no-cache"))
            lines = [x for x in r.text.split("\n") if x]
        data = [x[6:] for x in lines if x.startswith("data: ")]
        self.assertEqual({x.split(":")[0] for x in lines} - {"id", "data", ""}, set())
        return [x[4:] for x in lines if x.startswith("id: ")], [json.loads(x) for x in data[:-1]], data[-1], [x for x in lines if x.startswith(":")]


class Jobs(JobCase):
    FLAGS = ("--file_system_poll_wait_seconds=3600",)   # a result is loaded without a look

    def test_a_job_from_upload_to_new_version(self):
        body = job(self.upload(rows()), epochs=40, metrics=["mae"])
        made = self.create({**body, "suffix": "tuned", "metadata": {"k": "v"}})
        self.assertIn(made.status, ("validating_files", "queued", "running"))
        done = self.wait(made.id)
        self.assertEqual(done.status, "succeeded", done.error)
        d = done.to_dict()
        self.assertEqual((d["tensord"], d["metadata"], d["suffix"], d["seed"], d["trained_tokens"]), (body["tensord"], {"k": "v"}, "tuned", 3, 40 * 64))
        version = done.fine_tuned_model.split("/")[-1]
        y = self.d.post(f"/v1/models/half/versions/{version}:predict", {"inputs": {"x": [0.5]}}).json()["outputs"]
        self.assertAlmostEqual(y[0], 3 * 0.5 + 1, delta=0.1)
        text = self.files.content(done.result_files[0]).text
        self.assertTrue(text.startswith("step,epoch,train_loss,learning_rate,valid_loss,train_mae"), text[:100])
        points = list(self.jobs.checkpoints.list(made.id))
        self.assertIn(done.fine_tuned_model, [p.fine_tuned_model_checkpoint for p in points])

    def test_lists_of_jobs_go_by_pages(self):
        f = self.upload(rows())
        ids = [self.create(job(f, epochs=1)).id for _ in range(5)]
        page = self.jobs.list(limit=2)
        self.assertEqual(([j.id for j in page.data], page.has_more), (ids[:-3:-1], True))
        self.assertEqual([j.id for j in self.jobs.list(limit=2)][:5], ids[::-1])
        self.assertEqual([j.id for j in self.jobs.list(after=ids[1], limit=1).data], [ids[0]])
        for i in ids:
            self.wait(i)

    def test_what_is_refused_is_in_no_list(self):
        f, before = self.upload(rows()), [j.id for j in self.jobs.list(limit=100)]
        for change, code, param in (({"model": "nosuch"}, "model_not_found", "model"), ({"training_file": "file-nosuch123"}, "file_not_found", "training_file"), ({"tensord": {}}, "missing_field", "tensord.loss"),
                                    ({"tensord": {"loss": {"name": "mse"}, "optimizer": {"name": "sgd", "momentum": 2}}}, "invalid_value", "tensord.optimizer.momentum"),
                                    ({"tensord": {"loss": {"name": "mse"}, "nonsense": 1}}, "unknown_field", "tensord.nonsense")):
            with self.refused(400, code, param=param):
                self.create({**job(f), **change})
        for raw in (b"", b"{", b"[]", b'{"model":' * 3000, b"\xff"):
            r = self.d.http("POST", "/v1/fine_tuning/jobs", data=raw)
            self.assertEqual((r.status_code, sorted(r.json()["error"])), (400, ["code", "message", "param", "type"]))
        self.assertEqual([j.id for j in self.jobs.list(limit=100)], before)

    def test_streams_go_on_where_they_were_cut(self):
        id = self.create(job(self.upload(rows()), epochs=30)).id
        ids, events, last, _ = self.heard(id)   # live
        self.assertEqual(last, "[DONE]")
        self.assertEqual(ids, [e["id"] for e in events])
        self.assertEqual(events, self.listed(id))
        self.assertEqual([e["data"]["step"] for e in events if e["type"] == "metrics" and "metrics" not in e["data"]], list(range(1, 121)))
        self.assertEqual(self.heard(id)[1], events)   # afterwards
        for cut in (0, 7, len(ids) - 2, len(ids) - 1):
            self.assertEqual(self.heard(id, ids[cut])[:3], (ids[cut + 1:], events[cut + 1:], "[DONE]"))
        r = self.stream(id, "ftevent-nosuch123")
        self.assertEqual(r.status_code, 400, r.text)
        with self.refused(404, "not_found"):
            self.client.get("/fine_tuning/jobs/ftjob-nosuch123/events?stream=true", cast_to=str)

    def test_many_follow_one_job_and_hold_nobody_up(self):
        id = self.create(job(self.upload(rows()), epochs=100000, batch=1)).id
        self.wait(id, "running")

        def follow_by(n):
            socks = [socket.create_connection(("127.0.0.1", self.d.rest_port)) for _ in range(n)]
            for s in socks:
                s.sendall(f"GET /v1/fine_tuning/jobs/{id}/events?stream=true HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
                s.settimeout(20)
                self.assertTrue(s.recv(64).startswith(b"HTTP/1.1 200"))
            return socks

        socks = follow_by(100)
        began = time.time()
        for _ in range(20):
            self.assertEqual(self.d.get("/healthz").status_code, 200)
            self.assertEqual(self.d.post("/v1/models/half/versions/1:predict", {"inputs": {"x": [4.0]}}).json(), {"outputs": [4.0]})
        self.assertLess(time.time() - began, 10 * PATIENCE)
        self.jobs.pause(id)
        self.wait(id, "paused")
        for _ in range(3):   # more than may follow at once
            for s in socks:
                s.close()
            time.sleep(1)
            socks = follow_by(200)
        for s in socks:
            s.close()
        with self.stream(id) as r:   # paused: what there is, then comments
            said = b""
            for part in r.iter_content(None):
                said += part
                if b"\n: " in said or said.startswith(b": "):
                    break
        self.assertNotIn(b"[DONE]", said)
        self.assertEqual(self.jobs.cancel(id).status, "cancelled")
        with self.refused(400, "invalid_job_state"):
            self.jobs.cancel(id)
        self.assertEqual(self.heard(id)[2], "[DONE]")

    def test_a_reader_that_does_not_read_is_waited_for(self):
        id = self.create(job(self.upload(rows()), epochs=100000, batch=1)).id
        self.addCleanup(lambda: self.wait(self.jobs.cancel(id).id))   # others would wait for its end
        s = socket.socket()
        self.addCleanup(s.close)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.connect(("127.0.0.1", self.d.rest_port))
        s.sendall(f"GET /v1/fine_tuning/jobs/{id}/events?stream=true HTTP/1.0\r\n\r\n".encode())
        s.recv(100)
        time.sleep(3)
        stood = server.held(self.d.proc.pid, "VmRSS")
        time.sleep(3)
        if not server.SANITIZED:   # whose allocator keeps what was freed
            self.assertLess(server.held(self.d.proc.pid, "VmRSS") - stood, 8 * MB)


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


class Grpc(JobCase):
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

    def test_jobs(self):
        f = self.send(rows()).id
        body = job(f, epochs=20)
        made = self.stub.CreateJob(json=json.dumps(body))
        typed = self.stub.CreateJob(model="half", training_file=f, seed=3, suffix="typed", metadata={"k": "v"}, tensord=json.dumps(body["tensord"]),
                                    method={"type": "supervised", "supervised": {"hyperparameters": {"n_epochs": 20, "batch_size": 16, "learning_rate": 0.05}}})
        self.assertEqual((typed.suffix, dict(typed.metadata), typed.seed, json.loads(typed.tensord)), ("typed", {"k": "v"}, 3, body["tensord"]))
        watched = list(self.stub.WatchEvents(id=made.id))
        rest = self.listed(made.id)
        self.assertEqual([(e.id, e.level, e.type, e.message, json.loads(e.data) if e.data else None) for e in watched], [(e["id"], e["level"], e["type"], e["message"], e["data"]) for e in rest])
        self.assertEqual(list(self.stub.WatchEvents(id=made.id, after=watched[9].id)), watched[10:])
        page = self.stub.ListEvents(id=made.id, limit=7)
        self.assertEqual((list(page.data), page.has_more), (watched[:-8:-1], True))
        self.assertEqual(list(self.stub.ListEvents(id=made.id, limit=7, after=page.last_id).data), watched[-8:-15:-1])
        done = self.stub.GetJob(id=made.id)
        over_rest = self.jobs.retrieve(made.id)
        self.assertEqual((done.status, done.fine_tuned_model, list(done.result_files), done.trained_tokens, done.finished_at),
                         ("succeeded", over_rest.fine_tuned_model, over_rest.result_files, 20 * 64, over_rest.finished_at))
        self.assertEqual((done.method.supervised.hyperparameters.learning_rate, done.hyperparameters.n_epochs, done.progress.step), (0.05, 20, 80))
        self.assertIn(done.fine_tuned_model, [c.fine_tuned_model_checkpoint for c in self.stub.ListCheckpoints(id=made.id).data])
        self.assertEqual([j.id for j in self.stub.ListJobs(limit=2).data], [typed.id, made.id])
        losses = [[json.loads(e.data)["train_loss"] for e in self.stub.WatchEvents(id=i) if e.type == "metrics" and "metrics" not in json.loads(e.data)] for i in (made.id, typed.id)]
        self.assertEqual(losses[0][:4], losses[1][:4])
        with self.explained(CODE.FAILED_PRECONDITION, "invalid_job_state", None):
            self.stub.CancelJob(id=made.id)

    def test_pausing_and_cancelling(self):
        made = self.stub.CreateJob(json=json.dumps(job(self.send(rows()).id, epochs=100000, batch=1)))
        self.wait(made.id, "running")
        self.stub.PauseJob(id=made.id)
        self.wait(made.id, "paused")
        self.stub.ResumeJob(id=made.id)
        self.wait(made.id, "running")
        call = self.stub.WatchEvents(id=made.id)
        next(call)
        call.cancel()
        self.assertEqual(self.stub.CancelJob(id=made.id).status, "cancelled")
        self.assertEqual(self.stub.GetJob(id=made.id).status, "cancelled")

    def test_refused_jobs_say_why(self):
        f = self.send(rows()).id
        for change, status, code, param in (({"model": "nosuch"}, CODE.NOT_FOUND, "model_not_found", "model"), ({"training_file": "file-nosuch123"}, CODE.NOT_FOUND, "file_not_found", "training_file"),
                                            ({"tensord": {"loss": {"name": "mse"}, "n\u00fc": 1}}, CODE.INVALID_ARGUMENT, "unknown_field", "tensord.n??")):
            with self.explained(status, code, param):
                self.stub.CreateJob(json=json.dumps({**job(f), **change}))
        with self.explained(CODE.INVALID_ARGUMENT, "invalid_value", "tensord"):
            self.stub.CreateJob(model="half", training_file=f, tensord="{")
        with self.explained(CODE.INVALID_ARGUMENT, "invalid_value", "json"):
            self.stub.CreateJob(model="half", json="{}")
        with self.explained(CODE.INVALID_ARGUMENT, "invalid_value", "limit"):
            self.stub.ListJobs(limit=10001)
        for call in (self.stub.GetJob, self.stub.PauseJob, self.stub.ListEvents, self.stub.ListCheckpoints, lambda **kw: list(self.stub.WatchEvents(**kw))):
            with self.explained(CODE.NOT_FOUND, "not_found", "id"):
                call(id="ftjob-nosuch123")

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
        stood = server.held(self.d.proc.pid, "VmRSS")
        server.forget_peak(self.d.proc.pid)
        f = self.stub.UploadFile([dict(filename="l", purpose="fine-tune")] + [dict(data=chunk)] * 100)
        self.assertEqual(f.bytes, 100 * MB)
        self.assertEqual(sum(len(c.data) for c in self.stub.DownloadFile(id=f.id)), 100 * MB)
        self.assertLess(grown(self.d, stood), 48 * MB)
        self.stub.DeleteFile(id=f.id)


CTL = os.path.join(os.path.dirname(DAEMON), "tensorctl")


class Tensorctl(JobCase):
    def ctl(self, *args, code=0, d=None):
        """The standard output of `tensorctl finetune ..`."""
        p = subprocess.run([CTL, "finetune", *args, f"--server=127.0.0.1:{(d or self.d).port}"], capture_output=True, text=True, timeout=90)
        self.assertEqual(p.returncode, code, p.stdout + p.stderr)
        return p.stderr if code else p.stdout

    @contextlib.contextmanager
    def written(self, **kw):
        """A job's file beside its rows."""
        with folder() as where:
            with open(os.path.join(where, "rows.jsonl"), "wb") as f:
                f.write(rows())
            with open(os.path.join(where, "job.json"), "w") as f:
                json.dump(job("rows.jsonl", **kw), f)
            yield os.path.join(where, "job.json")

    def test_a_job_is_created_waited_for_and_shown(self):
        with self.written(epochs=5) as path:
            out = self.ctl("create", path, "--wait")
            self.assertRegex(out, r"(?s)Step 1/20: .*Step 20/20: .*succeeded: half/versions/\d+\n$")
            id = self.ctl("create", path).strip()
        told = self.ctl("watch", id).splitlines()
        self.assertEqual(sum("epoch" in x and "loss" in x for x in told), 5)
        doc = json.loads(self.ctl("get", id))
        want = self.jobs.retrieve(id).to_dict()
        self.assertEqual({k: doc[k] for k in doc}, {k: want[k] for k in doc})
        self.assertEqual({k for k, v in want.items() if v and k not in doc}, {"object", "organization_id"})
        self.assertTrue(self.ctl("list", "--limit=1").startswith(id))
        self.assertEqual([j["id"] for j in json.loads(self.ctl("list", "--json"))["data"]], [j.id for j in self.jobs.list(limit=20).data])
        self.assertEqual(self.ctl("events", id, "--limit=3").splitlines(), told[-4:-1])
        self.assertIn("FAILED_PRECONDITION", self.ctl("cancel", id, code=1))
        self.assertIn("NOT_FOUND", self.ctl("get", "ftjob-nosuch123", code=1))

    def test_files(self):
        with self.written() as path:
            data = rows()
            id = self.ctl("upload", os.path.join(os.path.dirname(path), "rows.jsonl")).strip()
        self.assertEqual(self.ctl("download", id).encode(), data)
        self.assertIn(id, self.ctl("files"))
        self.assertNotIn(id, self.ctl("files", "--purpose=fine-tune-results"))
        self.ctl("delete", id)
        self.assertIn("NOT_FOUND", self.ctl("download", id, code=1))
        self.assertIn("No such file", self.ctl("upload", "/no/such/file", code=1))

    def test_what_is_not_understood(self):
        for args in ((), ("nonsense",), ("watch",), ("create",), ("list", "--nonsense")):
            self.assertIn("usage: tensorctl finetune", self.ctl(*args, code=2))
        with self.written(nonsense=1) as path:
            self.assertIn("nonsense", self.ctl("create", path, code=1))
            with open(path, "w") as f:
                f.write('{"model": "half",\n"model": 1}')
            self.assertIn("line 2", self.ctl("create", path, code=1))

    def test_a_terminal_has_a_bar_and_a_restart_is_survived(self):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        with serving(f"--port={port}") as d, self.written(epochs=90000, batch=4) as path:
            id = self.ctl("create", path, d=d).strip()
            ours, theirs = pty.openpty()
            fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 160, 0, 0))
            p = subprocess.Popen([CTL, "finetune", "watch", id, f"--server=127.0.0.1:{port}"], stdout=theirs, stderr=theirs)
            os.close(theirs)
            said = []

            def read():
                with contextlib.suppress(OSError):   # the other side is closed
                    while part := os.read(ours, 65536):
                        said.append(part.decode())

            reader = threading.Thread(target=read)
            reader.start()
            text = lambda: "".join(said)
            until(lambda: re.search(r"\[=*>? *\]  \d+/1440000  epoch \d+  loss [-+.e\d]+  lr 0.05  [.\d]+ steps/s  [:\d]+ left", text()), 30)
            d.channel.close()
            d.proc.kill()
            d.proc.wait()
            d.reader.join(10)
            d.log.clear()
            d.start()
            mark = len(text())
            until(lambda: "resumed" in text()[mark:], 60)
            client(d).fine_tuning.jobs.cancel(id)
            self.assertEqual(p.wait(60), 1)
            reader.join(10)
            os.close(ours)
        steps = [int(x) for x in re.findall(r"(\d+)/1440000", text())]
        self.assertEqual(steps, sorted(steps))
        self.assertRegex(text(), r"the connection is lost .*(?s:.*)cancelled\s*$")


TOKENS = "trainer train\nhalves train hal*\nothers train other*\nreader infer,manage,debug\n"


class Tokens(JobCase):
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

    def test_a_token_sees_the_jobs_of_its_models(self):
        halves, others = client(self.d, "halves"), client(self.d, "others")
        f = self.upload(rows())
        body = job(f, epochs=1)
        ask = {**{k: body[k] for k in ("model", "training_file", "method")}, "extra_body": {"tensord": body["tensord"]}}
        with self.refused(403, None, "half"):
            others.fine_tuning.jobs.create(**ask)
        with self.refused(403, None, "half"):
            others.fine_tuning.jobs.create(**{**ask, "model": "half/versions/1"})
        own = halves.files.create(file=("rows.jsonl", rows()), purpose="fine-tune").id   # files are their token's
        with self.refused(400, "file_not_found", "there is no file"):
            halves.fine_tuning.jobs.create(**ask)
        ids = [c.fine_tuning.jobs.create(**{**ask, "training_file": f}).id for c, f in ((halves, own), (self.client, f), (halves, own))]
        with self.refused(403, None, "half"):   # what it would go on from is not its own
            others.fine_tuning.jobs.create(**{**ask, "model": "other", "extra_body": {"tensord": {**body["tensord"], "base": ids[0]}}})
        for i in ids:
            self.wait(i)
            self.assertEqual(halves.fine_tuning.jobs.retrieve(i).id, i)
            for call in (others.fine_tuning.jobs.retrieve, others.fine_tuning.jobs.cancel, others.fine_tuning.jobs.list_events, others.fine_tuning.jobs.checkpoints.list):
                with self.refused(403, None, "half"):
                    call(i)
        self.assertEqual([j.id for j in halves.fine_tuning.jobs.list(limit=2)][:3], ids[::-1])
        page = halves.fine_tuning.jobs.list(limit=3)
        self.assertEqual(([j.id for j in page.data], page.has_more), (ids[::-1], False))
        self.assertEqual(list(others.fine_tuning.jobs.list()), [])
        stub = FineTuning(self.d.channel, "others", "reader")
        self.assertEqual(list(stub.ListJobs().data), [])
        for call in (lambda: stub.GetJob(id=ids[0]), lambda: list(stub.WatchEvents(id=ids[0])), lambda: stub.CreateJob(json=json.dumps(body))):
            with self.assertRaises(grpc.RpcError) as e:
                call()
            self.assertEqual(e.exception.code(), CODE.PERMISSION_DENIED)

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
        s.sendall(b"POST /v1/files HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: 100000000\r\nExpect: 100-continue\r\n\r\n")
        self.assertTrue(s.recv(1000).startswith(b"HTTP/1.1 401"))
        s.close()


if __name__ == "__main__":
    unittest.main()
