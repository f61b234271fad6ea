#!/usr/bin/env bash
# tensord beside TensorFlow (C API), ONNX Runtime and OpenVINO: one command that fetches them (PyPI, into build/engines), makes the models,
# and prints Markdown.
#
#   tests/bench/engines/run.sh [--suites DIR] [--maker FILE] [-- FLAGS OF turns.py]
#
# --suites  a folder with zoo and keras: their models are rows too      --maker  a Python file that knows large models (tests/large.py)
# ONNX Runtime and tf2onnx bring no SavedModel reader of their own: what tf2onnx cannot convert is "no" in their column. Nothing fails a test.
set -euo pipefail
cd "$(dirname "$0")/../../.."
make=()
while [ $# -gt 0 ]; do
  case $1 in
    --suites | --maker | --only) make+=("$1" "$2"); shift ;;
    --) shift; break ;;
    *) sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
  esac
  shift
done
venv=build/engines/venv
if [ ! -e "$venv/made" ]; then
  /usr/bin/python3 -m venv "$venv"
  "$venv/bin/pip" install -q tensorflow-cpu onnxruntime openvino onnx flatbuffers requests
  "$venv/bin/pip" install -q --no-deps tf2onnx   # its bounds on protobuf are older than TensorFlow's
  touch "$venv/made"
fi
cmake --preset release >/dev/null
cmake --build build --target tensord_shared call_tensord >build/engines/build.log 2>&1 || { tail -20 build/engines/build.log >&2; exit 1; }
tf=$(echo "$PWD/$venv"/lib/python3*/site-packages/tensorflow)
cc -O2 -D_GNU_SOURCE -I. -I"$tf/include" tests/bench/call.c tests/bench/call_tensorflow.c -o build/call_tensorflow -L"$tf" \
  -l:libtensorflow_cc.so.2 -l:libtensorflow_framework.so.2 -Wl,-rpath,"$tf"
"$venv/bin/python" tests/bench/engines/make.py build/engines ${make[@]+"${make[@]}"} >build/engines/make.log 2>&1 || { tail -5 build/engines/make.log >&2; exit 1; }
"$venv/bin/python" tests/bench/engines/turns.py build build/engines "$venv/bin/python" "$@"
