#!/bin/sh
# tests/host_cuda/golden.sh BUILD ARGUMENTS..: tests/golden.py on the host-run CUDA device of a build folder, of a sanitizer's too.
# HOST_CUDA_DEBUG=1 HOST_CUDA_WORKERS=2: with memory full of NaN and streams that are delayed at random.
# HOST_CUDA_NVRTC=1: fused nodes get kernels of their own, by the stand-in for NVRTC (the first run takes long).
build=$1
here=$(dirname "$0")
shift
# No driver is needed, but its file is looked for; and threads of a block share memory that is thread-local here.
set -- "LD_LIBRARY_PATH=$build/tests/fake_cuda:$build/tests/host_cuda/fake_nvrtc" GLIBC_TUNABLES=glibc.rtld.optional_static_tls=1048576 \
  "$here/../../build/venv/bin/python" "$here/../golden.py" --lib "$build/libtensord.so" --gpu "$build/tests/host_cuda/tensord_cuda.so" "$@"
if grep -qs 'TD_ASAN:BOOL=ON' "$build/CMakeCache.txt"; then # Python itself leaves much behind
  exec env "LD_PRELOAD=$(gcc -print-file-name=libasan.so):$(gcc -print-file-name=libubsan.so)" \
    "ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1" UBSAN_OPTIONS=print_stacktrace=1 "$@"
elif grep -qs 'TD_TSAN:BOOL=ON' "$build/CMakeCache.txt"; then # it wants to know where the kernel puts things
  exec setarch -R env "LD_PRELOAD=$(gcc -print-file-name=libtsan.so)" \
    "TSAN_OPTIONS=suppressions=$here/../tsan.supp:allocator_may_return_null=1:die_after_fork=0:atexit_sleep_ms=0:ignore_noninstrumented_modules=1" "$@"
fi
exec env "$@"
