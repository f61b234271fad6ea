"""Draws for grad_draws.py in the place of those that op_draws.py makes, where TensorFlow differentiates what its own Python layer writes and nothing else: control flow.

DRAWS as in draws_*.py; GRAPHS names the ops whose gradient TensorFlow has for graphs of TensorFlow 1 alone: these are built, differentiated and run in such a graph.
"""
import numpy as np

import draws_variable
from draw_source import F, FLOATS
from draws_variable import key_of

STEPS = {
    "twice": lambda x, y: x + x, "wave": lambda x, y: raw().Sin(x=x), "square": lambda x, y: x * x * 0.5, "none": lambda x, y: x, "turned": lambda x, y: -x, "times": lambda x, y: x * y,
    "bent": lambda x, y: raw().Tanh(x=x) + y, "other": lambda x, y: y, "constant": lambda x, y: raw().OnesLike(x=x), "sum": lambda x, y: x + raw().Sum(input=y, axis=raw().Range(start=0, limit=raw().Rank(input=y), delta=1)),
}


def raw():
    import tensorflow as tf
    return tf.raw_ops


def step(s):
    return STEPS[s.one(sorted(STEPS))]


def pair(s):
    """Two tensors of one shape."""
    d, shape = s.one(["float32", "float32", "float64"]), s.shape(0, 2)
    return {"x": s.array(d, shape, -2, 2), "y": s.array(d, shape, -2, 2)}


def stateful(s, f):
    """f, which TensorFlow calls stateful where the op's name asks for that."""
    if s.op.startswith("Stateless"):
        return f

    def checked(x, y):
        import tensorflow as tf
        tf.debugging.Assert(tf.size(x) >= 0, [x])
        return f(x, y)
    return checked


def branch(s):
    """Captures from outside, one branch in another at times, and a branch that does not depend on what the other does."""
    yes, no, inner, deep, above = stateful(s, step(s)), step(s), step(s), s.chance(0.3), step(s)

    def program(cond, x, y):
        import tensorflow as tf
        z = above(x, y)
        within = lambda: tf.cond(tf.size(x) > 2, lambda: inner(z, y), lambda: yes(z, x)) if deep else yes(z, y)
        return tf.cond(cond, within, lambda: no(x, z))
    return {"cond": s.array("bool", ()), **pair(s)}, program


def case(s):
    """An index out of range takes the last branch."""
    branches = [stateful(s, step(s)) for _ in range(s.int(1, 4))]

    def program(index, x, y):
        import tensorflow as tf
        return tf.switch_case(index, [(lambda f: lambda: f(x, y * x))(f) for f in branches])
    return {"index": s.array("int32", (), -2, 5), **pair(s)}, program


def loop(s):
    """Values in turn, one captured; a loop in the loop at times; bounded by maximum_iterations at times; values that grow."""
    f, g, deep, bound, grows = stateful(s, step(s)), step(s), s.chance(0.3), s.one([None, None, 2, 5]), s.chance(0.2)

    def program(n, x, y):
        import tensorflow as tf
        open_ = tf.TensorShape(None)

        def inner(x):
            return tf.while_loop(lambda j, x: j < n - 1, lambda j, x: (j + 1, g(x, y)), [0, x], shape_invariants=[tf.TensorShape([]), open_])[1]

        def body(i, a, b):
            a = tf.concat([a, a * 0.5], 0) if grows and a.shape.rank else a
            return i + 1, f(a, b), g(b, y) if not deep else inner(b)
        return list(tf.while_loop(lambda i, a, b: i < n, body, [0, x, y], shape_invariants=[tf.TensorShape([]), open_, open_], maximum_iterations=bound)[1:])
    return {"n": s.array("int32", (), 0, 4), **pair(s)}, program


def call(s):
    """Calls of calls, up to three deep."""
    inner = [stateful(s, step(s)) for _ in range(s.int(1, 3))]

    def program(x, y):
        import tensorflow as tf
        f = tf.function(inner[0], autograph=False)
        for g in inner[1:]:
            f = tf.function((lambda f, g: lambda x, y: g(f(x, y), x))(f, g), autograph=False)
        return f(x, y)
    return pair(s), program


def switch(s):
    """Both branches of a switch, worked on, and merged."""
    yes, no = step(s), step(s)

    def program(x, y, p):
        off, on = raw().Switch(data=x, pred=p)
        off2, on2 = raw().Switch(data=y, pred=p)
        z, _ = raw().Merge(inputs=[no(raw().Identity(input=off), raw().Identity(input=off2)), yes(raw().Identity(input=on), raw().Identity(input=on2))])
        return [z]
    return {**pair(s), "p": s.array("bool", ())}, program


def frame(s):
    """The loop of TensorFlow 1, nested at times."""
    f, g, deep, name = step(s), step(s), s.chance(0.3), f"frame_{s.seed}"

    def program(n, x, y):
        import tensorflow as tf
        loop, open_ = tf.compat.v1.while_loop, tf.TensorShape(None)

        def body(i, a, b):
            b = loop(lambda j, b: j < 2, lambda j, b: (j + 1, g(b, y)), [tf.constant(0), b], shape_invariants=[tf.TensorShape([]), open_], name=name + "_inner")[1] if deep else g(b, y)
            return i + 1, f(a, b), b
        return list(loop(lambda i, a, b: i < n, body, [tf.constant(0), x, y], shape_invariants=[tf.TensorShape([]), open_, open_], name=name)[1:])
    return {"n": s.array("int32", (), 0, 4), **pair(s)}, program


def optional(s):
    """Through an optional and back."""
    d, shape = s.one(F), s.shape(0, 2)

    def program(x, y):
        o = raw().OptionalFromValue(components=[x * y, y])
        return list(raw().OptionalGetValue(optional=o, output_types=[d, d], output_shapes=[None, None]))
    return {"x": s.array(d, shape), "y": s.array(d, shape)}, program


def variable(draw):
    """A variable of the model's that is read, whole or in parts, twice. draw(s): (value, read(handle))."""
    def make(s):
        value, read = draw(s)
        key, shown = key_of(s), s.chance(0.3)

        def program(scale):
            import tensorflow as tf
            with tf.compat.v1.name_scope(None):   # its name is the key, wherever it is made
                held = s.variables[f"var:{key}"] = tf.compat.v1.Variable(value, use_resource=True, name=key)
            handle = tf.identity(held.handle) if shown else held.handle
            return read(handle) * scale + read(held.handle)
        return {"scale": s.array(value.dtype.name, ())}, program
    return make


def whole(s):
    value = s.array(s.one(FLOATS), s.shape(0, 3))
    return value, lambda handle: raw().ReadVariableOp(resource=handle, dtype=value.dtype)


def rows(s):
    value, inputs, attrs = draws_variable.gather(s)
    while attrs["batch_dims"]:   # which TensorFlow's gradient does not know
        value, inputs, attrs = draws_variable.gather(s)
    return value, lambda handle: raw().ResourceGather(resource=handle, dtype=value.dtype, **inputs, **attrs)


def places(s):
    value, inputs, _ = draws_variable.gather_nd(s)
    return value, lambda handle: raw().ResourceGatherNd(resource=handle, dtype=value.dtype, **inputs)


DRAWS = {
    "ReadVariableOp": variable(whole), "ResourceGather": variable(rows), "ResourceGatherNd": variable(places),
    **{op: branch for op in ("If", "StatelessIf")}, **{op: case for op in ("Case", "StatelessCase")}, **{op: loop for op in ("While", "StatelessWhile")},
    **{op: call for op in ("PartitionedCall", "StatefulPartitionedCall")}, **{op: switch for op in ("Switch", "Merge")},
    **{op: frame for op in ("Enter", "Exit", "NextIteration", "LoopCond")}, **{op: optional for op in ("OptionalFromValue", "OptionalGetValue")},
}
GRAPHS = ("TensorArray", "Switch", "Merge", "Enter", "Exit", "NextIteration", "LoopCond", "ReadVariableOp", "ResourceGather", "DebugGradientIdentity", "AccumulateNV2")
