#!/usr/bin/env bash
# deploy/grpc.sh DIR - gRPC's C core, built from its source archive into DIR (include/, lib/libgrpc_core.a): for
# `cmake -DTD_GRPC=source -DTD_GRPC_ROOT=DIR`, which links it statically. Some 7 minutes on two cores.
#
# Debian's gRPC 1.51.1 gets no fixes for known holes (docs/security.md), and there is no later one in Debian 12. The
# Python package has the whole source; pip fetches it from wherever pip is configured to look. It is unpacked only
# when it is the very archive that was looked at here.
#
# Needs: python3-pip, cmake, ninja, g++, libssl-dev, zlib1g-dev. GRPC_ARCHIVE names an archive that is there
# already. JOBS: compilers at once (each takes up to 1.1 GB).
set -euo pipefail
version=1.76.0
sum=7be78388d6da1a25c0d5ec506523db58b18be22d9c37d8d3a32c08be4987bd73

[ $# = 1 ] || { sed -n '2,3p' "$0"; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
to=$(cd "$1" && pwd)
stamp="$version $(cat "$here"/grpc/* | sha256sum | cut -c1-16)"
if [ "$(cat "$to/stamp" 2>/dev/null)" = "$stamp" ]; then
    echo "gRPC $version is built in $to"
    exit 0
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
archive=${GRPC_ARCHIVE:-$work/grpcio-$version.tar.gz}
if [ ! -f "$archive" ]; then
    # pip runs the archive's setup.py to learn its name, once it has compared the sum; nothing of that is used.
    echo "grpcio==$version --hash=sha256:$sum" >"$work/wanted"
    python3 -m pip download -q --require-hashes --no-deps --no-binary :all: -d "$work" -r "$work/wanted"
fi
echo "$sum  $archive" | sha256sum -c --quiet
tar -xzf "$archive" -C "$work" --no-same-owner
cmake -S "$here/grpc" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$to" \
    -DGRPC_SOURCE="$work/grpcio-$version" >"$work/configure.log" || { cat "$work/configure.log"; exit 1; }
# Warnings are the archive's own.
ninja -C "$work/build" -j "${JOBS:-$(nproc)}" >"$work/build.log" 2>&1 || { grep -A3 -E 'FAILED|error:' "$work/build.log" | head -40; exit 1; }
cmake --install "$work/build" >/dev/null
echo "$stamp" >"$to/stamp"
echo "gRPC $version is built in $to: -DTD_GRPC=source -DTD_GRPC_ROOT=$to"
