#!/usr/bin/env python3
"""What `afflux bench` alone cannot compare on a Ceph cluster, in alternating rounds.

usage: cluster.sh [OPTIONS] -- measure.py plain AFFLUX [ROUNDS]
       cluster.sh [OPTIONS] -- measure.py windows AFFLUX WORKLOAD CSV [ROUNDS [RULES]]
       cluster.sh [OPTIONS] -- measure.py settings AFFLUX WORKLOAD ROUNDS SETTING...
       cluster.sh [OPTIONS] -- measure.py shares AFFLUX WORKLOAD [ROUNDS]
       cluster.sh [OPTIONS] -- measure.py groups AFFLUX WORKLOAD [ROUNDS]

plain   the rados engine, and all of Afflux, against a plain loop over the client library (plain.c,
        compiled here), with the same sizes, places and requests under way; on four servers. The
        engine is that of target/release/examples/rados_loop, which `cargo build --release --package
        afflux-store --example rados_loop` makes. What a run gives depends on how connections fall on
        threads when it starts, so that many short runs say more than a few long ones
windows fixed windows, and rules beside them if there are some: throughput and median process time; the
        means also go to CSV, from which windows.gp draws
settings
        policies (`none`, `fixed:4`) and files of rules side by side: what each changes in throughput,
        process time and the deviation between clients against the first of them
shares  two users of the same servers at once, each a process of its own, with windows that are the
        same or not: what each gets
groups  the clients of a workload on all servers, against each on servers of its own

Means over the rounds with an interval of 95 %; ratios are taken within rounds. Each round takes all
sides once, forwards and backwards in turn.
"""

import json
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
LENGTH, SETTLE = 5, 1
PLAIN_DEPTH, PLAIN_BYTES, PLAIN_POOLS, PLAIN_LENGTH = 16, 256 << 10, 4, 2
WINDOWS = [1, 2, 4, 8, 16, 32, 64]
# Windows of the two users.
SHARES = [(8, 8), (16, 2), (2, 16), (16, 4), (64, 8)]
# Quantiles of Student's t at 97.5 % for 1, 2, ... degrees of freedom.
T = [12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20]
T_FROM_20, T_FROM_40 = 2.09, 2.02


def interval(values):
    """Mean and half width of its interval."""
    mean = statistics.mean(values)
    count = len(values)
    quantile = T_FROM_40 if count > 40 else T_FROM_20 if count > 20 else T[min(count - 2, len(T) - 1)]
    return mean, quantile * statistics.stdev(values) / math.sqrt(len(values))


def shown(values, unit):
    mean, wide = interval(values)
    return f"{mean:8.2f} ±{wide:5.2f} {unit}"


def rounds(count, sides):
    """What each side's run gave, by round; each side is a function without arguments."""
    found = {name: [] for name in sides}
    for number in range(count):
        print(f"round {number + 1} of {count}", file=sys.stderr)
        for name in list(sides) if number % 2 == 0 else reversed(list(sides)):
            found[name].append(sides[name]())
    return found


def bench(afflux, workload, policy, option="--policy", length=LENGTH):
    """A run that has begun."""
    command = [afflux, "bench", workload, "--on", "rados", option, policy, "--json"]
    command += ["--length", f"{length}s", "--settle", f"{SETTLE}s"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)


def summary(run):
    """The numbers of a run that began."""
    out, _ = run.communicate()
    if run.returncode:
        sys.exit(f"{run.args} ended with {run.returncode}")
    return json.loads(out)["summary"]


def plain(afflux, count):
    with tempfile.TemporaryDirectory() as folder:
        loop = folder + "/plain"
        source = HERE + "/plain.c"
        compile = ["cc", "-O2", source, "-o", loop, "-l:librados.so.2", "-lpthread"]
        subprocess.run(compile, check=True)

        def with_loop(program, kind):
            words = [kind, PLAIN_BYTES, PLAIN_DEPTH, PLAIN_LENGTH, SETTLE]
            command = [*program, PLAIN_POOLS, *words]
            out = subprocess.run(list(map(str, command)), check=True, stdout=subprocess.PIPE).stdout
            return float(out)

        def with_bench(kind):
            workload = f"{HERE}/workloads/plain-{kind}.toml"
            run = bench(afflux, workload, f"fixed:{PLAIN_DEPTH}", length=PLAIN_LENGTH)
            return summary(run)["total_mb_s"]

        engine = os.path.dirname(afflux) + "/examples/rados_loop"
        for kind in ["write", "read"]:
            sides = {"loop": lambda: with_loop([loop, os.environ["CEPH_CONF"]], kind),
                     "engine": lambda: with_loop([engine], kind),
                     "bench": lambda: with_bench(kind)}
            for side in sides.values():
                side()  # Makes its files.
            found = rounds(count, sides)
            for side in sides:
                ratio = [100 * rate / plain for rate, plain in zip(found[side], found["loop"])]
                print(f"{kind:6} {side:7} {shown(found[side], 'MB/s')}   of the loop "
                      f"{shown(ratio, '%')}")


def side_by_side(afflux, workload, count, settings):
    """What each setting, a policy or a file of rules, gave by round."""
    def once(setting):
        option = "--rules" if setting.endswith(".rules") else "--policy"
        return summary(bench(afflux, workload, setting, option))

    once(settings[0])  # Makes the files.
    return rounds(count, {setting: lambda setting=setting: once(setting) for setting in settings})


def settings(afflux, workload, count, *wanted):
    found = side_by_side(afflux, workload, count, wanted)
    base = found[wanted[0]]

    def change(runs, key):
        values = [100 * (run[key] / of[key] - 1) for run, of in zip(runs, base) if of[key]]
        return shown(values, "%") if len(values) > 1 else "?"

    for setting, runs in found.items():
        print(f"{setting:24} {shown([run['total_mb_s'] for run in runs], 'MB/s')}", end="")
        if setting != wanted[0]:
            print(f"   against {wanted[0]}: throughput {change(runs, 'total_mb_s')}   median "
                  f"{change(runs, 'p50_ms')}   between clients {change(runs, 'between_mb_s')}", end="")
        print()


def windows(afflux, workload, out, count, *rules):
    settings = [f"fixed:{window}" for window in WINDOWS] + list(rules)
    found = side_by_side(afflux, workload, count, settings)
    best = max(statistics.mean(run["total_mb_s"] for run in runs) for runs in found.values())
    with open(out, "w") as csv:
        csv.write("window,mb_s,mb_s_half_width,p50_ms,p50_ms_half_width\n")
        for setting, runs in found.items():
            rate = [run["total_mb_s"] for run in runs]
            time = [run["p50_ms"] for run in runs]
            print(f"{setting:24} {shown(rate, 'MB/s')} {100 * statistics.mean(rate) / best:6.1f} % of "
                  f"the best   median {shown(time, 'ms')}")
            number = setting.split(":")[-1] if setting.startswith("fixed") else "rules"
            numbers = [*interval(rate), *interval(time)]
            csv.write(",".join([number] + [f"{value:.3f}" for value in numbers]) + "\n")


def user(text, name, folder):
    """The workload under another name, so that its files are others."""
    path = f"{folder}/{name}.toml"
    with open(path, "w") as file:
        file.write(re.sub(r'(?m)^name = "(.*)"', rf'name = "\1-{name}"', text, count=1))
    return path


def shares(afflux, workload, count):
    with open(workload) as file, tempfile.TemporaryDirectory() as folder:
        text = file.read()
        users = [user(text, name, folder) for name in ["a", "b"]]
        for one in users:
            summary(bench(afflux, one, "none"))  # Makes its files.

        def both(windows):
            runs = [bench(afflux, one, f"fixed:{w}") for one, w in zip(users, windows)]
            return [summary(run) for run in runs]

        found = rounds(count, {windows: lambda windows=windows: both(windows)
                               for windows in SHARES})
        print("windows    MB/s of each                            share of the first   of windows")
        for windows, runs in found.items():
            rates = [[run[user]["total_mb_s"] for run in runs] for user in (0, 1)]
            share = [100 * a / (a + b) for a, b in zip(*rates)]
            print(f"{windows[0]:3} : {windows[1]:<3}  {shown(rates[0], '')}  {shown(rates[1], '')}"
                  f"  {shown(share, '%')}   {100 * windows[0] / sum(windows):5.1f} %")


def groups(afflux, workload, count):
    with open(workload) as file, tempfile.TemporaryDirectory() as folder:
        text = file.read()
        apart = folder + "/apart.toml"
        with open(apart, "w") as file:
            file.write(text.replace("[files]\n", "[files]\nstripe_count = 1\n", 1))
        together = user(text, "together", folder)
        for one in [together, apart]:
            summary(bench(afflux, one, "none"))  # Makes its files.
        for policy in ["fixed:8", "fixed:32"]:
            found = rounds(count, {"together": lambda: summary(bench(afflux, together, policy)),
                                   "apart": lambda: summary(bench(afflux, apart, policy))})
            rate = {side: [run["total_mb_s"] for run in runs] for side, runs in found.items()}
            gain = [100 * (a / b - 1) for a, b in zip(rate["apart"], rate["together"])]
            print(f"{policy:9} all on all servers {shown(rate['together'], 'MB/s')}   each on its "
                  f"own {shown(rate['apart'], 'MB/s')}   gain {shown(gain, '%')}")


def main():
    words = sys.argv[1:]
    wanted = {"plain": (plain, 2), "windows": (windows, 4), "settings": (settings, 3),
              "shares": (shares, 3), "groups": (groups, 3)}
    if not words or words[0] not in wanted or "CEPH_CONF" not in os.environ:
        sys.exit(__doc__)
    run, count = wanted[words[0]]
    most = {windows: count + 2, settings: len(words)}.get(run, count + 1)
    if not count <= len(words) <= most or run is settings and len(words) < count + 3:
        sys.exit(__doc__)
    run(*words[1:count], int(words[count]) if len(words) > count else 6, *words[count + 1:])


main()
