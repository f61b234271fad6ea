"""Draws of ops on tensor lists, tensor arrays, stacks, queues, optionals and mutexes.

A draw makes one such thing, does a few things with it, and answers what comes out. Elements mostly have one shape; at times one has another, or an index is out of range.
"""
import numpy as np

from draw_source import ANY, F, I, program
from draws_variable import key_of

TYPES = ANY


def elements(s, most=4, none=0):
    """(dtype, shape, [elements])"""
    d, shape = s.one(TYPES), s.shape(0, 2)
    return d, shape, [s.array(d, shape if s.chance(0.98) else s.shape(0, 2)) for _ in range(s.int(none, most))]


def loose(s, shape):
    """A shape that the given one fits, as an argument: known, partly known or unknown."""
    if s.chance(0.2):
        return np.int32(-1)
    return np.array([-1 if s.chance(0.3) else d for d in shape] if s.chance(0.98) else list(shape) + [2], "int32")


def index(s, n):
    return np.int32(s.int(0, max(n - 1, 0)) if s.chance(0.96) else s.one([-1, n]))


def indices(s, n, most=4):
    return s.array("int32", (s.int(0, most),), -1 if s.chance(0.02) else 0, max(n - 1, 0) + s.chance(0.02))


def pushed(raw, shape, d, items):
    h = raw.EmptyTensorList(element_shape=shape, max_num_elements=-1, element_dtype=d)
    for x in items:
        h = raw.TensorListPushBack(input_handle=h, tensor=x)
    return h


def list_of(use):
    """A list by pushes, then use(raw, handle, dtype, tensors) with what prepare(s, n, shape, dtype) drew."""
    def with_more(prepare=lambda s, n, shape, d: {}):
        def draw(s):
            d, shape, items = elements(s)
            more = prepare(s, len(items), shape, d)
            return {"shape": loose(s, shape), "items": items, **more}, program(lambda raw, shape, items, **t: use(raw, pushed(raw, shape, d, items), d, t))
        return draw
    return with_more


def popped(raw, h, d, t):
    h, x = raw.TensorListPopBack(input_handle=h, element_shape=t["like"], element_dtype=d)
    return [x, raw.TensorListLength(input_handle=h)]


def got(raw, h, d, t):
    return raw.TensorListGetItem(input_handle=h, index=t["index"], element_shape=t["like"], element_dtype=d)


def written(raw, h, d, t):
    h = raw.TensorListSetItem(input_handle=h, index=t["index"], item=t["item"])
    return [raw.TensorListLength(input_handle=h), raw.TensorListGetItem(input_handle=h, index=t["index"], element_shape=-1, element_dtype=d)]


def stacked(count):
    return lambda raw, h, d, t: raw.TensorListStack(input_handle=h, element_shape=t["like"], element_dtype=d, num_elements=count)


def joined(raw, h, d, t):
    return list(raw.TensorListConcatV2(input_handle=h, element_shape=t["like"], leading_dims=t["lead"], element_dtype=d))


def resized(raw, h, d, t):
    h = raw.TensorListResize(input_handle=h, size=t["size"])
    return [raw.TensorListLength(input_handle=h), raw.TensorListStack(input_handle=h, element_shape=t["like"], element_dtype=d)]


def pair(raw, h, d, t):
    other = raw.TensorListFromTensor(tensor=t["rows"], element_shape=t["like"])
    both = raw.TensorListConcatLists(input_a=h, input_b=other, element_dtype=d)
    return [raw.TensorListLength(input_handle=both), raw.TensorListElementShape(input_handle=h, shape_type="int64")]


def like(s, n, shape, d):
    return {"like": loose(s, shape)}


def concat(s):
    d, tail, n = s.one(TYPES), s.shape(0, 1), s.int(0, 4)
    items = [s.array(d, (s.int(0, 3),) + (tail if s.chance(0.98) else (7,))) for _ in range(n)]
    lead = np.array([s.int(0, 3) for _ in range(s.one([0, n]))], "int64")
    shape = np.array([-1] + [-1 if s.chance(0.2) else k for k in tail], "int32") if s.chance(0.8) else np.int32(-1)
    return {"items": items, "like": shape, "lead": lead}, program(lambda raw, items, **t: joined(raw, pushed(raw, -1, d, items), d, t))


def concat1(s):
    d, tail = s.one(TYPES), s.shape(0, 1)
    items = [s.array(d, (s.int(0, 3),) + tail) for _ in range(s.int(0, 4))]
    shape = s.one([None, [None] + list(tail)])
    return {"items": items}, program(lambda raw, items: list(raw.TensorListConcat(input_handle=pushed(raw, -1, d, items), element_dtype=d, element_shape=shape)))


def from_tensor(s):
    d, shape = s.one(TYPES), s.shape(0 if s.chance(0.05) else 1, 3)

    def call(raw, x, like):
        h = raw.TensorListFromTensor(tensor=x, element_shape=like)
        return [raw.TensorListLength(input_handle=h), raw.TensorListElementShape(input_handle=h, shape_type="int32"), raw.TensorListStack(input_handle=h, element_shape=-1, element_dtype=d)]
    return {"x": s.array(d, shape), "like": loose(s, shape[1:])}, program(call)


def split(s):
    d, tail, lengths = s.one(TYPES), s.shape(0, 1), [s.int(0, 3) for _ in range(s.int(0, 4))]
    rows = sum(lengths) + (s.int(0, 1) if s.chance(0.05) else 0)

    def call(raw, x, like, lengths):
        h = raw.TensorListSplit(tensor=x, element_shape=like, lengths=lengths)
        return [raw.TensorListLength(input_handle=h)] + list(raw.TensorListConcatV2(input_handle=h, element_shape=-1, leading_dims=np.zeros(0, "int64"), element_dtype=d))
    return {"x": s.array(d, (rows,) + tail), "like": np.array([-1] + list(tail), "int32"), "lengths": np.array(lengths, "int64")}, program(call)


def scatter(op):
    def draw(s):
        d, tail, n = s.one(TYPES), s.shape(0, 1), s.int(0, 4)
        i = s.r.permutation(6)[:n].astype("int32") - (1 if s.chance(0.03) else 0)
        inputs = {"x": s.array(d, (n if s.chance(0.97) else n + 1,) + tail), "i": i, "like": loose(s, tail)}
        if op == "TensorListScatterV2":
            inputs["size"] = np.int32(s.one([-1, -1, 6, 3]))

        def call(raw, x, i, like, size=None):
            if op == "TensorListScatterIntoExistingList":
                like = np.array(tail, "int32")   # TensorFlow reads past rows of another shape
                old = raw.TensorListReserve(element_shape=like, num_elements=4, element_dtype=d)
                h = raw.TensorListScatterIntoExistingList(input_handle=old, tensor=x, indices=i)
            else:
                h = getattr(raw, op)(tensor=x, indices=i, element_shape=like, **({} if size is None else {"num_elements": size}))
            return [raw.TensorListLength(input_handle=h), raw.TensorListGather(input_handle=h, indices=i, element_shape=like, element_dtype=d)]
        return inputs, program(call)
    return draw


def reserved(s):
    d, shape, n = s.one(TYPES), s.shape(0, 2), s.int(0, 4)

    def call(raw, like, n, index, item):
        h = raw.TensorListReserve(element_shape=like, num_elements=n, element_dtype=d)
        h = raw.TensorListSetItem(input_handle=h, index=index, item=item, resize_if_index_out_of_bounds=grows)
        return [raw.TensorListLength(input_handle=h), raw.TensorListStack(input_handle=h, element_shape=like, element_dtype=d)]
    grows = s.chance(0.5)
    return {"like": loose(s, shape), "n": np.int32(n if s.chance(0.97) else -1), "index": index(s, n) if s.chance(0.8) else np.int32(n + 1), "item": s.array(d, shape)}, program(call)


def push_batch(s):
    d, n, shape = s.one(TYPES), s.one([0, 2, 3]), s.shape(0, 2)   # a Pack of one list is an ExpandDims to TensorFlow, which it then refuses

    def call(raw, x, like):
        import tensorflow as tf
        lists = [raw.EmptyTensorList(element_shape=like, max_num_elements=-1, element_dtype=d) for _ in range(n)]
        handles = raw.Pack(values=lists) if n else tf.zeros([0], tf.variant)
        for k in range(2):
            handles = raw.TensorListPushBackBatch(input_handles=handles, tensor=x)
        return [raw.TensorListStack(input_handle=h, element_shape=like, element_dtype=d) for h in (tf.unstack(handles, n) if n else [])] + [tf.size(handles)]
    return {"x": s.array(d, ((n if s.chance(0.95) else n + 1),) + shape), "like": loose(s, shape)}, program(call)


def array_of(s, n, shape, d):
    """How a TensorArrayV3 is made."""
    return dict(dtype=d, element_shape=s.one([None, None, list(shape), [None] * len(shape)]), dynamic_size=s.chance(0.4), clear_after_read=s.chance(0.5),
                identical_element_shapes=s.chance(0.3), tensor_array_name=key_of(s))


def tensor_array(read):
    """An array that is written element by element, then read by read(raw, handle, flow, dtype, tensors)."""
    def draw(s):
        d, shape, items = elements(s)
        n = len(items)
        attrs, at = array_of(s, n, shape, d), [int(i) for i in s.r.permutation(n)]
        if s.chance(0.03) and n:
            at[0] = s.one([-1, n, at[-1]])

        def call(raw, size, items, **t):
            handle, flow = raw.TensorArrayV3(size=size, **attrs)
            for i, x in zip(at, items):
                flow = raw.TensorArrayWriteV3(handle=handle, index=i, value=x, flow_in=flow)
            return read(raw, handle, flow, d, t)
        return {"size": np.int32(n), "items": items, "index": index(s, n), "indices": indices(s, n)}, program(call)
    return draw


def array_closed(raw, handle, flow, d, t):
    import tensorflow as tf
    size = raw.TensorArraySizeV3(handle=handle, flow_in=flow)
    with tf.control_dependencies([size]):
        raw.TensorArrayCloseV3(handle=handle)
    return size


def array_gradient(op):
    def draw(s):
        d, shape, n = s.one(F), s.shape(0, 2), s.int(1, 3)

        def call(raw, items, twice, index, lead):
            handle, flow = raw.TensorArrayV3(size=n, dtype=d, element_shape=None, clear_after_read=False)
            for i, x in enumerate(items):
                flow = raw.TensorArrayWriteV3(handle=handle, index=i, value=x, flow_in=flow)
            more = {"shape_to_prepend": lead} if op == "TensorArrayGradWithShape" else {}
            grad, gflow = getattr(raw, op)(handle=handle, flow_in=flow, source="g", **more)
            for x in twice:
                gflow = raw.TensorArrayWriteV3(handle=grad, index=index, value=x, flow_in=gflow)
            return raw.TensorArrayReadV3(handle=grad, index=index, flow_in=gflow, dtype=d)
        lead = (s.int(1, 2),) if op == "TensorArrayGradWithShape" and s.chance(0.7) else ()
        return {"items": [s.array(d, shape) for _ in range(n)], "twice": [s.array(d, lead + shape) for _ in range(s.int(1, 2))], "index": index(s, n), "lead": np.array(lead, "int32")}, program(call)
    return draw


def array_scatter(s):
    d, shape, n = s.one(TYPES), s.shape(0, 2), s.int(0, 4)
    attrs, i = array_of(s, n, shape, d), s.r.permutation(n).astype("int32")

    def call(raw, x, i):
        handle, flow = raw.TensorArrayV3(size=n, **attrs)
        flow = raw.TensorArrayScatterV3(handle=handle, indices=i, value=x, flow_in=flow)
        return [raw.TensorArrayGatherV3(handle=handle, indices=i[::-1], flow_in=flow, dtype=d)]
    return {"x": s.array(d, (n if s.chance(0.97) else n + 1,) + shape), "i": i}, program(call)


def array_split(s):
    d, tail, lengths = s.one(TYPES), s.shape(0, 1), [s.int(0, 3) for _ in range(s.int(0, 4))]
    rows, name = sum(lengths) + (1 if s.chance(0.03) else 0), key_of(s)

    def call(raw, x, lengths):
        handle, flow = raw.TensorArrayV3(size=lengths.shape[0] if lengths.shape.rank and lengths.shape[0] is not None else raw.Size(input=lengths), dtype=d, element_shape=None, tensor_array_name=name)
        flow = raw.TensorArraySplitV3(handle=handle, value=x, lengths=lengths, flow_in=flow)
        return list(raw.TensorArrayConcatV3(handle=handle, flow_in=flow, dtype=d))
    return {"x": s.array(d, (rows,) + tail), "lengths": np.array(lengths, "int64")}, program(call)


def stack(s):
    d, _, items = elements(s)
    pops, most = s.int(0, len(items) + s.chance(0.1)), s.one([-1, -1, len(items), max(len(items) - 1, 0)])
    name, closed = key_of(s), s.chance(0.3)

    def call(raw, size, items):
        import tensorflow as tf
        handle, out, last = raw.StackV2(max_size=size, elem_type=d, stack_name=name), [], []
        for x in items:
            with tf.control_dependencies(last):
                last = [raw.StackPushV2(handle=handle, elem=x)]
        for _ in range(pops):
            with tf.control_dependencies(last):
                last = [raw.StackPopV2(handle=handle, elem_type=d)]
            out += last
        with tf.control_dependencies(last):
            if closed:
                last = last + [raw.StackCloseV2(handle=handle)]
        with tf.control_dependencies(last):
            return out + [tf.identity(size)]
    return {"size": np.int32(most), "items": items}, program(call)


def optional(s):
    parts = [s.array(s.one(TYPES), s.shape(0, 2)) for _ in range(s.int(1, 3))]
    empty, wrong = s.chance(0.2), s.chance(0.05)
    types = [str(p.dtype) if p.dtype != object else "string" for p in parts]

    def call(raw, parts):
        o = raw.OptionalNone() if empty else raw.OptionalFromValue(components=parts)
        has = raw.OptionalHasValue(optional=o)
        if wrong or not empty:
            return [has] + list(raw.OptionalGetValue(optional=o, output_types=types, output_shapes=[None] * len(parts)))
        return has
    return {"parts": parts}, program(call)


def mutex(s):
    name = key_of(s)

    def call(raw, x):
        handle = raw.MutexV2(shared_name=name)
        lock = raw.MutexLock(mutex=handle)
        raw.ConsumeMutexLock(mutex_lock=lock)
        again = raw.MutexLock(mutex=handle)
        raw.ConsumeMutexLock(mutex_lock=again)
        return raw.Identity(input=x)
    return {"x": s.array("float32", ())}, program(call)


DRAWS = {
    "EmptyTensorList": list_of(stacked(-1))(like), "TensorListPushBack": list_of(stacked(-1))(like), "TensorListPopBack": list_of(popped)(like),
    "TensorListGetItem": list_of(got)(lambda s, n, shape, d: {"index": index(s, n), "like": loose(s, shape)}),
    "TensorListSetItem": list_of(written)(lambda s, n, shape, d: {"index": index(s, n), "item": s.array(d, shape if s.chance(0.95) else s.shape(0, 2))}),
    "TensorListLength": list_of(lambda raw, h, d, t: raw.TensorListLength(input_handle=h))(),
    "TensorListElementShape": list_of(lambda raw, h, d, t: [raw.TensorListElementShape(input_handle=h, shape_type=k) for k in I])(),
    "TensorListStack": lambda s: list_of(stacked(s.one([-1, -1, 3])))(like)(s),
    "TensorListGather": list_of(lambda raw, h, d, t: raw.TensorListGather(input_handle=h, indices=t["i"], element_shape=t["like"], element_dtype=d))(
        lambda s, n, shape, d: {"i": indices(s, n), "like": loose(s, shape)}),
    "TensorListResize": list_of(resized)(lambda s, n, shape, d: {"size": np.int32(s.int(0, 6) if s.chance(0.97) else -1), "like": loose(s, shape)}),
    "TensorListConcatLists": list_of(pair)(lambda s, n, shape, d: {"rows": s.array(d if s.chance(0.97) else s.one(TYPES), (s.int(0, 3),) + shape), "like": loose(s, shape)}),
    "TensorListConcat": concat1, "TensorListConcatV2": concat, "TensorListFromTensor": from_tensor, "TensorListSplit": split, "TensorListScatter": scatter("TensorListScatter"),
    "TensorListScatterV2": scatter("TensorListScatterV2"), "TensorListScatterIntoExistingList": scatter("TensorListScatterIntoExistingList"), "TensorListReserve": reserved,
    "TensorListPushBackBatch": push_batch,
    "TensorArrayV3": tensor_array(lambda raw, h, f, d, t: raw.TensorArrayReadV3(handle=h, index=t["index"], flow_in=f, dtype=d)),
    "TensorArrayWriteV3": tensor_array(lambda raw, h, f, d, t: raw.TensorArrayGatherV3(handle=h, indices=t["indices"], flow_in=f, dtype=d)),
    "TensorArrayReadV3": tensor_array(lambda raw, h, f, d, t: raw.TensorArrayReadV3(handle=h, index=t["index"], flow_in=f, dtype=d)),
    "TensorArrayGatherV3": tensor_array(lambda raw, h, f, d, t: raw.TensorArrayGatherV3(handle=h, indices=t["indices"], flow_in=f, dtype=d)),
    "TensorArraySizeV3": tensor_array(lambda raw, h, f, d, t: raw.TensorArraySizeV3(handle=h, flow_in=f)), "TensorArrayCloseV3": tensor_array(array_closed),
    "TensorArrayGradV3": array_gradient("TensorArrayGradV3"), "TensorArrayGradWithShape": array_gradient("TensorArrayGradWithShape"), "TensorArrayScatterV3": array_scatter,
    "TensorArraySplitV3": array_split, "TensorArrayConcatV3": array_split, **{op: stack for op in "StackV2 StackPushV2 StackPopV2 StackCloseV2".split()},
    **{op: optional for op in "OptionalFromValue OptionalNone OptionalHasValue OptionalGetValue".split()}, **{op: mutex for op in "MutexV2 MutexLock ConsumeMutexLock".split()},
}


def unlike(at):
    """Whether the element there has another shape than what the op says of it."""
    def judge(inputs, attrs):
        items, like, i = inputs["items"], inputs["like"], at(inputs)
        return like.ndim == 1 and -len(items) <= i < len(items) and (items[i].ndim != like.size or any(k not in (-1, n) for k, n in zip(like, items[i].shape)))
    return judge


KNOWN = {op: (unlike(at), "plans count on the shape that an element is said to have; TensorFlow does not look")
         for op, at in {"TensorListPopBack": lambda inputs: -1, "TensorListGetItem": lambda inputs: int(inputs["index"])}.items()}
