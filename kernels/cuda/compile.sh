#!/bin/sh
# kernels/cuda/compile.sh LOG NVCC ARGUMENTS..: compiles, and keeps what ptxas says of each kernel in LOG (tests/gpu/registers.py).
log=$1
shift
"$@" --resource-usage 2> "$log" && exit 0
cat "$log" >&2
exit 1
