"""The gRPC port under attack, in short forms (http2_attacks.py): the server lives, others are served meanwhile, memory and descriptors come back.

What Debian's gRPC does not bear at full size is in docs/grpc.md; grpc_attack_table.py makes that table.

    build/venv/bin/python tests/e2e/grpc_attack_test.py [-v] [Attacked.test_...]
"""
import concurrent.futures
import contextlib
import re
import socket
import time
import unittest

import grpc

import http2_attacks as attacks
import server
from server import CODE, Case

MAX = 60     # connections in all, of the server below
SLOW_S = 2   # what another client may wait while one attacks, on a busy machine that runs a Debug build


def health(port, timeout=10):
    with grpc.insecure_channel(f"127.0.0.1:{port}", [("grpc.use_local_subchannel_pool", 1)]) as channel:
        return channel.unary_unary("/grpc.health.v1.Health/Check", request_serializer=None, response_deserializer=None)(b"", timeout)


def until(true, seconds=10):
    """Whether it became so."""
    deadline = time.monotonic() + seconds
    while not (now := true()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return now


class Metrics(Case):
    def metric(self, name):
        return float(re.search("^" + re.escape(name) + r"(?:{})? (\S+)$", self.d.get("/metrics").text, re.M).group(1))


class Attacked(Metrics):
    FLAGS = (f"--max_connections={MAX}", "--max_connections_per_address=40")

    def setUp(self):
        self.pid, self.port = self.d.proc.pid, self.d.port

    def descriptors_return_to(self, n):
        until(lambda: server.descriptors(self.pid) <= n)
        self.assertLessEqual(server.descriptors(self.pid), n)

    def cost(self, attack, size, peak_mb, worst_s=SLOW_S):
        """Runs it; what it may cost at most."""
        before = server.descriptors(self.pid)
        with attacks.Cost(self.pid, self.port) as c:
            result = attack(self.port, size)
        if not server.SANITIZED:
            self.assertLess(c.peak_mb, peak_mb)
        self.assertLess(c.worst_s, worst_s * (5 if server.SANITIZED else 1))
        self.assertEqual(c.failed, 0)
        self.assertTrue(health(self.port))
        self.descriptors_return_to(before + 1)
        return result

    # ---- connections and descriptors

    def test_connections_of_an_address_are_capped_and_counted_back(self):
        ask = self.d.channel.unary_unary("/grpc.health.v1.Health/Check", request_serializer=None, response_deserializer=None)
        self.assertTrue(ask(b"", 10))
        before = server.descriptors(self.pid)
        with contextlib.ExitStack() as held:
            for _ in range(100):
                held.enter_context(socket.create_connection(("127.0.0.1", self.port)))
            time.sleep(0.3)
            self.assertLessEqual(server.descriptors(self.pid), before + 40)
            with self.assertRaises(grpc.RpcError):
                health(self.port, 1)
            self.assertTrue(self.d.wait_log("--max_connections_per_address"))
            self.assertTrue(ask(b"", 10))  # who was there before is served
        self.descriptors_return_to(before)
        for _ in range(5):  # the count came back as well
            self.assertTrue(health(self.port))

    def test_half_closed_connections_end(self):
        before = server.descriptors(self.pid)
        held = []
        for _ in range(20):
            s = socket.create_connection(("127.0.0.1", self.port))
            s.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + attacks.frame(attacks.SETTINGS, 0, 0))
            s.shutdown(socket.SHUT_WR)
            held.append(s)
        self.descriptors_return_to(before + 1)
        for s in held:
            s.close()

    def test_without_descriptors_connections_wait_and_are_served_later(self):
        before = attacks.limit_files(self.pid, 3)
        try:
            with concurrent.futures.ThreadPoolExecutor() as pool:
                answers = [pool.submit(health, self.port, 20) for _ in range(4)]
                time.sleep(0.5)
                self.assertFalse(any(a.done() for a in answers))
                attacks.limit_files(self.pid, before)
                self.assertTrue(all(a.result() for a in answers))
        finally:
            attacks.limit_files(self.pid, before)

    def test_vanishing_connections(self):
        self.cost(attacks.vanishing, 1000, 20)

    # ---- messages

    def test_a_compressed_message_is_unpacked_within_the_bound(self):
        e = self.cost(attacks.gzip_message, 400 << 20, 300, 5)
        self.assertEqual(e.code(), CODE.RESOURCE_EXHAUSTED)
        self.assertIn("--max_request_bytes", e.details())

    # ---- frames

    def test_an_endless_integer(self):
        self.cost(attacks.hpack_integer, 320000, 40)

    def test_a_long_header_string(self):
        self.cost(attacks.header_string, 4 << 20, 60)

    def test_a_header_block_without_end(self):
        self.cost(attacks.continuations, 20000, 60)

    def test_rapid_resets(self):
        self.cost(attacks.rapid_resets, 4000, 150, 5)

    def test_streams_of_a_connection_are_capped(self):
        self.assertTrue(until(lambda: self.metric("tensord_grpc_calls") == 0))   # those of the attack before
        with contextlib.closing(attacks.silent_calls(self.port, 4000, of_one=4000, confirms=True)[0]) as p:
            until(lambda: self.metric("tensord_grpc_calls") >= 1000 or not p.open)
            self.assertTrue(health(self.port))
            self.assertLessEqual(self.metric("tensord_grpc_calls"), 1000)
        self.assertTrue(until(lambda: self.metric("tensord_grpc_calls") == 0))

    def test_what_streams_cost(self):
        self.cost(attacks.open_streams, 4000, 120, 5)  # 30 KiB each; 3 to 66 MB was seen, by how fast they are read

    def test_answers_to_pings_are_not_piled_up(self):
        self.cost(attacks.pings, 40000, 60, 5)


class OpenCalls(Metrics):
    """What is open at once is bounded over all connections and by address, and ends when it says nothing."""

    FLAGS = ("--grpc_max_open_calls=400", "--grpc_max_open_calls_per_address=200", "--default_deadline=2")
    STREAM = "/inference.GRPCInferenceService/ModelStreamInfer"

    def open_calls_are(self, least, most):
        seen = []   # as it was seen to settle: one more look may fall upon a call that comes or goes
        until(lambda: seen.append(self.metric("tensord_grpc_calls")) or least <= seen[-1] <= most)
        self.assertLessEqual(least, seen[-1])
        self.assertLessEqual(seen[-1], most)

    @contextlib.contextmanager
    def silent(self, n, **kw):
        peers = attacks.silent_calls(self.d.port, n, of_one=100, **kw)
        try:
            yield peers
        finally:
            for p in peers:
                p.close()

    def test_an_address_has_its_share_and_others_are_served(self):
        refused = self.metric('tensord_grpc_calls_refused_total{reason="address"}')
        for path in (attacks.PREDICT, self.STREAM):
            with self.silent(500, path=path) as peers:
                self.open_calls_are(150, 200)
                self.assertTrue(all(health(self.d.port) for _ in range(5)))
                self.assertTrue(any(b"--grpc_max_open_calls_per_address" in p.got for p in peers))
            self.open_calls_are(0, 0)
        self.assertGreaterEqual(self.metric('tensord_grpc_calls_refused_total{reason="address"}'), refused + 600)

    def test_all_addresses_together_have_as_many_as_may_be(self):
        with contextlib.ExitStack() as held:
            peers = [p for i in range(2, 8) for p in held.enter_context(self.silent(200, path=self.STREAM, address=f"127.0.0.{i}"))]
            self.open_calls_are(400, 400)
            with self.fails(CODE.RESOURCE_EXHAUSTED, "400 gRPC calls are open", "--grpc_max_open_calls"):
                health(self.d.port)
            self.assertEqual(self.d.get("/healthz").status_code, 200)
            self.assertGreaterEqual(self.metric("tensord_grpc_connections"), len(peers))
        self.open_calls_are(0, 0)
        self.assertTrue(health(self.d.port))

    def test_a_call_that_says_nothing_ends_and_a_stream_stays(self):
        with self.silent(100) as calls, self.silent(50, path=self.STREAM, address="127.0.0.3"):
            self.open_calls_are(150, 150)
            self.open_calls_are(50, 50)
            self.assertIn(b"--default_deadline", calls[0].got)
            time.sleep(0.5)
            self.open_calls_are(50, 50)
        self.open_calls_are(0, 0)


class Tokens(Case):
    """A compressed message is not unpacked for who has no token."""

    OPTIONS = {"files": {"tokens": "s3cret infer *\n"}}
    FLAGS = ("--tokens_file={dir}/tokens",)

    def test_nothing_is_unpacked_before_the_token_was_looked_at(self):
        with attacks.Cost(self.d.proc.pid, self.d.port) as c:
            e = attacks.gzip_message(self.d.port, 90 << 20)
        self.assertEqual(e.code(), CODE.UNAUTHENTICATED)
        self.assertLess(c.peak_mb, 20)


if __name__ == "__main__":
    server.models()
    unittest.main()
