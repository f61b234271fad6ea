"""Random jobs for finetune_draws.py: the `tensord` object of a job for a given model (finetune_models.py), and rows for it.

draw(rng, model, variables) returns (job, train rows, validation rows or None). variables: [{"key", "name", "read", "trainable", "floating"}].
A row is what a line of JSON holds. What FORMAT.md leaves open is not drawn: a shuffled order (it is not specified), an average together with
restored best weights (which of the two is the result) or with constraints (which comes first), and kinks under the very first value (the reference's second run finds those).
"""
import base64

import numpy as np

import finetune_models
from finetune_keras import matches

LOSSES = {
    "real": ["mse", "mae", "huber", "log_cosh", "cosine_similarity", "hinge", "squared_hinge", "categorical_hinge", "mape"],
    "positive": ["msle", "poisson", "mse", "mape"],
    "logits": ["binary_crossentropy", "categorical_crossentropy", "sparse_categorical_crossentropy"],
    "probs": ["categorical_crossentropy", "sparse_categorical_crossentropy", "kl_divergence"],
    "sigmoid": ["binary_crossentropy", "mse", "squared_hinge"],
}
WIDE = {"cosine_similarity", "categorical_hinge", "categorical_crossentropy", "sparse_categorical_crossentropy", "kl_divergence"}
SIGNS = {"hinge", "squared_hinge"}
CLASSES = "sparse_categorical_crossentropy"
ONE_HOT = {"categorical_crossentropy", "categorical_hinge"}


class Draw:
    """The dice."""

    def __init__(self, rng):
        self.rng = rng

    def chance(self, p):
        return bool(self.rng.random() < p)

    def pick(self, *a):
        return a[int(self.rng.integers(len(a)))]

    def whole(self, low, high):
        return int(self.rng.integers(low, high))

    def real(self, low, high):
        return round(float(self.rng.uniform(low, high)), 4)

    def power(self, low, high):
        return float(f"{10 ** self.rng.uniform(low, high):.3g}")


# ---------------------------------------------------------------- losses

def draw_loss(d, name, head, many):
    size = head["shape"][-1] if head["shape"] else 1
    loss = {"name": d.pick(*[n for n in LOSSES[head["gives"]] if size > 1 or n not in WIDE])}
    kind = loss["name"]
    if many or d.chance(.3):
        loss["output"] = name
    if many or d.chance(.3):
        loss["target"] = f"targets.{d.pick('', 'my.', 't_')}{name}"
    if many or d.chance(.2):
        loss["weight"] = d.real(.2, 2)
    if d.chance(.3):
        loss["reduction"] = d.pick("sum_over_batch_size", "mean_with_sample_weight", "sum")
    if "crossentropy" in kind:
        if head["gives"] == "logits" or d.chance(.2):
            loss["from_logits"] = head["gives"] == "logits"
        if kind != CLASSES and d.chance(.3):
            loss["label_smoothing"] = d.real(.02, .3)
        if kind == CLASSES and d.chance(.3):
            loss["ignore_class"] = d.pick(-1, 0, 255)
    if kind == "huber" and d.chance(.7):
        loss["delta"] = d.real(.3, 2)
    n_classes = size if kind in ONE_HOT | {CLASSES} else 2
    if (kind in {CLASSES, "categorical_crossentropy"} or (kind == "binary_crossentropy" and size == 1)) and d.chance(.3):
        loss["class_weight"] = {str(k): d.real(.2, 3) for k in range(n_classes) if d.chance(.7)}
        if not loss["class_weight"]:
            del loss["class_weight"]
    return loss


def target(d, loss, shape):
    """A row's target for an output of this shape."""
    kind, rng = loss["name"], d.rng
    n = shape[-1] if shape else 1
    if kind == CLASSES:
        labels = rng.integers(0, n, shape[:-1]).astype(int)
        if "ignore_class" in loss:
            labels = np.where(rng.random(labels.shape) < .2, loss["ignore_class"], labels)
        return labels.tolist()
    if kind in ONE_HOT:
        return np.eye(n, dtype=int)[rng.integers(0, n, shape[:-1])].tolist()
    if kind == "kl_divergence":
        e = np.exp(rng.standard_normal(shape))
        return np.round(e / e.sum(-1, keepdims=True), 4).tolist()
    if kind == "binary_crossentropy":
        made = rng.integers(0, 2, shape) if "class_weight" in loss or loss.get("whole") else np.round(rng.random(shape), 3)
    elif kind in SIGNS:
        made = rng.integers(0, 2, shape) if loss.get("whole") else rng.choice([-1, 1], shape)
    elif kind == "poisson":
        made = rng.poisson(2, shape)
    elif kind == "mape":
        made = np.round(rng.choice([-1, 1], shape) * rng.uniform(.5, 2, shape), 3)
    elif kind == "msle":
        made = np.round(rng.uniform(0, 3, shape), 3)
    else:
        made = np.round(rng.standard_normal(shape) * .8, 4)
    made = np.asarray(made)
    if n == 1 and made.ndim and loss.get("bare"):
        made = made[..., 0]
    return made.tolist()


def put(row, path, value):
    head, _, rest = path.partition(".")
    if rest:
        row.setdefault(head, {})[rest] = value
    else:
        row[head] = value


# ---------------------------------------------------------------- rows

def draw_inputs(d, features, time, bare):
    out = {}
    for name, f in features.items():
        shape = [time if s == "time" else s for s in f["shape"]]
        if f.get("words"):
            out[name] = [d.pick(w, {"b64": base64.b64encode(w.encode()).decode()}) if d.chance(.2) else w
                         for w in d.rng.choice(finetune_models.WORDS, shape).tolist()]
        elif "below" in f:
            out[name] = d.rng.integers(0, f["below"], shape).tolist()
        else:
            out[name] = np.round(d.rng.standard_normal(shape), 4).tolist()
    return next(iter(out.values())) if bare else out


def draw_rows(d, model, losses, n, batch, weighted, extra):
    bare = len(model["inputs"]) == 1 and d.chance(.5)
    rows = []
    for at in range(n):
        if at % batch == 0:
            time = d.whole(2, 5)
        row = {"inputs": draw_inputs(d, model["inputs"], time, bare)}
        for loss in losses:
            h = model["outputs"][loss["at"]]
            put(row, loss.get("target", "targets"), target(d, loss, [time if s == "time" else s for s in h["shape"]]))
        if weighted and d.chance(.8):
            row["sample_weight"] = draw_weight(d, model, losses, weighted, time)
        if extra and d.chance(.3):
            row["comment"] = {"nested": [1, None, True]}
        rows.append(row)
    return rows


def draw_weight(d, model, losses, how, time):
    def one(loss):
        shape = [time if s == "time" else s for s in model["outputs"][loss["at"]]["shape"]]
        if how == "positions" and len(shape) == 2:
            return [d.real(.1, 2) for _ in range(shape[0])]
        return d.real(0.1, 3)
    if how in ("outputs", "positions"):
        return {loss["at"]: one(loss) for loss in losses if how == "positions" or d.chance(.8)}
    return d.pick(d.real(.1, 3), d.whole(1, 4))


# ---------------------------------------------------------------- optimizers

def draw_schedule(d, name, rate):
    if name == "piecewise":
        n = d.whole(1, 4)
        return {"name": name, "boundaries": sorted(d.rng.choice(np.arange(1, 20), n, replace=False).tolist()),
                "values": [float(f"{rate * d.real(.2, 1.5):.4g}") for _ in range(n + 1)]}
    if name in ("exponential", "inverse_time"):
        made = {"name": name, "decay_steps": d.pick(3, 5, 7.5), "decay_rate": d.real(.3, .95)}
        return {**made, "staircase": True} if d.chance(.4) else made
    if name == "polynomial":
        made = {"name": name, "decay_steps": d.whole(4, 20), "end_learning_rate": float(f"{rate * .1:.3g}")}
        return {**made, "power": d.pick(.5, 2.0, 1)} if d.chance(.6) else made
    if name == "cosine":
        made = {"name": name, "decay_steps": d.whole(5, 25)}
        if d.chance(.4):
            made.update(warmup_target=float(f"{rate * 1.5:.4g}"), warmup_steps=d.whole(2, 6))
    else:
        made = {"name": name, "first_decay_steps": d.whole(3, 9)}
        if d.chance(.5):
            made["t_mul"] = d.pick(1.0, 1.5, 2.0)
        if d.chance(.5):
            made["m_mul"] = d.pick(.5, .9)
    if d.chance(.5):
        made["alpha"] = d.real(.05, .4)
    return made


def draw_clip(d):
    return d.pick({"norm": d.power(-1.5, .5)}, {"global_norm": d.power(-1.5, .5)}, {"value": d.power(-2, -.3)})


def draw_optimizer(d, rate_elsewhere):
    name = d.pick("sgd", "sgd", "rmsprop", "adam", "adam", "adamw", "nadam", "adamax", "adagrad", "adadelta", "ftrl", "lion")
    o = {"name": name}
    rate = {"sgd": d.power(-2.5, -1), "adadelta": d.power(-1, .3), "adagrad": d.power(-2, -.7), "ftrl": d.power(-2, -.7)}.get(name, d.power(-3, -1.5))
    if not rate_elsewhere or d.chance(.5):
        o["learning_rate"] = rate
    fields = {"sgd": {"momentum": d.real(.3, .95), "nesterov": d.chance(.5)},
              "rmsprop": {"rho": d.real(.7, .95), "momentum": d.real(.2, .9), "centered": d.chance(.5)},
              "adam": {"beta_1": d.real(.5, .95), "beta_2": d.real(.8, .999), "amsgrad": d.chance(.5)},
              "adamw": {"weight_decay": d.power(-2.5, -.5), "beta_2": d.real(.8, .999)},
              "nadam": {"beta_1": d.real(.5, .95), "beta_2": d.real(.8, .999)},
              "adamax": {"beta_1": d.real(.5, .95), "beta_2": d.real(.8, .999)},
              "adagrad": {"initial_accumulator_value": d.real(.01, .5)},
              "adadelta": {"rho": d.real(.7, .98)},
              "ftrl": {"l1": d.power(-4, -2), "l2": d.power(-4, -1), "l2_shrinkage": d.power(-4, -1), "beta": d.real(0, .3), "learning_rate_power": d.pick(-.5, -.4),
                       "initial_accumulator_value": d.real(.05, .3)},
              "lion": {"beta_1": d.real(.5, .95), "beta_2": d.real(.8, .99)}}[name]
    o.update({k: v for k, v in fields.items() if d.chance(.5)})
    if "epsilon" not in o and name in ("rmsprop", "adam", "adamw", "nadam", "adamax", "adagrad", "adadelta") and d.chance(.8):
        o["epsilon"] = d.power(-5, -2)
    if name != "adamw" and d.chance(.2):
        o["weight_decay"] = d.power(-2.5, -.5)
    if d.chance(.35):
        o["schedule"] = draw_schedule(d, d.pick("exponential", "inverse_time", "polynomial", "piecewise", "cosine", "cosine_restarts"), o.get("learning_rate", .01))
    if d.chance(.15):
        o["clip"] = draw_clip(d)
    return o


def draw_constraint(d):
    made = {"name": d.pick("max_norm", "non_neg", "unit_norm", "min_max_norm")}
    if made["name"] != "non_neg" and d.chance(.3):
        made["axis"] = d.pick(0, [0])
    if "max" in made["name"] and d.chance(.7):
        made["max_value"] = d.real(.4, 1.5)
    if made["name"] == "min_max_norm":
        made.update({k: v for k, v in {"min_value": d.real(.05, .3), "rate": d.real(.3, 1)}.items() if d.chance(.6)})
    return made


def draw_pattern(d, some):
    """A pattern that matches at least one of these variables."""
    v = some[d.whole(0, len(some))]
    name, key = v["name"], v["key"].removesuffix("/.ATTRIBUTES/VARIABLE_VALUE")
    ways = [name, key, name[:max(1, len(name) // 2)] + "*", "*" + name[-3:], "?" + name[1:]]
    if name[0].isalpha():
        ways.append(f"[{name[0]}z]{name[1:]}")
    return d.pick(*[w for w in ways if not w.startswith("_")])


def draw_selection(d, t, variables):
    """trainable, frozen, optimizers by pattern, decay left out, penalties; returns what is trained, as far as patterns say."""
    usual = lambda: [v for v in variables if v["read"] and v["trainable"] and v["floating"]]
    chosen = usual()
    if d.chance(.25):
        t["trainable"] = [draw_pattern(d, chosen) for _ in range(d.whole(1, 4))]
        chosen = [v for v in chosen if any(matches(p, v) for p in t["trainable"])]
    if d.chance(.25) and len(chosen) > 1:
        t["frozen"] = [draw_pattern(d, chosen)]
        chosen = [v for v in chosen if not any(matches(p, v) for p in t["frozen"])]
    if not chosen:
        t.pop("frozen", None)
        t.pop("trainable", None)
        chosen = usual()
    return chosen


# ---------------------------------------------------------------- metrics

def draw_metrics(d, losses, model, weighted):
    usual = {"real": ["mse", "mae", "rmse", "cosine_similarity", "mape"], "positive": ["msle", "mse", "poisson", "mape"], "sigmoid": ["mse"], "probs": [], "logits": []}
    made, many = [], len(losses) > 1
    for loss in losses:
        h, kind = model["outputs"][loss["at"]], loss["name"]
        size, flat = h["shape"][-1] if h["shape"] else 1, len(h["shape"]) <= 1
        names = list(usual[h["gives"]])
        if kind == CLASSES and "ignore_class" not in loss:
            names = ["accuracy", "sparse_categorical_accuracy"] + (["top_k_accuracy"] if flat and size > 2 else [])
        elif kind == CLASSES:
            names = []
        elif kind == "categorical_crossentropy":
            names = ["accuracy", "categorical_accuracy", "top_k_accuracy"] if size > 2 else ["accuracy"]
        elif kind == "kl_divergence":
            names = ["kl_divergence", "mae"]
        elif kind == "binary_crossentropy":
            names = (["accuracy"] if size == 1 else []) + ["binary_accuracy"] + (["auc", "precision", "recall"] if flat and size == 1 and h["gives"] == "sigmoid" else [])
            names = names if loss.get("whole") or "class_weight" in loss else ["mse"]
        if kind in SIGNS:
            names = [n for n in names if n != "mape"]
        if size == 1:
            names = [n for n in names if n != "cosine_similarity"]
        for name in {d.pick(*names) for _ in range(d.whole(0, 4))} if names else ():
            m = {"name": name}
            if many or "output" in loss and d.chance(.3):
                m["output"] = loss["at"]
            if name == "top_k_accuracy":
                m["k"] = d.whole(1, size)
            if name == "binary_accuracy" and d.chance(.5):
                m["threshold"] = d.real(.3, .7)
            made.append(name if list(m) == ["name"] and d.chance(.6) else m)
    made.sort(key=str)
    ours = [m for m in made if d.chance(.7)]
    return ours, [m for m in made if m not in ours or d.chance(.3)] if weighted or d.chance(.2) else []


# ---------------------------------------------------------------- the job

def draw(rng, model, variables):
    d = Draw(rng)
    names = list(model["outputs"])
    if len(names) > 1 and d.chance(.2):
        names = [d.pick(*names)]
    losses = [dict(draw_loss(d, n, model["outputs"][n], len(model["outputs"]) > 1), at=n) for n in names]
    for loss in losses:
        loss.update(whole=d.chance(.6), bare=d.chance(.5))
        if loss["name"] == CLASSES and len(model["outputs"][loss["at"]]["shape"]) == 1 and d.chance(.2):
            loss["listed"] = True
    t, hyper = {}, {"n_epochs": d.whole(1, 5), "batch_size": d.whole(3, 10)}
    if model["signature"] != "serving_default":
        t["signature"] = model["signature"]
    spec = [{k: v for k, v in loss.items() if k not in ("at", "whole", "bare", "listed")} for loss in losses]
    t["loss"] = spec[0] if len(spec) == 1 and d.chance(.8) else spec
    t["shuffle"] = False
    chosen = draw_selection(d, t, variables)
    if d.chance(.5):
        hyper["learning_rate"] = d.power(-3, -1.5)
    if d.chance(.2):
        hyper["learning_rate_multiplier"] = d.pick(.5, 2, 1.5)
    if d.chance(.9):
        t["optimizer"] = draw_optimizer(d, "learning_rate" in hyper)
    if d.chance(.3):
        t["optimizers"] = [{**draw_optimizer(d, "learning_rate" in hyper), "pattern": draw_pattern(d, chosen)} for _ in range(d.whole(1, 3))]
        if "optimizer" not in t:
            t["optimizers"].append({**draw_optimizer(d, False), "pattern": "*"})
    for o in t.get("optimizers", []) + ([t["optimizer"]] if "optimizer" in t else []):
        if ("weight_decay" in o or o["name"] == "adamw") and d.chance(.4):
            o["exclude_from_weight_decay"] = [draw_pattern(d, chosen)]
    if d.chance(.25):
        t["regularizers"] = [{"pattern": draw_pattern(d, chosen), **d.pick({"l1": d.power(-4, -2)}, {"l2": d.power(-4, -1.5)}, {"l1": d.power(-4, -2), "l2": d.power(-4, -2)})}
                             for _ in range(d.whole(1, 3))]
    if d.chance(.25):
        t["clip"] = draw_clip(d)
    if d.chance(.25):
        t["gradient_accumulation_steps"] = d.whole(2, 5)
    if d.chance(.12):
        t["constraints"] = [{"pattern": draw_pattern(d, chosen), **draw_constraint(d)}]
        # FTRL makes a variable anew from sums of order 1, where a norm of 1 asks the impossible: the little that is left of it, with their
        # rounding, is made large again (seed 2111, draw 33: a column of norm 7e-5)
        if t["constraints"][0]["name"] == "unit_norm" and any(o.get("name") == "ftrl" for o in [t.get("optimizer") or {}, *t.get("optimizers", [])]):
            t["constraints"][0]["name"] = "non_neg"
            t["constraints"][0].pop("axis", None)
    weighted = d.pick("number", "outputs", "positions") if d.chance(.35) else None
    t["metrics"], t["weighted_metrics"] = draw_metrics(d, losses, model, weighted)
    for k in ("metrics", "weighted_metrics"):
        if not t[k]:
            del t[k]
    n = d.whole(1, 6) * hyper["batch_size"] + d.pick(0, d.whole(1, hyper["batch_size"]))
    train = draw_rows(d, model, losses, n, hyper["batch_size"], weighted, d.chance(.2))
    valid = draw_rows(d, model, losses, d.whole(2, 20), hyper["batch_size"], weighted, False) if d.chance(.4) else None
    for loss in losses:
        if loss.get("listed"):
            for row in train + (valid or []):
                a, _, b = loss.get("target", "targets").partition(".")
                row[a] = {**row[a], b: [row[a][b]]} if b else [row[a]]
    if d.chance(.15) and "constraints" not in t:
        t["ema"] = {"momentum": d.real(.5, .99), **({"overwrite_frequency": d.whole(2, 6)} if d.chance(.4) else {})}
    elif d.chance(.2):
        metrics = [m if isinstance(m, str) else m["name"] for m in t.get("metrics", [])] if len(losses) == 1 else []
        monitor = d.pick("loss", *([m for m in metrics if m != "top_k_accuracy"]))
        t["early_stopping"] = {"monitor": ("val_" if valid and d.chance(.7) else "") + monitor, "patience": d.whole(0, 2), "min_delta": d.pick(0, 1e-3, .02),
                               "mode": "max" if "accuracy" in monitor or monitor in ("auc", "recall", "precision", "cosine_similarity") else d.pick("min", "min", "max"),
                               "restore_best": d.chance(.6)}
        hyper["n_epochs"] += 3
    job = {"model": "m", "training_file": "train.jsonl", "method": {"type": "supervised", "supervised": {"hyperparameters": hyper}}, "tensord": t}
    if valid:
        job["validation_file"] = "validation.jsonl"
    return job, train, valid
