#!/usr/bin/env bash
# Starts an image that deploy/image.sh has built, as its configuration says (entry point, environment, user, volume) and as
# `docker run --read-only` would: a root that cannot be written, no capabilities, no new privileges, mounts, processes and a network of
# its own; asks it over REST and gRPC, runs its HEALTHCHECK, and stops it.   deploy/image_check.sh [NAME]
# As root, without a container runtime: the root is what buildah mounts, entered with unshare and chroot.
set -euo pipefail
cd "$(dirname "$0")/.."
[ "${1:-}" = --inside ] || exec unshare --net "$0" --inside "${1:-tensord}"
ip link set lo up
name=$2
work=${TENSORD_IMAGE_DIR:-$PWD/build/image}
b() { buildah --root "$work/storage" --runroot "$work/run" --storage-driver vfs "$@"; }

c=$(b from --pull-never "localhost/$name")
root=$(b mount "$c")
log=$(mktemp) state=$(mktemp -d) container=""
finish() {
  [ -z "$container" ] || kill -KILL "$container" 2>/dev/null || true
  b umount "$c" >/dev/null || true
  b rm "$c" >/dev/null || true
  rm -rf "$log" "$state"
}
trap finish EXIT
config=$(b inspect --type image "localhost/$name" | jq '.Docker.config')
field() { jq -r "$1" <<<"$config"; }
mapfile -t entry < <(field '.Entrypoint[]')
# shellcheck disable=SC2034
mapfile -t health < <(field '.Healthcheck.Test[1:][]')
mapfile -t environment < <(field '.Env[]?' | grep -v '^MODEL_NAME=')
user=$(field .User) volume=$(field '.Volumes | keys[0]')
chown "$(stat -c %u:%g "$root$volume")" "$state" && chmod "$(stat -c %a "$root$volume")" "$state" # a volume begins as the image's folder

# A command in the image, with deploy/models at /models; -e MODEL_NAME=digits.
contained() {
  # shellcheck disable=SC2016
  exec env -i PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "${environment[@]}" MODEL_NAME=digits \
    unshare --mount --pid --ipc --uts --fork --kill-child bash -c '
    set -euo pipefail
    root=$1 models=$2 state=$3 volume=$4 user=$5
    shift 5
    mount --make-rprivate / && mount --bind "$root" "$root"
    mount --bind "$models" "$root/models" && mount -o remount,bind,ro "$root/models"
    mount --bind "$state" "$root$volume"
    mount -t proc proc "$root/proc"
    mount -t tmpfs -o mode=755,size=64k dev "$root/dev"
    for d in null zero urandom; do touch "$root/dev/$d" && mount --bind /dev/$d "$root/dev/$d"; done
    mount -o remount,bind,ro "$root"
    exec setpriv --no-new-privs chroot --userspec="$user" --groups= "$root" "$@"' \
    contained "$root" "$PWD/deploy/models" "$state" "$volume" "$user" "$@"
}
fail() { echo "deploy/image_check.sh: $*" >&2; cat "$log" >&2; exit 1; }
answers() { # WORD COMMAND..: what it prints holds the word
  local want=$1 got
  shift
  got=$("$@" 2>&1) || fail "no answer of $*: $got"
  grep -q "$want" <<<"$got" || fail "$* answered $got, not $want"
}

contained "${entry[@]}" 2>"$log" &
container=$!
for _ in $(seq 100); do
  grep -q 'ready: port=8500 rest_api_port=8501$' "$log" && break
  kill -0 $container 2>/dev/null || fail "it ended"
  sleep 0.1
done
pid=$(pgrep -P $container) # process 1 of the container
# shellcheck disable=SC2016
five='[[0,5,12,13,16,16,2,0],[0,11,16,15,8,4,0,0],[0,8,14,11,1,0,0,0],[0,8,16,16,14,0,0,0],[0,1,6,6,16,0,0,0],[0,0,0,5,16,3,0,0],[0,1,5,15,13,0,0,0],[0,4,15,16,2,0,0,0]]'
answers '"digit": 5' curl -fsS -d "{\"instances\": [$five]}" http://127.0.0.1:8501/v1/models/digits:predict
answers 'digit: int64\[1\] = \[5\]' eval '(contained /usr/local/bin/tensorctl predict digits --inputs "images=[$five]")'
answers SERVING eval '(contained "${health[@]}")'
(contained /bin/sh -c 'echo x >/usr/x') 2>/dev/null && fail "its root can be written"
status=$(grep -E '^(Uid|CapPrm|NoNewPrivs)' "/proc/$pid/status" | tr -s '\t\n' ' ')
[ "$status" = "Uid: 10001 10001 10001 10001 CapPrm: 0000000000000000 NoNewPrivs: 1 " ] || fail "it runs as $status"
echo "answers over REST and gRPC, healthy; $status; resident: $(awk '/^VmRSS/ { print int($2 / 1024) }' "/proc/$pid/status") MB"
kill -TERM "$pid"
code=0
wait $container || code=$?
container=""
[ $code = 0 ] || fail "it ended with $code after SIGTERM"
echo "stopped by SIGTERM, exit status 0"
