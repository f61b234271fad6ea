"""tests/hlo/make.py - writes the artifacts that tests/unit/proto/test_hlo_read.c and the fuzzer read.

    PYTHON tests/hlo/make.py      PYTHON has jax 0.10; writes to tests/fuzz/corpus/hlo_read_fuzz

CASE_VERSION: a function of cases.py for readers of that version of StableHLO, CASE_bN in version N of MLIR's
bytecode. Written from their text, so that they hold no locations of files."""
import pathlib

import jax._src.interpreters.mlir as jax_mlir
from jaxlib.mlir.dialects import stablehlo

import cases
import compare

FOLDER = pathlib.Path(__file__).parent.parent / "fuzz/corpus/hlo_read_fuzz"
ARTIFACTS = [("mlp", "1.15.0"), ("mlp", "0.9.0"), ("while_loop", "1.15.0"), ("cond", "1.0.0"), ("functions", "1.4.0"),
             ("constants", "1.15.0"), ("gather_rows", "0.17.0"), ("gather_rows", "1.15.0"), ("conv", "1.15.0"),
             ("dynamic_batch", "1.8.0")]
BYTECODE = [("scan", n) for n in (1, 2, 3, 4, 5)]


def written(name, version):
    data = cases.exported(name).mlir_module_serialized
    with jax_mlir.make_ir_context() as context:
        return stablehlo.serialize_portable_artifact_str(
            str(stablehlo.deserialize_portable_artifact(context, data)), version)


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, version in ARTIFACTS:
        (FOLDER / f"{name}_{version}").write_bytes(written(name, version))
    for name, bytecode in BYTECODE:
        (FOLDER / f"{name}_b{bytecode}").write_bytes(compare.in_bytecode(written(name, "1.15.0"), bytecode))


if __name__ == "__main__":
    main()
