"""JSON bodies that were right before they were damaged: as values, as text, as bytes; for every path that takes one."""
import gzip
import http.client
import json

import generator
import valid

SCALARS = ["0", "-0", "1e999", "-1e999", "1e-400", "NaN", "Infinity", "-Infinity", "9223372036854775808", "-9223372036854775809", "18446744073709551616", "0.1e", "01", "+1", "1.", ".5",
           "0x10", "true", "false", "null", '""', '"\\u0000"', '"\\ud800"', '"\\udc00\\ud800"', '"\\x"', '"\t"', '"half"', "[]", "{}", "[[]]", "[null]", '{"b64": "====" }', '{"b64": "AA=="}',
           '{"b64": 1}', "[1, [2]]", "[[1], [2, 3]]", "1" * 400, "-" + "9" * 40, "0." + "1" * 400, "1e" + "9" * 30]
KEYS = ["instances", "inputs", "signature_name", "x", "name", "shape", "data", "datatype", "parameters", "b64", "outputs", "examples", "target", "wrt", "", "\u0000", "a" * 500]


class Raw(str):
    """Text that is dumped as it stands."""


class Pairs(list):
    """An object, whose keys may be there twice."""


def dump(v):
    if isinstance(v, Raw):
        return str(v)
    if isinstance(v, Pairs):
        return "{" + ", ".join(f"{json.dumps(k)}: {dump(x)}" for k, x in v) + "}"
    if isinstance(v, list):
        return "[" + ", ".join(map(dump, v)) + "]"
    return json.dumps(v)


def load(document):
    return json.loads(json.dumps(document), object_pairs_hook=Pairs)


def odd(dice):
    how = dice.randrange(8)
    if how == 0:
        n = dice.choice((5, 13, 127, 128, 129, 5000))
        opening, closing = dice.choice((("[", "]"), ('{"a":', "}")))
        return Raw(opening * n + "1" + closing * (n if dice.chance(0.8) else n - 1))
    if how == 1:
        return Raw("[" + ",".join([dice.choice(SCALARS[:2] + ["1", '""', "[]", "{}"])] * dice.choice((10, 1000, 100000))) + "]")
    if how == 2:
        return Raw(json.dumps("\u00e9" * dice.size(100000)))
    if how == 3:
        return dice.number() * dice.choice((1, -1))
    if how == 4:
        return load(dice.choice(valid.DOCUMENTS)[1])
    return Raw(dice.choice(SCALARS))


def change(dice, v, depth=0):
    """v with one thing in it changed."""
    if not isinstance(v, list) or not v or depth > 10 or dice.chance(0.15):
        return odd(dice)
    i = dice.randrange(len(v))
    if isinstance(v, Pairs):
        key, x = v[i]
        how = dice.randrange(8)
        if how == 0:
            del v[i]
        elif how == 1:
            v[i] = (dice.choice(KEYS), x)
        elif how == 2:
            v.append((key, odd(dice)))
        elif how == 3:
            v.extend((f"k{n}", 1) for n in range(dice.choice((1, 100, 5000))))
        else:
            v[i] = (key, change(dice, x, depth + 1))
        return v
    how = dice.randrange(6)
    if how == 0:
        del v[i]
    elif how == 1:
        v[i:i] = [v[i]] * dice.choice((1, 10, 1000))
    else:
        v[i] = change(dice, v[i], depth + 1)
    return v


def body(dice, document):
    v = load(document)
    for _ in range(dice.choice((0, 1, 1, 1, 2, 3))):
        v = change(dice, v)
    data = dump(v)[:1 << 22].encode()
    if dice.chance(0.2):
        data = dice.damaged(data, json.dumps(dice.choice(valid.DOCUMENTS)[1]).encode(), 2)
    if dice.chance(0.05):
        data = dice.choice((b"\xef\xbb\xbf", b"\xff\xfe", b" " * 10000, b"")) + data + dice.choice((b"", b"x", b"\0", b" " * 10000, b"{}"))
    return data


def ask(a, path, data, headers):
    """The answer; a connection is kept between turns."""
    if "connection" not in a.kept:
        a.kept["connection"] = http.client.HTTPConnection("127.0.0.1", a.rest_port, timeout=40)
    c = a.kept["connection"]
    try:
        c.request("POST", path, data, headers)
        r = c.getresponse()
        return r.status, r.read()
    except (OSError, http.client.HTTPException) as e:
        c.close()
        raise OSError(str(e)) from e


def turn(a):
    path, document = a.dice.choice(valid.DOCUMENTS)
    if a.dice.chance(0.03):
        path = a.dice.choice(valid.DOCUMENTS)[0]
    data, headers = body(a.dice, document), {"Content-Type": valid.JSON}
    if a.dice.chance(0.1):
        headers["Content-Encoding"] = "gzip"
        data = gzip.compress(data, 1)
        data = a.dice.damaged(data) if a.dice.chance(0.3) else data
    status, answer = ask(a, path, data, headers)
    a.tell(str(status))
    if status == 500 or status >= 400 and "error" not in json.loads(answer):
        a.note(f"{path}: {status} {answer[:400].decode(errors='replace')}")


if __name__ == "__main__":
    generator.run("documents", turn)
