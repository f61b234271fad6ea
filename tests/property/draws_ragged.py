"""Draws of ragged tensors: ranges, filled rows, and what they become as dense, sparse and variant tensors."""
import numpy as np

from draw_source import ANY, F, H, I, NUMBERS, program


def splits(s, n=None, index=None):
    """Row splits, of n values when n is given; wrong rarely."""
    lengths = [s.int(0, 3) for _ in range(s.int(0, 4))]
    cuts = np.cumsum([0] + lengths)
    if n is not None:
        cuts = np.concatenate([[0], np.sort(s.array("int64", (s.int(0, 3),), 0, n)), [n]])
    if s.chance(0.03):
        cuts[s.int(0, len(cuts) - 1)] += s.one([-1, 2])
    return cuts.astype(index or s.one(I))


def ragged_range(s):
    d, n = s.one(F + I), s.int(0, 4)
    side = lambda lo, hi: s.array(d, () if s.chance(0.2) else (n if s.chance(0.97) else n + 1,), lo, hi)
    step = side(1, 3) * np.asarray(1 if s.chance(0.7) else -1, d)
    return {"starts": side(-5, 5), "limits": side(-5, 9), "deltas": step if s.chance(0.97) else step * 0}, {"Tsplits": s.one(I)}


def fill_rows(s):
    rows, n, d = s.int(1, 4), s.int(0, 5), s.one(ANY)   # of no rows TensorFlow gives indices a second axis
    ids = np.sort(s.array("int64", (n,), 0, max(rows - 1, 0)))
    if s.chance(0.03) and n:
        ids[0] = s.one([-1, rows])
    return {"value_rowids": ids, "values": s.array(d, (len(ids),)), "nrows": np.int64(rows), "default_value": s.array(d, ())}, {}


def fill_rows_grad(s):
    n, m = s.int(0, 4), s.int(0, 6)
    return {"reverse_index_map": s.array("int64", (n,), 0, max(m - 1, 0)), "grad_values": s.array(s.one(NUMBERS), (m,))}, {}


def to_sparse(s):
    outer = splits(s, index="int64")
    n = max(int(outer[-1]), 0)
    nested = [outer] if s.chance(0.5) else [outer, np.cumsum([0] + [s.int(0, 2) for _ in range(n)])]
    return {"rt_nested_splits": nested, "rt_dense_values": s.array(s.one(ANY), (max(int(nested[-1][-1]), 0),) + s.shape(0, 1))}, {}


def to_tensor(s):
    index, d = s.one(I), s.one(ANY)
    lengths = [s.int(0, 3) for _ in range(s.int(0, 4))]
    n = int(np.sum(lengths)) if lengths else 0
    if s.chance(0.6):
        kinds, parts = ["ROW_SPLITS"], [np.cumsum([0] + lengths).astype(index)]
    else:
        kinds, parts = ["FIRST_DIM_SIZE", "VALUE_ROWIDS"], [np.asarray(len(lengths), index), np.repeat(np.arange(len(lengths)), lengths).astype(index)]
    inner = s.shape(0, 1)
    shape = np.array([s.one([-1, -1, 2, 5]), s.one([-1, -1, 2, 5])] + [s.one([-1, k]) for k in inner], s.one(I)) if s.chance(0.8) else np.asarray(-1, s.one(I))
    return {"shape": shape, "values": s.array(d, (n,) + inner), "default_value": s.array(d, () if s.chance(0.7) else inner), "row_partition_tensors": parts}, {"row_partition_types": kinds}


def variant(s):
    """To variants and back."""
    index, d = s.one(I), s.one(ANY)
    cuts = splits(s, index=index)
    values = s.array(d, (max(int(cuts[-1]), 0),) + s.shape(0, 1))
    batched = s.chance(0.6)
    rank = 1

    def call(raw, cuts, values):
        v = raw.RaggedTensorToVariant(rt_nested_splits=[cuts], rt_dense_values=values, batched_input=batched)
        back = raw.RaggedTensorFromVariant(encoded_ragged=v, input_ragged_rank=0 if batched else rank, output_ragged_rank=rank, Tvalues=d, Tsplits=index)
        return [raw.Size(input=v)] + list(back.output_nested_splits) + [back.output_dense_values]
    return {"cuts": cuts, "values": values}, program(call)


def variant_gradient(s):
    d, index = s.one(NUMBERS), s.one(I)
    cuts = np.cumsum([0] + [s.int(0, 3) for _ in range(s.int(1, 3))]).astype(index)
    values = s.array(d, (int(cuts[-1]),) + s.shape(0, 1))

    def call(raw, cuts, values):
        v = raw.RaggedTensorToVariant(rt_nested_splits=[cuts], rt_dense_values=values, batched_input=True)
        return raw.RaggedTensorToVariantGradient(encoded_ragged_grad=v, row_splits=cuts, dense_values_shape=np.array(values.shape if values.shape.rank is not None else [0], "int32")
                                                 if values.shape.is_fully_defined() else raw.Shape(input=values), Tvalues=d)
    return {"cuts": cuts, "values": values}, program(call)


def gather(s):
    index, d, lengths = s.one(I), s.one(ANY), [s.int(0, 3) for _ in range(s.int(0, 4))]
    nested = [np.cumsum([0] + lengths).astype(index)]
    if s.chance(0.4):
        nested.append(np.cumsum([0] + [s.int(0, 2) for _ in range(int(nested[0][-1]))]).astype(index))
    values = s.array(d, (int(nested[-1][-1]),) + s.shape(0, 1))
    if s.chance(0.04):   # of an outer one that is wrong TensorFlow notices less
        nested[-1][s.int(0, len(nested[-1]) - 1)] += s.one([-1, 5])
    rows = len(lengths)
    shape = s.shape(0, 2) if rows else (0,)
    return {"params_nested_splits": nested, "params_dense_values": values, "indices": s.array(s.one(I), shape, 0, rows - 1 + s.chance(0.04))}, {"OUTPUT_RAGGED_RANK": len(nested) + len(shape) - 1}


DRAWS = {
    "RaggedRange": ragged_range, "RaggedFillEmptyRows": fill_rows, "RaggedFillEmptyRowsGrad": fill_rows_grad, "RaggedTensorToSparse": to_sparse,
    "RaggedTensorToTensor": to_tensor, "RaggedTensorToVariant": variant, "RaggedTensorFromVariant": variant, "RaggedTensorToVariantGradient": variant_gradient,
    "RaggedGather": gather,
}
