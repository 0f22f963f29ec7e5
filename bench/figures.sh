#!/bin/sh
# Makes the figures of a list by `afflux sim`, and a page that shows all of their plots.
set -eu
if [ $# -ne 3 ]; then
    echo "usage: $0 AFFLUX LIST DIR" >&2
    exit 1
fi
afflux=$1 list=$2 dir=$3
mkdir -p "$dir"
index=$dir/index.html
{
    echo '<!doctype html><meta charset="utf-8"><title>Figures of Afflux</title>'
    echo '<meta name="viewport" content="width=device-width, initial-scale=1">'
    echo '<style>:root { color-scheme: light dark; } body { font: 16px system-ui, sans-serif;'
    echo 'max-width: 1160px; margin: 0 auto; padding: 0 16px; }'
    echo 'img { width: min(100%, 540px); vertical-align: top; }'
    echo '</style><h1>Figures</h1>'
} >"$index"
grep -v -e '^#' -e '^ *$' "$list" | while IFS= read -r line; do
    name=${line%%:*}
    echo "$name" >&2
    # The arguments are quoted as for a shell, since settings hold semicolons.
    eval "set -- ${line#*:}"
    "$afflux" sim "$@" --out "$dir/$name" >"$dir/$name.txt"
    {
        echo "<h2><a href=\"$name/report.html\">$name</a></h2>"
        for plot in "$dir/$name"/plots/*.svg; do
            echo "<img alt=\"\" src=\"$name/plots/${plot##*/}\">"
        done
    } >>"$index"
done
echo "the figures are in $index" >&2
