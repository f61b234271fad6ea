#!/usr/bin/env bash
# Suites of models, their gradients and fine-tuning jobs on the tests' host-run CUDA device, against TensorFlow's answers.
#
#   tests/host_cuda/suites.sh [BUILD] [--debug] [SUITE..]
#
# BUILD    a build folder, a sanitizer's too; build
# --debug  memory full of NaN, streams delayed at random, two workers (HOST_CUDA_DEBUG=1 HOST_CUDA_WORKERS=2)
# SUITE    a folder (tests/golden.py, tests/host_cuda/finetune.py say of what), or a name below $TD_SUITES; ops seeds keras zoo finetune.
#          Without $TD_SUITES they are looked for in ../shared/suites; where there are none, that is a case skipped, and no failure.
# ONLY=GLOB,..   models and jobs by name; all
#
# Prints what differs, a line for each suite, and last what agrees of all. A sanitizer's report is something that differs.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$here/../..
build=$root/build
case ${1:-} in */* | build) [ ! -e "$1/CMakeCache.txt" ] || { build=$(realpath "$1") && shift; } ;; esac
[ "${1:-}" != --debug ] || { export HOST_CUDA_DEBUG=1 HOST_CUDA_WORKERS=2 && shift; }
[ $# -gt 0 ] || set -- ops seeds keras zoo finetune
all=${TD_SUITES:-$root/../shared/suites}
good=0 cases=0 skipped=0 reports=0
log=$(mktemp) && trap 'rm -f "$log"' EXIT

golden() { "$here/golden.sh" "$build" "$1" --verbose --only "${ONLY:-*}"; }
jobs() { # the daemon's own program: its sanitizer needs no help to come first
  TSAN_OPTIONS=suppressions=$here/../tsan.supp:allocator_may_return_null=1:atexit_sleep_ms=0 LSAN_OPTIONS=suppressions=$here/../lsan.supp \
    LD_LIBRARY_PATH=$build/tests/fake_cuda:$build/tests/host_cuda/fake_nvrtc GLIBC_TUNABLES=glibc.rtld.optional_static_tls=1048576 \
    "$root/build/venv/bin/python" "$here/finetune.py" "$1" "$build" --only "${ONLY:-*}"
}

for suite in "$@"; do
  [ -d "$suite" ] || suite=$all/$suite
  if [ ! -d "$suite" ]; then
    echo "SKIPPED 1: there is no suite $suite"
    skipped=$((skipped + 1))
    continue
  fi
  started=$SECONDS run=golden
  [ -d "$suite/goldens" ] || run=jobs
  $run "$suite" >"$log" 2>&1
  rc=$?
  grep -E ' fail;' "$log"
  if grep -qE 'ERROR: AddressSanitizer|WARNING: ThreadSanitizer|runtime error:|^host_cuda: ' "$log"; then
    reports=$((reports + 1))
    grep -E -m3 -A30 'ERROR: AddressSanitizer|WARNING: ThreadSanitizer|runtime error:|^host_cuda: ' "$log"
  fi
  line=$(grep -E '^(CASES|JOBS) [0-9]+ of [0-9]+$' "$log" | tail -1)
  [ -n "$line" ] || { tail -5 "$log" && line="CASES 0 of 1"; }
  read -r kind n _ m <<<"$line"
  [ "$rc" = 0 ] || [ "$n" != "$m" ] || m=$((m + 1)) # it ended badly behind its cases
  echo "$(basename "$suite"): $kind $n of $m, $((SECONDS - started)) s"
  good=$((good + n)) cases=$((cases + m))
done
echo "SUITES $good of $cases agree, $reports reports, $skipped skipped"
[ "$good" = "$cases" ] && [ "$reports" = 0 ]
