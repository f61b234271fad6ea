#!/usr/bin/env bash
# How calls would spread over 1 to 64 cores, counted on one (tests/bench/call_scaling.c): Markdown.
#
#   tests/bench/scaling.sh [SECONDS] MODEL.ROWS..       of what tests/bench/engines/run.sh has made: resnet50.1 bert_base.8
set -euo pipefail
cd "$(dirname "$0")/../.."
seconds=2
if [[ ${1:-} =~ ^[0-9.]+$ ]]; then seconds=$1 && shift; fi
cmake --preset release >/dev/null
cmake --build build --target call_scaling >/dev/null
echo "| model | cores | ms | of one core's | barriers | not shared, % | work and bytes of the busiest core, % |"
echo "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"
for case in "$@"; do
  one=
  for cores in 1 2 4 8 16 64; do
    row=$(CORES=$cores build/call_scaling "build/engines/models/${case%.*}" "build/engines/cases/$case" "$seconds" 0 | tail -1)
    read -r _ _ _ ms _ barriers _ alone _ part _ <<<"$row"
    one=${one:-$ms}
    echo "| $case | $cores | $ms | $(awk "BEGIN {printf \"%.1f\", $one / $ms}") | $barriers | $alone | $part |"
  done
done
