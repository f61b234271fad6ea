"""tests/hlo/compare.py - what the reader makes of artifacts is what jaxlib's own reader makes of them.

    PYTHON tests/hlo/compare.py BUILD/tests/hlo_print [CASE or FILE...]      PYTHON has jax 0.10

Each case of cases.py is exported, written for several versions of StableHLO and in every version of MLIR's
bytecode, read by hlo_print and by jaxlib, and compared line by line: functions, names of operations, numbers of
values, attributes with their values, types, regions. A file is an artifact that something else wrote.

jaxlib reads the same bytes as VHLO, so that nothing is converted in between; what the reader levels (versions in
names, parts of type none, default accuracies, lists that version 1 lacks) is levelled here anew."""
import io
import pathlib
import re
import subprocess
import sys
import tempfile

import jax._src.interpreters.mlir as jax_mlir
import ml_dtypes
import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

import cases

VERSIONS = ["0.9.0", "0.14.0", "0.17.0", "1.0.0", "1.4.0", "1.8.0", "1.10.0", stablehlo.get_current_version()]
NAMES = {"f32": "float", "f64": "double", "f16": "half", "bf16": "bfloat16", "bool": "bool", "index": "int64",
         **{f"i{n}": f"int{n}" for n in (8, 16, 32, 64)}, **{f"ui{n}": f"uint{n}" for n in (8, 16, 32, 64)}}
ADDED = {"gather_v1": ["operand_batching_dims", "start_indices_batching_dims"],
         "dynamic_gather_v1": ["operand_batching_dims", "start_indices_batching_dims"],
         "scatter_v1": ["input_batching_dims", "scatter_indices_batching_dims"]}
SAME = ["builtin.unrealized_conversion_cast", "sdy.sharding_constraint"]


class Text:
    """A cursor over MLIR's print of an attribute or a type of VHLO."""
    def __init__(self, s):
        self.s, self.p = s, 0

    def eat(self, t):
        if not self.s.startswith(t, self.p):
            return False
        self.p += len(t)
        return True

    def need(self, t):
        assert self.eat(t), f"want {t} at {self.s[self.p:self.p + 60]} of {self.s[:200]}"

    def match(self, pattern):
        m = re.compile(pattern).match(self.s, self.p)
        assert m, f"want {pattern} at {self.s[self.p:self.p + 60]}"
        self.p = m.end()
        return m.group(0)

    def string(self):
        raw = self.match(r'"(?:[^"\\]|\\.)*"')[1:-1].encode()
        return re.sub(rb"\\([0-9A-Fa-f]{2}|.)", lambda m: bytes([int(m[1], 16)]) if len(m[1]) == 2 else
                      {b"n": b"\n", b"t": b"\t"}.get(m[1], m[1]), raw)

    def balanced(self):
        """Up to the > that closes what is open, strings apart."""
        start, depth = self.p, 0
        while True:
            c = self.s[self.p]
            if c == '"':
                self.string()
                continue
            arrow = self.s.startswith("->", self.p)
            depth += (c == "<") - (c == ">" and not arrow)
            if depth < 0:
                return self.s[start:self.p]
            self.p += 2 if arrow else 1

    def list(self, item, end):
        items = []
        while not self.eat(end):
            items.append(item())
            self.eat(", ")
        return items


def type_of(t):
    t.need("!vhlo.")
    name = t.match(r"\w+?(?=_v1)")
    t.need("_v1")
    if name == "complex":
        t.need("<")
        part = type_of(t)[0]
        t.need(">")
        return {"float": "complex64", "double": "complex128"}[part], "[]"
    if name == "tensor":
        t.need("<")
        dims = re.findall(r"[0-9]+|\?", t.match(r"(?:(?:[0-9]+|\?)x)*"))
        element = type_of(t)[0]
        t.need(">")
        return element, "[" + ",".join(dims) + "]"
    if name == "func":
        t.need("<(")
        t.list(lambda: type_of(t), ")")
        t.need(" -> ")
        results = [] if t.eat("()") else [type_of(t)]
        while t.eat(", "):
            results.append(type_of(t))
        t.need(">")
        return "function", results
    if name in ("token", "none"):
        return name, "()"
    return NAMES.get(name, name), "[]"


def type_text(t):
    return "".join(type_of(Text(str(t))))


def dense_bytes(text):
    """Type and bytes of a dense attribute's text, as hlo_print prints them."""
    dims, element = re.search(r" : tensor<((?:\d+x)*)(.+)>$", text, re.S).groups()
    shape = [int(d) for d in dims.split("x")[:-1]]
    n = int(np.prod(shape, dtype=np.int64))
    body = re.match(r"dense<(.*)> :", text, re.S)[1]
    if element.startswith("complex"):
        dtype = np.complex64 if "f32" in element else np.complex128
        if body.startswith('"0x'):
            values = np.frombuffer(bytes.fromhex(body[3:-1]), dtype)
        else:
            values = [complex(float(a), float(b)) for a, b in re.findall(r"\(([^,()]+), ?([^,()]+)\)", body)]
        values = np.array(values, dtype)
        name = dtype.__name__
    else:
        dtype = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "f32": np.float32, "f64": np.float64,
                 "i1": np.bool_, "index": np.int64}.get(element) or np.dtype(element.replace("i", "int"))
        if element in ("f32", "f64"):
            values = np.array(ir.DenseFPElementsAttr(ir.Attribute.parse(text)))
        elif element in ("bf16", "f16"): # which numpy does not get
            bits = np.dtype(np.uint16)
            values = [np.array(int(v, 16), bits).view(dtype) if v.startswith("0x") else dtype(float(v))
                      for v in re.findall(r"0x[0-9A-F]+|-?\d[\d.]*(?:e[+-]\d+)?", body)]
            values = np.array(values, dtype)
        else:
            attr = ir.DenseIntElementsAttr(ir.Attribute.parse(text))
            values = np.array([attr[i] for i in range(n)])
        name = NAMES[{"i1": "bool"}.get(element, element)]
    values = np.asarray(values, dtype).reshape(-1)
    splat = n > 1 and body[0] not in '["'
    if element == "i1" and splat and n <= 8: # as bits it looks like a list
        values, splat = np.repeat(values, n), False
    if element == "i1":
        raw = (b"\xff" if values[0] else b"\x00") if splat else np.packbits(values, bitorder="little").tobytes()
    else:
        raw = values[:1].tobytes() if splat else values.tobytes()
    return f"{name}[{','.join(map(str, shape))}]{'*' if splat else ':'}{raw.hex()}"


def attr_of(t):
    """An attribute as hlo_print prints it; None of what the reader leaves out."""
    if t.s.startswith("#sdy."):
        return None
    if t.eat("#vhlo<"):
        t.match(r"\w+_v1 ")
        value = t.match(r"\w+")
        t.need(">")
        return f"'{value.encode().hex()}'"
    t.need("#vhlo.")
    name = t.match(r"\w+?(?=_v1)")
    t.need("_v1<")
    if name == "string":
        out = f"'{t.string().hex()}'"
    elif name == "bool":
        out = t.match("true|false")
    elif name == "integer":
        value, kind = t.balanced().split(" : ")
        out = value
    elif name == "float":
        value, kind = t.balanced().split(" : ")
        v = float(value) if not value.startswith("0x") else float("nan")
        kind = re.match(r"!vhlo\.(\w+)_v1", kind)[1]
        v = float({"f32": np.float32, "bf16": ml_dtypes.bfloat16, "f16": np.float16}.get(kind, np.float64)(v))
        out = "%.17g" % v
    elif name == "tensor":
        out = dense_bytes(t.balanced())
    elif name == "type":
        kind = type_of(t)
        out = None if kind[0] == "none" else "function(" + "".join("".join(r) for r in kind[1]) + ")" \
            if kind[0] == "function" else "".join(kind)
    elif name == "array":
        t.need("[")
        out = "[" + ",".join(t.list(lambda: attr_of(t), "]")) + "]"
    elif name == "dict":
        t.need("{")
        out = dictionary(t.list(lambda: pair(t), "}"))
    elif name == "result_accuracy":
        text = t.balanced()
        values = re.match(r"atol = (\S+), rtol = (\S+), ulps = (-?\d+), mode = #vhlo<result_accuracy_mode_v1 (\w+)>",
                          text)
        out = None if values[4] == "DEFAULT" else \
            (f"{{atol={float(values[1]):.17g} mode='{values[4].encode().hex()}' rtol={float(values[2]):.17g} "
             f"ulps={values[3]}}}")
    elif name == "output_operand_alias":
        numbers = re.match(r"outputTupleIndices = \[(.*)\], operandIndex = (-?\d+), operandTupleIndices = \[(.*)\]$",
                           t.balanced())
        output, index, operand = (v.replace(", ", ",") for v in numbers.groups())
        out = f"{{operand_index={index} operand_tuple_indices=[{operand}] output_tuple_indices=[{output}]}}"
    else:
        raise AssertionError(f"attribute {name}: {t.s}")
    t.need(">")
    return out


def pair(t):
    name = bytes.fromhex(attr_of(t)[1:-1]).decode()
    t.need(" = ")
    return name, attr_of(t)


def dictionary(pairs):
    return "{" + " ".join(f"{k}={v}" for k, v in sorted(pairs) if v is not None) + "}"


def attributes(op, versioned):
    pairs = [(a, attr_of(Text(str(op.attributes[a])))) for a in op.attributes]
    return dictionary(pairs + [(a, "int64[0]:") for a in ADDED.get(versioned, [])])


class Printer:
    def __init__(self):
        self.lines, self.ids = [], {}

    def values(self, values):
        return "(" + " ".join(f"{self.ids[v]}:{type_text(v.type)}" for v in values) + ")"

    def number(self, values):
        for v in values:
            self.ids[v] = len(self.ids) # of one that is left out too

    def block(self, block, depth):
        self.number(block.arguments)
        self.lines.append(" " * depth + "block " + self.values(block.arguments))
        for op in block.operations:
            op = op.operation
            versioned = op.name.removeprefix("vhlo.")
            name = re.sub(r"_v\d+$", "", versioned)
            self.number(op.results)
            if name in SAME:
                self.ids.update(zip(op.results, [self.ids[v] for v in op.operands]))
                continue
            self.lines.append(" " * (depth + 1) + f"{name} {self.values(op.results)}{self.values(op.operands)}"
                              + attributes(op, versioned))
            for region in op.regions:
                for b in region.blocks:
                    self.block(b, depth + 2)
                if len(region.blocks) == 0:
                    self.lines.append(" " * (depth + 2) + "block ()")

    def function(self, op):
        text = lambda a: bytes.fromhex(attr_of(Text(str(op.attributes[a])))[1:-1]).decode()
        results = type_of(Text(str(op.attributes["function_type"])[len("#vhlo.type_v1<"):-1]))[1]
        self.ids = {}
        at = len(self.lines)
        self.block(op.regions[0].blocks[0], 1)
        self.lines.insert(at, f"{'private' if text('sym_visibility') == 'private' else 'public'} {text('sym_name')} "
                          f"{len(self.ids)} values ->" + "".join(" " + "".join(r) for r in results))


def jaxlib_print(data, version):
    with jax_mlir.make_ir_context():
        module = ir.Module.parse(data)
        p = Printer()
        p.lines.append(f"version {version}")
        for op in module.body.operations:
            if op.operation.name == "vhlo.func_v1":
                p.function(op.operation)
        return p.lines


def in_bytecode(data, version):
    with jax_mlir.make_ir_context():
        out = io.BytesIO()
        ir.Module.parse(data).operation.write_bytecode(out, desired_version=version)
        return out.getvalue()


def artifacts(name):
    """(version, bytes) of what JAX itself writes and of the same module for older readers."""
    if name not in cases.CASES:
        data = pathlib.Path(name).read_bytes()
        yield re.search(rb"StableHLO_v([0-9.]+)", data)[1].decode(), data
        return
    e = cases.exported(name)
    data = e.mlir_module_serialized
    yield re.search(rb"StableHLO_v([0-9.]+)", data)[1].decode(), data
    for version in VERSIONS:
        try:
            with jax_mlir.make_ir_context() as context:
                text = str(stablehlo.deserialize_portable_artifact(context, data))
                older = stablehlo.serialize_portable_artifact_str(text, version)
        except Exception: # it cannot be said in that version
            continue
        yield re.search(rb"StableHLO_v([0-9.]+)", older)[1].decode(), older
    for bytecode in range(7):
        yield "", in_bytecode(data, bytecode)


def main():
    tool, names = sys.argv[1], sys.argv[2:] or list(cases.CASES)
    n = n_lines = wrong = 0
    for name in names:
        versions = []
        for version, data in artifacts(name):
            with tempfile.NamedTemporaryFile() as f:
                f.write(data)
                f.flush()
                run = subprocess.run([tool, f.name], capture_output=True, text=True)
            got = run.stdout.splitlines() if run.returncode == 0 else [run.stderr.strip()]
            want = jaxlib_print(data, version)
            n, n_lines = n + 1, n_lines + len(want)
            versions.append(version)
            bad = [(g, w) for g, w in zip(got + [""] * len(want), want) if g != w]
            if bad or len(got) != len(want):
                wrong += 1
                print(f"{name} {version}: {len(bad)} lines differ, {len(got)} for {len(want)}")
                for g, w in bad[:2]:
                    print(f"  got  {g[:1500]}\n  want {w[:1500]}")
        print(f"{name}: {' '.join(v or '.' for v in versions)}", flush=True)
    print(f"{n} artifacts of {len(names)} functions, {n_lines} lines: {wrong} differ")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
