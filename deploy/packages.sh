#!/usr/bin/env bash
# Installs the Debian packages that are missing, as root or through sudo.   deploy/packages.sh [build] [test] [run] [grpc] [package] [image] [make_image] [mpi_build] [mpi_run]
# shellcheck disable=SC2034 # groups are looked up by name
set -euo pipefail

build="gcc g++ cmake ninja-build pkg-config protobuf-c-compiler protobuf-compiler libprotobuf-c-dev libmicrohttpd-dev libgnutls28-dev libgrpc-dev libabsl-dev
  libjansson-dev libopenblas-dev liblapacke-dev libdnnl-dev libre2-dev libicu-dev libsnappy-dev zlib1g-dev libsqlite3-dev libpng-dev libjpeg-dev libgif-dev
  ccache curl ca-certificates"
test="python3 python3-venv clang lld clang-format clang-tidy universal-ctags libclang-rt-14-dev llvm-14 wrk nghttp2-client libb64-0d openssl git
  libopenmpi-dev openmpi-bin"
run="libmicrohttpd12 libgnutls30 libjansson4 libprotobuf-c1 libopenblas0-pthread liblapacke libdnnl2 libre2-9 libicu72 libsnappy1v5 zlib1g libsqlite3-0
  libpng16-16 libjpeg62-turbo libgif7 libssl3 ca-certificates"
grpc="python3 python3-pip libssl-dev zlib1g-dev"
package="dpkg-dev"
image="icu-devtools binutils dash ca-certificates"
make_image="buildah debootstrap jq curl iproute2 util-linux procps"
mpi_build="libopenmpi-dev"
mpi_run="openmpi-bin openssh-server openssh-client"

wanted=""
for group in "${@:-build}"; do wanted+=" ${!group}"; done
missing=""
for p in $wanted; do
  dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing+=" $p"
done
[ -n "$missing" ] || exit 0
sudo=""
if [ "$(id -u)" != 0 ]; then
  command -v sudo >/dev/null || { echo "deploy/packages.sh: these packages are missing and I am neither root nor have sudo:$missing" >&2; exit 1; }
  sudo=sudo
fi
echo "installing:$missing"
export DEBIAN_FRONTEND=noninteractive
$sudo apt-get update -qq
# shellcheck disable=SC2086
$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
