#!/usr/bin/env bash
# Every .c, .h, .cc, .cu and .cuh stands as clang-format 14 puts it (.clang-format; other versions differ).   tests/lint/format.sh [--fix]
set -uo pipefail
cd "$(dirname "$0")/../.."
format=$(command -v clang-format-14 || command -v clang-format) || { echo "clang-format is not installed"; exit 1; }
"$format" --version | grep -q 'version 14\.' || { echo "want clang-format 14, have $("$format" --version)"; exit 1; }
mapfile -t files < <(find core proto kernels server clients tests -path tests/fuzz/corpus -prune -o \( -name '*.[ch]' -o -name '*.cc' -o -name '*.cu' -o -name '*.cuh' -o -path 'kernels/*.inc' \) -print | sort)
if [ "${1-}" = --fix ]; then
  "$format" -i "${files[@]}"
  exit
fi
wrong=$("$format" --dry-run "${files[@]}" 2>&1 | grep -E 'warning:' | sed -E 's/^([^:]*:[0-9]*).*/\1: not as clang-format puts it/' | sort -u -t: -k1,1)
[ -z "$wrong" ] || echo "$wrong"
echo "format: $(grep -c . <<<"$wrong") findings"
[ -z "$wrong" ]
