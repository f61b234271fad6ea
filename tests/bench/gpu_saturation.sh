#!/usr/bin/env bash
# Throughput and latency by streams and clients on the simulated GPU (tests/sim), as Markdown: no GPU is needed, and none is measured.
#
#   tests/bench/gpu_saturation.sh [--quick] [--write]
#
# --quick  1 and 8 streams, 1 and 256 clients     --write  also puts the table between the saturation markers of docs/gpu.md
# The models are made by Keras in build/venv (tests/run.sh makes it): a perceptron, a transformer of BERT-base's size, ResNet50. Takes
# some minutes. What it prints depends on nothing but the sources: the same every time.
set -euo pipefail
cd "$(dirname "$0")/../.."
quick="" write=""
for arg in "$@"; do
  case $arg in
    --quick) quick=--quick ;;
    --write) write=1 ;;
    *) sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
  esac
done
cmake --preset release >/dev/null
cmake --build build --target gpu_saturation >build/saturation.log 2>&1 || { tail -20 build/saturation.log >&2; exit 1; }
models=build/bench-gpu
for name in mlp transformer resnet50; do
  [ -e "$models/$name/1/saved_model.pb" ] || build/venv/bin/python tests/bench/gpu_saturation_models.py "$models" >>build/saturation.log 2>&1
done
out=build/saturation.md
build/tests/sim/gpu_saturation $quick mlp "$models/mlp/1" transformer "$models/transformer/1" resnet50 "$models/resnet50/1" | tee "$out"
if [ -n "$write" ]; then
  awk -v f="$out" '
    $0 == "<!-- saturation begin -->" { print; while ((getline line < f) > 0) print line; skip = 1; next }
    $0 == "<!-- saturation end -->" { skip = 0 }
    !skip { print }' docs/gpu.md >build/gpu.md && cat build/gpu.md >docs/gpu.md
fi
