"""What a careless operator may do, at random: load, unload, upload, reload, new lists of models, versions and labels, configurations, shared memory,
settings of traces and logs, files and fine-tuning jobs. On both wires, with values that are right and wrong.

The models of KEPT stay and are reloaded only, so that other clients have something to ask; `types`, `tf1`, `widths`, `parts` and new names come and go.
--folder: where the models' base paths are; versions of `widths` and `parts` come and go in it.
"""
import base64
import glob
import http.client
import json
import mmap
import os
import urllib.parse

import generator
import grpc
import valid
import wire
from wire import entry, message

KEPT = ("half", "batching", "gradients", "classes")
COMES = ("types", "tf1", "widths", "parts")
FRESH = ("fresh1", "fresh2")
HALF = os.path.join(generator.HERE, "..", "..", "build", "e2e", "half")
CONFIGS = ['{"max_batch_size": 4}', '{"max_batch_size": -1}', "{", '{"backend": "tensorflow", "version_policy": {"all": {}}}', '{"instance_group": [{"count": 2, "kind": "KIND_CPU"}]}',
           '{"dynamic_batching": {"preferred_batch_size": [2], "max_queue_delay_microseconds": 1000}, "max_batch_size": 8}', '{"platform": "onnxruntime_onnx"}', '{"input": [{"name": "q"}]}']


def rest(a, method, path, body=None, headers=()):
    """Status and answer."""
    c = a.kept.get("rest")
    if c is None:
        c = a.kept["rest"] = http.client.HTTPConnection("127.0.0.1", a.rest_port, timeout=60)
    data = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
    try:
        c.request(method, path, data, {"Content-Type": "application/json", **dict(headers)})
        r = c.getresponse()
        status, answer = r.status, r.read()
    except (OSError, http.client.HTTPException) as e:
        c.close()
        raise OSError(str(e)) from e
    a.tell(f"{status}")
    if status == 500 and b"has damaged files" not in answer:
        a.note(f"{method} {path}: {status} {answer[:400].decode(errors='replace')}")
    return status, answer


def rpc(a, path, request):
    if "channel" not in a.kept:
        a.kept["channel"] = grpc.insecure_channel(f"127.0.0.1:{a.port}", [("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", -1)])
    call = a.kept["channel"].unary_unary(path, request_serializer=None, response_deserializer=None).future(request, timeout=a.dice.choice((60, 60, 60, 0.01, 0.2)))
    code = call.code()
    a.tell(code.name)
    if code in (grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN):
        a.note(f"{path}: {code.name} {call.details()}")


# ---- models

def reload(a):
    model = a.dice.choice(KEPT[:3] + COMES + FRESH)
    if a.dice.chance(0.5):
        status, answer = rest(a, "POST", f"/v1/models/{model}:reload")
        if model in KEPT and status != 200 and status != 429:
            a.find(f"reload of {model}: {status} {answer[:300]!r}")
    else:
        rpc(a, "/tensord.v1.Models/Reload", message((1, model)))


def load_or_unload(a):
    model, what = a.dice.choice(COMES + FRESH), a.dice.choice(("load", "load", "unload"))
    config = a.dice.choice(CONFIGS) if what == "load" and a.dice.chance(0.4) else None
    if a.dice.chance(0.5):
        parameters = {"config": config} if config else {"unload_dependents": True} if what == "unload" and a.dice.chance(0.3) else {}
        rest(a, "POST", f"/v2/repository/models/{model}/{what}", {"parameters": parameters})
    else:
        rows = [(3, entry("config", message((3, config))))] if config else []
        rpc(a, valid.INFERENCE + ("RepositoryModelLoad" if what == "load" else "RepositoryModelUnload"), message((2, model), *rows))


def files(a, version):
    """A model's files; sometimes one is damaged."""
    root, out = os.path.join(HALF, str(a.dice.choice((1, 2)))), {}
    for path in sorted(glob.glob(os.path.join(root, "**"), recursive=True)):
        if os.path.isfile(path):
            with open(path, "rb") as f:
                out[f"file:{version}/{os.path.relpath(path, root)}"] = f.read()
    if a.dice.chance(0.3):
        name = a.dice.choice(sorted(out))
        out[name] = a.dice.damaged(out[name])
    return out


def upload(a):
    model, found = a.dice.choice(FRESH), files(a, a.dice.choice((1, 2, 1 << 62, 0)))
    if a.dice.chance(0.2):
        found["file:" + a.dice.choice(("../x", "/etc/x", "1/../../x", "", "1//x", "a/" * 20, "1/" + "n" * 300))] = b"x"
    config = a.dice.choice(CONFIGS) if a.dice.chance(0.3) else "{}"
    if a.dice.chance(0.5):
        rest(a, "POST", f"/v2/repository/models/{model}/load", {"parameters": {"config": config, **{k: base64.b64encode(v).decode() for k, v in found.items()}}})
    else:
        rows = [(3, entry("config", message((3, config))))] + [(3, entry(k, message((4, v)))) for k, v in found.items()]
        rpc(a, valid.INFERENCE + "RepositoryModelLoad", message((2, model), *rows))


def new_list(a):
    """HandleReloadConfigRequest: the kept ones, some of the others, policies and labels right and wrong."""
    if not a.folder:
        return
    rows = []
    for model in KEPT + tuple(m for m in COMES if a.dice.chance(0.7)):
        policy = a.dice.choice((message((101, b"")), message((100, message((1, a.dice.randrange(3))))), message((102, message((1, 1))))))
        labels = [(8, message((1, a.dice.choice(("stable", "canary", ""))), (2, a.dice.choice((1, 2, 99)))))] if model in COMES and a.dice.chance(0.3) else []
        path = os.path.join(a.folder, model) if a.dice.chance(0.95) or model in KEPT else a.dice.choice(("/nowhere", "", "relative", "/etc"))
        rows.append((1, message((1, model), (2, path), (4, "tensorflow"), (7, policy if model in COMES else message((101, b""))), *labels)))
    rpc(a, "/tensorflow.serving.ModelService/HandleReloadConfigRequest", message((1, message((1, message(*rows))))))


def versions(a):
    """A version's folder (a link) comes or goes."""
    if not a.folder:
        return
    model, number = a.dice.choice(("widths", "parts")), a.dice.randrange(2, 6)
    path = os.path.join(a.folder, model, str(number))
    try:
        if os.path.islink(path):
            os.unlink(path)
        else:
            os.symlink(os.path.join(HALF, "..", model, "1"), path)
    except OSError:
        pass   # another lane was faster


# ---- shared memory and settings

def shared_memory(a):
    name, kind = a.dice.choice(("r1", "r2", "r3", "", "a/b", "\u00e9", "x" * 300)), a.dice.choice(("system", "system", "cuda"))
    key = f"/tensord-attack-{os.getpid()}"
    if "region" not in a.kept:
        fd = os.open("/dev/shm" + key, os.O_RDWR | os.O_CREAT, 0o600)
        os.ftruncate(fd, 4096)
        a.kept["region"] = mmap.mmap(fd, 4096)
        os.close(fd)
    quoted = urllib.parse.quote(name, safe="")
    offset, size = a.dice.choice((0, 0, 16, a.dice.number())), a.dice.choice((4096, 64, 4080, a.dice.number()))
    how = a.dice.randrange(6)
    if how < 2:
        body = {"key": a.dice.choice((key, key, "/none", "", "../etc/passwd")), "offset": offset, "byte_size": size} if kind == "system" else {"raw_handle": {"b64": "AAAA"}, "device_id": 0, "byte_size": size}
        rest(a, "POST", f"/v2/{kind}sharedmemory/region/{quoted}/register", body)
    elif how == 2:
        rpc(a, valid.INFERENCE + "SystemSharedMemoryRegister", message((1, name), (2, key), (3, offset), (4, size)))
    elif how == 3:
        rest(a, "POST", f"/v2/{kind}sharedmemory/{a.dice.choice(('', f'region/{quoted}/'))}unregister")
    elif how == 4:
        rest(a, "GET", f"/v2/{kind}sharedmemory/status")
    else:
        p = lambda n: {"shared_memory_region": name, "shared_memory_byte_size": n, "shared_memory_offset": a.dice.choice((0, 16, a.dice.number()))}
        rest(a, "POST", "/v2/models/half/infer", {"inputs": [{"name": "x", "shape": [4], "datatype": "FP32", "parameters": p(16)}], "outputs": [{"name": "y", "parameters": p(a.dice.choice((16, 64)))}]})


def settings(a):
    where = a.dice.choice(("/v2/trace/setting", "/v2/models/half/trace/setting", "/v2/logging"))
    if where == "/v2/logging":
        body = {a.dice.choice(("log_info", "log_warning", "log_error", "log_verbose_level", "log_format", "log_file", "x")): a.dice.choice((True, False, 0, 1, "default", "ISO8601", "", None, [1]))}
    else:
        body = {a.dice.choice(("trace_level", "trace_rate", "trace_count", "log_frequency", "trace_file", "trace_mode", "x")): a.dice.choice((["TIMESTAMPS"], ["TENSORS"], ["OFF"], "1000", "1", "-1", "0", "", None, {}))}
    rest(a, "POST", where, body)


def look(a):
    rest(a, "GET", a.dice.choice(valid.PATHS + [f"/v1/models/{m}" for m in COMES + FRESH] + [f"/v2/models/{m}/config" for m in COMES + FRESH]))
    if a.dice.chance(0.3):
        rest(a, "POST", "/v2/repository/index", {"ready": True})


# ---- fine-tuning

def row(dice):
    x = [round(dice.gauss(0, 1), 3) for _ in range(32)]
    return json.dumps({"inputs": x, "targets": dice.randrange(4)})


MULTIPART = {"Content-Type": "multipart/form-data; boundary=b"}


def upload_body(rows):
    part = '--b\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nfine-tune\r\n--b\r\nContent-Disposition: form-data; name="file"; filename="x.jsonl"\r\n\r\n%s\r\n--b--\r\n'
    return (part % rows).encode()


def job(file, epochs, optimizer):
    return {"model": "classes/versions/1", "training_file": file, "method": {"type": "supervised", "supervised": {"hyperparameters": {"n_epochs": epochs, "batch_size": 8}}},
            "tensord": {"loss": {"name": "sparse_categorical_crossentropy", "from_logits": True}, "optimizer": {"name": optimizer, "learning_rate": 1e-3}}}


def training(a):
    """Files and jobs are made, looked at, stopped and removed."""
    rows = "\n".join(row(a.dice) for _ in range(a.dice.choice((1, 20, 200)))) if a.dice.chance(0.8) else "{}"
    status, answer = rest(a, "POST", "/v1/files", upload_body(rows), MULTIPART)
    if status != 200:
        return
    file = json.loads(answer)["id"]
    status, answer = rest(a, "POST", "/v1/fine_tuning/jobs", job(file, a.dice.choice((1, 3, 1000)), a.dice.choice(("adam", "sgd", "none"))))
    if status == 200:
        where = "/v1/fine_tuning/jobs/" + json.loads(answer)["id"]
        for act in a.dice.choices(("pause", "resume", "cancel", "publish"), k=a.dice.randrange(3)):
            generator.over.wait(a.dice.random())
            rest(a, "POST", f"{where}/{act}")
        rest(a, "GET", where + a.dice.choice(("", "/events", "/checkpoints")))
        rest(a, "POST", where + "/cancel")   # so that none is left waiting
    rest(a, "DELETE", f"/v1/files/{file}")


ACTS = {reload: 4, load_or_unload: 6, upload: 3, new_list: 1, versions: 2, shared_memory: 5, settings: 3, look: 4, training: 1}


def turn(a):
    a.dice.choices(list(ACTS), list(ACTS.values()))[0](a)


def finish(a):
    if os.path.exists(f"/dev/shm/tensord-attack-{os.getpid()}"):
        os.unlink(f"/dev/shm/tensord-attack-{os.getpid()}")


if __name__ == "__main__":
    generator.run("management", turn, finish=finish)
