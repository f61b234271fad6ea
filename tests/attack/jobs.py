"""Fine-tuning jobs that are right, one after the other on each lane: rows go up, the job succeeds, its version serves, and goes when the
next one is there.

--folder: where the base path of `classes` is.
"""
import json
import os
import shutil
import time

import generator  # noqa: F401  (finds the modules of tests/e2e)
import finetune_daemon
import management

ENDED = finetune_daemon.ENDED


def ask(a, method, path, body=None, headers=()):
    """The document of a 200; None, and a finding, for anything else but that there is no room."""
    status, answer = management.rest(a, method, path, body, headers)
    if status == 200:
        return json.loads(answer)
    if status != 429:
        a.find(f"{method} {path}: {status} {answer[:500]!r}")
    return None


def turn(a):
    file = ask(a, "POST", "/v1/files", management.upload_body("\n".join(management.row(a.dice) for _ in range(100))), management.MULTIPART)
    if file is None:
        return generator.over.wait(1)
    wanted = management.job(file["id"], epochs=a.dice.choice((1, 4)), optimizer=a.dice.choice(("adam", "sgd")))
    job = ask(a, "POST", "/v1/fine_tuning/jobs", wanted)
    end = time.monotonic() + 300
    while job and job["status"] not in ENDED and time.monotonic() < end and a.on():
        generator.over.wait(0.3)
        job = ask(a, "GET", f"/v1/fine_tuning/jobs/{job['id']}")
    if job and job["status"] == "succeeded":
        serves(a, job["fine_tuned_model"])
    elif job and a.on():
        a.find(f"a job is {job['status']}: {job.get('error')}")
    elif job:
        management.rest(a, "POST", f"/v1/fine_tuning/jobs/{job['id']}/cancel")
    management.rest(a, "DELETE", f"/v1/files/{file['id']}")


def serves(a, model):
    a.tell("succeeded")
    end = time.monotonic() + 30   # it is there, and loaded a moment later
    while management.rest(a, "POST", f"/v1/models/{model}:predict", {"instances": [[0.5] * 32]})[0] == 404 and time.monotonic() < end:
        generator.over.wait(0.2)
    ask(a, "POST", f"/v1/models/{model}:predict", {"instances": [[0.5] * 32]})
    if a.folder and "last" in a.kept:   # the one before goes, so that numbers rise
        shutil.rmtree(os.path.join(a.folder, *a.kept["last"].split("/versions/")), True)
    a.kept["last"] = model


if __name__ == "__main__":
    generator.run("jobs", turn, lanes=1)
