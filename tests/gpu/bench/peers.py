"""PyTorch (eager and compiled) and ONNX Runtime on the models of nets.py, in one process each: a line of JSON for each call.

    python tests/gpu/bench/peers.py eager|compiled|onnx [--size full] [--seconds 0.5] [--rows 64,8,1] [--precisions f32,tf32,bf16] [--only NAME,..]

Weights are those of the SavedModels (weights.py). A time is the median of calls that take inputs in the host's memory and give outputs there.
On the CPU where PyTorch sees no GPU: to try this out. ONNX Runtime gets what PyTorch exports.
"""
import argparse
import io
import os
import sys

import numpy as np

sys.path.insert(1, os.path.dirname(os.path.abspath(__file__)))
import nets  # noqa: E402
import weights  # noqa: E402
from clock import median, say  # noqa: E402

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


class Torch:
    """Functions, whose weights are made when they are first wanted."""

    def __init__(self):
        self.weights = torch.nn.ParameterDict()
        self.lstms = torch.nn.ModuleDict()
        self.widths = {}  # as they first were: numbers, also where a call is traced

    def weight(self, name, make):
        key = name.replace("/", ":")
        if key not in self.weights:
            self.weights[key] = torch.nn.Parameter(torch.from_numpy(np.ascontiguousarray(make())), requires_grad=False)
        return self.weights[key]

    def conv(self, x, name, out, side, stride=1):
        has, pad = x.shape[1], side // 2
        if out is None:
            w = self.weight(name, lambda: weights.kernel(name, (side, side, has, 1), side * side, 1.4).transpose(2, 3, 0, 1))
            return F.conv2d(x, w, stride=stride, padding=pad, groups=has)
        w = self.weight(name, lambda: weights.kernel(name, (side, side, has, out), side * side * has, 1.4).transpose(3, 2, 0, 1))
        return F.conv2d(x, w, stride=stride, padding=pad)

    def norm(self, x, name, gain=1.0):
        parts = [self.weight(f"{name}/{i}", lambda i=i: weights.batch_norm(name, x.shape[1], gain)[i]) for i in range(4)]
        return F.batch_norm(x, parts[2], parts[3], parts[0], parts[1], eps=nets.EPSILON)

    def layer_norm(self, x, name):
        parts = [self.weight(f"{name}/{i}", lambda i=i: weights.layer_norm(name, x.shape[-1])[i]) for i in range(2)]
        return F.layer_norm(x, self.widths.setdefault(name, (int(x.shape[-1]),)), *parts, eps=1e-6)

    def dense(self, x, name, out):
        has = x.shape[-1]
        return F.linear(x, self.weight(name, lambda: weights.kernel(name, (has, out), has).T), self.weight(name + "/bias", lambda: weights.bias(name + "/bias", out)))

    def embed(self, ids, name, n, width):
        return F.embedding(ids, self.weight(name, lambda: weights.between(name, (n, width), -1, 1)))

    def positions(self, x, name, n):
        return x + self.weight(name, lambda: weights.between(name, (n, x.shape[-1]), -1, 1))[:x.shape[1]]

    def attention(self, x, mask, name, heads):
        rows, places, width = x.shape
        q, k, v = (self.dense(x, f"{name}_{part}", width).reshape(rows, places, heads, width // heads).transpose(1, 2) for part in ("query", "key", "value"))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=(mask != 0)[:, None, None, :])
        return self.dense(y.transpose(1, 2).reshape(rows, places, width), name + "_out", width)

    def lstm(self, x, name, units):
        if name not in self.lstms:
            layer, (kernel, recurrent, bias) = torch.nn.LSTM(x.shape[-1], units, batch_first=True), weights.lstm(name, x.shape[-1], units)
            with torch.no_grad():
                for to, value in (("weight_ih_l0", kernel.T), ("weight_hh_l0", recurrent.T), ("bias_ih_l0", bias), ("bias_hh_l0", 0 * bias)):
                    getattr(layer, to).copy_(torch.from_numpy(np.ascontiguousarray(value)))
            self.lstms[name] = layer.eval()
        return self.lstms[name](x)[0]

    def relu(self, x):
        return F.relu(x)

    def relu6(self, x):
        return F.relu6(x)

    def gelu(self, x):
        return F.gelu(x)

    def tanh(self, x):
        return torch.tanh(x)

    def add(self, x, y):
        return x + y

    def max_pool(self, x):
        return F.max_pool2d(x, 3, 2, padding=1)

    def mean(self, x):
        return x.mean((2, 3))

    def first(self, x):
        return x[:, 0]

    def last(self, x):
        return x[:, -1]


class Net(torch.nn.Module):
    def __init__(self, name, size, dtype):
        super().__init__()
        self.name, self.sizes, self.dtype, self.of = name, nets.SIZES[size][name], torch.float32, Torch()
        self.keys = list(nets.inputs(name, size, 1))
        with torch.no_grad():
            self(*tensors(name, size, 2, "cpu"))  # makes the weights
        for key, w in self.of.weights.items():
            self.of.weights[key] = torch.nn.Parameter(w.contiguous(memory_format=torch.channels_last) if w.ndim == 4 else w, requires_grad=False)
        self.weights, self.lstms, self.dtype = self.of.weights, self.of.lstms, dtype
        self.to(DEVICE, dtype).eval()

    def forward(self, *given):
        given = [x.to(self.dtype) if x.dtype == torch.float32 else x for x in given]
        given = [x.permute(0, 3, 1, 2) if x.ndim == 4 else x for x in given]  # rows, heights, widths, channels: in memory
        return next(iter(nets.NETS[self.name](self.of, self.sizes, **dict(zip(self.keys, given))).values())).float()


def tensors(name, size, rows, device):
    return [torch.from_numpy(a).to(device) for a in nets.inputs(name, size, rows).values()]


def caller(run, given):
    """From the host's memory and to it; what is sent lies in pinned memory, as a server would have it."""
    given = [g.pin_memory() if DEVICE == "cuda" else g for g in given]
    return lambda: run(*[g.to(DEVICE, non_blocking=True) for g in given]).cpu()


def torch_call(args, engine, name, precision):
    """A function of the number of rows that gives the call."""
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision == "tf32"
    net = Net(name, args.size, torch.bfloat16 if precision == "bf16" else torch.float32)
    run = torch.compile(net, mode=args.mode, dynamic=False) if engine == "compiled" else net
    return lambda rows: caller(run, tensors(name, args.size, rows, "cpu"))


def onnx_call(args, engine, name, precision):
    import onnxruntime as ort
    provider = "CUDAExecutionProvider" if DEVICE == "cuda" else "CPUExecutionProvider"
    if precision == "bf16" or provider not in ort.get_available_providers():
        raise RuntimeError("bf16 is not exported" if precision == "bf16" else "this ONNX Runtime has no " + provider)
    net, file = Net(name, args.size, torch.float32).cpu(), io.BytesIO()
    names = {"dynamic_axes": {k: {0: "rows"} for k in [*net.keys, "out"]}, "input_names": net.keys, "output_names": ["out"], "opset_version": 17}
    torch.onnx.export(net, tuple(tensors(name, args.size, 2, "cpu")), file, dynamo=False, **names)
    options = [{"use_tf32": int(precision == "tf32")}] if DEVICE == "cuda" else [{}]
    session = ort.InferenceSession(file.getvalue(), providers=[provider], provider_options=options)

    def of_rows(rows):
        given = nets.inputs(name, args.size, rows)
        return lambda: torch.from_numpy(session.run(["out"], given)[0])
    return of_rows


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("engine", choices=["eager", "compiled", "onnx"])
    ap.add_argument("--size", default="full")
    ap.add_argument("--seconds", type=float, default=0.5)
    ap.add_argument("--rows", default="64,8,1")
    ap.add_argument("--precisions", default="f32,tf32,bf16")
    ap.add_argument("--only", default=",".join(nets.NAMES))
    ap.add_argument("--mode", default=None, help="of torch.compile")
    args = ap.parse_args()
    torch.set_grad_enabled(False)
    make = onnx_call if args.engine == "onnx" else torch_call
    for precision in args.precisions.split(","):
        for name in args.only.split(","):
            about = {"engine": args.engine, "model": name, "precision": precision}
            try:
                of_rows = make(args, args.engine, name, precision)
                for rows in (int(r) for r in args.rows.split(",")):
                    call = of_rows(rows)
                    answer = call()
                    say(about, rows=rows, us=median(call, args.seconds), answer=[float(v) for v in answer[0][:64]])
            except Exception as e:  # whatever a library cannot do is a "no" of its column
                say(about, no=f"{type(e).__name__}: {e}"[:200])


if __name__ == "__main__":
    main()
