#!/usr/bin/env bash
# Builds Release (build/) with the bench programs, makes the models, runs all benchmarks, prints Markdown.
#
#   tests/bench/run.sh [--quick] [--write] [--only SECTION,...] [SUITES]
#
# --quick  one short round of everything       --write  also puts the output between the bench markers of docs/benchmarks.md
# --only   of start, memory, calls, rates, batching, branches, image, graph; and ops, which runs only when named (20 minutes): some
#          280 single-op calls, to find slow kernels by; and gradients, likewise: forward and backward beside TensorFlow
#          (tests/bench/gradients.py, 10 minutes; large models where $TD_LARGE has them)
# SUITES   a folder with zoo/models and zoo/goldens whose models are timed too (or $TD_SUITES)
# NVIDIA's pytriton is measured beside tensord (section batching) where build/pytriton, or the venv that $BENCH_PYTRITON names, has it:
#   /usr/bin/python3 -m venv build/pytriton && build/pytriton/bin/pip install nvidia-pytriton tensorflow-cpu
# TensorFlow, for the models made here and to compare with, is looked for in build/venv (tests/run.sh makes it); what needs it is left out
# where there is none. Nothing here fails a test.
set -euo pipefail
[ -z "${BENCH_PYTRITON:-}" ] || export BENCH_PYTRITON=$(realpath -m "$BENCH_PYTRITON")
cd "$(dirname "$0")/../.."
write="" only="" flags=() suites=${TD_SUITES:-}
while [ $# -gt 0 ]; do
  case $1 in
    --quick) flags+=(--quick) ;;
    --write) write=1 ;;
    --only) flags+=(--only "$2"); only=$2; shift ;;
    -*) sed -n '2,16s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
    *) suites=$1 ;;
  esac
  shift
done

cmake --preset release >/dev/null
cmake --build build --target tensord tensord_shared call_tensord rest_echo grpc_load grpc_echo copies >build/bench.log 2>&1 ||
  { tail -20 build/bench.log >&2; exit 1; }

python=build/venv/bin/python
tf=$("$python" -c 'import importlib.util as u; print(u.find_spec("tensorflow").submodule_search_locations[0])' 2>/dev/null) || tf=""
if [ -n "$tf" ]; then
  cc -O2 -D_GNU_SOURCE -I. -I"$tf/include" tests/bench/call.c tests/bench/call_tensorflow.c -o build/call_tensorflow -L"$tf" \
    -l:libtensorflow_cc.so.2 -l:libtensorflow_framework.so.2 -Wl,-rpath,"$tf" || rm -f build/call_tensorflow
  "$python" tests/bench/models.py build/bench "$suites" >build/bench-models.log 2>&1 || tail -3 build/bench-models.log >&2
  case ",$only," in *,ops,*) "$python" tests/bench/op_calls.py build/bench >build/bench-ops.log 2>&1 || tail -3 build/bench-ops.log >&2 ;; esac
else
  echo "no TensorFlow in build/venv: only the bundled model is measured (tests/run.sh makes build/venv)" >&2
fi
[ -d "$suites/zoo" ] || echo "no zoo in '${suites:-\$TD_SUITES}': its models are not timed" >&2

out=build/bench.md
if [[ ",$only," == *,gradients,* ]]; then
  "$python" tests/bench/gradients.py build/bench --lib build/libtensord.so ${TD_LARGE:+--large "$TD_LARGE"}
  [ "$only" != gradients ] || exit 0
fi
python3 tests/bench/bench.py build build/bench ${flags[@]+"${flags[@]}"} | tee "$out"
if [ -n "$write" ]; then
  awk -v f="$out" '
    $0 == "<!-- bench begin -->" { print; while ((getline line < f) > 0) print line; skip = 1; next }
    $0 == "<!-- bench end -->" { skip = 0 }
    !skip { print }' docs/benchmarks.md >build/benchmarks.md && cat build/benchmarks.md >docs/benchmarks.md
fi
