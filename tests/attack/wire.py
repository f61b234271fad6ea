"""Protobuf's wire format, written and damaged without a schema, so that a generator needs no library that would refuse what is wrong.

A message is a list of (field number, wire type, value): an int for VARINT, 8 or 4 bytes, or bytes for LEN (whatever they hold).
"""
VARINT, I64, LEN, I32 = 0, 1, 2, 5
MOST_ADDED = 1 << 22   # bytes that one damage may add, where it repeats


def varint(v):
    v &= (1 << 64) - 1
    out = bytearray()
    while v > 127:
        out.append(v & 127 | 128)
        v >>= 7
    return bytes(out) + bytes((v,))


def field(number, kind, value):
    tag = varint(number << 3 | kind)
    return tag + (varint(value) if kind == VARINT else varint(len(value)) + value if kind == LEN else value)


def message(*pairs):
    """Of (field number, int, text or bytes); None is left out."""
    return b"".join(field(n, VARINT, int(v)) if isinstance(v, int) else field(n, LEN, v.encode() if isinstance(v, str) else v) for n, v in pairs if v is not None)


def entry(key, value):
    """An entry of a map from texts."""
    return message((1, key), (2, value))


def read_varint(data, at):
    v = shift = 0
    while True:
        v |= (data[at] & 127) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 128 or shift > 63:
            return v, at


def fields(data):
    """The fields, or None where the bytes are no message."""
    out, at = [], 0
    try:
        while at < len(data):
            tag, at = read_varint(data, at)
            kind, number = tag & 7, tag >> 3
            if kind == VARINT:
                v, at = read_varint(data, at)
            elif kind in (I64, I32):
                n = 8 if kind == I64 else 4
                v, at = data[at:at + n], at + n
            elif kind == LEN:
                n, at = read_varint(data, at)
                v, at = data[at:at + n], at + n
            else:
                return None
            if number == 0 or at > len(data):
                return None
            out.append((number, kind, v))
    except IndexError:
        return None
    return out


def write(found):
    return b"".join(field(*f) for f in found)


def damaged(dice, data, depth=0):
    """data with one thing in its structure wrong, or in that of a message inside."""
    found = fields(data)
    if not found or depth > 8 or dice.chance(0.08):
        return dice.damaged(data, most=2) if data else dice.noise(8)
    i = dice.randrange(len(found))
    number, kind, value = found[i]
    most = 1 + MOST_ADDED // (16 + (len(value) if isinstance(value, bytes) else 0))   # times that it may be there
    if kind == LEN and dice.chance(0.65):
        found[i] = (number, kind, damaged(dice, value, depth + 1))
        return write(found)
    how = dice.randrange(9)
    if how == 0:
        del found[i]
    elif how == 1:
        found[i:i] = [found[i]] * min(most, 1 << dice.randrange(1, 11))
    elif how == 2:
        found[i] = (dice.choice((number + 1, max(1, number - 1), dice.randrange(1, 20), dice.randrange(1, 1 << 29))), kind, value)
    elif how == 3:
        found[i] = (number, VARINT, dice.number())
    elif how == 4:
        found[i] = (number, dice.choice((I64, I32)), dice.randbytes(8 if dice.chance(0.5) else 4))
    elif how == 5:
        dice.shuffle(found)
    elif how == 6:   # inside of itself
        for _ in range(min(most, dice.choice((1, 2, 60, 99, 101, 200, 3000)))):
            value = field(number, LEN, value if isinstance(value, bytes) else b"")
        found[i] = (number, LEN, value)
    elif how == 7:   # a length that lies
        whole = write(found[:i]) + varint(number << 3 | LEN) + varint(dice.number())
        return whole + write(found[i:]) if dice.chance(0.5) else whole
    else:
        found[i] = (number, LEN, dice.choice((b"", dice.noise(64), b"\xff" * 64, bytes(1 << dice.randrange(4, 21)), dice.choice((b"half", b"types", b"y", b"\xc3\x28")))))
    return write(found)
