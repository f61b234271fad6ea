"""The bundled digits model has seen no mirrored digits. Fine-tunes it on some, through the unmodified openai SDK.

    deploy/quickstart.sh                                  # serves the model; in another terminal:
    python docs/examples/finetune_digits.py               # needs openai, requests and scikit-learn (for its digits)

Three of four mirrored images are uploaded as labelled rows; the others are held out and asked for before and after. The
tuned version takes over by itself: the second question is the first one again.
"""
import json
import sys
import time

import numpy as np
import openai
import requests
from sklearn.datasets import load_digits

URL = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8501"
JOB = {"signature": "serving_default", "metrics": ["accuracy"], "optimizer": {"name": "adam", "learning_rate": 0.002},
       "loss": {"name": "sparse_categorical_crossentropy", "output": "probabilities"}}


def accuracy(images, digits):
    answer = requests.post(f"{URL}/v1/models/digits:predict", json={"inputs": {"images": images.tolist()}}, timeout=30).json()
    return float(np.mean(np.array(answer["outputs"]["digit"]) == digits))


def wait(client, job):
    seen = 0
    while True:
        events = [e for e in client.fine_tuning.jobs.list_events(job.id, limit=100) if (e.data or {}).get("metrics")]
        for e in sorted(events, key=lambda e: e.data["step"])[seen:]:
            print(f"  epoch {e.data['epoch']}: loss {e.data['metrics']['train']['loss']:.3f}, accuracy {e.data['metrics']['train']['accuracy']:.3f}")
        seen = len(events)
        job = client.fine_tuning.jobs.retrieve(job.id)
        if job.status in ("succeeded", "failed", "cancelled"):
            return job
        time.sleep(0.2)


def main():
    data = load_digits()
    mirrored, held_out = data.images[:, :, ::-1], np.arange(len(data.target)) % 4 == 0
    rows = [json.dumps({"inputs": {"images": x.tolist()}, "targets": int(y)}) for x, y in zip(mirrored[~held_out], data.target[~held_out])]
    print(f"held-out accuracy before: {accuracy(mirrored[held_out], data.target[held_out]):.3f}")
    client = openai.OpenAI(base_url=f"{URL}/v1", api_key="none")
    file = client.files.create(file=("mirrored.jsonl", "\n".join(rows).encode()), purpose="fine-tune")
    job = client.fine_tuning.jobs.create(model="digits", training_file=file.id, extra_body={"tensord": JOB},
                                         method={"type": "supervised", "supervised": {"hyperparameters": {"n_epochs": 10}}})
    job = wait(client, job)
    if job.status != "succeeded":
        sys.exit(f"{job.status}: {job.error.message}")
    number, end = job.fine_tuned_model.rsplit("/", 1)[1], time.monotonic() + 10
    while number not in str(requests.get(f"{URL}/v1/models/digits", timeout=30).json()) and time.monotonic() < end:
        time.sleep(0.05)
    print(f"held-out accuracy after:  {accuracy(mirrored[held_out], data.target[held_out]):.3f}   ({job.fine_tuned_model})")


if __name__ == "__main__":
    main()
