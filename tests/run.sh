#!/usr/bin/env bash
# Installs what is missing; builds Release (build/), Debug with ASan and UBSan (build/asan) and Debug with TSan (build/tsan); runs the tests of
# each (of TSan: unit tests and e2e), the lints among Release's; and ends with "N passed, N failed, N skipped". What is skipped are cases inside
# of tests: each test says how many, and they are listed before the end, as are the seeds of random tests. Tests wait often: the next build goes
# on beside them, at low priority; and beside the last build's, those of Release that only compute (CMake's label "later").
#
#   tests/run.sh [ctest arguments, for example -R json]        TD_SEED=N tests/run.sh -R draws    has a random run again
set -uo pipefail
cd "$(dirname "$0")/.."
passed=0 failed=0 skipped=0
finish() { echo "$passed passed, $failed failed, $skipped skipped"; [ "$failed" = 0 ] && [ "$passed" -gt 0 ]; exit $?; }
die() { echo "tests/run.sh: $*" >&2; failed=$((failed + 1)); finish; }

deploy/packages.sh build test || die "packages could not be installed"
stamp=build/venv/.$(md5sum <tests/requirements.txt | cut -c1-12)
if [ ! -e "$stamp" ]; then
  python3 -m venv build/venv && build/venv/bin/pip install -q --disable-pip-version-check -r tests/requirements.txt && touch "$stamp" ||
    die "the Python test tools could not be installed into build/venv"
fi

folder() { [ "$1" = release ] && echo build || echo "build/$1"; }
presets=(release asan tsan)
# What one checkout has compiled, another takes from the cache, wherever it lies.
export CCACHE_BASEDIR=${CCACHE_BASEDIR:-$PWD} CCACHE_NOHASHDIR=1

# PRESET NICENESS: the tests of one build wait often, so the next one is built beside them, in the time that they leave.
build() {
  local dir
  dir=$(folder "$1")
  cmake --preset "$1" >/dev/null && mkdir -p "$dir" && nice -n "$2" cmake --build "$dir" >"$dir/build.log" 2>&1 && return
  grep -E 'error|FAILED' "$dir/build.log" | head -20
  return 1
}

# Tests that did not run at all (their tools are missing), and the cases that the others left out.
count_skipped() { # FOLDER LOG
  local log=$1/Testing/Temporary/LastTest.log not_run
  not_run=$(grep -cE '^[[:space:]]*[0-9]+ - .* \((Disabled|Skipped|Not Run)' "$2")
  grep -E '^SEED ' "$log"
  grep -E '^SKIPPED [1-9]|skipped=[1-9]' "$log"
  skipped=$((skipped + not_run + $(grep -oE '^SKIPPED [0-9]+|skipped=[0-9]+' "$log" | awk -F'[ =]' '{n += $2} END {print n + 0}')))
}

# run_tests NICENESS FOLDER LOG [ctest arguments]
run_tests() {
  local niceness=$1 dir=$2 log=$3
  shift 3
  ASAN_OPTIONS=detect_leaks=1:abort_on_error=0:allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1 \
    nice -n "$niceness" ctest --test-dir "$dir" --output-on-failure -j 2 "$@" 2>&1 | tee "$log" | grep -vE '^ *Start|Passed'
}
count() { # FOLDER LOG
  local line bad all
  grep -q 'No tests were found' "$2" && return # -R named none of this build
  line=$(grep -oE '[0-9]+% tests passed, [0-9]+ tests? failed out of [0-9]+' "$2") || die "ctest of $1 did not finish"
  bad=$(sed -E 's/.*, ([0-9]+) tests? failed.*/\1/' <<<"$line")
  all=$(sed -E 's/.*out of ([0-9]+)/\1/' <<<"$line")
  failed=$((failed + bad)) passed=$((passed + all - bad))
  count_skipped "$1" "$2"
}

build "${presets[0]}" 0 || die "building ${presets[0]}"
for i in "${!presets[@]}"; do
  dir=$(folder "${presets[i]}") next=${presets[i + 1]:-} beside=
  if [ -n "$next" ]; then
    build "$next" 19 & beside=$!
  else
    run_tests 5 build build/later.log -L later --timeout 1500 "$@" >build/later.txt & beside=$!
  fi
  echo "== tests of $dir"
  run_tests 0 "$dir" "$dir/ctest.log" -LE later --timeout 600 "$@"
  wait "$beside" || [ -z "$next" ] || die "building $next ($(folder "$next")/build.log)"
  count "$dir" "$dir/ctest.log"
done
echo "== tests of build that only compute"
cat build/later.txt
count build build/later.log
finish
