"""HTTP/1 as its grammar has it and as it has it not: heads, folding, lengths, chunks, trailers, pipelining, in any pieces.

Half of the conversations are sound, in the most unusual form that the grammar allows: their answers must be those of the plain form. The
others have some production drawn wrong; whatever they are answered, it is HTTP, and no INTERNAL.
"""
import json
import re
import time

import generator
import valid

METHODS = ["GET", "POST", "HEAD", "OPTIONS", "DELETE", "PUT", "PATCH", "CONNECT", "TRACE", "post", "", "G ET", "X" * 400, "\x00"]
VERSIONS = ["HTTP/1.1"] * 8 + ["HTTP/1.0", "HTTP/0.9", "HTTP/2.0", "HTTP/1.10", "http/1.1", "HTTP/1", "", "HTTP/1.1 x"]
ENDS = [b"\r\n"] * 12 + [b"\n", b"\r", b"", b"\r\r\n", b"\n\r\n"]
LENGTHS = ["-1", "+5", "0x10", "1e3", "", " ", "5,5", "5 5", "99999999999999999999", "18446744073709551616", "9223372036854775808", "4294967296", "5;q=1", "\u0665", "00005"]
CODINGS = ["chunked", "CHUNKED", "xchunked", "gzip, chunked", "chunked, chunked", "identity", "chunked;q=1", "", "\tchunked", "chunked\x0b"]
CHUNKS = [b"-1", b"+2", b"g", b"", b" 2", b"2 ", b"0x2", b"2;a=\"", b"f" * 17, b"ffffffffffffffff", b"8000000000000000", b"0" * 5000 + b"2", b"2;" + b"x" * 5000, b"\x80"]
ODD = [("Expect", "100-continue"), ("Expect", "nothing"), ("Connection", "close"), ("Connection", "keep-alive, upgrade"), ("Upgrade", "h2c"), ("HTTP2-Settings", "AAMAAABkAAQAoAAAAAIAAAAA"),
       ("Content-Encoding", "gzip"), ("Content-Encoding", "deflate, gzip"), ("Content-Encoding", "br"), ("Accept-Encoding", "gzip;q=0.5, *;q=0"), ("Range", "bytes=0-1"),
       ("Origin", "http://x"), ("X-Forwarded-For", "1.2.3.4"), ("Authorization", "Bearer " + "x" * 300), ("Authorization", "Basic \xff"), ("Cookie", "a=b;" * 200),
       ("traceparent", "00-" + "a" * 32 + "-" + "b" * 16 + "-01"), ("traceparent", "ff-" + "0" * 55), ("tracestate", ",".join(f"k{i}=v" for i in range(40))),
       ("Inference-Header-Content-Length", "12"), ("Inference-Header-Content-Length", "-1"), ("Inference-Header-Content-Length", "99999999999999999999"),
       ("Content-Type", "multipart/form-data; boundary=" + "b" * 80), ("Content-Type", "application/x-www-form-urlencoded"), ("Content-Type", "\xff\xfe"), ("TE", "trailers"),
       ("x" * 600, "y"), ("a", "z" * 9000), ("", "x"), ("a b", "x"), ("a\t", "x"), ("a", "\x00"), ("a", "b\rc: d"), ("\xe9", "x"), ("Date", "\x7f"), ("timeout", "1"), ("x-request-id", "\x1b[2J")]


def text(s):
    return s.encode("latin-1", "replace")


# ---- sound requests

def chunked(dice, body):
    """body in chunks of any sizes, with extensions and trailers."""
    out = b""
    for part in dice.pieces(body, 8):
        size = b"%x" % len(part)
        size = size.upper() if dice.chance(0.3) else size
        size = b"0" * dice.randrange(4) + size if dice.chance(0.2) else size
        out += size + (b";ext=1" if dice.chance(0.1) else b"") + b"\r\n" + part + b"\r\n"
    return out + b"0\r\n" + (b"X-Trailer: 1\r\n" if dice.chance(0.2) else b"") + b"\r\n"


def name(dice, n):
    return "".join(c.upper() if dice.chance(0.5) else c.lower() for c in n) if dice.chance(0.3) else n


def sound(dice, request):
    method, path, headers, body = request
    rows = [("Host", dice.choice(("localhost", "127.0.0.1", "[::1]:8501", "LOCALHOST:80")))] + headers
    rows += [("X-Filler", "x" * dice.size(2000))] * dice.randrange(3)
    framed = body
    if body and dice.chance(0.5):
        rows.append(("Transfer-Encoding", dice.choice(("chunked", "Chunked"))))
        framed = chunked(dice, body)
    elif body or dice.chance(0.2):
        rows.append(("Content-Length", str(len(body))))
    dice.shuffle(rows)
    spaces = lambda: dice.choice(("", " ", " ", " ", "\t", "  "))
    lines = [f"{method} {path} HTTP/1.1"] + [f"{name(dice, n)}:{spaces()}{v}" for n, v in rows]   # none behind: libmicrohttpd takes it for part of the value
    return text("\r\n".join(lines) + "\r\n\r\n") + framed


def read_answer(s, data, method):
    """(status, body, what is behind it) of the next final answer; data: what came already."""
    while True:
        while b"\r\n\r\n" not in data:
            more = s.recv(1 << 16)
            if not more:
                raise ConnectionError("the connection ended")
            data += more
        head, data = data.split(b"\r\n\r\n", 1)
        m = re.match(rb"HTTP/1\.1 (\d\d\d) ", head)
        if not m:
            raise ValueError(f"no HTTP answer: {head[:200]!r}")
        if m.group(1) != b"100":
            break
    status, length, coding = int(m.group(1)), re.search(rb"(?i)\ncontent-length: *(\d+)", head), re.search(rb"(?i)\ntransfer-encoding: *chunked", head)
    if method == "HEAD" or status in (204, 304):
        return status, b"", data
    if coding:
        raise ValueError("a chunked answer where a length was wanted")
    n = int(length.group(1)) if length else 0
    while len(data) < n:
        more = s.recv(1 << 16)
        if not more:
            raise ConnectionError("the connection ended inside an answer")
        data += more
    return status, data[:n], data[n:]


def ask(a, request):
    """The plain form's answer."""
    method, path, headers, body = request
    rows = "".join(f"{n}: {v}\r\n" for n, v in [("Host", "localhost"), *headers, ("Content-Length", str(len(body))), ("Connection", "close")])
    with a.connect() as s:
        s.sendall(text(f"{method} {path} HTTP/1.1\r\n{rows}\r\n") + body)
        return read_answer(s, b"", method)[:2]


def known(a):
    """The sound requests, and what each is answered."""
    if "known" not in a.kept:
        requests = valid.sound_requests()
        a.kept["known"] = [(r, ask(a, r)) for r in requests]
        for r, (status, body) in a.kept["known"]:
            if status != 200:
                a.find(f"{r[0]} {r[1]}: {status} {body[:300]!r}")
    return a.kept["known"]


def talk(a):
    """Sound requests, pipelined, in any pieces: each is answered as its plain form is."""
    some = [a.dice.choice(known(a)) for _ in range(a.dice.randrange(1, 9))]
    raw = b"".join(sound(a.dice, r) for r, _ in some)
    with a.connect() as s:
        s.settimeout(60)
        for part in a.dice.pieces(raw) if a.dice.chance(0.7) else [raw]:
            s.sendall(part)
            if a.dice.chance(0.1):
                time.sleep(a.dice.random() * 0.02)
        data = b""
        for (method, path, *_), want in some:
            try:
                status, body, data = read_answer(s, data, method)
            except (OSError, ValueError) as e:
                a.find(f"a sound {method} {path}: {type(e).__name__} {e}; sent {raw[:1500]!r}")
                return a.tell("sound, not answered")
            if (status, body) != want:
                a.find(f"a sound {method} {path}: {status} {body[:300]!r}, want {want}; sent {raw[:1500]!r}")
            a.tell(f"sound {status}")


# ---- others

def broken_body(dice):
    how = dice.randrange(5)
    path, document = dice.choice(valid.DOCUMENTS)
    body = json.dumps(document).encode()
    if how == 0:
        body, extra = valid.binary_infer()
        return "/v2/models/half/infer", [(n, str(int(v) + dice.choice((0, 1, -1, 12, 1000)))) for n, v in extra], dice.damaged(body)
    if how == 1:
        part = b'--b\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nfine-tune\r\n--b\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\n{}\r\n--b--\r\n'
        return "/v1/files", [("Content-Type", "multipart/form-data; boundary=b")], dice.damaged(part)
    if how == 2:
        return path, [("Content-Type", valid.JSON)], body
    return path, [("Content-Type", valid.JSON)], dice.damaged(body) if how == 3 else dice.noise(3000)


def broken_chunks(dice, body):
    out = b""
    for part in dice.pieces(body, 5):
        size = dice.choice(CHUNKS) if dice.chance(0.15) else b"%x" % (len(part) + dice.choice((0, 0, 0, 0, 1, -1)))
        out += size + dice.choice(ENDS) + part + dice.choice(ENDS)
    last = dice.choice((b"0", b"0", b"00", b"-0", b"")) + dice.choice(ENDS)
    trailers = b"".join(b"t%d: x" % i + dice.choice(ENDS) for i in range(dice.choice((0, 0, 1, 3, 200))))
    return out + last + trailers + dice.choice(ENDS)


def broken(dice):
    """One request; of its productions some are wrong."""
    path, rows, body = broken_body(dice)
    if dice.chance(0.3):
        path = dice.choice(valid.PATHS)
    if dice.chance(0.1):
        path = dice.choice((path + "?" + "a=b&" * dice.size(3000), "http://x" + path, "*", "x", "/" + "%2e%2e/" * 9, "/" * 3000, path + "%", path + "%zz", path + "\xff\x01", path + " x",
                            path.replace("half", "%68alf"), "//" + path, path + "/versions/99999999999999999999", path + "#f"))
    rows = [("Host", dice.choice(("localhost", "localhost", "localhost", "", "a b", "x" * 300, "evil.example")))] * dice.choice((1,) * 18 + (0, 2)) + rows
    rows += [dice.choice(ODD) for _ in range(dice.choice((0, 0, 1, 2, 5, 120)))]
    framed = body
    how = dice.random()
    if how < 0.35:
        rows.append(("Transfer-Encoding", dice.choice(CODINGS) if dice.chance(0.2) else "chunked"))
        framed = broken_chunks(dice, body)
    if how > 0.3:
        rows.append(("Content-Length", dice.choice(LENGTHS) if dice.chance(0.15) else str(len(body) + dice.choice((0, 0, 0, 0, 1, -1, 1000)))))
    if dice.chance(0.1):
        dice.shuffle(rows)
    method = dice.choice(METHODS) if dice.chance(0.2) else "POST"
    separators = lambda: dice.choice((":", ": ", ": ", ": ", " : ", "")) if dice.chance(0.2) else ": "
    lines = [text(f"{method} {path} {dice.choice(VERSIONS)}")] + [text(n + separators() + v) for n, v in rows]
    if dice.chance(0.1):   # folded
        lines.insert(dice.randrange(1, len(lines) + 1), b" \t"[:dice.randrange(1, 3)] + b"folded: yes")
    end = lambda: dice.choice(ENDS) if dice.chance(0.05) else b"\r\n"
    raw = b"".join(line + end() for line in lines) + end() + framed
    return dice.damaged(raw, valid.binary_infer()[0], 2) if dice.chance(0.15) else raw


def quarrel(a):
    raws = [broken(a.dice) if a.dice.chance(0.8) else sound(a.dice, a.dice.choice(known(a))[0]) for _ in range(a.dice.choice((1, 1, 1, 2, 5, 12)))]
    judge(a, raws, a.exchange(a.connect(), b"".join(raws), stops=0.2))


def judge(a, raws, got):
    statuses = re.findall(rb"HTTP/1\.1 (\d\d\d) ", got)
    for status in statuses:
        a.tell(status.decode())
    if not statuses:
        a.tell("no answer")
    if got and not got.startswith(b"HTTP/1."):
        a.find(f"answered {got[:300]!r} to {b''.join(raws)[:1500]!r}")
    for m in re.finditer(rb"HTTP/1\.1 500 .*?\r\n\r\n(.{0,300})", got, re.S):
        a.note("500 " + m.group(1).decode(errors="replace"))


def turn(a):
    (talk if a.dice.chance(0.5) else quarrel)(a)


if __name__ == "__main__":
    generator.run("http1_frames", turn)
