#!/usr/bin/env bash
# All that is asked of a GPU, in one run of a few minutes: suites of models against TensorFlow's answers, the same under compute-sanitizer
# (memcheck, racecheck), and how long models take there and on the CPU. Ends with "GPU n of m parts passed".
#
#   tests/gpu/run.sh                    on a GPU, with what tests/gpu/pack.sh has packed (build/gpu.tar.xz); python3 with numpy is needed
#   tests/gpu/run.sh --on-host SUITE..  the same on the tests' host-run CUDA device, with the build here and without compute-sanitizer
#   ONLY=GLOB                           cases of the suites for compute-sanitizer; all of the suite `ops`
set -uo pipefail
cd "$(dirname "$0")/../.."
passed=0 parts=0
part() { # NAME COMMAND..
  local name=$1 started=$SECONDS
  shift
  parts=$((parts + 1))
  echo "== $name"
  if "$@"; then passed=$((passed + 1)); else echo "== $name FAILED"; fi
  echo "== $name: $((SECONDS - started)) s"
}

if [ "${1:-}" = --on-host ]; then
  shift
  golden() { tests/host_cuda/golden.sh build "$@" 2>&1 | grep -E '^CASES| fail;'; return "${PIPESTATUS[0]}"; }
  checked() { echo "left out: compute-sanitizer is for GPUs"; }
  times() { env LD_LIBRARY_PATH=build/tests/fake_cuda GLIBC_TUNABLES=glibc.rtld.optional_static_tls=1048576 \
    build/venv/bin/python tests/gpu/times.py --lib build/libtensord.so --gpu build/tests/host_cuda/tensord_cuda.so --seconds 0.1 "$@"; }
  suites=("$@")
else
  nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader || { echo "there is no GPU here"; exit 1; }
  tar -C build -xJf build/gpu.tar.xz || exit 1
  export LD_LIBRARY_PATH=$PWD/build/gpu/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  here=(python3 build/gpu/golden.py --lib build/gpu/libtensord.so --gpu build/gpu/tensord_cuda.so)
  golden() { timeout 180 "${here[@]}" "$@" 2>&1 | grep -E '^CASES| fail;|/device:GPU' | uniq; return "${PIPESTATUS[0]}"; }
  checked() { # TOOL SUITE
    timeout 100 compute-sanitizer --tool "$1" --target-processes all --error-exitcode 9 "${here[@]}" "$2" --only "${ONLY:-*}" >build/gpu/"$1".txt 2>&1
    local rc=$?
    grep -E '^CASES|========= (ERROR SUMMARY|Invalid|Race)' build/gpu/"$1".txt | sort | uniq -c | tail -8
    return $rc
  }
  times() { python3 build/gpu/times.py --lib build/gpu/libtensord.so --gpu build/gpu/tensord_cuda.so "$@"; }
  suites=(build/gpu/suites/*)
fi

for suite in "${suites[@]}"; do part "suite $(basename "$suite")" golden "$suite"; done
for suite in "${suites[@]}"; do
  case $suite in */ops) for tool in memcheck racecheck; do part "$tool of ops" checked $tool "$suite"; done ;; esac
done
part "times" times "${suites[@]}"
echo "GPU $passed of $parts parts passed"
[ "$passed" = "$parts" ]
