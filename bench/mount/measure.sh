#!/usr/bin/env bash
# What a mount costs: sequential reads and writes of 1 MiB on memory, by fio without and with the mount,
# and by the engine alone; medians of so many rounds, in MB/s. Needs fio, and room for 3 GiB in /dev/shm.
# usage: bench/mount/measure.sh AFFLUX [ROUNDS]
set -euo pipefail
afflux=$(realpath "$1") rounds=${2:-3}
at=$(mktemp -d /dev/shm/afflux-mount.XXXXXX)
mounted=
finish() {
  if [ -n "$mounted" ]; then
    kill "$mounted" 2>/dev/null || true
    wait "$mounted" || true
  fi
  rm -rf "$at"
}
trap finish EXIT
trap 'exit 2' INT TERM
mkdir "$at"/{plain,server,mnt}
"$afflux" mount --on "dirs:$at/server" "$at/mnt" &
mounted=$!
for _ in $(seq 100); do
  grep -q " $at/mnt " /proc/mounts && break
  sleep 0.1
done

# DIRECTORY read|write DIRECT DEPTH: MB/s of one pass over 1 GiB.
by_fio() {
  fio --minimal --name=file --directory="$1" --rw="$2" --direct="$3" --iodepth="$4" --bs=1m --size=1g \
    --ioengine="$([ "$4" = 1 ] && echo psync || echo libaio)" --fallocate=none |
    awk -F';' -v rw="$2" '{ printf "%d\n", $(rw == "read" ? 7 : 48) * 1.024e-3 }'
}

# read|write DEPTH: MB/s of the engine in three seconds.
by_engine() {
  printf '%s\n' 'afflux-workload = 1' 'name = "engine"' 'clients = 1' '[files]' 'each = 1' \
    'size = "1 GiB"' '[[stream]]' "threads = $2" \
    "steps = [{ do = \"$1\", access = \"sequential\", size = \"1 MiB\" }]" >"$at/engine.toml"
  "$afflux" bench "$at/engine.toml" --on "dirs:$at/server" --length 3s --json |
    grep -o '"tp_mb_s": *[0-9.]*' | awk -F: '{ printf "%d\n", $2 }'
}

median() { sort -n | awk '{ all[NR] = $1 } END { print all[int((NR + 1) / 2)] }'; }
# The files are there, and so is their memory, before anything counts.
for directory in plain mnt; do by_fio "$at/$directory" write 0 1 >/dev/null; done
rounds() { for _ in $(seq "$rounds"); do "$@"; done | median; }

echo "| 1 MiB each | under way | without | mount | engine |"
echo "|---|---|---|---|---|"
for rw in write read; do
  for depth in 1 8; do
    plain=$(rounds by_fio "$at/plain" $rw 0 1)
    engine=$(rounds by_engine $rw $depth)
    echo "| $rw, direct | $depth | $plain | $(rounds by_fio "$at/mnt" $rw 1 $depth) | $engine |"
    [ $depth = 8 ] || echo "| $rw, buffered | 1 | $plain | $(rounds by_fio "$at/mnt" $rw 0 1) | $engine |"
  done
done
