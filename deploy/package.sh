#!/usr/bin/env bash
# Builds a package for this Debian: the daemon and tensorctl with gRPC's C core in them (deploy/grpc.sh), the C library, man pages, and the
# systemd unit, not enabled.   deploy/package.sh [OUT]      OUT: where tensord_VERSION_ARCH.deb goes; build/package
# Needs root or sudo for missing packages alone. GRPC_ROOT: where gRPC is built, or shall be; build/grpc. GRPC_ARCHIVE: see deploy/grpc.sh.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$(realpath -m "${1:-build/package}")
grpc=$(realpath -m "${GRPC_ROOT:-build/grpc}")
deploy/packages.sh build grpc package
deploy/grpc.sh "$grpc"
work=$out/work
rm -rf "$work/root" "$work/debian"
mkdir -p "$work/root/DEBIAN" "$work/debian"

cmake --preset release -B "$work/build" -DTD_GRPC=source -DTD_GRPC_ROOT="$grpc" -DCMAKE_INSTALL_PREFIX=/usr \
  -DCMAKE_INSTALL_LIBDIR="lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH)" >"$work/configure.log" || { tail -20 "$work/configure.log" >&2; exit 1; }
cmake --build "$work/build" --target tensord tensorctl tensord_shared man >"$work/build.log" 2>&1 || { tail -20 "$work/build.log" >&2; exit 1; }
DESTDIR=$work/root cmake --install "$work/build" --strip >"$work/install.log"
gzip -9nf "$work"/root/usr/share/man/man1/*.1
install -d "$work/root/lib/systemd/system" "$work/root/usr/share/doc/tensord"
sed 's#/usr/local/bin/#/usr/bin/#' deploy/tensord.service >"$work/root/lib/systemd/system/tensord.service"
install -m644 LICENSE "$work/root/usr/share/doc/tensord/copyright"

# What the programs are linked to, with the versions that they need. OpenBLAS is opened by name.
version=$(sed -n 's/^project(tensord VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
printf 'Source: tensord\n\nPackage: tensord\nArchitecture: any\n' >"$work/debian/control"
depends=$(cd "$work" && find root/usr -type f \( -perm -u+x -o -name '*.so.*' \) -exec dpkg-shlibdeps -O {} + 2>"$work/depends.log" | sed -n 's/^shlibs:Depends=//p')
cat >"$work/root/DEBIAN/control" <<EOF
Package: tensord
Version: $version
Architecture: $(dpkg --print-architecture)
Maintainer: the maintainers of tensord <root@localhost>
Section: science
Priority: optional
Installed-Size: $(du -sk --apparent-size "$work/root/usr" | cut -f1)
Depends: $depends, libopenblas0-pthread, ca-certificates
Description: server of TensorFlow SavedModels
 Serves SavedModels over TensorFlow Serving's REST and gRPC APIs and KServe v2,
 differentiates and fine-tunes them. gRPC's C core is linked statically.
EOF
deb=$out/tensord_${version}_$(dpkg --print-architecture).deb
dpkg-deb --root-owner-group --build "$work/root" "$deb" >/dev/null
echo "$deb: $(du -m "$deb" | cut -f1) MB, $(du -sm --apparent-size "$work/root" | cut -f1) MB installed; $depends"
