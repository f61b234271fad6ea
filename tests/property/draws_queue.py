"""Draws of queues: of one or more components, first in first out, padded, by priority and shuffled; never asked for more than they hold (that would wait);
no two elements of one priority (TensorFlow keeps no order among them)."""
import numpy as np

from draw_source import ANY, program
from draws_variable import key_of

MAKERS = ["FIFOQueueV2", "PaddingFIFOQueueV2", "PriorityQueueV2", "RandomShuffleQueueV2"]


def queue(maker):
    def draw(s):
        n = s.int(1, 2)
        types, shapes = [s.one(ANY) for _ in range(n)], [tuple(d or 1 for d in s.shape(0, 2)) for _ in range(n)]   # many elements of no values end TensorFlow's process
        known = maker in ("PriorityQueueV2", "PaddingFIFOQueueV2") or s.chance(0.7)
        attrs = dict(capacity=s.one([-1, 20]), shared_name=key_of(s))
        if maker != "PriorityQueueV2":
            attrs["component_types"] = types
        attrs["shapes"] = [list(x) for x in shapes] if known else []
        if maker == "PriorityQueueV2":
            attrs["component_types"] = types
        if maker == "PaddingFIFOQueueV2":
            attrs["shapes"] = [[None if s.chance(0.4) else d for d in x] for x in shapes]
        if maker == "RandomShuffleQueueV2":
            attrs.update(seed=s.int(1, 99), seed2=s.int(1, 99), min_after_dequeue=0)
        element = lambda rows=(): [s.array(t, rows + tuple(x)) for t, x in zip(types, shapes)]
        first = [np.int64(s.int(20, 29))] if maker == "PriorityQueueV2" else []
        many = s.int(0, 3) if known else 0
        inputs = {"one": first + element(), "two": [f - 40 for f in first] + element(),
                  "many": ([s.r.permutation(9)[:many].astype("int64")] if first else []) + element((many,))}
        all_types = (["int64"] if first else []) + types
        held = 2 + (many if known else 0)
        take, close, how = s.int(0, held), s.chance(0.4), s.one(["one", "many", "upto"]) if known else "one"
        over = s.chance(0.1)

        def call(raw, one, two, many):
            import tensorflow as tf
            q = getattr(raw, maker)(**attrs)
            raw.QueueEnqueueV2(handle=q, components=one)
            raw.QueueEnqueueV2(handle=q, components=two)
            if known:
                raw.QueueEnqueueManyV2(handle=q, components=many)
            out = [raw.QueueSizeV2(handle=q)]
            if close:
                raw.QueueCloseV2(handle=q, cancel_pending_enqueues=False)
            out.append(raw.QueueIsClosedV2(handle=q))
            if how == "one":
                for _ in range(min(take, 2)):
                    out += list(raw.QueueDequeueV2(handle=q, component_types=all_types))
            else:
                op = raw.QueueDequeueManyV2 if how == "many" else raw.QueueDequeueUpToV2
                out += list(op(handle=q, n=take + (1 if close and over else 0), component_types=all_types))
            return out + [raw.QueueSizeV2(handle=q)]
        return inputs, program(call)
    return draw


DRAWS = {**{m: queue(m) for m in MAKERS}, **{op: (lambda s: queue(s.one(MAKERS))(s)) for op in
         "QueueEnqueueV2 QueueEnqueueManyV2 QueueDequeueV2 QueueDequeueManyV2 QueueDequeueUpToV2 QueueSizeV2 QueueIsClosedV2 QueueCloseV2".split()}}
