#!/usr/bin/env bash
# Installs what is missing, builds Release (build/) and Debug with ASan and UBSan (build/asan), runs every test of both, and ends with
# "N passed, N failed".   tests/run.sh [ctest arguments, for example -R json]
set -uo pipefail
cd "$(dirname "$0")/.."
passed=0 failed=0
finish() { echo "$passed passed, $failed failed"; [ "$failed" = 0 ] && [ "$passed" -gt 0 ]; exit $?; }
die() { echo "tests/run.sh: $*" >&2; failed=$((failed + 1)); finish; }

deploy/packages.sh build test || die "packages could not be installed"
stamp=build/venv/.$(md5sum <tests/requirements.txt | cut -c1-12)
if [ ! -e "$stamp" ]; then
  python3 -m venv build/venv && build/venv/bin/pip install -q --disable-pip-version-check -r tests/requirements.txt && touch "$stamp" ||
    die "the Python test tools could not be installed into build/venv"
fi

for preset in release asan; do
  dir=$([ $preset = release ] && echo build || echo build/$preset)
  cmake --preset $preset >/dev/null || die "configuring $preset"
  cmake --build "$dir" >"$dir/build.log" 2>&1 || { grep -E 'error|FAILED' "$dir/build.log" | head -20; die "building $preset ($dir/build.log)"; }
done

for dir in build build/asan; do
  echo "== tests of $dir"
  ASAN_OPTIONS=detect_leaks=1:abort_on_error=0:allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1 \
    ctest --test-dir "$dir" --output-on-failure --timeout 600 -j 2 "$@" 2>&1 | tee "$dir/ctest.log" | grep -vE '^ *Start|Passed'
  line=$(grep -oE '[0-9]+% tests passed, [0-9]+ tests? failed out of [0-9]+' "$dir/ctest.log") || die "ctest of $dir did not finish"
  bad=$(sed -E 's/.*, ([0-9]+) tests? failed.*/\1/' <<<"$line")
  all=$(sed -E 's/.*out of ([0-9]+)/\1/' <<<"$line")
  failed=$((failed + bad)) passed=$((passed + all - bad))
done
finish
