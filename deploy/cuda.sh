#!/usr/bin/env bash
# deploy/cuda.sh DIR - CUDA's compiler and its static runtime library in DIR (bin/nvcc, include/, lib/), for a build of tensord_cuda.so
# with CUDA_HOME=DIR; some 270 MB, from NVIDIA's wheels, which pip fetches from wherever it is configured to look.
#
# Debian 12's nvidia-cuda-toolkit is CUDA 11.8, which knows neither sm_90's successors nor some of our flags. Wheels are unpacked only when
# they are the very files that were looked at here. No driver is needed, and none of NVIDIA's libraries but the runtime is linked.
#
# Needs: python3-pip.
set -euo pipefail
[ $# = 1 ] || { sed -n '2,3p' "$0"; exit 2; }
wheels="nvidia-cuda-nvcc==13.0.88 56fe502eb77625a12f25172caa3cdddb4e4c8ba2c8c17dba44b164761b380f03 c7ff28f86a24effdc6c034fa15230c549a273e4771b10a7fec14996f8cf3307f
nvidia-cuda-crt==13.0.88 2c8043c7c9e02492716426e9919fc78d2c5b3b2a7a768a88e952676b08aa55a4 ee2ea2a97073e02ee62bb27841f437332be2c248e3eac013df07997ada39c003
nvidia-nvvm==13.0.88 c5f41ffeb6466944a026dfa5317d7d85355c119bbec279205d22f1869d1054e0 c4376a291d72d22a315d9d2f69bdae8f8cd83a627f75bad395cee49a0fe65dc1
nvidia-cuda-runtime==13.0.96 7f82250d7782aa23b6cfe765ecc7db554bd3c2870c43f3d1821f1d18aebf0548 ef9bcbe90493a2b9d810e43d249adb3d02e98dd30200d86607d8d02687c43f55
nvidia-cuda-cccl==13.0.85 e0da7ad981f3a8aff08241b5bfc1af868742a63e2762f53a5171c492ef242649 6f0203e29fed809ee2b7fe9b1344df66ecab990c37d6a2e0e189b26d6c97ed7c"
mkdir -p "$1"
to=$(cd "$1" && pwd)
stamp=$(echo "$wheels" | sha256sum | cut -c1-16)
if [ "$(cat "$to/stamp" 2>/dev/null)" = "$stamp" ]; then
  echo "CUDA is in $to"
  exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Of x86-64 and of Arm.
echo "$wheels" | awk '{print $1 " --hash=sha256:" $2 " --hash=sha256:" $3}' >"$work/wanted"
python3 -m pip download -q --require-hashes --no-deps --only-binary :all: -d "$work/wheels" -r "$work/wanted"
for wheel in "$work"/wheels/*.whl; do python3 -m zipfile -e "$wheel" "$work/whole"; done
rm -rf "${to:?}"/{bin,include,lib,lib64,nvvm} && cp -r "$work"/whole/nvidia/cu13/. "$to/"
chmod -R a+rX "$to" && chmod a+x "$to"/bin/* "$to"/nvvm/bin/* # zip files keep no modes
[ -e "$to/lib64" ] || ln -s lib "$to/lib64"
"$to/bin/nvcc" --version | tail -1
echo "$stamp" >"$to/stamp"
