#!/bin/sh
# tests/host_cuda/golden.sh BUILD ARGUMENTS..: tests/golden.py on the host-run CUDA device of a build folder.
# No driver is needed, but its file is looked for; and threads of a block share memory that is thread-local here.
build=$1
shift
exec env LD_LIBRARY_PATH="$build/tests/fake_cuda" GLIBC_TUNABLES=glibc.rtld.optional_static_tls=1048576 \
  "$(dirname "$0")/../../build/venv/bin/python" "$(dirname "$0")/../golden.py" --lib "$build/libtensord.so" \
  --gpu "$build/tests/host_cuda/tensord_cuda.so" "$@"
