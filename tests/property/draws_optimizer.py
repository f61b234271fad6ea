"""Draws of optimizer steps: dense and sparse, on resource variables and on reference variables of TF1.

A draw makes the variable and its slots, runs the step and answers what all of them hold then.
"""
import numpy as np

from draw_source import C, F, H, I, program

# Step: (slots, scalars); the gradient comes with each. Attributes by what the step's name holds.
STEPS = {
    "GradientDescent": ("", "alpha"), "Momentum": ("accum", "lr momentum"), "KerasMomentum": ("accum", "lr momentum"), "Adagrad": ("accum", "lr"),
    "AdagradV2": ("accum", "lr epsilon"), "AdagradDA": ("gradient_accumulator gradient_squared_accumulator", "lr l1 l2 global_step"),
    "Adadelta": ("accum accum_update", "lr rho epsilon"), "AdaMax": ("m v", "beta1_power lr beta1 beta2 epsilon"), "Adam": ("m v", "beta1_power beta2_power lr beta1 beta2 epsilon"),
    "AdamWithAmsgrad": ("m v vhat", "beta1_power beta2_power lr beta1 beta2 epsilon"), "AddSign": ("m", "lr alpha sign_decay beta"), "PowerSign": ("m", "lr logbase sign_decay beta"),
    "RMSProp": ("ms mom", "lr rho momentum epsilon"), "CenteredRMSProp": ("mg ms mom", "lr rho momentum epsilon"), "Ftrl": ("accum linear", "lr l1 l2 lr_power"),
    "FtrlV2": ("accum linear", "lr l1 l2 l2_shrinkage lr_power"), "ProximalGradientDescent": ("", "alpha l1 l2"), "ProximalAdagrad": ("accum", "lr l1 l2"),
}
SPARSE = "Adadelta Adagrad AdagradDA AdagradV2 CenteredRMSProp Ftrl FtrlV2 KerasMomentum Momentum ProximalAdagrad ProximalGradientDescent RMSProp".split()
SIGNED = ("m", "mom", "linear", "gradient_accumulator")


def slot(s, name, dtype, shape):
    if name == "mg":
        return s.array(dtype, shape, -0.5, 0.5)
    if name in SIGNED:
        return s.array(dtype, shape, -2, 2)
    return s.array(dtype, shape, *((1, 2) if dtype not in C else (-2, 2)))


def scalar(s, name, dtype):
    if name == "global_step":
        return np.int64(s.int(1, 9))
    if name == "lr_power":
        return np.asarray(s.one([-0.5, -0.5, -0.75, 0.0]), "float64")
    if name in ("l1", "l2", "l2_shrinkage") and s.chance(0.4):
        return np.asarray(0.0)
    return np.asarray(s.r.uniform(0.05, 0.95))


def attributes(s, step):
    attrs = {"use_locking": s.chance(0.5)}
    if step in ("Momentum", "KerasMomentum", "Adam"):
        attrs["use_nesterov"] = s.chance(0.5)
    if step in ("Adagrad", "AdagradV2"):
        attrs["update_slots"] = s.chance(0.7)
    if step in ("Ftrl", "FtrlV2"):
        attrs["multiply_linear_by_lr"] = s.chance(0.5)
    return attrs


def inputs_of(s, step, sparse):
    import tensorflow as tf
    dtype = s.one(F + F + H + C)
    shape = s.shape(1, 3) if sparse else s.shape(0, 3)
    kind = tf.as_dtype(dtype).as_numpy_dtype
    inputs = {"var": s.array(dtype, shape, -2, 2)}
    for name in STEPS[step][0].split():
        inputs[name] = slot(s, name, dtype, shape if s.chance(0.98) or name in ("accum_update", "vhat") else s.shape(0, 2))   # whose shape TensorFlow does not look at
    for name in STEPS[step][1].split():
        v = scalar(s, name, dtype)
        v = v if name == "global_step" else v.astype(kind)
        inputs[name] = v if s.chance(0.99) else np.stack([v, v])
    if sparse:
        n = s.int(0, 4)
        inputs["indices"] = s.array(s.one(I), (n,), -1 if s.chance(0.02) else 0, max(shape[0] - 1, 0) + s.chance(0.02))
        shape = (n,) + shape[1:]
    name = "delta" if step in ("GradientDescent", "ProximalGradientDescent") and not sparse else "grad"
    inputs[name] = s.array(dtype, shape if s.chance(0.98) else tuple(d + 1 for d in shape), -2, 2)   # of wrong ranks TensorFlow dies
    return inputs


def cancels(inputs, attrs):
    """Of 16 bits: the two parts of the new m are nearly opposite somewhere."""
    if inputs["m"].dtype.itemsize != 2 or inputs["m"].shape != inputs["grad"].shape or inputs["beta"].shape != ():
        return False
    m, g, beta = (inputs[k].astype(np.float64) for k in ("m", "grad", "beta"))
    return bool(np.any(np.abs(m * beta + g * (1 - beta)) < 0.02 * np.abs(m * beta)))


# TensorFlow rounds to 16 bits after each operation, and takes the sign of what is left; here one step is computed in float32.
KNOWN = {kind + step: (cancels, "in 16 bits the sign of a sum that cancels is one of rounding") for kind in ("Apply", "ResourceApply") for step in ("AddSign", "PowerSign")}


def resource_step(op, names, attrs, key):
    def call(raw, **t):
        handles = {}
        for n in names:
            handles[n] = raw.VarHandleOp(dtype=t[n].dtype, shape=None, shared_name=f"{key}_{n}")
            raw.AssignVariableOp(resource=handles[n], value=t[n])
        getattr(raw, op)(**{**t, **handles}, **attrs)
        return [raw.ReadVariableOp(resource=handles[n], dtype=t[n].dtype) for n in names]
    return program(call)


def reference_step(op, names, attrs, key, shapes):
    def call(raw, **t):
        import tensorflow as tf
        refs = {n: raw.Assign(ref=raw.VariableV2(shape=shapes[n], dtype=t[n].dtype, shared_name=f"{key}_{n}"), value=t[n]) for n in names}
        out = getattr(raw, op)(**{**t, **refs}, **attrs)
        with tf.control_dependencies([out]):
            return [tf.identity(out)] + [tf.identity(refs[n]) for n in names[1:]]
    return program(call)


def step(name, sparse, reference):
    op = ("" if reference else "Resource") + ("Sparse" if sparse else "") + "Apply" + name

    def draw(s):
        inputs, attrs = inputs_of(s, name, sparse), attributes(s, name)
        names, key = ["var"] + STEPS[name][0].split(), f"{op}{s.int(0, 1 << 60)}"
        rough = {"rtol": 0.15, "atol": 0.15} if name.startswith("Ftrl") and inputs["var"].dtype.itemsize == 2 else {}   # (sqrt(a) - sqrt(b)) / lr: TensorFlow rounds each step
        if reference:
            return inputs, reference_step(op, names, attrs, key, {n: inputs[n].shape for n in names}), rough
        return inputs, resource_step(op, names, attrs, key), rough
    return op, draw


DRAWS = dict([step(n, False, False) for n in STEPS] + [step(n, True, False) for n in SPARSE] +
             [step(n, False, True) for n in STEPS if n not in ("KerasMomentum", "AdamWithAmsgrad")] + [step(n, True, True) for n in SPARSE if n != "KerasMomentum"])
