# Turns the output of the benchmarks into one table: name with target, and the median of criterion.
# Lines that a benchmark prints itself, as "result: NAME | VALUE", are taken as they are.
/^result: / { sub(/^result: /, ""); split($0, part, " [|] "); row(part[1], part[2]); next }
/time: +\[/ {
    name = $0; sub(/ +time: .*/, "", name)
    if (name == "") name = last
    time = $0; sub(/.*time: +\[/, "", time); split(time, word, " ")
    row(name, word[3] " " word[4]); next
}
/^[^ ].*/ { last = $0 }
function row(name, value) { names[++count] = name; values[count] = value; if (length(name) > width) width = length(name) }
END { for (i = 1; i <= count; i++) printf "%-*s  %s\n", width, names[i], values[i] }
