"""Ops that pick or share out: the nearest of a row, windows that are drawn, batches that are gathered, classes and rows."""
import numpy as np
from harness import F, Lazy, case, floats, model, save

tf = Lazy("tensorflow")


@model(vary=False)
def nearest_along_axes(folder):
    """ApproxTopK: the greatest and the smallest, along any axis, which TensorFlow has by XLA alone."""
    def along(axis, pick):
        def f(x):
            y, i = pick(x, 3, reduction_dimension=axis)
            return {"y": y, "i": i}
        return tf.function(f, jit_compile=True, input_signature=[tf.TensorSpec([4, 5, 6], F, name="x")])
    picks = {f"{name}_{axis % 3}{'' if axis >= 0 else 'b'}": along(axis, pick) for name, pick, axis in (("most", tf.math.approx_max_k, 0), ("most", tf.math.approx_max_k, -2), ("least", tf.math.approx_min_k, 1), ("least", tf.math.approx_min_k, -1))}
    save(folder, {k: ((lambda f: lambda x: f(x))(f), {"x": ([4, 5, 6], F)}) for k, f in picks.items()})
    for k, name in enumerate(picks):
        yield case({"x": floats(k, 4, 5, 6)}, signature=name)


@model(rtol=1e-5, skip=("none", "flat"))   # of no rows TensorFlow forgets the other axes; it refuses one row beside many, which are broadcast here
def gathered_batches(folder):
    """BatchFunction: rows that TensorFlow gathers, pads and takes apart; with a variable from outside, and two of them behind each other."""
    def maker():
        w = tf.Variable(floats(1, 3, 4))

        @tf.nondifferentiable_batch_function(2, 8, 100, allowed_batch_sizes=[4, 8])
        def scores(x, y):
            return tf.matmul(x, w) + y, tf.reduce_sum(x, 1)

        @tf.nondifferentiable_batch_function(1, 16, 100)
        def best(s):
            return tf.argmax(s, 1, output_type=tf.int32)

        def f(x, y):
            s, sums = scores(x, y)
            return {"s": s, "sums": sums, "best": best(s)}
        m = tf.Module()
        m.w = w
        return m, f
    module, f = maker()
    save(folder, {"serving_default": (f, {"x": ([None, 3], F), "y": ([None, 4], F)})}, module)
    for n in (1, 3, 4, 8):
        yield case({"x": floats(n, n, 3), "y": floats(n + 9, n, 4)})


@model(vary=False)
def pools_of_drawn_windows(folder):
    """Of fixed seeds: the windows and their order are TensorFlow's."""
    def pool(kind, pseudo, overlapping):
        f = tf.nn.fractional_max_pool if kind == "max" else tf.nn.fractional_avg_pool
        return lambda x: dict(zip(("y", "rows", "columns"), f(x, [1, 1.44, 1.73, 1], pseudo_random=pseudo, overlapping=overlapping, seed=7)))
    kinds = {f"{kind}_{int(p)}{int(o)}": pool(kind, p, o) for kind in ("max", "avg") for p in (False, True) for o in (False, True)}
    save(folder, {k: (f, {"x": ([None, 17, 23, 3], F)}) for k, f in kinds.items()})
    for k in kinds:
        yield case({"x": floats(3, 2, 17, 23, 3)}, signature=k)
