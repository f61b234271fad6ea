"""Protobuf messages that were right before they were damaged, by bytes or by structure, to every method and over streams."""
import itertools

import generator
import grpc
import valid
import wire

BAD = (grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN, grpc.StatusCode.DATA_LOSS)


def channel(a):
    if "channel" not in a.kept:
        a.kept["channel"] = grpc.insecure_channel(f"127.0.0.1:{a.port}", [("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", -1)])
    return a.kept["channel"]


def damaged(dice, message):
    if dice.chance(0.1):
        return message
    for _ in range(dice.choice((1, 1, 1, 2, 3))):
        message = dice.damaged(message, dice.choice(valid.MESSAGES)[1]) if dice.chance(0.25) else wire.damaged(dice, message)
    return message[:1 << 22]


def finished(a, what, call):
    code = call.code()
    a.tell(code.name)
    if code in BAD:
        a.note(f"{what}: {code.name} {call.details()}")


def unary(a):
    """Some calls at once; some are cancelled, some have hardly any time."""
    calls, size = [], 0
    for _ in range(a.dice.randrange(1, 9)):
        path, message = a.dice.choice(valid.MESSAGES)
        if a.dice.chance(0.05):
            path = a.dice.choice(valid.MESSAGES)[0]
        message = damaged(a.dice, message)
        size += len(message)
        call = channel(a).unary_unary(path, request_serializer=None, response_deserializer=None).future(
            message, timeout=a.dice.choice((20, 20, 20, 0.001, None)), compression=grpc.Compression.Gzip if a.dice.chance(0.2) else None,
            metadata=[("x-request-id", "~ %n x"), ("traceparent", "00-" + "a" * 32 + "-" + "b" * 16 + "-01")] if a.dice.chance(0.1) else None)
        if a.dice.chance(0.05):
            call.cancel()
        calls.append((path, call))
        if size > 1 << 22:
            break
    for path, call in calls:
        finished(a, path, call)


def stream(a):
    """Messages of one stream, right ones between damaged ones; the client may leave before the end."""
    path = a.dice.choice(valid.STREAMS)
    sound = valid.HALF_V2 if path == valid.STREAM else wire.message((7, ""))
    some = [sound if a.dice.chance(0.5) else damaged(a.dice, sound) for _ in range(a.dice.randrange(1, 30))]
    call = channel(a).stream_stream(path, request_serializer=None, response_deserializer=None)(iter(some), timeout=20)
    got, most = 0, a.dice.choice((1 << 30, 1 << 30, 3))
    try:
        for _ in itertools.islice(call, most):
            got += 1
    except grpc.RpcError:
        pass
    if got == most:
        call.cancel()
    a.tell("answers of streams", got)
    finished(a, path, call)


def turn(a):
    (stream if a.dice.chance(0.1) else unary)(a)


if __name__ == "__main__":
    generator.run("grpc_messages", turn)
