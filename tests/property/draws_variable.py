"""Draws of variables: made, assigned, read, counted, and written in parts; as resources and as TF1's references.

A draw makes a variable of a value it is given, writes to it, and answers what it holds then.
"""
import numpy as np

from draw_source import ANY, C, F, H, I, NUMBERS, REAL, S, program


def key_of(s):
    return f"v{s.int(0, 1 << 60)}"


def resource(raw, value, key):
    """A resource variable that holds value."""
    handle = raw.VarHandleOp(dtype=value.dtype, shape=None, shared_name=key)
    raw.AssignVariableOp(resource=handle, value=value)
    return handle


def read(raw, handle, value):
    return raw.ReadVariableOp(resource=handle, dtype=value.dtype)


def reference(raw, value, key, shape):
    """A reference variable that holds value, of a known shape or none."""
    return raw.Assign(ref=raw.VariableV2(shape=shape, dtype=value.dtype, shared_name=key), value=value, validate_shape=shape is not None)


def on_resource(op, draw):
    """A write to a resource: draw(s) gives (value, other inputs, attributes)."""
    def make(s):
        value, inputs, attrs = draw(s)
        key, name = key_of(s), "resource" if not op.startswith(("ResourceScatterNd", "ResourceStrided")) else "ref"

        def call(raw, held, **t):
            handle = resource(raw, held, key)
            out = getattr(raw, op)(**{name: handle}, **t, **attrs)
            return [read(raw, handle, held)] + ([out] if op == "ResourceCountUpTo" else [])
        return {"held": value, **inputs}, program(call)
    return make


def on_reference(op, draw):
    """The same on a reference. In functions TensorFlow has no references of int32 (an error of its own placement)."""
    def make(s):
        value, inputs, attrs = draw(s)
        key, shape = key_of(s), None if attrs.get("validate_shape") is False else value.shape
        if value.dtype == np.int32:
            value = value.astype("int64")
            inputs = {k: v.astype("int64") if k in ("value", "updates") and v.dtype == np.int32 else v for k, v in inputs.items()}

        def call(raw, held, **t):
            import tensorflow as tf
            return [tf.identity(getattr(raw, op)(ref=reference(raw, held, key, shape), **t, **attrs))]
        return {"held": value, **inputs}, program(call)
    return make


def assign(dtypes, resource_only=False):
    def draw(s):
        d, shape = s.one(dtypes), s.shape(0, 3)
        return s.array(d, shape), {"value": s.array(d, shape if s.chance(0.9) else s.shape(0, 3))}, {}
    return draw


def assign_resource(s):
    d, shape = s.one(ANY), s.shape(0, 3)
    return s.array(d, shape), {"value": s.array(d if s.chance(0.97) else s.one(ANY), shape if s.chance(0.8) else s.shape(0, 3))}, {"validate_shape": s.chance(0.3)}


def assign_reference(s):
    d, shape = s.one(ANY), s.shape(0, 3)
    same = s.chance(0.8)
    return s.array(d, shape), {"value": s.array(d, shape if same else s.shape(0, 3))}, {"validate_shape": same or s.chance(0.3)}


def scatter(dtypes, low=-4):
    def draw(s):
        d, shape = s.one(dtypes), s.shape(1, 4)
        n = max(shape[0] - 1, 0) + s.chance(0.04)
        i = s.array(s.one(I), s.shape(0, 3), -1 if s.chance(0.02) else 0, n)
        if s.chance(0.2):
            u = s.array(d, (), low)
        else:
            u = s.array(d, i.shape + shape[1:] if s.chance(0.98) else (len(shape) + 7,) + i.shape, low)   # rows of another shape behind the indices' TensorFlow takes, and reads beside them
        return s.array(d, shape), {"indices": i, "updates": u}, {}
    return draw


def scatter_nd(dtypes):
    def draw(s):
        d, shape = s.one(dtypes), tuple(s.int(1, 4) for _ in range(s.int(1, 4)))
        depth, batch = s.int(1, len(shape)), s.shape(0, 2)
        i = np.zeros(batch + (depth,), s.one(I))
        for k in range(depth):
            i[..., k] = s.r.integers(-1 if s.chance(0.02) else 0, shape[k] + s.chance(0.03), batch)
        u = s.array(d, batch + (shape[depth:] if s.chance(0.97) else s.shape(0, 2)))
        return s.array(d, shape), {"indices": i, "updates": u}, {"bad_indices_policy": s.one(["", "", "DEFAULT", "ERROR", "IGNORE"])}
    return draw


def strided(s):
    x, d = s.array(s.one(ANY), s.shape(1, 3)), s.one(I)
    n = s.int(1, x.ndim)
    begin = np.array([s.int(0, max(k - 1, 0)) for k in x.shape[:n]], d)
    end = np.array([s.int(0, k) for k in x.shape[:n]], d)
    strides = np.array([s.one([1, 1, 2]) for _ in range(n)], d)
    shrink = 1 if s.chance(0.2) and x.shape[0] > 0 else 0
    size = [max(0, -(-(int(e) - int(b)) // int(t))) for b, e, t in zip(begin, end, strides)][shrink:] + list(x.shape[n:])
    value = s.array(str(x.dtype) if x.dtype != object else "string", size if s.chance(0.9) else ())
    return x, {"begin": begin, "end": end, "strides": strides, "value": value}, {"shrink_axis_mask": shrink}


def count_up(s):
    return np.array(s.int(-2, 5), s.one(I)), {}, {"limit": s.int(0, 5)}


def count_resource(s):
    value, inputs, attrs = count_up(s)
    return value, inputs, dict(attrs, T=str(value.dtype))


LONG = [d for d in ANY if d != "int32"]


def nothing(s):
    """A variable that was never assigned."""
    key, op, kind = key_of(s), s.one(["ReadVariableOp", "VariableShape", "AssignAddVariableOp", "ResourceScatterAdd", "VarIsInitializedOp"]), s.one(ANY)

    def call(raw, x):
        handle = raw.VarHandleOp(dtype=x.dtype, shape=None, shared_name=key)
        if op == "ReadVariableOp":
            return raw.ReadVariableOp(resource=handle, dtype=x.dtype)
        if op == "VariableShape":
            return raw.VariableShape(input=handle)
        if op == "AssignAddVariableOp":
            raw.AssignAddVariableOp(resource=handle, value=x)
        if op == "ResourceScatterAdd":
            raw.ResourceScatterAdd(resource=handle, indices=[0], updates=x)
        return raw.VarIsInitializedOp(resource=handle)
    return {"x": s.array(kind, (2,))}, program(call)


def facts(s):
    """VarHandleOp, shape, being there, reading, destroying."""
    if s.chance(0.2):
        return nothing(s)
    value, key, kind, known = s.array(s.one(ANY), s.shape(0, 3)), key_of(s), s.one(I), s.chance(0.5)

    def call(raw, held):
        import tensorflow as tf
        handle = raw.VarHandleOp(dtype=held.dtype, shape=value.shape if known else None, shared_name=key)
        before = raw.VarIsInitializedOp(resource=handle)
        raw.AssignVariableOp(resource=handle, value=held)
        out = [before, raw.VarIsInitializedOp(resource=handle), raw.ReadVariableOp(resource=handle, dtype=held.dtype), raw.VariableShape(input=handle, out_type=kind)]
        raw.DisableCopyOnRead(resource=handle)
        out.append(raw.ReadVariableOp(resource=handle, dtype=held.dtype))
        raw.DestroyResourceOp(resource=handle, ignore_lookup_error=True)
        return out + [raw.VarIsInitializedOp(resource=handle)]
    return {"held": value}, program(call)


def destroy(s):
    """A variable destroyed twice."""
    value, key, quiet = s.array("float32", s.shape(0, 2)), key_of(s), s.chance(0.5)

    def call(raw, held):
        handle = resource(raw, held, key)
        raw.DestroyResourceOp(resource=handle, ignore_lookup_error=quiet)
        raw.DestroyResourceOp(resource=handle, ignore_lookup_error=quiet)
        return [raw.VarIsInitializedOp(resource=handle)]
    return {"held": value}, program(call)


def gather(s):
    d, shape = s.one(ANY), s.shape(1, 4)
    batch = s.int(0, 1) if len(shape) > 1 and shape[0] else 0
    lead = shape[:batch]
    i = s.array(s.one(I), lead + s.shape(0, 2), 0, max(shape[batch] - 1, 0) + s.chance(0.03))
    return s.array(d, shape), {"indices": i}, {"batch_dims": batch, "validate_indices": s.chance(0.5)}


def gather_nd(s):
    value, inputs, _ = scatter_nd(ANY)(s)
    return value, {"indices": inputs["indices"]}, {}


def reads(op, draw):
    """A read of a part of a resource."""
    def make(s):
        value, inputs, attrs = draw(s)
        key = key_of(s)
        return {"held": value, **inputs}, program(lambda raw, held, **t: getattr(raw, op)(resource=resource(raw, held, key), dtype=held.dtype, **t, **attrs))
    return make


def initialized(s):
    """A reference variable before and after its first assignment."""
    value, key = s.array(s.one(LONG), tuple(d or 1 for d in s.shape(0, 3))), key_of(s)   # TensorFlow: of no elements it is always initialized

    def call(raw, held):
        import tensorflow as tf
        ref = raw.VariableV2(shape=value.shape, dtype=held.dtype, shared_name=key)
        before = raw.IsVariableInitialized(ref=ref)
        with tf.control_dependencies([before]):
            held = raw.Assign(ref=ref, value=held)
        with tf.control_dependencies([held]):
            return [before, raw.IsVariableInitialized(ref=ref), tf.identity(held)]
    return {"held": value}, program(call)


def temporary(s):
    value, name, own = s.array(s.one(LONG), s.shape(0, 3)), key_of(s), s.chance(0.5)

    def call(raw, held):
        import tensorflow as tf
        ref = raw.Assign(ref=raw.TemporaryVariable(shape=value.shape, dtype=held.dtype, var_name=name), value=held)
        more = raw.AssignAdd(ref=ref, value=held) if own and held.dtype in (tf.float32, tf.float64, tf.int32, tf.int64) else ref
        return [raw.DestroyTemporaryVariable(ref=more, var_name=name)]
    return {"held": value}, program(call)


def first(op):
    """Variable, VariableV2: read when nothing was assigned, or after an assignment."""
    def make(s):
        value, key, made = s.array(s.one(LONG), tuple(d or 1 for d in s.shape(0, 3))), key_of(s), s.chance(0.9)

        def call(raw, held):
            import tensorflow as tf
            ref = getattr(raw, op)(shape=value.shape, dtype=held.dtype, shared_name=key)
            return [tf.identity(raw.Assign(ref=ref, value=held) if made else ref)]
        return {"held": value}, program(call)
    return make


BOTH = {"Add": scatter(NUMBERS), "Sub": scatter(NUMBERS), "Mul": scatter(NUMBERS), "Div": scatter(NUMBERS, 1), "Max": scatter(REAL), "Min": scatter(REAL), "Update": scatter(ANY)}
ND = {"Add": scatter_nd(NUMBERS + ["bool"]), "Sub": scatter_nd(NUMBERS), "Max": scatter_nd(REAL), "Min": scatter_nd(REAL), "Update": scatter_nd(ANY)}
DRAWS = {
    **{f"ResourceScatter{k}": on_resource(f"ResourceScatter{k}", d) for k, d in BOTH.items()}, **{f"Scatter{k}": on_reference(f"Scatter{k}", d) for k, d in BOTH.items()},
    **{f"ResourceScatterNd{k}": on_resource(f"ResourceScatterNd{k}", d) for k, d in ND.items()}, **{f"ScatterNd{k}": on_reference(f"ScatterNd{k}", d) for k, d in ND.items()},
    "AssignVariableOp": on_resource("AssignVariableOp", assign_resource), "AssignAddVariableOp": on_resource("AssignAddVariableOp", assign(NUMBERS)),
    "AssignSubVariableOp": on_resource("AssignSubVariableOp", assign(NUMBERS)), "Assign": on_reference("Assign", assign_reference),
    "AssignAdd": on_reference("AssignAdd", assign(NUMBERS)), "AssignSub": on_reference("AssignSub", assign(NUMBERS)),
    "ResourceStridedSliceAssign": on_resource("ResourceStridedSliceAssign", strided), "StridedSliceAssign": on_reference("StridedSliceAssign", strided),
    "CountUpTo": on_reference("CountUpTo", count_up), "ResourceCountUpTo": on_resource("ResourceCountUpTo", count_resource),
    **{op: facts for op in "VarHandleOp VarIsInitializedOp ReadVariableOp VariableShape DisableCopyOnRead".split()}, "DestroyResourceOp": destroy,
    "ResourceGather": reads("ResourceGather", gather), "ResourceGatherNd": reads("ResourceGatherNd", gather_nd), "IsVariableInitialized": initialized,
    "TemporaryVariable": temporary, "DestroyTemporaryVariable": temporary, "Variable": first("Variable"), "VariableV2": first("VariableV2"),
}
EXEMPT = {"_ReadVariablesOp": "no raw op: TensorFlow's runtime alone makes it of several ReadVariableOp", "_VarHandlesOp": "no raw op: TensorFlow's runtime alone makes it"}
KNOWN = {f"ResourceScatter{k}": (lambda inputs, attrs: inputs["indices"].size == 1 and inputs["updates"].ndim > 0 and inputs["updates"].shape != inputs["indices"].shape + inputs["held"].shape[1:],
                                 "with a single index TensorFlow takes updates of any shape, and reads past a row") for k in BOTH}
