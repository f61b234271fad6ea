#!/usr/bin/env bash
# Suites of models against TensorFlow's answers with all compiler passes on, each one off by name, all off, and with each choice of kernels.
#
#   tests/passes_off.sh SUITE..        folders as tests/golden.py has them; "unseen" is the test's own (build/tests/unseen)
#
# A line for each run; ends with how many agreed whole. Half an hour for zoo, seeds, keras and ops: not part of tests/run.sh, where
# unit tests hold each pass against the graph without it.
set -uo pipefail
cd "$(dirname "$0")/.."
agreed=0 runs=0
golden() { # NAME FLAGS..: every suite
  local name=$1 suite line ok=1 text=
  shift
  for suite in "${suites[@]}"; do
    line=$(nice build/venv/bin/python tests/golden.py "$suite" --lib build/libtensord.so "$@" 2>&1 | grep -E '^CASES' | tail -1)
    text+=" $(basename "$suite") ${line#CASES };"
    [[ $line =~ ^CASES\ ([0-9]+)\ of\ ([0-9]+)$ && ${BASH_REMATCH[1]} = "${BASH_REMATCH[2]}" ]] || ok=0
  done
  runs=$((runs + 1)) agreed=$((agreed + ok))
  echo "$name:$text"
}
suites=("$@")
golden "all on"
for pass in $(sed -nE 's/^PASS[A-Z_]*\(([a-z_]+),.*/\1/p' core/compile/passes.def); do
  [ "$pass" = handles ] || golden "$pass off" --passes-off "$pass"
done
golden "all off" --passes-off all
for kernels in openblas reference; do golden "kernels $kernels" --kernels $kernels; done
echo "$agreed of $runs runs agree"
[ "$agreed" = "$runs" ]
