#!/usr/bin/env bash
# Packs what tests/gpu/run.sh needs on a machine with a GPU that has neither our libraries nor our build: the library, the daemon and the
# module, the shared libraries that they want, golden.py, suites, and tests/gpu/bench with its load and its models, whose weights pack well.
# Nothing of NVIDIA's, several hundred MB each: run.sh looks for cuBLASLt, cuDNN and NVRTC on the machine. `none` has files of the names of
# the first two with nothing in them: with it first on LD_LIBRARY_PATH our own kernels serve.
#
#   tests/gpu/pack.sh SUITE..       build/gpu.tar.xz, of some 40 MB; the module is built first, and build/venv makes the models once
set -euo pipefail
cd "$(dirname "$0")/../.."
cmake --build build --target tensord_shared tensord tensord_cuda grpc_load >/dev/null
mkdir -p build/gpu_bench
build/venv/bin/python tests/gpu/bench/make.py build/gpu_bench/full >build/gpu_bench/make.log 2>&1 || { tail -5 build/gpu_bench/make.log >&2; exit 1; }
rm -rf build/gpu && mkdir -p build/gpu/lib build/gpu/suites
cp -L build/libtensord.so build/gpu/libtensord.so
cp build/tensord build/tests/grpc_load build/tensord_cuda.so tests/golden.py tests/gpu/times.py tests/gpu/several.py build/gpu/
cp -r tests/gpu/bench build/gpu/bench
cp -r deploy/models/digits build/gpu/digits
rm -rf build/gpu/bench/__pycache__
# glibc's own and the compiler's are newer there than here.
ldd build/libtensord.so build/tensord build/tests/grpc_load | awk '$3 ~ /^\// {print $3}' | sort -u |
  grep -vE '/lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s|cuda|cudart|cublas|cublasLt|cudnn|nvrtc)\.so' | xargs -I{} cp -L {} build/gpu/lib/
rm -f build/gpu/lib/libtensord.so*
mkdir build/gpu/none
for file in libcublasLt.so.13 libcublasLt.so.12 libcudnn.so.9; do echo | cc -shared -fPIC -xc - -o build/gpu/none/$file; done
for suite in "$@"; do cp -rL "$suite" build/gpu/suites/; done
# The checkpoints of the models repeat what stands 16 KiB before: xz makes little of them.
tar -C build --transform='s|^gpu_bench/full|gpu/models|' -c gpu gpu_bench/full | xz -T0 >build/gpu.tar.xz
ls -l build/gpu.tar.xz | awk '{print "build/gpu.tar.xz: " $5 " bytes"; exit $5 > 60 * 1048576}' ||
  { echo "more than travels to a machine with a GPU (64 MiB with the sources)" >&2; exit 1; }
