#!/usr/bin/env bash
# Renews the pages of docs/ that are made of tables, from a build: flags, metrics, paths and methods, passes (docs/manual.c), ops, and
# those of GPUs (tests/host_cuda/gpu_ops.c).
#   docs/generate.sh [--check] [BUILD]    BUILD: a build folder, build unless named; --check: changes nothing, fails when a page is stale
set -euo pipefail
cd "$(dirname "$0")/.."
check=0
[ "${1:-}" != --check ] || { check=1; shift; }
build=${1:-build}
[ -x "$build/manual" ] && [ -x "$build/tensorctl" ] && [ -x "$build/tests/host_cuda/gpu_ops" ] ||
  { echo "cmake --build $build --target manual tensorctl gpu_ops, first" >&2; exit 1; }
new=$(mktemp -d); trap 'rm -rf "$new"' EXIT

for page in flags metrics api passes; do
  "$build/manual" $page.md >"$new/$page.md"
done
{
  printf '# Supported ops\n\n<!-- Made by docs/generate.sh from the table of ops: change the op, not this page. -->\n\n'
  printf 'What `tensorctl ops` prints: each op with the dtypes that its first kernel takes, by attribute. An op that the\n'
  printf 'table lacks is named by `tensorctl inspect DIR`, with node and function, and when its signature is called.\n'
  printf 'Whether it has a gradient: yes; not, since nothing can be differentiated there; or missing; and why.\n\n'
  "$build/tensorctl" ops --markdown | sed 's/; | / | /'
} >"$new/ops.md"

"$build/tests/host_cuda/gpu_ops" >"$new/gpu-ops.md"

stale=0
for page in "$new"/*.md; do
  cmp -s "$page" "docs/${page##*/}" && continue
  stale=1
  if [ $check = 0 ]; then
    cp "$page" docs/
    echo "renewed docs/${page##*/}"
  else
    echo "docs/${page##*/} is stale: run docs/generate.sh $build" >&2
    diff "docs/${page##*/}" "$page" | head -5 >&2 || true
  fi
done
[ $check = 0 ] || exit $stale
