"""What the engines' programs of tests/gpu/bench share: how a call is timed, and how it is told."""
import json
import time

WARM = 5  # calls, and not longer than the measuring itself


def median(call, seconds):
    """Microseconds."""
    end = time.perf_counter() + seconds
    for _ in range(WARM):
        call()
        if time.perf_counter() > end:
            break
    took, end = [], time.perf_counter() + seconds
    while len(took) < 3 or time.perf_counter() < end:
        started = time.perf_counter()
        call()
        took.append(time.perf_counter() - started)
        if len(took) > 1 and time.perf_counter() > end + 3 * seconds:
            break
    return sorted(took)[len(took) // 2] * 1e6


def say(about, **more):
    print(json.dumps({**about, **more}), flush=True)
