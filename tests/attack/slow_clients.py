"""Clients that are slow, that stop in the middle, and that vanish: some hundred at a time on both ports, each a little story on a socket.

A story is a coroutine: it sends, and yields how long it waits until it goes on. When it is over the connection is closed, half-closed before, or
reset. What must hold is for the driver to see: others are served, memory stays bounded, descriptors come back.
"""
import heapq
import itertools
import struct

import generator
import http2_attacks as h2
import http2_frames as frames
import valid

AT_ONCE, LIFE = 100, 12   # of a lane; seconds that a story takes at most
NUMBERS = b'{"instances": [' + b"0," * 200000 + b"0]}"   # its answer is as large


def http(method=b"POST", path=b"/v1/models/half:predict", body=b'{"instances": [1]}', rows=b"", length=None):
    return b"%s %s HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: %d\r\n\r\n" % (method, path, rows, len(body) if length is None else length) + body


def push(s, data):
    """All of data, as fast as it is taken."""
    while data:
        try:
            data = data[s.send(data):]
        except BlockingIOError:
            yield 0.05


def pull(s, dice, seconds):
    """Reads a little now and then."""
    for _ in range(int(seconds * 4)):
        try:
            if not s.recv(1 << dice.randrange(4, 14)):
                return
        except BlockingIOError:
            pass
        yield 0.25


# ---- stories on the HTTP port

def silence(s, dice):
    yield dice.random() * LIFE


def part_of_a_head(s, dice):
    raw = http(rows=b"a: " + b"x" * dice.size(4000) + b"\r\n")
    yield from push(s, raw[:dice.randrange(raw.index(b"\r\n\r\n") + 3)])
    yield dice.random() * LIFE


def trickle(s, dice):
    """Byte by byte, of head or body."""
    raw = http(body=b" " * 300 + b'{"instances": [1]}')
    at = dice.randrange(len(raw))
    yield from push(s, raw[:at])
    for i in range(at, min(len(raw), at + 60)):
        yield 0.1 + dice.random() * 0.2
        yield from push(s, raw[i:i + 1])


def part_of_a_body(s, dice):
    """Up to 4 MB of it came."""
    yield from push(s, http(body=b" " * dice.size(1 << 22), length=1 << 23))
    yield dice.random() * LIFE


def chunks_without_end(s, dice):
    yield from push(s, b"POST /v1/models/half:predict HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
    for _ in range(dice.randrange(100)):
        n = 1 + dice.size(20000)
        yield from push(s, b"%x\r\n" % n + b" " * n + b"\r\n")
        yield dice.random() * 0.2


def part_of_an_upload(s, dice):
    part = b'--b\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nfine-tune\r\n--b\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\n'
    yield from push(s, http(path=b"/v1/files", rows=b"Content-Type: multipart/form-data; boundary=b\r\n", body=part + b"x" * dice.size(1 << 20), length=1 << 24))
    yield dice.random() * 3


def unread(s, dice):
    """Answers of some MB, read a little or not at all."""
    for _ in range(dice.randrange(1, 4)):
        yield from push(s, http(body=NUMBERS))
    yield from pull(s, dice, dice.random() * LIFE) if dice.chance(0.5) else silence(s, dice)


def unread_small(s, dice):
    """Hundreds of pipelined requests."""
    yield from push(s, http(method=b"GET", path=b"/metrics", body=b"") * dice.choice((10, 300)))
    yield from silence(s, dice)


# ---- stories on the gRPC port

def hello(s, *settings):
    return push(s, frames.PREFACE + h2.frame(h2.SETTINGS, 0, 0, b"".join(struct.pack(">HI", *x) for x in settings)))


def only_hello(s, dice):
    yield from hello(s)
    yield dice.random() * LIFE


def part_of_hello(s, dice):
    yield from push(s, (frames.PREFACE + h2.frame(h2.SETTINGS, 0, 0))[:dice.randrange(33)])
    yield dice.random() * LIFE


def calls_that_say_nothing(s, dice):
    yield from hello(s)
    for i in range(dice.choice((1, 10, 100))):
        yield from push(s, frames.header_frames(dice, 2 * i + 1, h2.call_headers(dice.choice((valid.PREDICT, valid.STREAM)))))
    yield dice.random() * LIFE


def part_of_a_message(s, dice):
    yield from hello(s)
    n = 1 << dice.randrange(8, 22)
    yield from push(s, frames.header_frames(dice, 1, h2.call_headers(valid.PREDICT)) + h2.frame(frames.DATA, 0, 1, frames.framed(bytes(n))[:min(16000, n // 2)]))
    for _ in range(dice.randrange(30)):
        yield dice.random() * 0.3
        yield from push(s, h2.frame(frames.DATA, 0, 1, b"x" * min(1000, n // 64)))


def unread_stream(s, dice):
    """Messages of a stream whose answers have no window, and are not read."""
    yield from hello(s, (4, dice.choice((0, 1, 100, 65535))))
    yield from push(s, frames.header_frames(dice, 1, h2.call_headers(valid.STREAM)))
    n = dice.choice((100, 10000))
    message = frames.framed(valid.infer("half", ("x", "FP32", (n,), bytes(4 * n))))
    for _ in range(dice.randrange(60)):
        for at in range(0, len(message), 16000):
            yield from push(s, h2.frame(frames.DATA, 0, 1, message[at:at + 16000]))
        yield 0.02
    yield dice.random() * LIFE


def reset_calls(s, dice):
    """Calls that are reset while they run; not as fast as they can be, which is a flood (http2_attacks.py has it)."""
    yield from hello(s)
    for i in range(dice.choice((1, 5, 20))):
        yield from push(s, frames.header_frames(dice, 2 * i + 1, h2.call_headers(valid.PREDICT)) + h2.frame(frames.DATA, 1, 2 * i + 1, frames.framed(valid.HALF)))
        yield dice.random() * 0.1
        yield from push(s, h2.frame(h2.RST_STREAM, 0, 2 * i + 1, b"\0\0\0\x08"))
    yield dice.random()


HTTP = (silence, part_of_a_head, trickle, part_of_a_body, chunks_without_end, part_of_an_upload, unread, unread_small)
GRPC = (silence, part_of_hello, only_hello, calls_that_say_nothing, part_of_a_message, unread_stream, reset_calls)


class Client:
    """One story. go_on() is when it wants to be called again, or None when it is over."""

    def __init__(self, a):
        story, port = a.dice.choice([(s, a.rest_port) for s in HTTP] + [(s, a.port) for s in GRPC])
        self.name, self.socket = story.__name__, a.connect(port, a.dice.choice((None, 4096)))
        self.socket.setblocking(False)
        self.steps, self.ends = story(self.socket, a.dice), 0

    def go_on(self):
        try:
            return next(self.steps)
        except (StopIteration, OSError):
            return None


def turn(a):
    """Whose time has come goes on; who has ended is replaced, while there is time."""
    waiting, order = a.kept.setdefault("waiting", []), a.kept.setdefault("order", itertools.count())
    now = generator.time.monotonic()
    while len(waiting) < AT_ONCE:
        heapq.heappush(waiting, (now, next(order), now + LIFE * (a.dice.random() if a.dice.chance(0.3) else 1), Client(a)))
        now += 0.005
    at, _, end, client = heapq.heappop(waiting)
    generator.over.wait(max(0, min(0.2, at - generator.time.monotonic())))
    pause = client.go_on()
    if pause is None or at > end:
        a.leave(client.socket)
        a.tell(client.name)
    else:
        heapq.heappush(waiting, (generator.time.monotonic() + pause, next(order), end, client))


def finish(a):
    for *_, client in a.kept.get("waiting", []):
        client.socket.close()


if __name__ == "__main__":
    generator.run("slow_clients", turn, lanes=2, finish=finish)
