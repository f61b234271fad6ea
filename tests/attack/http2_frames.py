"""HTTP/2 under gRPC as its grammar has it and as it has it not: preface, settings, header blocks, continuations, resets, windows, data.

Half of the calls are sound, cut into frames in unusual ways: each is answered with the bytes that a plain client gets. In the other
conversations some frames are wrong, by their kind, flags, stream, length, order or content. What costs a library with known holes most
(docs/grpc.md) is bounded here, so that both may be attacked: header blocks of at most 64 KiB, resets by the hundred.
"""
import struct
import time
import zlib

import generator
import grpc
import http2_attacks as h2
import valid

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, PRIORITY, PUSH_PROMISE, GOAWAY, WINDOW_UPDATE = 0, 2, 5, 7, 8
END_STREAM, PADDED, PRIORITIZED = 1, 8, 32
PATIENCE = 60   # seconds that a sound call is waited for: a sanitizer's build on a busy machine is slow
SOUND = [(valid.PREDICT, valid.HALF), (valid.INFER, valid.HALF_V2), ("/grpc.health.v1.Health/Check", b"")]
HEALTHS = (b"\0\0\0\0\x02\x08\x01", b"\0\0\0\0\x02\x08\x02")   # of the health service: serving, and not, as other models load or do not


def framed(message, packed=False):
    """As it stands in a stream: compressed?, length, bytes."""
    if packed:
        z = zlib.compressobj(wbits=31)
        message = z.compress(message) + z.flush()
    return bytes((packed,)) + struct.pack(">I", len(message)) + message


def header_frames(dice, stream, block):
    """A block as HEADERS and CONTINUATION frames, with a priority where the dice say so. No padding: gRPC's core refuses it."""
    parts = dice.pieces(block, 4) or [b""]
    first, flags = parts[0], h2.END_HEADERS if len(parts) == 1 else 0
    if dice.chance(0.2):
        first, flags = struct.pack(">IB", 0, dice.randrange(256)) + first, flags | PRIORITIZED
    out = h2.frame(h2.HEADERS, flags, stream, first)
    for i, p in enumerate(parts[1:], 2):
        out += h2.frame(h2.CONTINUATION, h2.END_HEADERS if i == len(parts) else 0, stream, p)
    return out


# ---- sound calls

def sound(dice, stream, path, message):
    packed = dice.chance(0.3)
    more = [("grpc-encoding", "gzip")] if packed else []
    more += [("grpc-timeout", dice.choice(("20S", "20000m", "20000000u", "99999999S", "99999999H")))] * dice.chance(0.5) + [("x-filler", "x" * dice.randrange(100))] * dice.randrange(3)
    pieces = dice.pieces(framed(message, packed)) or [b""]
    out = [header_frames(dice, stream, h2.call_headers(path, *more))]
    for i, p in enumerate(pieces, 1):
        out.append(h2.frame(DATA, END_STREAM if i == len(pieces) and dice.chance(0.7) else 0, stream, p))
    if not out[-1][4] & END_STREAM:
        out.append(h2.frame(DATA, END_STREAM, stream))
    return out


def between(dice):
    """What a sound client may say at any time outside of a header block."""
    return dice.choice((h2.frame(h2.PING, 0, 0, b"12345678"), h2.frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1 + dice.randrange(1000))), h2.frame(0xbe, 7, 0, b"unknown"),
                        h2.frame(h2.SETTINGS, 0, 0, struct.pack(">HI", 0xff, 1)), h2.frame(h2.SETTINGS, 0, 0)))


def wants(a):
    """What each sound call is answered."""
    if "wants" not in a.kept:
        with grpc.insecure_channel(f"127.0.0.1:{a.port}", [("grpc.use_local_subchannel_pool", 1)]) as channel:
            a.kept["wants"] = [framed(channel.unary_unary(path, request_serializer=None, response_deserializer=None)(m, 20)) for path, m in SOUND]
    return a.kept["wants"]


def frames_in(data):
    """[(kind, flags, stream, payload)] that are whole, and the rest."""
    out, at = [], 0
    while at + 9 <= len(data):
        n = int.from_bytes(data[at:at + 3], "big")
        if at + 9 + n > len(data):
            break
        out.append((data[at + 3], data[at + 4], int.from_bytes(data[at + 5:at + 9], "big") & 0x7fffffff, data[at + 9:at + 9 + n]))
        at += 9 + n
    return out, data[at:]


def talk(a):
    """Sound calls on one connection, their frames interleaved: each stream ends, with the bytes that are wanted."""
    wanted, calls = wants(a), {}
    for i in range(a.dice.randrange(1, 9)):
        k = a.dice.randrange(len(SOUND))
        calls[2 * i + 1] = (k, sound(a.dice, 2 * i + 1, *SOUND[k]))
    raw, started, left = PREFACE + h2.frame(h2.SETTINGS, 0, 0), 0, {s: list(f) for s, (_, f) in calls.items()}
    while left:   # streams begin in order; frames of those that have begun in any
        s = a.dice.choice([s for s in left if s <= started + 2])
        started = max(started, s)
        raw += left[s].pop(0) + (between(a.dice) if a.dice.chance(0.1) else b"")
        if not left[s]:
            del left[s]
    with a.connect(a.port) as s:
        s.settimeout(PATIENCE)
        for p in a.dice.pieces(raw) if a.dice.chance(0.7) else [raw]:
            s.sendall(p)
        verdict(a, s, calls, wanted, raw)


def verdict(a, s, calls, wanted, raw):
    got, ended, data, until = {n: b"" for n in calls}, set(), b"", time.monotonic() + PATIENCE
    while len(ended) < len(calls) and time.monotonic() < until:
        try:
            more = s.recv(1 << 16)
        except TimeoutError:
            break
        if not more:
            break
        found, data = frames_in(data + more)
        for kind, flags, n, payload in found:
            if kind == DATA and n in got:
                got[n] += payload
            if n in got and (kind in (DATA, h2.HEADERS) and flags & END_STREAM or kind == h2.RST_STREAM):
                ended.add(n)
    for n, (k, _) in calls.items():
        right = n in ended and (got[n] == wanted[k] or k == 2 and got[n] in HEALTHS)
        a.tell("sound, answered" if right else "sound, not answered")
        if not right:
            a.find(f"stream {n} {SOUND[k][0]}: {'ended' if n in ended else 'no end'}, {got[n][:200]!r}, want {wanted[k]!r}; sent {raw[:3000]!r}")


# ---- others

def hpack(dice):
    """A header block that may be none."""
    fields = [h2.literal(n, v) for n, v in ((":method", "POST"), (":scheme", "http"), (":path", dice.choice(valid.MESSAGES)[0]), (":authority", "x"), ("te", "trailers"),
                                            ("content-type", "application/grpc"))]
    odd = (b"\x82", b"\x80", b"\xff\x80\x80\x80\x80\x01", b"\xbf", b"\x3f" + b"\xe1" * 3 + b"\x1f", b"\x20", b"\x3f\xff\xff\xff\xff\x0f", b"\x00\x85\xff\xff\xff\xff\xff\x01x",
           b"\x40\x01a\x7f\x80\x10" + b"b" * 2175, b"\x0f\xff\x01\x00", b"\x10\x03a\0b\x01c", b"\x7f" + b"\x80" * 200, h2.literal("grpc-timeout", dice.choice(("0n", "-1S", "99999999H", "1", "x"))),
           h2.literal("grpc-encoding", dice.choice(("gzip", "deflate", "identity", "br", ""))), h2.literal("Upper", "x"), h2.literal(":late", "x"), h2.literal("connection", "close"),
           h2.literal("content-length", str(dice.number())), h2.literal("authorization", "Bearer x"), h2.literal("grpc-trace-bin", "AAAA"), h2.literal("x-bin", "%%%"), h2.literal("te", "gzip"),
           h2.literal("grpc-accept-encoding", "gzip,gzip,x"), b"".join(h2.literal(f"k{i}", "v" * 100) for i in range(dice.choice((5, 100, 300)))))
    for _ in range(dice.choice((0, 0, 0, 1, 2, 4))):
        fields.insert(dice.randrange(len(fields) + 1), dice.choice(odd))
    if dice.chance(0.15):
        fields.pop(dice.randrange(len(fields)))
    block = b"".join(fields)
    return dice.damaged(block, most=2)[:1 << 16] if dice.chance(0.2) else block


def stream_id(dice, last):
    return last if dice.chance(0.8) else dice.choice((0, 1, last + 2, last + 1, max(0, last - 2), dice.randrange(1 << 31), (1 << 31) - 1, 1 << 31))


def odd_frame(dice, last):
    """Any frame, its fields drawn."""
    s, how = stream_id(dice, last), dice.randrange(12)
    if how == 0:
        rows = b"".join(struct.pack(">HI", dice.choice((0, 1, 2, 3, 4, 5, 6, 8, 0xfe03, 65535)), dice.number() & 0xffffffff) for _ in range(dice.choice((0, 1, 2, 50))))
        return h2.frame(h2.SETTINGS, dice.choice((0, 0, 1)), dice.choice((0, 0, 0, s)), rows + dice.noise(3) * dice.chance(0.1))
    if how == 1:
        return h2.frame(h2.RST_STREAM, 0, s, struct.pack(">I", dice.randrange(16)) + dice.noise(2) * dice.chance(0.1))
    if how == 2:
        return h2.frame(WINDOW_UPDATE, 0, dice.choice((0, s)), struct.pack(">I", dice.number() & 0xffffffff))
    if how == 3:
        return h2.frame(h2.PING, dice.choice((0, 1, 255)), dice.choice((0, 0, s)), dice.randbytes(dice.choice((8, 8, 8, 7, 0)))) * dice.choice((1, 1, 100))
    if how == 4:
        return h2.frame(GOAWAY, 0, dice.choice((0, 0, s)), struct.pack(">II", dice.randrange(1 << 31), dice.randrange(20)) + dice.noise(100))
    if how == 5:
        return h2.frame(PRIORITY, 0, s, struct.pack(">IB", dice.choice((s, 0, 1)), dice.randrange(256)) + dice.noise(2) * dice.chance(0.2))
    if how == 6:
        return h2.frame(PUSH_PROMISE, h2.END_HEADERS, s, struct.pack(">I", 2) + hpack(dice))
    if how == 7:
        return h2.frame(h2.CONTINUATION, dice.choice((0, h2.END_HEADERS)), s, dice.noise(200)) * dice.choice((1, 1, 30))
    if how == 8:
        return h2.frame(dice.randrange(256), dice.randrange(256), s, dice.noise(300))
    if how == 9:
        return h2.frame(DATA, dice.choice((0, END_STREAM, PADDED, PADDED | END_STREAM)), s, bytes((dice.randrange(256),)) + dice.noise(2000))
    if how == 10:   # a length that lies
        return struct.pack(">I", dice.number() & 0xffffff)[1:] + bytes((dice.randrange(10), dice.randrange(64))) + struct.pack(">I", s) + dice.noise(100)
    return h2.frame(h2.HEADERS, dice.choice((h2.END_HEADERS, 0, END_STREAM, END_STREAM | h2.END_HEADERS)), s, dice.noise(300))


def message_bytes(dice, message):
    how = dice.randrange(8)
    if how == 0:
        return bytes((dice.choice((0, 1, 2, 255)),)) + struct.pack(">I", dice.number() & 0xffffffff) + message
    if how == 1:
        return framed(message, True)[:-dice.randrange(1, 9)]
    if how == 2:
        return dice.damaged(framed(message, True), message)
    if how == 3:
        return framed(bytes(1 << dice.randrange(10, 23)), True)   # packs well
    if how == 4:
        return framed(message) * dice.randrange(2, 6)
    return framed(dice.damaged(message) if how == 5 else message, dice.chance(0.3))


def broken(dice):
    """Frames of some calls; some are wrong."""
    out, last = [], 1
    for _ in range(dice.choice((1, 2, 3, 8, 120))):
        path, message = dice.choice(valid.MESSAGES)
        block = h2.call_headers(path, *[("grpc-encoding", "gzip")] * dice.chance(0.5)) if dice.chance(0.7) else hpack(dice)
        out.append(header_frames(dice, stream_id(dice, last), block))
        for p in dice.pieces(message_bytes(dice, message), 3):
            out.append(h2.frame(DATA, END_STREAM if dice.chance(0.3) else 0, stream_id(dice, last), p))
        if dice.chance(0.3):
            out.append(h2.frame(h2.RST_STREAM, 0, last, struct.pack(">I", 8)))
        last += 2
    for _ in range(dice.choice((0, 1, 2, 5))):
        out.insert(dice.randrange(len(out) + 1), odd_frame(dice, last - 2))
    if dice.chance(0.1):
        dice.shuffle(out)
    hello = PREFACE + h2.frame(h2.SETTINGS, 0, 0) if dice.chance(0.93) else dice.choice((PREFACE, PREFACE[:dice.randrange(24)], dice.noise(100), b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01\x02\0\x01"))
    raw = hello + b"".join(out)
    return raw[:24] + dice.damaged(raw[24:], most=2) if dice.chance(0.1) else raw


def quarrel(a):
    raw = broken(a.dice)
    got = a.exchange(a.connect(a.port, a.dice.choice((None, 2048))), raw)
    kinds = {k for k, *_ in frames_in(got)[0]}
    a.tell("GOAWAY" if GOAWAY in kinds else "answered" if {h2.HEADERS, DATA} & kinds else "reset" if h2.RST_STREAM in kinds else "settings" if got else "no answer")


def turn(a):
    (talk if a.dice.chance(0.5) else quarrel)(a)


if __name__ == "__main__":
    generator.run("http2_frames", turn)
