#!/usr/bin/env bash
# All that is asked of a GPU, in one run of less than 8 minutes: suites of models against TensorFlow's answers, the same under
# compute-sanitizer (memcheck, racecheck), replicas and a job on two GPUs, how long models take there and on the CPU, and tests/gpu/bench. Ends
# with "GPU n of m parts passed".
#
#   tests/gpu/run.sh                    on a GPU, with what tests/gpu/pack.sh has packed (build/gpu.tar.xz); python3 with numpy is needed
#   tests/gpu/run.sh --on-host [SUITE..]  the same on the tests' host-run CUDA device, with the build here and without compute-sanitizer;
#                                       fine-tuning jobs, too; tests/gpu/bench with its small models, which build/venv makes first; without
#                                       SUITE what is in $TD_SUITES (../shared/suites), where it is there
#   ONLY=GLOB                           cases of the suites for compute-sanitizer; all of the suite `ops`
#   PARTS=GLOB                          parts by name, "bench" or "suite *"; all
#   MOST=470 BENCH=200                  seconds for all, and those that the other parts leave for tests/gpu/bench, which comes last; on the
#                                       host: 0, no limit, and 240
#   PEER_PYTHON=FILE                    a Python with PyTorch and ONNX Runtime for tests/gpu/bench; python3
#
# A part that its time cuts off says so. It has passed if nothing was wrong until then: what is left out is told, and counts as no failure.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
passed=0 parts=0
part() { # NAME COMMAND..
  local name=$1 started=$SECONDS
  shift
  # shellcheck disable=SC2254
  case $name in ${PARTS:-*}) ;; *) return ;; esac
  parts=$((parts + 1))
  echo "== $name"
  if "$@"; then passed=$((passed + 1)); else echo "== $name FAILED"; fi
  echo "== $name: $((SECONDS - started)) s"
}
# The seconds that a part may take, of at most $1, where $2 are kept for what comes behind it.
seconds_of() {
  local left=$((MOST > 0 ? MOST - $2 - SECONDS : $1))
  echo $((left < 1 ? 1 : left < $1 ? left : $1))
}
# within SECONDS LOG COMMAND..: the command's output in a file; 124 where it was cut off.
within() {
  local most=$1 log=$2
  shift 2
  timeout --kill-after=5 "$most" "$@" >"$log" 2>&1
  local rc=$?
  if [ $rc -eq 124 ] || [ $rc -eq 137 ]; then
    echo "cut off after $most s"
    rc=124
  fi
  return $rc
}

# cuBLASLt, cuDNN, NVRTC and NCCL, where the dynamic linker does not know them: CUDA's toolkits, and what pip installs (nvidia-cublas,
# nvidia-cudnn, nvidia-cuda-nvrtc, nvidia-nccl).
nvidia_libraries() {
  local file place known
  for file in libcublasLt.so.13 libcublasLt.so.12 libcudnn.so.9 libnvrtc.so.13 libnvrtc.so.12 libnccl.so.2; do
    known=$(ldconfig -p 2>/dev/null | awk -v f="$file" '$1 == f {print $NF; exit}')
    place=$(find /usr/local/cuda*/lib64/ $(python3 -c 'import glob, sys; print(*(d for p in sys.path for d in glob.glob(p + "/nvidia/*/lib")))') \
      -maxdepth 1 -name "$file" 2>/dev/null | head -1)
    echo "$file: ${known:-${place:-not here}}"
    [ -n "$known" ] || [ -z "$place" ] || export LD_LIBRARY_PATH="$LD_LIBRARY_PATH:$(dirname "$place")"
  done
}

if [ "${1:-}" = --on-host ]; then
  shift
  MOST=${MOST:-0} BENCH=${BENCH:-240} logs=build/gpu_bench
  mkdir -p $logs
  golden() { tests/host_cuda/golden.sh build "$@" 2>&1 | grep -E '^CASES| fail;'; return "${PIPESTATUS[0]}"; }
  checked() { echo "left out: compute-sanitizer is for GPUs"; }
  host=(env LD_LIBRARY_PATH=build/tests/fake_cuda:build/tests/host_cuda/fake_nvrtc GLIBC_TUNABLES=glibc.rtld.optional_static_tls=1048576 build/venv/bin/python)
  times() {
    "${host[@]}" tests/gpu/times.py --lib build/libtensord.so --gpu build/tests/host_cuda/tensord_cuda.so --seconds 0.1 "$@" >$logs/times.txt 2>&1
    local rc=$?
    grep '^|' $logs/times.txt
    return $rc
  }
  bench() {
    cmake --build build --target tensord tensord_shared tensord_cuda_on_host fake_cuda grpc_load >$logs/build.log || return 1
    build/venv/bin/python tests/gpu/bench/make.py build/gpu_bench/tiny --size tiny >$logs/make.log 2>&1 || { tail -3 $logs/make.log; return 1; }
    "${host[@]}" tests/gpu/bench/run.py --build build --gpu build/tests/host_cuda/tensord_cuda.so --models build/gpu_bench/tiny --size tiny --rows 2,1 \
      --daemon build/tensord --load build/tests/grpc_load --concurrent 16 --seconds 0.05 --budget "$BENCH" --peer-python "${PEER_PYTHON:-python3}" 2>$logs/bench.log
  }
  several() { HOST_CUDA_DEVICES=2 "${host[@]}" tests/gpu/several.py --daemon build/tensord --gpu build/tests/host_cuda/tensord_cuda.so --model deploy/models/digits; }
  jobs() { tests/host_cuda/suites.sh build "$1" 2>&1 | grep -vE '^SUITES'; return "${PIPESTATUS[0]}"; }
  all=${TD_SUITES:-../shared/suites}
  [ $# -gt 0 ] || for name in ops seeds keras zoo finetune; do [ ! -d "$all/$name" ] || set -- "$@" "$all/$name"; done
  suites=("$@")
else
  MOST=${MOST:-470} BENCH=${BENCH:-200} logs=build/gpu
  nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader || { echo "there is no GPU here"; exit 1; }
  tar -C build -xJf build/gpu.tar.xz || python3 -m tarfile -e build/gpu.tar.xz build || exit 1 # where there is no xz
  echo "unpacked: $SECONDS s"
  export PEER_LIBRARY_PATH=${LD_LIBRARY_PATH:-}
  export LD_LIBRARY_PATH=$PWD/build/gpu/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  nvidia_libraries
  none=$PWD/build/gpu/none # pack.sh
  sanitizer=$(command -v compute-sanitizer || find /usr/local/cuda*/ -name compute-sanitizer -type f -perm -u+x 2>/dev/null | head -1)
  here=(python3 -u build/gpu/golden.py --lib build/gpu/libtensord.so --gpu build/gpu/tensord_cuda.so)
  golden() { # SUITE: most of the time that is left for the suites, less what the sanitizers and times need
    within "$(seconds_of 120 $((BENCH + 60)))" "build/gpu/$(basename "$1").txt" "${here[@]}" "$1"
    local rc=$?
    grep -E '^CASES| fail;|/device:GPU' "build/gpu/$(basename "$1").txt" | uniq | head -40
    [ $rc -ne 124 ] || { ! grep -q ' fail;' "build/gpu/$(basename "$1").txt"; return; }
    return $rc
  }
  checked() { # TOOL SUITE
    local log=build/gpu/$1.txt
    [ -n "$sanitizer" ] || { echo "left out: there is no compute-sanitizer"; return 0; }
    within "$(seconds_of 70 $((BENCH + 25)))" "$log" "$sanitizer" --tool "$1" --target-processes all --error-exitcode 9 "${here[@]}" "$2" --only "${ONLY:-*}"
    local rc=$?
    if grep -q 'Device not supported' "$log"; then
      echo "left out: compute-sanitizer does not support this device"
      return 0
    fi
    grep -E '^CASES| fail;|========= (ERROR SUMMARY|RACECHECK SUMMARY|Invalid|Error: Race|Race)' "$log" | sort | uniq -c | tail -8
    [ $rc -ne 124 ] || { ! grep -E '^========= ' "$log" | grep -qE 'Invalid|Race|SUMMARY: [1-9]'; return; }
    return $rc
  }
  times() {
    within "$(seconds_of 45 "$BENCH")" build/gpu/times.txt python3 -u build/gpu/times.py --lib build/gpu/libtensord.so --gpu build/gpu/tensord_cuda.so "$@"
    local rc=$?
    grep '^|' build/gpu/times.txt
    [ $rc -eq 124 ] || return $rc
  }
  several() { # where there is one GPU it says so, and ends at once
    within "$(seconds_of 60 $((BENCH + 25)))" build/gpu/several.txt python3 -u build/gpu/several.py --daemon build/gpu/tensord --gpu build/gpu/tensord_cuda.so --model build/gpu/digits
    local rc=$?
    cat build/gpu/several.txt
    return $rc
  }
  bench() {
    local budget
    budget=$(seconds_of 1000 12) # it ends by itself, and is cut off where it does not
    timeout --kill-after=10 $((budget + 8)) python3 build/gpu/bench/run.py --build build/gpu --gpu build/gpu/tensord_cuda.so --models build/gpu/models \
      --daemon build/gpu/tensord --load build/gpu/grpc_load --budget "$budget" --peer-python "${PEER_PYTHON:-python3}" 2>build/gpu/bench.txt
  }
  jobs() { echo "left out: TensorFlow reads what fine-tuning jobs have written, and it is not packed"; }
  suites=(build/gpu/suites/*)
fi

for i in "${!suites[@]}"; do
  suite=${suites[i]}
  if [ -d "$suite/goldens" ]; then
    part "suite $(basename "$suite")" golden "$suite"
  else # fine-tuning jobs
    part "suite $(basename "$suite")" jobs "$suite"
    unset "suites[i]"
  fi
done
for suite in "${suites[@]}"; do
  case $suite in */ops) for tool in memcheck racecheck; do part "$tool of ops" checked $tool "$suite"; done ;; esac
done
part "two GPUs" several
[ ${#suites[@]} -eq 0 ] || part "times" times "${suites[@]}"
[ -z "${none:-}" ] || LD_LIBRARY_PATH=$none:$LD_LIBRARY_PATH part "times without cuBLASLt and cuDNN" times "${suites[@]}"
part "bench" bench
echo "GPU $passed of $parts parts passed in $SECONDS s"
[ "$passed" = "$parts" ]
