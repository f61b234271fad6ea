"""Right requests as fast as they are answered, on both wires: batches, streams, gradients, examples, strings; each answer is that of the first time.

The models asked (`half`, `batching`, `gradients`) may be reloaded meanwhile, not taken away. RESOURCE_EXHAUSTED is told, and no finding, where
others hold the memory.
"""
import http.client
import json
import re

import generator
import grpc
import valid

ASKED = ("half", "batching", "gradients")
DOCUMENTS = [(path, json.dumps(body).encode()) for path, body in valid.DOCUMENTS if path.split("/")[3].split(":")[0] in ASKED and path.startswith("/v1/")]
ROWS = [json.dumps({"instances": [[i / 7] * 256] * n}).encode() for i, n in enumerate((1, 2, 3, 8))]
MESSAGES = [(p, m) for p, m in valid.MESSAGES if p in (valid.PREDICT, valid.INFER, valid.PREDICTION + "Classify", valid.PREDICTION + "Regress", "/tensord.v1.Debug/Gradient")
            and b"types" not in m and b"tf1" not in m]


def numbers(text):
    return [float(x) for x in re.findall(rb"-?\d[\d.eE+-]*", text)]


def same(a, what, answer):
    """The bytes of the first time; in JSON the numbers nearly: how many rows share a run may change their last digits."""
    first = a.kept.setdefault(("first", what), answer)
    if answer != first:
        x, y = numbers(answer), numbers(first)
        if not answer.startswith(b"{") or len(x) != len(y) or any(abs(v - w) > 1e-4 * max(1, abs(w)) for v, w in zip(x, y)):
            a.find(f"{str(what)[:60]}: {answer[:300]!r}, at first {first[:300]!r}")
    a.tell("OK")


def rest(a):
    path, body = a.dice.choice(DOCUMENTS) if a.dice.chance(0.6) else ("/v1/models/batching:predict", a.dice.choice(ROWS))
    c = a.kept.setdefault("rest", http.client.HTTPConnection("127.0.0.1", a.rest_port, timeout=60))
    c.request("POST", path, body, {"Content-Type": valid.JSON})
    r = c.getresponse()
    answer = r.read()
    if r.status == 429:
        a.tell("429")
    elif r.status != 200:
        a.find(f"{path}: {r.status} {answer[:300]!r}")
        a.tell(str(r.status))
    else:
        same(a, (path, body), answer)


def channel(a):
    if "channel" not in a.kept:
        a.kept["channel"] = grpc.insecure_channel(f"127.0.0.1:{a.port}", [("grpc.use_local_subchannel_pool", 1)])
    return a.kept["channel"]


def failed(a, what, e):
    a.tell(e.code().name)
    if e.code() is not grpc.StatusCode.RESOURCE_EXHAUSTED:
        a.find(f"{what}: {e.code().name} {e.details()}")


def unary(a):
    calls = [(m, channel(a).unary_unary(m[0], request_serializer=None, response_deserializer=None).future(m[1], timeout=60)) for m in a.dice.choices(MESSAGES, k=a.dice.randrange(1, 9))]
    for what, call in calls:
        try:
            same(a, what, call.result())
        except grpc.RpcError as e:
            failed(a, what, e)


def stream(a):
    n = a.dice.randrange(1, 50)
    try:
        answers = list(channel(a).stream_stream(valid.STREAM, request_serializer=None, response_deserializer=None)(iter([valid.HALF_V2] * n), timeout=60))
    except grpc.RpcError as e:
        return failed(a, "a stream", e)
    if len(answers) != n:
        a.find(f"a stream: {len(answers)} answers to {n} requests")
    for answer in answers:
        same(a, "a stream", answer)


def turn(a):
    try:
        a.dice.choice((rest, rest, unary, stream))(a)
    except http.client.HTTPException as e:
        a.kept.pop("rest").close()
        a.find(f"REST: {type(e).__name__} {e}")
    except OSError as e:
        a.kept.pop("rest").close()
        a.find(f"REST: {type(e).__name__} {e}")


if __name__ == "__main__":
    generator.run("valid_load", turn)
