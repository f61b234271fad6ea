#!/usr/bin/env bash
# Renews the generated parts of README.md: the tour (first line of every file) and the list of ops (from build/tensorctl).
# deploy/readme.sh [--check]    --check: changes nothing, fails when README.md is out of date
set -euo pipefail
cd "$(dirname "$0")/.."

tour() {
  for d in core proto kernels server clients; do
    echo "**$d/**"
    echo
    for f in "$d"/*.def "$d"/*.h "$d"/*.c "$d"/*.cc "$d"/*.proto; do
      [ -e "$f" ] || continue
      case $f in *.c) [ ! -e "${f%.c}.h" ] || continue ;; *.cc) continue ;; esac
      awk -v f="${f#"$d"/}" '
        NR == 1 { sub(/^\/[*\/] */, ""); sub(/^[^ ]+ - /, ""); text = $0; next }
        NR <= 4 && text !~ /[.:]( |$)/ && /^( \*|\/\/) +[a-zA-Z0-9]/ { sub(/^( \*|\/\/) +/, ""); text = text " " $0; next }
        { exit }
        END { sub(/ *\*\/ *$/, "", text); if (match(text, /[.:]( |$)/)) text = substr(text, 1, RSTART - 1); print "- `" f "`: " text }' "$f"
    done
    echo
  done
}

ops() {
  build/tensorctl ops --json | python3 -c '
import json, sys
ops = json.load(sys.stdin)["ops"]
known = [o["name"] for o in ops if not o["name"].startswith("_") and "refused" not in o]
refused = [o["name"] for o in ops if "refused" in o]
print(f"{len(known)} ops: " + " ".join(known) + ".\n")
print("Known and refused: " + " ".join(refused) + ".")'
}

replace() { # NAME FILE: puts FILE between the markers of NAME
  awk -v b="<!-- $1 begin -->" -v e="<!-- $1 end -->" -v f="$2" '
    $0 == b { print; while ((getline line < f) > 0) print line; skip = 1; next }
    $0 == e { skip = 0 }
    !skip { print }' README.md >"$tmp/readme" && cp "$tmp/readme" "$out"
}

tmp=$(mktemp -d); trap 'rm -rf "$tmp"' EXIT
tour >"$tmp/tour"; ops >"$tmp/ops"
if [ "${1:-}" = --check ]; then
  cp README.md "$tmp/before"; out=README.md
  replace tour "$tmp/tour"; replace ops "$tmp/ops"
  if ! cmp -s README.md "$tmp/before"; then
    cp "$tmp/before" README.md
    echo "README.md is out of date: run deploy/readme.sh" >&2
    exit 1
  fi
else
  out=README.md
  replace tour "$tmp/tour"; replace ops "$tmp/ops"
fi
