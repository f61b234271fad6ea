"""A call on ONNX Runtime or OpenVINO, timed as call.c times the others; prints the same line.

    python call_peer.py onnxruntime|openvino MODEL CASE SECONDS CPU THREADS [ANSWER]

MODEL: the ONNX file that tf2onnx made, or the SavedModel, which OpenVINO reads itself. Inputs are bound once, as the C programs bind theirs;
what Python adds to a call is told by `python call_peer.py nothing`, which times an empty one.
"""
import os
import sys
import time

import cases

US = 1e6


def fitting(names, key, node):
    """Which of a model's names for an input is the signature's key or the graph's node; tf2onnx changes their case at times."""
    for name in names:
        if name.lower() in (key.lower(), node.lower(), node.split(":")[0].lower()):
            return name
    raise SystemExit(f"no input for {key} ({node}) among {sorted(names)}")


def onnxruntime(path, given, threads):
    import onnxruntime as ort
    ort.set_default_logger_severity(4)
    o = ort.SessionOptions()
    o.intra_op_num_threads, o.inter_op_num_threads = threads, 1
    s = ort.InferenceSession(path, o, providers=["CPUExecutionProvider"])
    names, bound, outputs = [i.name for i in s.get_inputs()], s.io_binding(), [x.name for x in s.get_outputs()]
    for key, node, a in given:
        bound.bind_cpu_input(fitting(names, key, node), a)
    for name in outputs:
        bound.bind_output(name)
    return lambda: s.run_with_iobinding(bound), lambda: dict(zip(outputs, bound.copy_outputs_to_cpu()))


def openvino(path, given, threads):
    import openvino as ov
    model = ov.Core().compile_model(path, "CPU", {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY",
                                                  "INFERENCE_PRECISION_HINT": "f32"})
    by_name = {n: i for i in model.inputs for n in i.get_names()}
    request = model.create_infer_request()
    for key, node, a in given:
        request.set_tensor(by_name[fitting(by_name, key, node)], ov.Tensor(a, shared_memory=False))
    return request.infer, lambda: {min(o.get_names(), key=len): request.get_output_tensor(i).data.copy() for i, o in enumerate(model.outputs)}


def nothing(path, given, threads):
    return lambda: None, dict


def main(engine, path="", case="", seconds="1", cpu="0", threads="1", answer=""):
    first_core, threads = int(cpu), int(threads)
    os.sched_setaffinity(0, range(first_core, first_core + threads))
    given = cases.inputs(case) if case else []
    make = {"onnxruntime": onnxruntime, "openvino": openvino, "nothing": nothing}[engine]
    start, cpu_start = time.perf_counter(), time.process_time()
    run, outputs = make(path, given, threads)
    loaded = time.perf_counter()
    run()
    first, cpu_spent = time.perf_counter(), time.process_time() - cpu_start
    if answer:
        cases.write_answer(answer, outputs())
    warm, i = time.perf_counter() + 8, 0
    while i < 20 and time.perf_counter() < warm:
        run()
        i += 1
    took, t = [], time.perf_counter()
    stop = t + float(seconds)
    while len(took) < 3 or t < stop:
        run()
        end = time.perf_counter()
        took.append(end - t)
        t = end
    took.sort()
    print(f"{(loaded - start) * US:.1f} {(first - loaded) * US:.1f} {took[len(took) // 2] * US:.2f} {took[0] * US:.2f} {len(took)} {cpu_spent * US:.1f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
