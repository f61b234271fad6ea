#!/usr/bin/env bash
# From a bare Debian 12 to an answered request: installs what is missing, builds, serves the bundled digits model, asks it over REST
# and gRPC, and keeps serving.   deploy/quickstart.sh [--check]    --check: stop the server afterwards and exit 0 when all went well
set -euo pipefail
cd "$(dirname "$0")/.."
start=$(date +%s)

deploy/packages.sh build
cmake --preset release >/dev/null
cmake --build build --target tensord tensorctl

rest=${TENSORD_REST_PORT:-8501} grpc=${TENSORD_GRPC_PORT:-8500}
log=$(mktemp)
mkdir -p build/quickstart/models/digits # a copy: fine-tuning adds versions beside it
[ -e build/quickstart/models/digits/1 ] || cp -r deploy/models/digits/1 build/quickstart/models/digits/
build/tensord --port="$grpc" --rest_api_port="$rest" --bind_address=127.0.0.1 --state_dir="$PWD/build/quickstart/state" \
  --model_name=digits --model_base_path="$PWD/build/quickstart/models/digits" 2>"$log" &
server=$!
trap 'kill -TERM $server 2>/dev/null || true; wait $server 2>/dev/null || true; rm -f "$log"' EXIT
for _ in $(seq 100); do
  curl -fs "http://127.0.0.1:$rest/readyz" >/dev/null 2>&1 && break
  kill -0 $server 2>/dev/null || { cat "$log" >&2; exit 1; }
  sleep 0.1
done
curl -fs "http://127.0.0.1:$rest/readyz" >/dev/null || { cat "$log" >&2; exit 1; }

five='[[0,5,12,13,16,16,2,0],[0,11,16,15,8,4,0,0],[0,8,14,11,1,0,0,0],[0,8,16,16,14,0,0,0],[0,1,6,6,16,0,0,0],[0,0,0,5,16,3,0,0],[0,1,5,15,13,0,0,0],[0,4,15,16,2,0,0,0]]'
echo
echo "An 8x8 image of a handwritten five. POST /v1/models/digits:predict answers:"
answer=$(curl -fsS -w '\n(%{time_total} s)' -d "{\"instances\": [$five]}" "http://127.0.0.1:$rest/v1/models/digits:predict")
echo "$answer"
echo
echo "The same over gRPC, tensorctl predict digits:"
before=$(date +%s%N)
spoken=$(build/tensorctl predict digits --server "127.0.0.1:$grpc" --inputs "images=[$five]")
after=$(date +%s%N)
echo "$spoken"
echo "($(( (after - before) / 1000000 )) ms, process start included)"
grep -q '"digit": 5' <<<"$answer" && grep -q 'digit: int64\[1\] = \[5\]' <<<"$spoken" || { echo "the answer is not a five" >&2; exit 1; }
echo
echo "ready after $(( $(date +%s) - start )) s in all"
if [ "${1:-}" = --check ]; then
  trap - EXIT
  kill -TERM $server
  code=0; wait $server || code=$?
  rm -f "$log"
  [ $code = 0 ] || { echo "the server ended with $code after SIGTERM" >&2; exit 1; }
  echo "stopped by SIGTERM, exit status 0"
else
  echo "serving on http://127.0.0.1:$rest (REST) and 127.0.0.1:$grpc (gRPC); Ctrl-C stops"
  wait $server
fi
