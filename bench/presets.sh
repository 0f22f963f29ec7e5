#!/usr/bin/env bash
# Every preset under every kind of control on a lab of two disks; writes a page. About 40 minutes.
# usage: bench/presets.sh AFFLUX PAGE
set -euo pipefail
afflux=$1 page=$2
presets=$("$afflux" bench --json | grep '"name"' | cut -d'"' -f4)
lab=$(mktemp -d)
trap '"$afflux" lab down --dir "$lab/${preset:-}" --wipe >/dev/null 2>&1 || true; rm -rf "$lab"' EXIT
trap 'exit 2' INT TERM
cat bench/presets-head.md >"$page.part"
for preset in $presets; do
  # A lab of its own for each preset, so that all find an empty disk.
  "$afflux" lab up --servers 2 --device hdd --dir "$lab/$preset" >/dev/null
  {
    printf '\n## %s\n\n```\n' "$preset"
    "$afflux" bench "$preset" --survey --on "lab:$lab/$preset" --length 6s --settle 2s --pairs 4 |
      sed "s|lab:$lab/$preset|a lab of 2 x hdd|"
    printf '```\n'
  } >>"$page.part"
  "$afflux" lab down --dir "$lab/$preset" --wipe
done
mv "$page.part" "$page"
