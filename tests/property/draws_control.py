"""Draws of control flow, as programs: calls of functions, If, Case, While and For, and the Switch and Merge of TensorFlow 1; and of the ops that no numbers pass through."""
import numpy as np

from draw_source import ANY, F, I


def raw():
    import tensorflow as tf
    return tf.raw_ops


def function_of(call, *arrays):
    """A concrete function of tensors like these, of unknown shape."""
    import tensorflow as tf
    specs = [tf.TensorSpec(None, tf.string if a.dtype == object else a.dtype) for a in arrays]
    return tf.function(call, autograph=False).get_concrete_function(*specs)


def numbers(s):
    return s.array(s.one(F + I), s.shape(0, 2))


STEPS = {"twice": lambda x: x + x, "next": lambda x: x + 1, "square": lambda x: x * x, "none": lambda x: x, "turned": lambda x: -x}


def step(s):
    return STEPS[s.one(sorted(STEPS))]


def call(s):
    """Calls of calls, up to three deep."""
    import tensorflow as tf
    x, op, depth = numbers(s), s.op, s.int(1, 3)
    inner = [step(s) for _ in range(depth)]

    def program(x):
        f = inner[0]
        for g in inner[1:]:
            f = (lambda f, g: lambda x: g(getattr(tf.raw_ops, op)(args=[x], Tout=[x.dtype], f=function_of(lambda x: [f(x)], np.zeros(0, x.dtype.as_numpy_dtype)))[0]))(f, g)
        return getattr(tf.raw_ops, op)(args=[x], Tout=[x.dtype], f=function_of(lambda x: [f(x)], np.zeros(0, x.dtype.as_numpy_dtype)))
    return {"x": x}, program


def condition(s):
    """A condition of any type: numbers are true unless 0, strings unless empty, tensors unless empty."""
    kind = s.one(["bool", "bool", "int32", "float32", "string", "tensor"])
    if kind == "tensor":
        return s.array("float32", s.shape(1, 2))
    return s.array(kind, (), -1, 1)


def branch(s):
    import tensorflow as tf
    x, op, cond, yes, no = numbers(s), s.op, condition(s), step(s), step(s)
    deep = s.chance(0.3)

    def program(cond, x):
        like = np.zeros(0, x.dtype.as_numpy_dtype)
        inner = lambda x: getattr(tf.raw_ops, op)(cond=tf.size(x) > 2, input=[x], Tout=[x.dtype], then_branch=function_of(lambda x: [yes(x)], like),
                                                  else_branch=function_of(lambda x: [x - 1], like))
        return getattr(tf.raw_ops, op)(cond=cond, input=[x], Tout=[x.dtype], then_branch=function_of(inner if deep else lambda x: [yes(x)], like),
                                       else_branch=function_of(lambda x: [no(x)], like))
    return {"cond": cond, "x": x}, program


def case(s):
    """An index out of range takes the last branch."""
    import tensorflow as tf
    x, op, branches = numbers(s), s.op, [step(s) for _ in range(s.int(1, 4))]

    def program(index, x):
        like = np.zeros(0, x.dtype.as_numpy_dtype)
        fs = [function_of((lambda f: lambda x: [f(x)])(f), like) for f in branches]
        return getattr(tf.raw_ops, op)(branch_index=index, input=[x], Tout=[x.dtype], branches=fs)
    return {"index": s.array("int32", (), -2, 5), "x": x}, program


def loop(s):
    """Counts to n; the values may grow in size."""
    import tensorflow as tf
    x, op, f, grows = numbers(s), s.op, step(s), s.chance(0.3)
    if x.ndim == 0:
        grows = False

    def program(n, x):
        like = [np.zeros(0, "int32"), np.zeros(0, x.dtype.as_numpy_dtype), np.zeros(0, "int32")]
        body = lambda i, x, n: [i + 1, tf.concat([x, f(x)], 0) if grows else f(x), n]
        cond = lambda i, x, n: [i < n]
        return getattr(tf.raw_ops, op)(input=[tf.constant(0), x, n], cond=function_of(cond, *like), body=function_of(body, *like),
                                       output_shapes=[[], None, []], parallel_iterations=10)[:2]
    return {"n": s.array("int32", (), 0, 4), "x": x}, program


def for_loop(s):
    import tensorflow as tf
    x, f = numbers(s), step(s)

    def program(start, limit, delta, x):
        body = lambda i, x: [f(x) + tf.cast(i, x.dtype)]
        return tf.raw_ops.For(start=start, limit=limit, delta=delta, input=[x], body=function_of(body, np.zeros(0, "int32"), np.zeros(0, x.dtype.as_numpy_dtype)))
    return {"start": s.array("int32", (), -3, 3), "limit": s.array("int32", (), -3, 5), "delta": np.int32(s.one([1, 2, -1])), "x": x}, program


def switch(s):
    """Both branches of a switch, worked on, and merged."""
    x, yes, no, where = s.array(s.one(F + I), s.shape(0, 2)), step(s), step(s), s.chance(0.5)

    def program(x, p):
        off, on = raw().Switch(data=x, pred=p)
        y, at = raw().Merge(inputs=[no(raw().Identity(input=off)), yes(raw().Identity(input=on))])   # bare, TensorFlow's optimizer loses them
        return [y, at] if where else [y]
    return {"x": x, "p": s.array("bool", ())}, program


def frame(s):
    """The loop of TensorFlow 1: Enter, Merge, LoopCond, Switch, NextIteration, Exit."""
    import tensorflow as tf
    x, f = s.array(s.one(F + I), s.shape(0, 2)), step(s)
    name = f"frame_{s.seed}"

    def program(n, x):
        from tensorflow.python.ops import control_flow_util
        before = control_flow_util.ENABLE_CONTROL_FLOW_V2
        control_flow_util.ENABLE_CONTROL_FLOW_V2 = False
        try:
            return list(tf.compat.v1.while_loop(lambda i, x: i < n, lambda i, x: (i + 1, f(x)), [tf.constant(0), x],
                                                shape_invariants=[tf.TensorShape([]), tf.TensorShape(None)], name=name))
        finally:
            control_flow_util.ENABLE_CONTROL_FLOW_V2 = before
    return {"n": s.array("int32", (), 0, 4), "x": x}, program


def nothing(op):
    """An op without results, which has to come before the result."""
    def draw(s):
        import tensorflow as tf

        def program(x):
            with tf.control_dependencies([getattr(tf.raw_ops, op)()]):
                return tf.identity(x)
        return {"x": s.array(s.one(ANY), s.shape(0, 2))}, program
    return draw


DRAWS = {
    "PartitionedCall": call, "StatefulPartitionedCall": call, "If": branch, "StatelessIf": branch, "Case": case, "StatelessCase": case, "While": loop, "StatelessWhile": loop,
    "For": for_loop, "Switch": switch, "Merge": switch, **{op: frame for op in "Enter Exit NextIteration LoopCond".split()}, "NoOp": nothing("NoOp"),
    "ControlTrigger": nothing("ControlTrigger"),
}
EXEMPT = {
    "SymbolicGradient": "differentiates a function by TensorFlow's own C++ rules, which need its runtime: refused by name",
    "_Fused": "tensord's own: what its compiler makes of other ops", "_FusedElementwise": "tensord's own: what its compiler makes of other ops",
    "RemoteCall": "runs a function on a device that is named at run time: TensorFlow's eager call of it asks for a cluster",
    **{op: "passes references to variables through the control flow of TensorFlow 1: no program has made one since 2016" for op in "RefEnter RefExit RefMerge RefNextIteration RefSwitch".split()},
    "RefIdentity": "the reference to a variable itself: Variable and its kin are drawn",
}
