"""The HTTP port against clients that mean harm: heads and bodies with two meanings, half-sent and slow requests, clients that vanish,
answers that nobody reads. What must hold: each is refused for itself, its connection and descriptor come back, and another client is served meanwhile.

    build/venv/bin/python tests/e2e/http_attack_test.py [-v] [Framing.test_...]
"""
import contextlib
import gzip
import os
import re
import socket
import ssl
import threading
import time
import unittest
import unittest.mock

import requests

import server
from certificates import Certificates
from http2_attacks import limit_files
from server import PATIENCE, Case

BODY = b'{"instances": [0]}'
HOST = b"Host: localhost"
CHUNKED = b"Transfer-Encoding: chunked"


def request(*headers, body=BODY, method=b"POST", path=b"/v1/models/half:predict", version=b"HTTP/1.1", length=True, host=True):
    head = [method + b" " + path + b" " + version, *([HOST] if host else []), *headers, *([b"Content-Length: %d" % len(body)] if length else [])]
    return b"\r\n".join(head) + b"\r\n\r\n" + body


def converse(d, raw, seconds=10):
    """All that comes back before the server ends the connection, or None when it does not."""
    with socket.create_connection(("127.0.0.1", d.rest_port), 10) as s:
        s.settimeout(seconds)
        answer = b""
        try:
            s.sendall(raw)
            while True:
                data = s.recv(1 << 16)
                if not data:
                    return answer
                answer += data
        except TimeoutError:
            return None
        except ConnectionError:
            return answer


def statuses(answer):
    return [int(n) for n in re.findall(rb"HTTP/1\.1 (\d+) ", answer)]


def states(d):
    """States of the connections that the server has, as /proc/net/tcp numbers them: 1 established, 8 close-wait."""
    found = []
    for name in ("tcp", "tcp6"):
        with open(f"/proc/{d.proc.pid}/net/{name}") as f:
            for row in f.read().splitlines()[1:]:
                fields = row.split()
                if int(fields[1].split(":")[1], 16) == d.rest_port and fields[3] in ("01", "08"):
                    found.append(int(fields[3], 16))
    return found


def cpu_seconds(d):
    with open(f"/proc/{d.proc.pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def bystander(test, d, most_s=1.0):
    """Another client is served meanwhile, each request within most_s."""
    stop, worst, wrong = threading.Event(), [0.0], []

    def run():
        with requests.Session() as session:
            while not stop.wait(0.02):
                begun = time.monotonic()
                try:
                    r = session.post(f"http://127.0.0.1:{d.rest_port}/v1/models/half:predict", data=BODY, timeout=20)
                    if r.status_code != 200:
                        wrong.append(r.text)
                except requests.RequestException as e:
                    wrong.append(str(e))
                worst[0] = max(worst[0], time.monotonic() - begun)
    t = threading.Thread(target=run)
    t.start()
    try:
        yield
    finally:
        stop.set()
        t.join()
    test.assertEqual(wrong, [])
    test.assertLess(worst[0], most_s)


class Hostile(Case):
    def setUp(self):
        self.d.get("/healthz")
        self.d.session.close()
        self.settles(0)
        self.before = server.descriptors(self.d.proc.pid)

    def settles(self, n, seconds=10):
        """So many connections are left, and no more than that many descriptors beside what there was: how many descriptors, as that was seen
        (the next look may fall upon a folder that is being listed)."""
        end, most = time.monotonic() + seconds, getattr(self, "before", 1 << 20)
        while True:
            connections, files = len(states(self.d)), server.descriptors(self.d.proc.pid)
            if (connections <= n and (n > 0 or files <= most)) or time.monotonic() > end:
                break
            time.sleep(0.02)
        self.assertLessEqual(connections, n)
        return files

    def tearDown(self):
        self.d.session.close()
        self.assertLessEqual(self.settles(0), self.before)


class Framing(Hostile):
    """A request whose end, or host, is in doubt is refused, and nothing behind it is taken for a request."""

    def refuses(self, status, raw, words=b""):
        for kept in (False, True):
            answer = converse(self.d, (request() if kept else b"") + raw + request(method=b"GET", path=b"/healthz", body=b""))
            self.assertIsNotNone(answer, raw[:200])
            found = statuses(answer)
            self.assertEqual(found[:kept], [200] * kept)
            self.assertEqual(set(found[kept:]), {status}, (raw[:200], answer))   # a set: libmicrohttpd writes the head of some of its own refusals twice
            self.assertIn(words, answer)

    def test_lengths(self):
        self.refuses(400, request(CHUNKED), b"both Content-Length and Transfer-Encoding")
        self.refuses(400, request(b"Content-Length: 3"), b"more than one Content-Length")
        self.refuses(400, request(b"content-length: 18"), b"more than one Content-Length")
        for bad in (b"-3", b"+18", b"18 ,18", b"0x12", b"1e1", b"", b"18,18", b" "):
            self.refuses(400, request(b"Content-Length: " + bad, length=False))
        self.refuses(413, request(b"Content-Length: 99999999999999999999999", length=False))

    def test_codings(self):
        for bad in (b"xchunked", b"gzip, chunked", b"chunked, chunked", b"identity", b"chunked;q=1", b"chunkedx"):
            self.refuses(501, request(b"Transfer-Encoding: " + bad, length=False), b"Transfer-Encoding is not supported")
        self.refuses(400, request(CHUNKED, CHUNKED, length=False), b"more than one Transfer-Encoding")
        self.refuses(400, request(b"Transfer-Encoding : chunked"), b"none of a token")
        self.refuses(400, request(CHUNKED, length=False, version=b"HTTP/1.0").replace(b"\r\n\r\n", b"\r\nConnection: keep-alive\r\n\r\n"), b"none of HTTP/1.0")

    def test_chunks(self):
        for bad in (b"-1\r\n", b"g\r\n", b"\r\n", b"5 5\r\n", b"1\r\nab\r\n", b"0x1\r\n", b" 1\r\n"):
            self.assertEqual(statuses(converse(self.d, request(CHUNKED, length=False, body=bad))), [400], bad)
        for long in (b"f" * 100000, b"1" * 100000 + b"\r\n"):
            self.assertEqual(statuses(converse(self.d, request(CHUNKED, length=False, body=long))), [413])
        for long in (b"0" * 100000, b"1;" + b"x" * 100000, b"0;" + b"x" * 100000):   # libmicrohttpd's room for a line; not a byte of them is kept
            self.assertEqual(statuses(converse(self.d, request(CHUNKED, length=False, body=long))), [500])
        self.assertEqual(statuses(converse(self.d, request(CHUNKED, length=False, body=b"0\r\n" + b"a: b\r\n" * 20000))), [431])

    def test_hosts(self):
        self.refuses(400, request(host=False), b"needs one Host header")
        self.refuses(400, request(HOST), b"more than one Host")
        for bad in (b"a b", b"a,b", b"a/b", b"user@a"):
            self.refuses(400, request(b"Host: " + bad, host=False), b"no host")
        self.assertEqual(statuses(converse(self.d, request(host=False, version=b"HTTP/1.0"))), [200])

    def test_heads(self):
        self.refuses(431, request(*(b"a%d: b" % i for i in range(200))), b"rest_api_max_headers (100)")
        self.refuses(431, request(b"a: " + b"x" * 20000))
        self.refuses(414, request(path=b"/" + b"x" * 20000))
        self.refuses(400, request(b"a: b\rc: d"), b"control character")
        self.refuses(400, request(b"a\x01: b"), b"none of a token")
        self.refuses(400, request(b"no colon"))
        self.refuses(400, request(path=b"/v1/models/half:predict x"), b"the target holds")
        for version in (b"HTTP/0.9", b"HTTP/2.0", b"HTTP/3.0"):
            self.refuses(505, request(version=version))
        for line in (b"GET /healthz", b"GET /healthz ", b"GET /healthz http/1.1", b"GET /healthz HTTP/1.10", b"GET /healthz HTTP/1.x", bytes(range(1, 9)) + b" / HTTP"):
            self.refuses(400, line + b"\r\nHost: localhost\r\n\r\n")
        self.refuses(431, request(b"Cookie: " + b"a=b; " * 4000))
        self.refuses(414, b"A" * 20000 + b" / HTTP/1.1\r\n\r\n")

    def test_heads_that_are_none_end_the_connection(self):
        for raw in (b"GET\r\n\r\n", b" / HTTP/1.1\r\n\r\n", b"GET\t/healthz\tHTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\r\n\r\n"):
            self.assertEqual(converse(self.d, raw), b"", raw)

    def test_what_is_behind_a_nul(self):
        close = b"Connection: close"
        self.refuses(400, request(b"a\0b: c"))   # in a name
        for raw in (request(b"Host: localhost\0.evil.example", close, host=False), request(b"Content-Length: %d\0 5" % len(BODY), close, length=False),
                    request(b"a: b\0c", close)):   # in a value: the text before it
            self.assertEqual(statuses(converse(self.d, raw)), [200], raw)
        self.refuses(400, request(b"Content-Length: 18\0", b"Content-Length: 17\0", length=False), b"more than one Content-Length")
        self.refuses(501, request(b"Transfer-Encoding: x\0chunked", length=False), b"Transfer-Encoding is not supported")

    def test_documents(self):
        for tail in (b"x", BODY, b" {}", b"\0", b"]", b"//"):
            r = self.d.post("/v1/models/half:predict", data=BODY + tail)
            self.answers(r, 400, "The document root must not be followed by other values")
        self.assertEqual(self.d.post("/v1/models/half:predict", data=BODY + b" \r\n\t").status_code, 200)
        json = {"Content-Type": "application/json"}
        v2 = b'{"inputs": [{"name": "x", "shape": [1], "datatype": "FP32", "data": [0]}]}'
        for path, body in (("/v1/models/half:classify", b'{"examples": [{"x": 1}]}'), ("/v1/models/half:gradient", b'{"inputs": {"x": [1]}}'), ("/v2/models/half/infer", v2),
                           ("/v2/logging", b"{}"), ("/v2/trace/setting", b"{}"), ("/v2/repository/index", b"{}"), ("/v2/repository/models/half/load", b"{}"),
                           ("/v2/systemsharedmemory/region/a/register", b'{"key": "a", "offset": 0, "byte_size": 1}'), ("/v1/fine_tuning/jobs", b'{"model": "half"}')):
            for tail in (b"x", b"{}"):
                r = self.d.post(path, data=body + tail, headers=json)
                self.assertEqual(r.status_code, 400, (path, r.text))
                self.assertRegex(r.text, "must not be followed|end of file expected|Invalid value", path)


class Clients(Hostile):
    """Those that vanish, are slow, or do not read."""

    FLAGS = ("--rest_api_head_timeout=1", "--rest_api_body_timeout=1", "--rest_api_least_rate=100000", "--rest_api_idle_timeout=2")

    def test_clients_that_vanish_leave_nothing(self):
        upload = request(b"Content-Type: multipart/form-data; boundary=b", path=b"/v1/files", body=b"--b\r\n" * 200)
        for part in (b"", b"G", request()[:40], request()[:-5], request(CHUNKED, length=False, body=b"5\r\nab"), upload[:-20], request() + request()[:40],
                     request(b"Expect: 100-continue")[:-len(BODY)]):
            with bystander(self, self.d):
                for _ in range(40):
                    with socket.create_connection(("127.0.0.1", self.d.rest_port), 10) as s:
                        s.sendall(part)
                self.settles(1, 0.9)   # long before any time is over; the bystander's own
            self.settles(0, 0.9)

    def test_clients_that_close_one_side_get_their_answer(self):
        with socket.create_connection(("127.0.0.1", self.d.rest_port), 10) as s:
            s.sendall(request())
            answer = s.recv(1 << 16)
            s.shutdown(socket.SHUT_WR)
            self.assertEqual(statuses(answer), [200])
            self.assertEqual(s.recv(10), b"")

    def test_heads_and_bodies_have_their_time(self):
        with bystander(self, self.d):
            body, head = b"rest_api_body_timeout (1 s)", b"rest_api_head_timeout (1 s)"
            for raw, words in ((request(b"a: " + b"x" * 1000), head), (request(body=b"x" * 1000), body), (request(CHUNKED, length=False, body=b"1\r\nx\r\n" * 1000), body),
                               (request(b"Content-Type: multipart/form-data; boundary=b", path=b"/v1/files", body=b"x" * 1000), body)):
                seconds, answer = self.trickle(raw, 60 if words == head else raw.index(b"\r\n\r\n") + 4)
                self.assertEqual(statuses(answer), [408], answer)
                self.assertIn(words, answer)
                self.assertLess(seconds, 4)

    def trickle(self, raw, at_once):
        """at_once bytes, and then one every tenth of a second."""
        begun, answer = time.monotonic(), b""
        with socket.create_connection(("127.0.0.1", self.d.rest_port), 10) as s:
            s.settimeout(0.1)
            s.sendall(raw[:at_once])
            for i in range(at_once, len(raw)):
                try:
                    answer = s.recv(1 << 16)
                    break
                except TimeoutError:
                    s.sendall(raw[i:i + 1])
                self.assertLess(time.monotonic() - begun, 8, "a slow client is still listened to")
        return time.monotonic() - begun, answer

    def test_a_large_body_that_keeps_its_rate_is_taken(self):
        body = b'{"instances": [' + b"0," * 200000 + b"0]}"
        raw, begun = request(body=body), time.monotonic()
        with socket.create_connection(("127.0.0.1", self.d.rest_port), 10) as s:
            s.settimeout(10)
            for at in range(0, len(raw), 20000):   # 200,000 bytes a second for 2 s
                s.sendall(raw[at:at + 20000])
                time.sleep(0.1)
            self.assertEqual(statuses(s.recv(100)), [200])
        self.assertGreater(time.monotonic() - begun, 1.9)

    def test_idle_connections_end(self):
        some = [socket.create_connection(("127.0.0.1", self.d.rest_port), 10) for _ in range(20)]
        for s in some[:10]:
            s.sendall(request())
            self.assertEqual(statuses(s.recv(1 << 16)), [200])
        with bystander(self, self.d):
            for s in some:
                s.settimeout(5)
                self.assertEqual(s.recv(100), b"")
                s.close()


class Readers(Hostile):
    FLAGS = ("--rest_api_body_timeout=1", "--rest_api_least_rate=10000000")

    def test_answers_that_nobody_reads(self):
        raw = request(body=b'{"instances": [' + b"0," * 1000000 + b"0]}")
        with bystander(self, self.d, 2.0 * PATIENCE), contextlib.ExitStack() as all:
            for _ in range(4):
                s = all.enter_context(socket.socket())
                s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                s.connect(("127.0.0.1", self.d.rest_port))
                s.sendall(raw)
            self.settles(1, 20 * PATIENCE)


class Large(Hostile):
    """As many clients with large bodies as there are HTTP workers, each sending its next one when it has its answer."""

    NUMBERS = 600000 if server.SANITIZED else 4000000

    def send(self, raw, over, found):
        while not over.is_set():
            with socket.create_connection(("127.0.0.1", self.d.rest_port), 10) as s, contextlib.suppress(ConnectionError):
                s.settimeout(60)
                s.sendall(raw)
                found.append(statuses(s.recv(100)))
                while s.recv(1 << 20) and not over.is_set():
                    pass

    def test_others_are_not_kept_waiting(self):
        body = b'{"instances": [' + b"0," * self.NUMBERS + b"0]}"
        kinds = request(b"Connection: close", body=body), request(b"Connection: close", b"Content-Encoding: gzip", body=gzip.compress(body, 1))
        over, found = threading.Event(), []
        clients = [threading.Thread(target=self.send, args=(kinds[i % 2], over, found)) for i in range(4 * os.cpu_count())]
        for t in clients:
            t.start()
        try:
            paths = ("/metrics", "/v1/models", "/v1/models/half/metadata", "/v1/models/half", "/readyz")
            with bystander(self, self.d, 0.5 * PATIENCE), requests.Session() as session:
                for path in 4 * paths:
                    begun = time.monotonic()
                    self.assertEqual(session.get(f"http://127.0.0.1:{self.d.rest_port}{path}").status_code, 200)
                    self.assertLess(time.monotonic() - begun, 0.5 * PATIENCE, path)
                    time.sleep(0.05)
        finally:
            over.set()
            for t in clients:
                t.join()
        self.assertTrue(found and all(status == [200] for status in found), found)


class Many(Hostile):
    """More connections than may be."""

    FLAGS = ("--max_connections_per_address=20",)

    def dial(self, n):
        return [socket.create_connection(("127.0.0.1", self.d.rest_port), 10) for _ in range(n)]

    def test_one_too_many_hears_why(self):
        held = self.dial(20)
        try:
            for s in held:   # counted, then
                s.sendall(request())
                self.assertEqual(statuses(s.recv(1 << 16)), [200])
            answer = converse(self.d, request())
            self.assertEqual(statuses(answer), [429])
            self.assertIn(b"20 connections are open from its address: as many as may be (--max_connections_per_address)", answer)
            more = self.dial(100)   # most of them are just closed
            for s in more:
                s.settimeout(5)
                self.assertEqual(s.recv(10), b"")
                s.close()
            held[0].sendall(request())   # those that are there are served
            self.assertEqual(statuses(held[0].recv(1 << 16)), [200])
        finally:
            for s in held:
                s.close()
        self.settles(0)
        self.assertEqual(statuses(converse(self.d, request(b"Connection: close"))), [200])

    def test_few_descriptors(self):
        launch = server.Server.launch

        def limited(d):
            d.args = ["prlimit", "--nofile=100", *d.args] if d.args[0] != "prlimit" else d.args
            launch(d)
        with unittest.mock.patch.object(server.Server, "launch", limited), server.serving() as d:
            held = [socket.create_connection(("127.0.0.1", d.rest_port), 10) for _ in range(200)]
            time.sleep(0.5)
            self.assertLess(server.descriptors(d.proc.pid), 100)   # some are left for files
            for s in held:
                s.close()
            served = lambda: statuses(converse(d, request(b"Connection: close"))) == [200]
            end = time.monotonic() + 5
            while not served() and time.monotonic() < end:   # the last of them may just be closing
                time.sleep(0.05)
            self.assertTrue(served())
            self.assertEqual(d.post("/v1/models/half:reload").status_code, 200)

    def test_without_descriptors_connections_wait_and_nothing_spins(self):
        with server.serving() as d, contextlib.ExitStack() as held:
            dial = lambda: held.enter_context(socket.create_connection(("127.0.0.1", d.rest_port), 10))
            for s in (some := [dial() for _ in range(8)]):
                s.sendall(request())
                self.assertEqual(statuses(s.recv(1 << 16)), [200])
            before = limit_files(d.proc.pid, max(map(int, os.listdir(f"/proc/{d.proc.pid}/fd"))) + 1)
            waiting = [dial() for _ in range(4)]
            spent = cpu_seconds(d)
            for s in waiting:
                s.sendall(request())
            time.sleep(0.5)
            self.assertLess(cpu_seconds(d) - spent, 0.2 * PATIENCE)
            some[0].sendall(request())   # those that are there are served
            self.assertEqual(statuses(some[0].recv(1 << 16)), [200])
            limit_files(d.proc.pid, before)
            for s in waiting:
                s.settimeout(5)
                self.assertEqual(statuses(s.recv(1 << 16)), [200])


class OldTls(Case):
    @classmethod
    def setUpClass(cls):
        cls.c = Certificates()
        cls.FLAGS = ("--ssl_config_file={dir}/ssl",)
        cls.OPTIONS = {"files": {"ssl": cls.c.config(False)}, "rest": "https"}
        super().setUpClass()

    def test_tls_below_1_2_is_refused(self):
        for version, served in ((ssl.TLSVersion.TLSv1, False), (ssl.TLSVersion.TLSv1_1, False), (ssl.TLSVersion.TLSv1_2, True), (ssl.TLSVersion.TLSv1_3, True)):
            context = ssl.create_default_context(cafile=self.c.path("ca.pem"))
            context.set_ciphers("ALL:@SECLEVEL=0")
            context.minimum_version = context.maximum_version = version
            with socket.create_connection(("127.0.0.1", self.d.rest_port), 10) as s:
                try:
                    with context.wrap_socket(s, server_hostname="localhost") as t:
                        t.sendall(request(method=b"GET", path=b"/healthz", body=b""))
                        self.assertEqual((statuses(t.recv(100)), served), ([200], True), version)
                except (ssl.SSLError, ConnectionError):
                    self.assertFalse(served, version)

    def test_half_handshakes_end(self):
        for part in (b"", b"\x16\x03\x01\x02\x00\x01", b"\x16\x03\x01\x40\x00" + b"x" * 5000):
            with socket.create_connection(("127.0.0.1", self.d.rest_port), 10) as s:
                s.sendall(part)
        end = time.monotonic() + 5
        while states(self.d) and time.monotonic() < end:
            time.sleep(0.05)
        self.assertEqual(states(self.d), [])


if __name__ == "__main__":
    unittest.main()
