#!/usr/bin/env bash
# The file system of the image: tensord and tensorctl with the libraries that they load, and nothing else but a shell for the entry point.
#   deploy/image_root.sh PREFIX OUT      PREFIX: where `cmake --install` put them; OUT: a new directory. Prints what weighs.
# A Debian 12 with the packages of `deploy/packages.sh build run image`, as in the Dockerfile's first stage.
set -euo pipefail
prefix=$1 out=$(realpath -m "$2")
lib=/usr/lib/x86_64-linux-gnu
[ "$(uname -m)" = x86_64 ] || lib=/usr/lib/$(gcc -dumpmachine)
mkdir -p "$out"/{usr/bin,usr/lib64,usr/local/bin,"${lib#/}",etc/ssl/certs,tmp,models,var/lib/tensord,proc,sys,dev}
for link in bin lib lib64; do ln -s usr/$link "$out/$link"; done
chmod 1777 "$out/tmp"

install -m755 "$prefix/bin/tensord" "$prefix/bin/tensorctl" "$out/usr/local/bin/"
install -m755 /bin/dash "$out/usr/bin/sh"
cp /etc/ssl/certs/ca-certificates.crt "$out/etc/ssl/certs/" # certificates of collectors that --otlp_endpoint names
printf 'root:x:0:0:root:/:/bin/sh\ntensord:x:10001:0:tensord:/var/lib/tensord:/bin/sh\n' >"$out/etc/passwd"
printf 'root:x:0:\n' >"$out/etc/group"
printf 'passwd: files\ngroup: files\nhosts: files dns\n' >"$out/etc/nsswitch.conf"

# Each library under the name that is asked for: the loader looks here without a cache. OpenBLAS is opened by name, when it is needed.
libraries() { ldd "$@" | awk '$2 == "=>" && $3 ~ /^\// { print $1, $3 } $1 ~ /ld-linux/ { print $1, $1 }' | sort -u; }
blas=$(ls "$lib"/openblas-pthread/libopenblas.so.0)
module=$prefix/lib/tensord/tensord_cuda.so
if [ -e "$module" ]; then
  install -D -m755 "$module" "$out/usr/local/lib/tensord/tensord_cuda.so"
  echo 12 >"$out/etc/debian_version" # so NVIDIA's container toolkit puts the driver's libraries where the loader looks here
else
  module=""
fi
{ libraries "$prefix/bin/tensord" "$prefix/bin/tensorctl" "$blas" /bin/dash ${module:+"$module"}; echo "libopenblas.so.0 $blas"; } | sort -u |
  while read -r name path; do
    case $name in
    /*) install -D -m755 "$(readlink -f "$path")" "$out/usr$name" ;;
    *) install -m644 "$(readlink -f "$path")" "$out$lib/$name" ;;
    esac
  done

# ICU's data are 31 MB of locales; decoding of text needs its tables of character sets alone.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
version=$(basename "$(readlink -f "$lib"/libicudata.so)" | sed 's/.*so\.\([0-9]*\).*/\1/')
(
  cd "$work"
  ar x "$lib"/libicudata.a
  objcopy -O binary -j .rodata ./*.o "icudt${version}l.dat"
  /usr/sbin/icupkg -l "icudt${version}l.dat" | grep -vE '^[^/]*\.cnv$|^cnvalias\.icu$' >others.txt
  mkdir slim
  /usr/sbin/icupkg -r others.txt "icudt${version}l.dat" "slim/icudt${version}l.dat" # names of items begin as the file's
  symbol=icudt${version}_dat
  printf '.globl %s\n.type %s,@object\n.section .rodata\n.balign 16\n%s: .incbin "slim/icudt%sl.dat"\n.section .note.GNU-stack,"",@progbits\n' \
    "$symbol" "$symbol" "$symbol" "$version" >data.S
  gcc -shared -nostdlib -Wl,-soname,"libicudata.so.$version" -o "$out$lib/libicudata.so.$version" data.S
)

echo "unpacked: $(du -sm --apparent-size "$out" | cut -f1) MB; what weighs (KiB):"
find "$out" -type f -size +500k -printf '%k\t%P\n' | sort -rn
