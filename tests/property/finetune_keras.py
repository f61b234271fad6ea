"""What a job must compute, by TensorFlow and Keras 3: the reference of finetune_draws.py.

The saved model is loaded, its signature called under a GradientTape; losses, metrics, schedules and each optimizer's update are Keras' own
objects, applied to keras.Variables whose values are then given to the loaded ones. What the suite's FORMAT.md says otherwise than Keras, or
what Keras has no word for, is done here: the mean of accumulated gradients, clipping over all optimizers, penalties of patterns, averages,
early stopping, class weights by position.

    job = Job(folder, model)       folder/{model/1, job.json, ..}; model as finetune_models.py says
    job.variables                  [{"key", "name", "read", "trainable", "floating"}]
    job.run(rows, valid, shake)    what was computed, in a dict; shake: a seed to disturb values and gradients by, as the rounding of another
                                   implementation might (1e-6 and 5e-7 of the largest)
"""
import base64
import fnmatch
import os

import numpy as np

SUFFIX = "/.ATTRIBUTES/VARIABLE_VALUE"


def matches(pattern, v):
    return any(fnmatch.fnmatchcase(n, pattern) for n in (v["key"].removesuffix(SUFFIX), v["name"]))


def losses_of(t):
    return t["loss"] if isinstance(t["loss"], list) else [t["loss"]]


def at_path(row, path):
    a, _, b = path.partition(".")
    return row[a][b] if b else row[a]


def decoded(v):
    if isinstance(v, list):
        return [decoded(x) for x in v]
    return base64.b64decode(v["b64"]) if isinstance(v, dict) else v


class Job:
    def __init__(self, folder, model):
        import tensorflow as tf
        self.tf, self.model, self.path = tf, model, model.get("twin") or os.path.join(folder, "model", "1")
        self.checkpoint = tf.train.load_checkpoint(os.path.join(self.path, "variables", "variables"))
        self.loaded = tf.saved_model.load(self.path)
        self.call = self.loaded.signatures[self.model["signature"]]
        self.first = [(v, v.numpy()) for v in self.all_variables()]
        self.entries = self.named()
        self.variables = [{k: e[k] for k in ("key", "name", "read", "trainable", "floating")} for e in self.entries]

    def all_variables(self):
        """Every variable that the loaded model holds."""
        found = {id(v): v for v in list(getattr(self.loaded, "variables", [])) + list(self.call.variables)}
        stack, seen = [self.loaded], set()
        while stack:
            o = stack.pop()
            if id(o) in seen:
                continue
            seen.add(id(o))
            if isinstance(o, self.tf.Variable):
                found[id(o)] = o
            elif hasattr(o, "_trackable_children"):
                stack.extend(o._trackable_children().values())
        return list(found.values())

    def named(self):
        """The variables with their keys, told by their bytes (finetune_models.py gives no two the same)."""
        shapes = self.checkpoint.get_variable_to_shape_map()
        saved = {k: np.asarray(self.checkpoint.get_tensor(k)) for k in shapes if k != "_CHECKPOINTABLE_OBJECT_GRAPH"}
        out, read = [], {id(v) for v in self.call.variables}
        for v in self.all_variables():
            if not v.dtype.is_floating:
                continue
            value = v.numpy()
            keys = sorted(k for k, s in saved.items() if s.dtype == value.dtype and s.shape == value.shape and s.tobytes() == value.tobytes())
            assert keys, f"{v.name}: no key holds its value"
            main = next((k for k in keys if not k.startswith("_")), keys[0])
            out.append({"key": main, "keys": keys, "name": v.name.split(":")[0], "read": id(v) in read, "trainable": bool(v.trainable), "floating": True,
                        "var": v})
        return sorted(out, key=lambda e: e["key"])

    def run(self, spec, rows, valid, shake=None):
        for v, value in self.first:   # loading it again would mean to trace it again
            v.assign(value)
        return Run(self, spec, shake).run(rows, valid)


class Inputs:
    """Rows as a signature's tensors."""

    def __init__(self, call):
        self.call = call

    def tensors(self, rows):
        import tensorflow as tf
        value = lambda r, n: r["inputs"][n] if isinstance(r["inputs"], dict) and n in r["inputs"] else r["inputs"]
        made = {}
        for n, s in self.call.structured_input_signature[1].items():
            values = [decoded(value(r, n)) for r in rows]
            made[n] = tf.constant(values, s.dtype) if s.dtype == tf.string else tf.constant(np.asarray(values, s.dtype.as_numpy_dtype))
        return made


# ---------------------------------------------------------------- pieces that Keras has

def keras_loss(spec):
    import keras
    k = keras.losses
    rows = {"mse": k.MeanSquaredError, "mae": k.MeanAbsoluteError, "mape": k.MeanAbsolutePercentageError, "msle": k.MeanSquaredLogarithmicError,
            "huber": k.Huber, "log_cosh": k.LogCosh, "poisson": k.Poisson, "kl_divergence": k.KLDivergence, "cosine_similarity": k.CosineSimilarity,
            "hinge": k.Hinge, "squared_hinge": k.SquaredHinge, "categorical_hinge": k.CategoricalHinge, "binary_crossentropy": k.BinaryCrossentropy,
            "categorical_crossentropy": k.CategoricalCrossentropy, "sparse_categorical_crossentropy": k.SparseCategoricalCrossentropy}
    fields = {n: v for n, v in spec.items() if n not in ("name", "output", "target", "weight", "class_weight")}
    return rows[spec["name"]](**fields)


def keras_metric(m, columns, classes):
    import keras
    k = keras.metrics
    name = m["name"]
    if name == "accuracy":
        name = "binary_accuracy" if columns == 1 else "sparse_categorical_accuracy" if classes else "categorical_accuracy"
    if name == "top_k_accuracy":
        return (k.SparseTopKCategoricalAccuracy if classes else k.TopKCategoricalAccuracy)(k=m.get("k", 5))
    rows = {"binary_accuracy": k.BinaryAccuracy, "categorical_accuracy": k.CategoricalAccuracy, "sparse_categorical_accuracy": k.SparseCategoricalAccuracy,
            "auc": k.AUC, "precision": k.Precision, "recall": k.Recall, "mse": k.MeanSquaredError, "mae": k.MeanAbsoluteError,
            "mape": k.MeanAbsolutePercentageError, "msle": k.MeanSquaredLogarithmicError, "rmse": k.RootMeanSquaredError, "poisson": k.Poisson,
            "kl_divergence": k.KLDivergence, "cosine_similarity": k.CosineSimilarity}
    return rows[name](**({"threshold": m["threshold"]} if "threshold" in m else {}))


def keras_schedule(rate, spec, factor):
    import keras
    k = keras.optimizers.schedules
    fields = {n: v for n, v in spec.items() if n != "name"}
    if spec["name"] == "piecewise":
        base = k.PiecewiseConstantDecay(**fields)
    else:
        base = {"exponential": k.ExponentialDecay, "inverse_time": k.InverseTimeDecay, "polynomial": k.PolynomialDecay, "cosine": k.CosineDecay,
                "cosine_restarts": k.CosineDecayRestarts}[spec["name"]](rate, **fields)

    class Times(k.LearningRateSchedule):
        def __call__(self, step):
            return factor * base(step)
    return Times()


def keras_constraint(spec):
    import keras
    k = keras.constraints
    fields = {n: v for n, v in spec.items() if n not in ("name", "pattern")}
    return {"max_norm": k.MaxNorm, "non_neg": k.NonNeg, "unit_norm": k.UnitNorm, "min_max_norm": k.MinMaxNorm}[spec["name"]](**fields)


def keras_optimizer(spec, hyper):
    import keras
    k = keras.optimizers
    cls = {"sgd": k.SGD, "rmsprop": k.RMSprop, "adam": k.Adam, "adamw": k.AdamW, "nadam": k.Nadam, "adamax": k.Adamax, "adagrad": k.Adagrad,
           "adadelta": k.Adadelta, "ftrl": k.Ftrl, "lion": k.Lion}[spec["name"]]
    fields = {n: v for n, v in spec.items() if n not in ("name", "pattern", "clip", "schedule", "learning_rate", "exclude_from_weight_decay")}
    if spec["name"] == "ftrl":
        for short in ("l1", "l2", "l2_shrinkage"):
            if short in fields:
                fields[f"{short}_regularization_strength"] = fields.pop(short)
    rate, factor = spec.get("learning_rate", hyper.get("learning_rate")), hyper.get("learning_rate_multiplier", 1)
    rate = cls().learning_rate.numpy().item() if rate is None else rate
    return cls(learning_rate=keras_schedule(rate, spec["schedule"], factor) if "schedule" in spec else rate * factor, **fields)


# ---------------------------------------------------------------- one run

class Group:
    """An optimizer and the variables that it took."""

    def __init__(self, spec, entries, hyper, constraints):
        import keras
        self.entries, self.clip = entries, spec.get("clip")
        self.optimizer = keras_optimizer(spec, hyper)
        # half is for keeping, not for computing: Keras would keep slots in half, where 1e-7 is nothing
        wide = lambda v: "float64" if v.dtype.name == "float64" else "float32"
        self.mirror = [keras.Variable(e["var"].numpy(), dtype=wide(e["var"]), name=f"v{i}") for i, e in enumerate(entries)]
        for e, m in zip(entries, self.mirror):
            c = next((c for c in constraints if matches(c["pattern"], e)), None)
            if c:
                m.constraint = keras_constraint(c)
        spared = [m for e, m in zip(entries, self.mirror) if any(matches(p, e) for p in spec.get("exclude_from_weight_decay", []))]
        if spared:
            self.optimizer.exclude_from_weight_decay(var_list=spared)
        self.optimizer.build(self.mirror)

    def rate(self):
        return float(self.optimizer.learning_rate)

    def apply(self, grads):
        for e, m in zip(self.entries, self.mirror):
            m.assign(e["var"].numpy())
        self.optimizer.apply(grads, self.mirror)
        for e, m in zip(self.entries, self.mirror):
            e["var"].assign(m.numpy().astype(e["var"].dtype.as_numpy_dtype))


class Run:
    def __init__(self, job, spec, shake):
        self.tf, self.model, self.call, self.inputs = job.tf, job.model, job.call, Inputs(job.call)
        self.t, self.hyper = spec["tensord"], spec["method"]["supervised"]["hyperparameters"]
        self.specs = [{"output": next(iter(job.call.structured_outputs)), "target": "targets", **s} for s in losses_of(self.t)]
        self.losses = [keras_loss(s) for s in self.specs]
        self.rng = None if shake is None else np.random.default_rng(shake)
        self.entries = job.entries
        if self.rng is not None:
            for e in self.entries:
                v = e["var"].numpy()
                e["var"].assign((v.astype(np.float64) * (1 + 1e-6 * self.rng.standard_normal(v.shape))).astype(v.dtype))
        self.selected = [e for e in self.entries if e["trainable"] and e["read"] and any(matches(p, e) for p in self.t.get("trainable", ["*"]))
                         and not any(matches(p, e) for p in self.t.get("frozen", []))]
        self.updates, self.sums, self.n_sums, self.averages = 0, None, 0, None

    # ------------------------------------------------------------ rows to tensors

    def targets(self, rows, path):
        y = self.tf.constant(np.asarray([at_path(r, path) for r in rows], np.float32))
        return y[:, None] if len(y.shape) == 1 else y

    def fit(self, y, p, loss):
        """Target and output as Keras compares them: a last dimension of 1 may be missing on either side."""
        p = self.tf.cast(p[:, None] if len(p.shape) == 1 else p, self.tf.float32)
        if loss["name"] != "sparse_categorical_crossentropy":
            if len(y.shape) == len(p.shape) - 1 and p.shape[-1] == 1:
                y = y[..., None]
            elif len(p.shape) == len(y.shape) - 1 and y.shape[-1] == 1:
                p = p[..., None]
        return y, p

    def weights(self, rows, spec, y, p, training):
        """None, or weights of the shape of a loss' values: all axes of the output but the last."""
        some, shape = False, [int(d) for d in p.shape[:-1]]
        w = np.ones(shape, np.float32)
        if any("sample_weight" in r for r in rows):
            some = True
            for i, r in enumerate(rows):
                v = r.get("sample_weight", 1)
                w[i] *= np.asarray(v.get(spec["output"], 1) if isinstance(v, dict) else v, np.float32)
        if training and spec.get("class_weight"):
            some, y = True, y.numpy()
            if spec["name"] != "sparse_categorical_crossentropy" and y.shape[-1] > 1:
                y = y.argmax(-1)
            y = y.reshape(shape)
            w *= np.vectorize(lambda c: spec["class_weight"].get(str(int(c)), 1.0))(y).astype(np.float32)
        return self.tf.constant(w) if some else None

    # ------------------------------------------------------------ a batch

    def forward(self, rows, training):
        """Outputs, total loss, each loss."""
        outs, parts = self.call(**self.inputs.tensors(rows)), []
        for spec, loss in zip(self.specs, self.losses):
            y, p = self.fit(self.targets(rows, spec["target"]), outs[spec["output"]], spec)
            parts.append(loss(y, p, sample_weight=self.weights(rows, spec, y, p, training)))
        total = self.tf.add_n([s.get("weight", 1.0) * x for s, x in zip(self.specs, parts)])
        for r in self.t.get("regularizers", []):
            for e in self.trained:
                if matches(r["pattern"], e):
                    w = self.tf.cast(e["var"], self.tf.float32)
                    total += r.get("l1", 0) * self.tf.reduce_sum(abs(w)) + r.get("l2", 0) * self.tf.reduce_sum(w * w)
        return outs, total, parts

    def watch(self, rows, outs, meters, training):
        asked = [("", m) for m in self.t.get("metrics", [])] + [("weighted_", m) for m in self.t.get("weighted_metrics", [])]
        for prefix, m in asked:
            m = {"name": m} if isinstance(m, str) else m
            output = m.get("output", self.specs[0]["output"])
            spec = next((s for s in self.specs if s["output"] == output), self.specs[0])
            label = prefix + (output + "_" if len(self.specs) > 1 else "") + m["name"]
            y, p = self.fit(self.targets(rows, m.get("target", spec["target"])), outs[output], spec)
            if label not in meters:
                meters[label] = keras_metric(m, int(p.shape[-1]), spec["name"] == "sparse_categorical_crossentropy")
            meters[label].update_state(y, p, sample_weight=self.weights(rows, spec, y, p, training) if prefix else None)

    def gradients(self, rows):
        with self.tf.GradientTape() as tape:
            outs, total, parts = self.forward(rows, True)
        grads = tape.gradient(total, [e["var"] for e in self.trained])
        grads = [None if g is None else self.tf.convert_to_tensor(g).numpy() for g in grads]
        grads = [g if g is None or g.dtype == np.float64 else g.astype(np.float32) for g in grads]
        if self.rng is not None:
            grads = [g if g is None else np.where(g == 0, g, g + 5e-7 * np.abs(g).max() * self.rng.standard_normal(g.shape)).astype(g.dtype) for g in grads]
        return outs, total, parts, grads

    def apart(self, name):
        """Whether the variable is of an output's head that no loss is on. (The tape gives zeros for those, through the call of the signature.)"""
        used = [s["output"] for s in self.specs]
        return any(name.startswith((f"head_{o}/", f"{o}/")) for o in self.model["outputs"] if o not in used)

    def prepare(self, rows):
        """What a gradient leads to, and who updates it."""
        self.trained = [e for e in self.selected if not self.apart(e["name"])]
        grads = self.gradients(rows)[3]
        self.trained = [e for e, g in zip(self.trained, grads) if g is not None]
        plain = self.t.get("optimizer") or (None if self.t.get("optimizers") else {"name": "adam"})
        specs = [(o["pattern"], o) for o in self.t.get("optimizers", [])] + ([("*", plain)] if plain else [])
        took = [[] for _ in specs]
        for e in self.trained:
            took[next(i for i, (p, _) in enumerate(specs) if matches(p, e))].append(e)
        self.groups = [Group(o, es, self.hyper, self.t.get("constraints", [])) for (_, o), es in zip(specs, took) if es]

    def clipped(self, by_key):
        """All gradients, by key: an optimizer's own clip is for its variables, the job's for all others; the job's norm is over all."""
        norm = lambda keys: float(np.sqrt(sum(np.sum(np.square(by_key[k].astype(np.float64))) for k in keys)))
        shared, clipped = [e["key"] for g in self.groups if not g.clip for e in g.entries], dict(by_key)
        for clip, keys, all_of in [(g.clip, [e["key"] for e in g.entries], [e["key"] for e in g.entries]) for g in self.groups if g.clip] + \
                [(self.t.get("clip"), shared, list(by_key))]:
            if not clip or not keys:
                continue
            whole = norm(all_of)
            for k in keys:
                g = by_key[k]
                if "value" in clip:
                    g = np.clip(g, -clip["value"], clip["value"])
                elif "norm" in clip:
                    g = g * (clip["norm"] / max(norm([k]), clip["norm"]))
                else:
                    g = g * min(1.0, clip["global_norm"] / whole) if whole else g
                clipped[k] = g.astype(by_key[k].dtype)
        return clipped

    def update(self, grads):
        k = self.t.get("gradient_accumulation_steps", 1)
        self.sums = grads if self.n_sums == 0 else [a + b for a, b in zip(self.sums, grads)]
        self.n_sums += 1
        if self.n_sums < k:
            return
        by_key = self.clipped({e["key"]: (s / np.asarray(k, s.dtype)) for e, s in zip(self.trained, self.sums)})
        for g in self.groups:
            g.apply([self.tf.constant(by_key[e["key"]]) for e in g.entries])
        self.updates, self.n_sums = self.updates + 1, 0
        ema = self.t.get("ema")
        if ema:
            now, m = [e["var"].numpy() for e in self.trained], np.float32(ema.get("momentum", .99))
            self.averages = now if self.averages is None else [(m * a + (1 - m) * w).astype(w.dtype) for a, w in zip(self.averages, now)]
            if ema.get("overwrite_frequency") and self.updates % ema["overwrite_frequency"] == 0:
                self.give(self.averages)

    def give(self, values):
        for e, v in zip(self.trained, values):
            e["var"].assign(v)

    # ------------------------------------------------------------ epochs

    def epoch(self, rows, training, result):
        size, meters, n, total = self.hyper.get("batch_size", 32), {}, 0, np.zeros(1 + len(self.specs))
        for at in range(0, len(rows), size):
            batch = rows[at:at + size]
            if training:
                outs, loss, parts, grads = self.gradients(batch)
                result["losses"].append(float(loss))
                result["rates"].append([g.rate() for g in self.groups])
            else:
                outs, loss, parts = self.forward(batch, False)
            self.watch(batch, outs, meters, training)
            if training:
                self.update(grads)
            n += len(batch)
            total += len(batch) * np.array([float(loss)] + [float(p) for p in parts])
        log = {"loss": total[0] / n}
        if len(self.specs) > 1:
            log.update({s["output"] + "_loss": x / n for s, x in zip(self.specs, total[1:])})
        return {**log, **{k: float(m.result()) for k, m in meters.items()}}

    def run(self, rows, valid):
        result = {"losses": [], "rates": [], "epochs": [], "best": None}
        self.prepare(rows[:self.hyper.get("batch_size", 32)])
        before = {e["key"]: e["var"].numpy() for e in self.entries}
        stop, wait, best, kept = self.t.get("early_stopping"), 0, None, None
        for epoch in range(1, self.hyper.get("n_epochs", 3) + 1):
            log = {"train": self.epoch(rows, True, result)}
            if valid:
                log["validation"] = self.epoch(valid, False, result)
            result["epochs"].append(log)
            if stop:
                name = stop.get("monitor", "val_loss")
                value = log["validation"][name[4:]] if name.startswith("val_") else log["train"][name]
                value = -value if stop.get("mode", "min") == "max" else value
                wait += 1
                if best is None or value < best - abs(stop.get("min_delta", 0)):
                    best, wait, kept, result["best"] = value, 0, [e["var"].numpy() for e in self.trained], epoch
                elif wait >= stop.get("patience", 0) and epoch > 1:
                    break
        if stop and stop.get("restore_best", True):
            self.give(kept)
        if self.averages is not None:
            self.give(self.averages)
        probe = self.inputs.tensors(rows[:self.hyper.get("batch_size", 32)])
        result["predictions"] = {k: v.numpy() for k, v in self.call(**probe).items()}
        result["trained"] = {e["key"]: (before[e["key"]], e["var"].numpy()) for e in self.trained}
        result["keys"] = {k: e["key"] for e in self.trained for k in e["keys"]}
        return result
