"""Draws of lookup tables: made, filled, asked, changed, and answered whole; by handle and by TF1's references.

A draw makes one table, does a few things with it in order, and answers what it found. The order of an export is not said by TensorFlow: it is sorted here
through lookups of known keys instead, and of an export the shapes alone are compared.
"""
import numpy as np

from draw_source import I, program
from draws_variable import key_of

# The types of TensorFlow's kernels, mostly.
KEYS = {"int64": ["int64", "string", "float32", "int32", "float64", "bool"], "string": ["int64", "string", "float32", "int32", "float64", "bool"], "int32": ["int32", "float32", "string", "int64", "float64"]}


def keys_of(s, dtype, shape):
    return s.array(dtype, shape, -3, 6)


def kinds(s, values=None):
    k = s.one(["int64", "string", "string", "int32"])
    return k, s.one(values or KEYS[k])


def distinct(s, dtype, most):
    """Some keys, none twice."""
    pool = [-7, -2, 0, 1, 2, 3, 5, 1000] if dtype != "string" else ["", "a", "b", "naïve", "long key", "\0", "x y"]
    picked = [pool[int(i)] for i in s.r.permutation(len(pool))[:s.int(0, most)]]
    return np.array(picked, object if dtype == "string" else dtype)


def ask(s, dtype, keys, shape):
    """Keys to look up: mostly ones that are there."""
    x = keys_of(s, dtype, shape)
    for at in np.ndindex(x.shape):
        if len(keys) and s.chance(0.6):
            x[at] = keys[s.int(0, len(keys) - 1)]
    return x


def made(op):
    """How a table op is called with its key and value dtypes."""
    def make(raw, k, v, key, **more):
        name = {} if op.startswith("Anonymous") else {"shared_name": key, "use_node_name_sharing": False}
        keys = {} if "empty_key" in more else {"key_dtype": k}   # else TensorFlow takes the type from the empty key
        return getattr(raw, op)(value_dtype=v, **keys, **name, **more)
    return make


SHARED = {"2": dict(find="LookupTableFindV2", size="LookupTableSizeV2", insert="LookupTableInsertV2", imports="LookupTableImportV2", export="LookupTableExportV2", init="InitializeTableV2"),
          "1": dict(find="LookupTableFind", size="LookupTableSize", insert="LookupTableInsert", imports="LookupTableImport", export="LookupTableExport", init="InitializeTable")}


def after(ops, then):
    import tensorflow as tf
    with tf.control_dependencies([o for o in ops if o is not None]):
        return then()


def hash_table(op, version):
    """A table that is initialized once; at times not at all, twice, or with keys of different values."""
    o = SHARED[version]

    def draw(s):
        k, v = kinds(s)
        key, twice, lazy = key_of(s), s.chance(0.15), s.chance(0.05)
        keys = distinct(s, k, 6) if s.chance(0.85) else keys_of(s, k, (s.int(0, 4),))
        values = s.array(v, keys.shape if s.chance(0.97) else (len(keys) + 1,))
        inputs = {"keys": keys, "values": values, "asked": ask(s, k, keys, s.shape(0, 3)), "default": s.array(v, ())}
        if s.chance(0.03):
            inputs["default"] = s.array(v, (2,))

        def call(raw, keys, values, asked, default):
            table = made(op)(raw, k, v, key)
            done = None if lazy else getattr(raw, o["init"])(table_handle=table, keys=keys, values=values)
            if twice:
                done = after([done], lambda: getattr(raw, o["init"])(table_handle=table, keys=keys, values=values))
            return after([done], lambda: [getattr(raw, o["find"])(table_handle=table, keys=asked, default_value=default), getattr(raw, o["size"])(table_handle=table)])
        return inputs, program(call)
    return draw


def steps(s, k, v, inner):
    """[(verb, inputs)]: what is done with a mutable table."""
    rows, pool = [], distinct(s, k, 7)
    for _ in range(s.int(1, 4)):
        verb = s.one(["insert", "insert", "insert", "imports", "remove"])
        if verb == "imports":
            keys = pool[:s.int(0, len(pool))]
        else:
            keys = ask(s, k, pool, s.shape(0, 2)) if verb == "remove" or s.chance(0.4) else pool[:s.int(0, len(pool))]
            if len(pool):
                for at in np.ndindex(keys.shape):
                    keys[at] = pool[s.int(0, len(pool) - 1)] if s.chance(0.9) else keys[at]
        if verb == "insert" and keys.size:
            keys = np.unique(keys)   # of two values for a key TensorFlow keeps either
        rows.append((verb, keys, None if verb == "remove" else s.array(v, keys.shape + (inner if s.chance(0.98) else (7,)))))
    return rows


def mutable(op, version, dense=False, tensors=False):
    o = SHARED[version]

    def draw(s):
        k, v = kinds(s, ["int64", "float32", "int32", "float64", "bool"] if dense else None)
        if tensors and v == "string":
            v = "float32"
        key, inner = key_of(s), (s.int(1, 3),) if tensors or (dense and s.chance(0.5)) else ()
        rows = [r for r in steps(s, k, v, inner) if version == "2" or r[0] != "remove"]
        if dense:   # of no keys TensorFlow complains about their shape; of a scalar key it dies. It imports nothing but buckets, which its export gives
            rows = [r for r in rows if r[1].ndim and r[1].size]
            rows = [("buckets",) + r[1:] if r[0] == "imports" and s.chance(0.95) else r for r in rows]
        inputs = {"asked": ask(s, k, rows[0][1].reshape(-1) if rows else [], (s.int(1, 4),) if dense else s.shape(0, 2)), "default": s.array(v, inner if s.chance(0.97) else (5,))}
        for i, (_, keys, values) in enumerate(rows):
            inputs[f"k{i}"] = keys
            if values is not None:
                inputs[f"v{i}"] = values
        more, ends = {"value_shape": list(inner)} if dense or tensors else {}, {}
        if dense:
            ends = {"empty_key": np.array(-99 if k != "string" else "<empty>", object if k == "string" else k)}
            if version == "2":
                ends["deleted_key"] = np.array(-98 if k != "string" else "<deleted>", object if k == "string" else k)
            more.update(initial_num_buckets=s.one([4, 8, 128] if s.chance(0.95) else [2, 3, 0]), max_load_factor=s.one([0.8, 0.5]))
        verbs = [r[0] for r in rows]

        def call(raw, asked, default, **t):
            table = made(op)(raw, k, v, key, **more, **{n: t[n] for n in ends})
            done = []
            for i, verb in enumerate(verbs):
                if verb == "buckets":
                    inside = after(done, lambda: getattr(raw, o["export"])(table_handle=table, Tkeys=k, Tvalues=v))
                    done = [getattr(raw, o["imports"])(table_handle=table, keys=inside[0], values=inside[1])]
                elif verb == "remove":
                    done = [after(done, lambda: raw.LookupTableRemoveV2(table_handle=table, keys=t[f"k{i}"]))]
                else:
                    done = [after(done, lambda: getattr(raw, o[verb])(table_handle=table, keys=t[f"k{i}"], values=t[f"v{i}"]))]
            found = after(done, lambda: [getattr(raw, o["find"])(table_handle=table, keys=asked, default_value=default), getattr(raw, o["size"])(table_handle=table)])
            # a dense table's export is its buckets in TensorFlow, its entries here
            return found if dense else found + after(done, lambda: list(getattr(raw, o["export"])(table_handle=table, Tkeys=k, Tvalues=v)))
        return {**inputs, **ends}, program(call), {} if dense else {"shape_only": ["y2", "y3"]}
    return draw


NO_FILES = "a table is made from a file that must lie in the model's folder; the draws' models hold no assets (suites/ops and the zoo have some)"
DRAWS = {
    "HashTableV2": hash_table("HashTableV2", "2"), "AnonymousHashTable": hash_table("AnonymousHashTable", "2"), "HashTable": hash_table("HashTable", "1"),
    "MutableHashTableV2": mutable("MutableHashTableV2", "2"), "AnonymousMutableHashTable": mutable("AnonymousMutableHashTable", "2"), "MutableHashTable": mutable("MutableHashTable", "1"),
    "MutableHashTableOfTensorsV2": mutable("MutableHashTableOfTensorsV2", "2", tensors=True), "MutableHashTableOfTensors": mutable("MutableHashTableOfTensors", "1", tensors=True),
    "AnonymousMutableHashTableOfTensors": mutable("AnonymousMutableHashTableOfTensors", "2", tensors=True),
    "MutableDenseHashTableV2": mutable("MutableDenseHashTableV2", "2", dense=True),
    "AnonymousMutableDenseHashTable": mutable("AnonymousMutableDenseHashTable", "2", dense=True),
    **{o: hash_table("HashTable" + "V2" * int(n == "2"), n) for n in "12" for o in (SHARED[n]["find"], SHARED[n]["size"], SHARED[n]["init"])},
    **{o: mutable("MutableHashTable" + "V2" * int(n == "2"), n) for n in "12" for o in (SHARED[n]["insert"], SHARED[n]["imports"], SHARED[n]["export"])},
    "LookupTableRemoveV2": mutable("MutableHashTableV2", "2"),
}
EXEMPT = {"MutableDenseHashTable": "TensorFlow's kernel asks for an input, deleted_key, that its definition lacks: it always fails", "InitializeTableFromTextFile": NO_FILES, "InitializeTableFromTextFileV2": NO_FILES}
