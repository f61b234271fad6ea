#!/usr/bin/env bash
# Packs what tests/gpu/run.sh needs on a machine with a GPU that has neither our libraries nor our build: the library, the module, the
# shared libraries that they want, golden.py, and suites.
#
#   tests/gpu/pack.sh SUITE..       build/gpu.tar.xz, of some 30 MB; the module is built first
set -euo pipefail
cd "$(dirname "$0")/../.."
cmake --build build --target tensord_shared tensord_cuda >/dev/null
rm -rf build/gpu && mkdir -p build/gpu/lib build/gpu/suites
cp -L build/libtensord.so build/gpu/libtensord.so
cp build/tensord_cuda.so tests/golden.py tests/gpu/times.py build/gpu/
# glibc's own and the compiler's are newer there than here.
ldd build/libtensord.so | awk '$3 ~ /^\// {print $3}' | grep -vE '/lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s)\.so' | xargs -I{} cp -L {} build/gpu/lib/
for suite in "$@"; do cp -rL "$suite" build/gpu/suites/; done
tar -C build -cJf build/gpu.tar.xz gpu
ls -l build/gpu.tar.xz | awk '{print "build/gpu.tar.xz: " $5 " bytes"}'
