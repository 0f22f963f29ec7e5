#!/usr/bin/env bash
# Equal budgets for each method on one contended preset, on a lab of two disks; prints what each found.
# usage: bench/search-lab.sh AFFLUX OUT [BUDGET]
set -euo pipefail
afflux=$1 out=$2 budget=${3:-30min}
mkdir -p "$out"
trap '"$afflux" lab down --dir "$out/lab" --wipe >/dev/null 2>&1 || true' EXIT
trap 'exit 2' INT TERM
"$afflux" lab up --servers 2 --device hdd --dir "$out/lab" >/dev/null
for method in sharp:m=off random grid; do
  printf '\n## %s, %s\n' "$method" "$budget"
  "$afflux" search small-reads --on "lab:$out/lab" --method "$method" --budget "$budget" \
    --length 4s --settle 1s --pairs 8 --out "$out/${method%%:*}"
done
