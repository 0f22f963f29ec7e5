#!/usr/bin/env python3
"""Credits against static windows on a lab in real time, in alternating rounds.

usage: lab.py AFFLUX [ROUNDS]

Each round runs each setting once, on a fresh lab of one modelled disk, forwards and backwards in
turn. Prints the mean of each setting over the rounds, and beside each static window the gain of
credits over it in pairs, with an interval of 95 %. A round takes about four minutes.
"""

import json
import math
import statistics
import subprocess
import sys
import tempfile

# Preset, bound in milliseconds, options of the credits, static windows beside them. The first
# window is the best that keeps the bound, as a sweep over 1 to 8 found it.
CASES = [
    ("random-write", 400, "L_max=400ms,fractions=on,window=2s", [2, 3]),
    ("crowd", 2000, "L_max=2s,fractions=on", [1, 2]),
]
LENGTH, SETTLE = "20s", "5s"
# Quantiles of Student's t at 97.5 % for 1, 2, ... degrees of freedom.
T = [12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20]


def run(afflux, preset, window, credits):
    """MB/s and mean process time in milliseconds of one run on a lab of its own."""
    with tempfile.TemporaryDirectory() as folder:
        lab = folder + "/lab"
        up = [afflux, "lab", "up", "--servers", "1", "--device", "hdd", "--dir", lab]
        subprocess.run(up + (["--credits", credits] if credits else []), check=True,
                       stdout=subprocess.DEVNULL)
        try:
            bench = [afflux, "bench", preset, "--on", "lab:" + lab, "--policy", window]
            bench += ["--length", LENGTH, "--settle", SETTLE, "--json"]
            out = subprocess.run(bench, check=True, stdout=subprocess.PIPE,
                                 stderr=subprocess.DEVNULL).stdout
        finally:
            subprocess.run([afflux, "lab", "down", "--dir", lab], check=True,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    summary = json.loads(out)["summary"]
    return summary["total_mb_s"], summary["access_ms"] + summary["queue_ms"]


def interval(values):
    """Mean and half width of its interval; none for a single value."""
    mean = statistics.mean(values)
    if len(values) < 2:
        return mean, math.nan
    quantile = T[min(len(values) - 2, len(T) - 1)]
    return mean, quantile * statistics.stdev(values) / math.sqrt(len(values))


def main():
    if not 2 <= len(sys.argv) <= 3:
        sys.exit(__doc__)
    afflux, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) == 3 else 6
    settings = [(preset, setting) for preset, _, credits, windows in CASES
                for setting in [("fixed:64", credits)] + [(f"fixed:{w}", None) for w in windows]]
    found = {setting: [] for setting in settings}
    for number in range(rounds):
        print(f"round {number + 1} of {rounds}", file=sys.stderr)
        for preset, setting in settings if number % 2 == 0 else reversed(settings):
            found[preset, setting].append(run(afflux, preset, *setting))
    print(f"{rounds} rounds of {LENGTH} after {SETTLE}")
    for preset, bound, credits, windows in CASES:
        own = found[preset, ("fixed:64", credits)]
        for setting in [("fixed:64", credits)] + [(f"fixed:{w}", None) for w in windows]:
            runs = found[preset, setting]
            rate, wide = interval([rate for rate, _ in runs])
            mean, off = interval([time for _, time in runs])
            line = f"{preset:13} {setting[1] or setting[0]:36} {rate:6.1f} ±{wide:4.1f} MB/s"
            line += f"  mean PT {mean:5.0f} ±{off:4.0f} ms of {bound}"
            if setting[1] is None:
                gain, wide = interval([100 * (a[0] / b[0] - 1) for a, b in zip(own, runs)])
                line += f"  credits {gain:+.1f} ±{wide:.1f} %"
            print(line)


main()
