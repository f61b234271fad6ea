"""Draws of the ops that read tf.Example and tf.SequenceExample, CSV, raw bytes, tensors in protos, and protos of a given description.

The messages mostly fit what the op asks for: the asked keys with values of the asked types, as many as the dense shapes want. At times a key lacks, has the wrong type or
the wrong number of values, or the message is cut.
"""
import numpy as np

from draw_source import C, F, H, I, S
from draws_text import ASCII, scalar, word, words

KEYS = ["a", "b", "c", "naïve", "", "long key"]
TYPES = ["int64", "float32", "string"]


def values(s, dtype, n):
    if dtype == "string":
        return [word(s) for _ in range(n)]
    if dtype == "int64":
        return [s.one([0, 1, -1, 127, 128, -(2**63), 2**63 - 1, s.int(-99, 99)]) for _ in range(n)]
    return [float(np.float32(s.r.uniform(-9, 9))) for _ in range(n)]


def feature(s, dtype, n):
    """A Feature of n values."""
    import tensorflow as tf
    t, v = tf.train, values(s, dtype, n)
    if dtype == "string":
        return t.Feature(bytes_list=t.BytesList(value=v))
    if dtype == "int64":
        return t.Feature(int64_list=t.Int64List(value=v))
    return t.Feature(float_list=t.FloatList(value=v))


class Asked:
    """What is asked of a message's keys: dense (key, type, shape, default), sparse (key, type), ragged (key, type, splits type)."""

    def __init__(self, s, ragged=False, lists=False):
        keys = [str(k) for k in s.r.permutation(KEYS)]
        take = lambda most: [keys.pop() for _ in range(s.int(0, most)) if keys]
        self.sparse = [(k, s.one(TYPES)) for k in take(2)]
        self.ragged = [(k, s.one(TYPES), s.one(["int32", "int64"])) for k in take(2)] if ragged else []
        self.dense = []
        for k in take(2):
            d, open_first = s.one(TYPES), not lists and s.chance(0.3)
            shape = ([None] if open_first else []) + [s.int(1, 3) for _ in range(s.int(0, 2))]
            self.dense.append((k, d, shape, self.default(s, d, shape, open_first)))

    @staticmethod
    def default(s, dtype, shape, open_first):
        if s.chance(0.3):
            return s.array(dtype, (0,))   # the key must be there
        return s.array(dtype, () if open_first and s.chance(0.8) else [1] * len(shape) if open_first else shape)

    def message(self, s):
        """{key: Feature} of one example."""
        out = {}
        for row in self.dense + self.sparse + self.ragged:
            key, dtype, shape = row[0], row[1], row[2] if len(row) == 4 else [s.int(0, 3)]
            if s.chance(0.12):
                continue
            n = int(np.prod([s.int(0, 3) if d is None else d for d in shape]))
            wrong = s.chance(0.015)
            out[key] = feature(s, s.one(TYPES) if wrong else dtype, n + (s.int(0, 1) if s.chance(0.01) else 0))
            if s.chance(0.02):
                out[key].Clear()
        if s.chance(0.3):
            out["other"] = feature(s, s.one(TYPES), 2)
        return out


def cut(s, raw):
    """A message as it is, or damaged at times."""
    if s.chance(0.985) or not raw:
        return raw
    return s.one([raw[:-1], raw[:len(raw) // 2], raw + b"\x0f", b"\xff" + raw, raw[1:]])


def example(s, asked):
    import tensorflow as tf
    return cut(s, tf.train.Example(features=tf.train.Features(feature=asked.message(s))).SerializeToString())


def objects(items, shape=None):
    a = np.empty(len(items), object)
    a[:] = items
    return a if shape is None else a.reshape(shape)


def key_vector(rows):
    return objects([r[0].encode() for r in rows])


def key_list(rows):
    return [scalar(r[0].encode()) for r in rows]


def names_of(s, n):
    return objects([b"name%d" % i for i in range(n)]) if s.chance(0.3) else objects([])


def parse_example(s):
    asked, n = Asked(s), s.int(0, 4)
    return {"serialized": objects([example(s, asked) for _ in range(n)]), "names": names_of(s, n), "sparse_keys": key_list(asked.sparse), "dense_keys": key_list(asked.dense),
            "dense_defaults": [r[3] for r in asked.dense]}, {"sparse_types": [r[1] for r in asked.sparse], "dense_shapes": [r[2] for r in asked.dense]}


def parse_example2(s):
    asked, n, one = Asked(s, ragged=True), s.int(0, 4), s.chance(0.2)
    raw = objects([example(s, asked) for _ in range(1 if one else n)], () if one else None)
    return {"serialized": raw, "names": objects([]) if one else names_of(s, n), "sparse_keys": key_vector(asked.sparse), "dense_keys": key_vector(asked.dense),
            "ragged_keys": key_vector(asked.ragged), "dense_defaults": [r[3] for r in asked.dense]}, {
        "num_sparse": len(asked.sparse), "sparse_types": [r[1] for r in asked.sparse], "ragged_value_types": [r[1] for r in asked.ragged],
        "ragged_split_types": [r[2] for r in asked.ragged], "dense_shapes": [r[2] for r in asked.dense]}


def parse_single(s):
    asked = Asked(s)
    return {"serialized": scalar(example(s, asked)), "dense_defaults": [r[3] for r in asked.dense]}, {
        "num_sparse": len(asked.sparse), "sparse_keys": [r[0] for r in asked.sparse], "dense_keys": [r[0] for r in asked.dense], "sparse_types": [r[1] for r in asked.sparse],
        "dense_shapes": [r[2] for r in asked.dense]}


def sequence(s, context, lists):
    """A SequenceExample whose lists have a few steps each."""
    import tensorflow as tf
    t, steps = tf.train, s.int(0, 3)
    made = {}
    for row in lists.dense + lists.sparse + lists.ragged:
        if s.chance(0.1):
            continue
        n = steps if s.chance(0.8) else s.int(0, 4)
        made[row[0]] = t.FeatureList(feature=[feature(s, s.one(TYPES) if s.chance(0.01) else row[1], int(np.prod(row[2])) + s.chance(0.01) if len(row) == 4 else s.int(0, 3))
                                              for _ in range(n)])
    return cut(s, t.SequenceExample(context=t.Features(feature=context.message(s)), feature_lists=t.FeatureLists(feature_list=made)).SerializeToString())


def types_and_shapes(context, lists):
    return {"context_sparse_types": [r[1] for r in context.sparse], "context_dense_shapes": [r[2] for r in context.dense], "feature_list_dense_types": [r[1] for r in lists.dense],
            "feature_list_sparse_types": [r[1] for r in lists.sparse], "feature_list_dense_shapes": [r[2] for r in lists.dense]}


def counts(context, lists):
    return {"Ncontext_sparse": len(context.sparse), "Ncontext_dense": len(context.dense), "Nfeature_list_sparse": len(lists.sparse), "Nfeature_list_dense": len(lists.dense)}


def parse_sequence(s):
    context, lists, n = Asked(s, lists=True), Asked(s, lists=True), s.int(0, 3)
    missing = [r[0] for r in lists.dense if s.chance(0.7)]
    return {"serialized": objects([sequence(s, context, lists) for _ in range(n)]), "debug_name": names_of(s, n), "context_dense_defaults": [r[3] for r in context.dense]}, dict(
        types_and_shapes(context, lists), **counts(context, lists), feature_list_dense_missing_assumed_empty=missing,
        context_sparse_keys=[r[0] for r in context.sparse], context_dense_keys=[r[0] for r in context.dense],
        feature_list_sparse_keys=[r[0] for r in lists.sparse], feature_list_dense_keys=[r[0] for r in lists.dense])


def parse_sequence2(s):
    context, lists, n, one = Asked(s, True, True), Asked(s, True, True), s.int(0, 3), s.chance(0.2)
    raw = objects([sequence(s, context, lists) for _ in range(1 if one else n)], () if one else None)
    if n == 0 or one:
        context.ragged, lists.ragged = [], []   # TensorFlow leaves the splits of no examples, or of one, uninitialised
    attrs = dict(types_and_shapes(context, lists), **counts(context, lists), context_ragged_value_types=[r[1] for r in context.ragged],
                 context_ragged_split_types=[r[2] for r in context.ragged], feature_list_ragged_value_types=[r[1] for r in lists.ragged],
                 feature_list_ragged_split_types=[r[2] for r in lists.ragged])
    attrs.pop("Ncontext_dense")
    return {"serialized": raw, "debug_name": objects([]) if one else names_of(s, n), "context_sparse_keys": key_vector(context.sparse), "context_dense_keys": key_vector(context.dense),
            "context_ragged_keys": key_vector(context.ragged), "feature_list_sparse_keys": key_vector(lists.sparse), "feature_list_dense_keys": key_vector(lists.dense),
            "feature_list_ragged_keys": key_vector(lists.ragged), "feature_list_dense_missing_assumed_empty": np.array([s.chance(0.7) for _ in lists.dense], bool),
            "context_dense_defaults": [r[3] for r in context.dense]}, attrs


def parse_one_sequence(s):
    context, lists = Asked(s, lists=True), Asked(s, lists=True)
    return {"serialized": scalar(sequence(s, context, lists)), "feature_list_dense_missing_assumed_empty": [], "context_sparse_keys": key_list(context.sparse),
            "context_dense_keys": key_list(context.dense), "feature_list_sparse_keys": key_list(lists.sparse), "feature_list_dense_keys": key_list(lists.dense),
            "context_dense_defaults": [r[3] for r in context.dense], "debug_name": scalar(b"d")}, types_and_shapes(context, lists)


def single_sequence(s):
    inputs, attrs = parse_one_sequence(s)
    keys = [k.item() for k in inputs["feature_list_dense_keys"]]
    inputs["feature_list_dense_missing_assumed_empty"] = objects([k for k in keys if s.chance(0.7)])
    return inputs, attrs


RAW = F + H + I + ["int8", "int16", "uint8", "uint16", "bool"] + C


def raw_bytes(s, shape, size):
    """Strings that hold whole elements, of one length mostly."""
    n = s.int(0, 3) * size
    out = np.empty(int(np.prod(shape)), object)
    for i in range(len(out)):
        out[i] = s.r.integers(0, 2 if size == 1 else 256, n + (s.int(1, 4) if s.chance(0.03) else 0), np.uint8).tobytes()
    return out.reshape(shape)


def decode_raw(s):
    import tensorflow as tf
    d = s.one(RAW)
    return {"bytes": raw_bytes(s, s.shape(0, 3), tf.as_dtype(d).size)}, {"out_type": d, "little_endian": s.chance(0.7)}


def decode_padded(s):
    import tensorflow as tf
    d = s.one([t for t in RAW if t not in ["float16", "bool"] + C] + ["bfloat16"])
    size, shape = tf.as_dtype(d).size, s.shape(0, 2)
    x = np.empty(int(np.prod(shape)), object)
    for i in range(len(x)):
        x[i] = s.r.integers(0, 256, s.int(0, 20), np.uint8).tobytes()
    return {"input_bytes": x.reshape(shape), "fixed_length": np.int32(size * s.int(0 if s.chance(0.1) else 1, 3) + s.chance(0.05))}, {"out_type": d, "little_endian": s.chance(0.7)}


def decompress(s):
    import gzip
    import zlib
    kind = s.one(["", "GZIP", "ZLIB"]) if s.chance(0.97) else "LZ4"
    x = words(s, s.shape(0, 2))
    for at in np.ndindex(x.shape):
        raw = x[at] * s.int(1, 40)
        x[at] = cut(s, {"GZIP": gzip.compress, "ZLIB": zlib.compress}.get(kind, bytes)(raw))
    return {"bytes": x}, {"compression_type": kind}


def parse_tensor(s):
    import tensorflow as tf
    d = s.one(F + H + I + S + C + ["bool", "string"])
    x, out = s.array(d, s.shape()), d if s.chance(0.95) else s.one(F + I)
    proto = tf.make_tensor_proto(x, dtype=d)
    if s.chance(0.3) and x.size:   # values in the field of their type, one for all
        proto = tf.make_tensor_proto(s.array(d, ()), shape=x.shape, dtype=d)
    return {"serialized": scalar(cut(s, proto.SerializeToString()))}, {"out_type": out}


CSV_TYPES = F + I + ["string"]


def csv_field(s, dtype, delimiter):
    if s.chance(0.12):
        return s.one(["", "NA"])
    if dtype == "string":
        text = word(s, ASCII).decode()
        if s.chance(0.3):
            return '"' + text.replace('"', "") + s.one(["", delimiter, '""', "\n"]) + '"'
        return text if s.chance(0.05) else "".join(c for c in text if c not in '"\r\n' + delimiter)
    if s.chance(0.03):
        return s.one(["abc", "1.5", "99999999999999999999", '"7"', " 3", "4 ", '"'])
    return str(s.int(-99, 99)) if dtype in I else str(round(float(s.r.uniform(-9, 9)), 3))


def csv(s):
    types, delimiter = [s.one(CSV_TYPES) for _ in range(s.int(1, 4))], s.one([",", ",", ";", "\t", "|"])
    select = sorted(int(i) for i in s.r.permutation(len(types))[:s.int(1, len(types))]) if s.chance(0.2) else []
    rows = np.array([delimiter.join(csv_field(s, t, delimiter) for t in types) + (delimiter if s.chance(0.03) else "") for _ in range(s.int(0, 4))], object)
    kept = [types[i] for i in select] if select else types
    defaults = [s.array(t, (0,) if s.chance(0.2) else ()) if s.chance(0.5) else s.array(t, (1,)) for t in kept]
    return {"records": rows if s.chance(0.9) or not len(rows) else rows[:1].reshape(()), "record_defaults": defaults}, {
        "field_delim": delimiter, "use_quote_delim": s.chance(0.8), "na_value": s.one(["", "NA"]), "select_cols": select}


def description():
    """A FileDescriptorSet of one message that has a field of each type, as an attribute's bytes."""
    from google.protobuf import descriptor_pb2 as d
    file = d.FileDescriptorProto(name="drawn.proto", package="drawn", syntax="proto2")
    message = file.message_type.add(name="All")
    number = {"double": 1, "float": 2, "int64": 3, "uint64": 4, "int32": 5, "fixed64": 6, "fixed32": 7, "bool": 8, "string": 9, "message": 11, "bytes": 12, "uint32": 13,
              "sfixed32": 15, "sfixed64": 16, "sint32": 17, "sint64": 18}
    for i, (name, kind) in enumerate(number.items()):
        for k, label in enumerate((1, 3)):
            f = message.field.add(name=("r_" if k else "") + name, number=2 * i + 1 + k, type=kind, label=label)
            if kind == 11:
                f.type_name = ".drawn.All"
    return b"bytes://" + d.FileDescriptorSet(file=[file]).SerializeToString()


PROTO_TYPES = {"double": ["float64"], "float": ["float32"], "int64": ["int64"], "uint64": ["uint64"], "int32": ["int32"], "fixed64": ["uint64"], "fixed32": ["uint32"],
               "bool": ["bool"], "string": ["string"], "message": ["string"], "bytes": ["string"], "uint32": ["uint32"], "sfixed32": ["int32"], "sfixed64": ["int64"], "sint32": ["int32"],
               "sint64": ["int64"]}


def proto_fields(s):
    """[(field name, dtype)] in the order of the fields' numbers."""
    return [(("r_" if s.chance(0.6) else "") + n, s.one(t)) for n, t in PROTO_TYPES.items() if s.chance(0.25)]


def proto_values(s, name, dtype, shape):
    kind = name.split("_")[-1]
    if dtype == "string":
        x = words(s, shape, ASCII)
        if kind == "message":
            for at in np.ndindex(x.shape):
                x[at] = b"\x29\x01" if s.chance(0) else b""
        return x
    return s.array(dtype, shape, 0 if kind.startswith(("u", "fixed")) else -9, 9)


def encode_proto(s):
    fields, batch, width = proto_fields(s), s.shape(0, 2), s.int(1, 3)
    sizes = np.zeros(batch + (len(fields),), "int32")
    for at in np.ndindex(batch):
        for k, (name, _) in enumerate(fields):
            sizes[at + (k,)] = s.int(0, width if name.startswith("r_") else 1) if s.chance(0.98) else width + 1
    return {"sizes": sizes, "values": [proto_values(s, n, d, batch + (width,)) for n, d in fields]}, {
        "field_names": [n for n, _ in fields], "message_type": "drawn.All", "descriptor_source": description()}


def decode_proto(s):
    import tensorflow as tf
    fields, given = proto_fields(s), proto_fields(s)
    batch = s.shape(0, 1)
    if s.chance(0.7):
        given = fields
    given = given or [f for f in proto_fields(s) + proto_fields(s)][:1] or [("s", "string")]   # EncodeProto wants one
    x = np.empty(batch, object)
    for at in np.ndindex(batch):
        sizes = np.array([[s.int(0, 3 if n.startswith("r_") else 1) for n, _ in given]], "int32")
        raw = tf.raw_ops.EncodeProto(sizes=sizes, values=[proto_values(s, n, d, (1, 3)) for n, d in given], field_names=[n for n, _ in given], message_type="drawn.All",
                                     descriptor_source=description()).numpy()[0]
        x[at] = cut(s, raw)
    return {"bytes": x}, {"message_type": "drawn.All" if s.chance(0.98) else "drawn.None", "field_names": [n for n, _ in fields] + (["nothing"] if s.chance(0.02) else []), "output_types": [d for _, d in fields],
                          "descriptor_source": description(), "sanitize": s.chance(0.2)}


DRAWS = {
    "ParseExample": parse_example, "ParseExampleV2": parse_example2, "ParseSingleExample": parse_single, "ParseSequenceExample": parse_sequence,
    "ParseSequenceExampleV2": parse_sequence2, "ParseSingleSequenceExample": single_sequence, "DecodeRaw": decode_raw, "DecodePaddedRaw": decode_padded,
    "DecodeCompressed": decompress, "ParseTensor": parse_tensor, "SerializeTensor": lambda s: ({"tensor": s.array(s.one(F + H + I + S + C + ["bool", "string"]), s.shape())}, {}),
    "DecodeCSV": csv, "EncodeProto": encode_proto, "DecodeProtoV2": decode_proto,
}
