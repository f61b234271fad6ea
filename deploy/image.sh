#!/usr/bin/env bash
# Builds the image and tries it, on a Debian 12 and as root, with nothing from a registry: a base made by debootstrap from the package
# mirror that this machine uses, the Dockerfile built by buildah (chroot isolation, vfs storage: no kernel module, no daemon).
#   deploy/image.sh [--mpi] [--gpu] [--no-check]
#     --mpi        the image of --build-arg MPI=1
#     --gpu        the image of --build-arg GPU=1; the check finds no driver, and so how it serves on the CPU
#     --no-check   do not start it
# Everything lies in build/image (some 30 GB; TENSORD_IMAGE_DIR: elsewhere), layers are kept: a second run builds what has changed.
# GRPC_ARCHIVE: gRPC's source archive where the build's pip cannot fetch it (deploy/grpc.sh). With CCACHE_DIR set that folder is the
# compilers' cache. The image ends up as build/image/tensord.tar (docker load -i, ctr import).
set -euo pipefail
cd "$(dirname "$0")/.."
mpi="" gpu="" check=1
for a in "$@"; do
  case $a in
  --mpi) mpi=1 ;;
  --gpu) gpu=1 ;;
  --no-check) check="" ;;
  *) sed -n '2,10s/^# \?//p' "$0" >&2; exit 2 ;;
  esac
done
[ "$(id -u)" = 0 ] || { echo "deploy/image.sh: roots of file systems are made by root" >&2; exit 1; }
deploy/packages.sh make_image
work=${TENSORD_IMAGE_DIR:-$PWD/build/image}
name=tensord${mpi:+-mpi}${gpu:+-gpu}
mkdir -p "$work" ${CCACHE_DIR:+"$CCACHE_DIR"}
b() { buildah --root "$work/storage" --runroot "$work/run" --storage-driver vfs "$@"; }

if [ ! -e "$work/base/made" ]; then
  echo "base: debootstrap"
  rm -rf "$work/base" && mkdir -p "$work/base"
  # shellcheck disable=SC2016
  mapfile -t sources < <(apt-get indextargets --format 'deb $(SITE) $(RELEASE) $(COMPONENT)' 'Identifier: Packages' 'Origin: Debian' |
    grep -E ' bookworm[a-z-]* main$' | sort -u)
  mirror=$(printf '%s\n' "${sources[@]}" | awk '$3 == "bookworm" { print $2; exit }')
  debootstrap --variant=minbase --include=ca-certificates bookworm "$work/base/root" ${mirror:+"$mirror"} >"$work/base/log"
  printf '%s\n' "${sources[@]}" >"$work/base/root/etc/apt/sources.list"
  rm -rf "$work"/base/root/var/cache/apt/archives/*.deb "$work"/base/root/var/lib/apt/lists/*
  c=$(b from scratch)
  b copy -q "$c" "$work/base/root" / >/dev/null
  b commit -q "$c" localhost/tensord-base >/dev/null
  b rm "$c" >/dev/null
  rm -rf "$work/base/root" && touch "$work/base/made"
fi

echo "image: buildah, as the Dockerfile says"
b bud --isolation chroot --layers --format docker --build-arg BASE=localhost/tensord-base ${mpi:+--build-arg MPI=1} ${gpu:+--build-arg GPU=1} \
  ${GRPC_ARCHIVE:+--volume "$(realpath "$GRPC_ARCHIVE"):/grpcio.tar.gz:ro" --build-arg GRPC_ARCHIVE=/grpcio.tar.gz} \
  ${CCACHE_DIR:+--volume "$CCACHE_DIR:/root/.cache/ccache"} -t "localhost/$name" . >"$work/build.log" 2>&1 ||
  { tail -40 "$work/build.log" >&2; exit 1; }
sed -n '/^unpacked:/,/^[^0-9u]/p' "$work/build.log" | grep -E '^[0-9u]' || true
rm -f "$work/$name.tar"
b push -q "localhost/$name" "docker-archive:$work/$name.tar:$name:latest"
echo "$work/$name.tar: $(du -m "$work/$name.tar" | cut -f1) MB"
[ -z "$check" ] || TENSORD_IMAGE_DIR="$work" deploy/image_check.sh "$name"
