#!/usr/bin/env python3
"""Measures Incast with real TCP in network namespaces.

    bench/incast/measure.py [--profile legacy,modern] [--servers 1,2,4] [--buffer 32768] ...

N servers behind shaped uplinks answer one client over a bridge whose port to the client holds
little. In a round the client asks W of the N servers at once for a piece each, and the next server
as each piece ends, until all have answered. Prints one line of tab-separated values for each run.
Needs root, `ip` and `tc`; touches nothing outside namespaces whose names begin with
`aflx-incast`, and removes those.
"""
import argparse
import array
import ctypes
import fcntl
import multiprocessing
import os
import select
import socket
import statistics
import struct
import subprocess
import sys
import threading
import time

PREFIX = "aflx-incast"
SWITCH, CLIENT = f"{PREFIX}-sw", f"{PREFIX}-c"
PORT = 7000
LIBC = ctypes.CDLL(None, use_errno=True)

LEGACY = {"tcp_congestion_control": "reno", "tcp_early_retrans": "0", "tcp_recovery": "0"}
MODERN = {"tcp_congestion_control": "reno", "tcp_early_retrans": "3", "tcp_recovery": "1"}
PROFILES = {"legacy": LEGACY, "modern": MODERN}
COMMON = {"tcp_no_metrics_save": "1", "tcp_ecn": "0", "tcp_sack": "1"}


def run(*command, check=True):
    done = subprocess.run(command, capture_output=True, text=True)
    if check and done.returncode:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def inside(namespace, *command):
    return run("ip", "netns", "exec", namespace, *command)


def enter(namespace):
    with open(f"/run/netns/{namespace}") as file:
        if LIBC.setns(file.fileno(), 0):
            raise OSError(ctypes.get_errno(), namespace)


def within(namespace, function, *values):
    """Calls a function in a process of its own, in a namespace."""
    process = multiprocessing.Process(target=lambda: (enter(namespace), function(*values)))
    process.start()
    process.join()
    if process.exitcode:
        sys.exit(f"{function.__name__} failed in {namespace}")


def packets_only(device):
    """No segments joined by sender or receiver, and checksums as on a wire (SIOCETHTOOL)."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as at:
        # Sets tso, gso, gro, sg, tx and rx checksums.
        for command in (0x1F, 0x24, 0x2C, 0x19, 0x17, 0x15):
            value = array.array("I", [command, 0])
            fcntl.ioctl(at, 0x8946, struct.pack("16sP", device.encode(), value.buffer_info()[0]))


def tear_down():
    for line in run("ip", "netns", "list").splitlines():
        if line.startswith(PREFIX):
            run("ip", "netns", "del", line.split()[0])


def node(namespace, address, port, profile, rto_us):
    run("ip", "netns", "add", namespace)
    run("ip", "link", "add", "e0", "netns", namespace, "mtu", "1500", "type", "veth",
        "peer", "name", port, "netns", SWITCH, "mtu", "1500")
    run("ip", "-n", namespace, "addr", "add", f"{address}/24", "dev", "e0")
    run("ip", "-n", namespace, "link", "set", "lo", "up")
    run("ip", "-n", namespace, "link", "set", "e0", "up")
    run("ip", "-n", SWITCH, "link", "set", port, "master", "br0", "up")
    for where, device in ((namespace, "e0"), (SWITCH, port)):
        within(where, packets_only, device)
    settings = COMMON | PROFILES[profile] | {"tcp_rto_min_us": str(rto_us)}
    pairs = [f"net.ipv4.{key}={value}" for key, value in settings.items()]
    inside(namespace, "sysctl", "-qw", *pairs)


def bring_up(servers, args, profile, buffer):
    tear_down()
    run("ip", "netns", "add", SWITCH)
    run("ip", "-n", SWITCH, "link", "add", "br0", "type", "bridge")
    run("ip", "-n", SWITCH, "link", "set", "br0", "up", "mtu", "1500")
    node(CLIENT, "10.77.0.1", "pc", profile, args.rto_us)
    inside(SWITCH, "tc", "qdisc", "replace", "dev", "pc", "root", "tbf", "rate", f"{args.rate}mbit",
           "burst", str(args.burst), "limit", str(buffer))
    for server in range(servers):
        namespace = f"{PREFIX}-s{server}"
        node(namespace, f"10.77.0.{10 + server}", f"p{server}", profile, args.rto_us)
        inside(namespace, "tc", "qdisc", "replace", "dev", "e0", "root", "tbf",
               "rate", f"{args.rate}mbit", "burst", str(args.burst), "limit", "4m")


def answer(connection):
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    data = bytes(1 << 22)
    try:
        while True:
            asked = connection.recv(4, socket.MSG_WAITALL)
            if len(asked) < 4:
                return
            connection.sendall(memoryview(data)[:int.from_bytes(asked, "big")])
    except OSError:
        return


def serve(server, ready):
    enter(f"{PREFIX}-s{server}")
    listener = socket.create_server(("", PORT))
    ready.release()
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=answer, args=(connection,), daemon=True).start()


def serve_all(servers, ready):
    for server in range(servers):
        threading.Thread(target=serve, args=(server, ready), daemon=True).start()
    signal = threading.Event()
    signal.wait()


def ask(servers, piece, window, depth, secs, results):
    """Rounds until the time is over; `depth` pieces of each server, `window` asked for at once."""
    enter(CLIENT)
    connections = []
    for server in range(servers):
        connection = socket.create_connection((f"10.77.0.{10 + server}", PORT))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setblocking(False)
        connections.append(connection)
    request = piece.to_bytes(4, "big")
    poll = select.epoll()
    for index, connection in enumerate(connections):
        poll.register(connection.fileno(), select.EPOLLIN)
    by_file = {connection.fileno(): index for index, connection in enumerate(connections)}
    rounds, start = [], time.monotonic()
    while time.monotonic() - start < secs:
        began = time.monotonic()
        queue = [server for _ in range(depth) for server in range(servers)]
        missing = [0] * servers
        for _ in range(min(window, len(queue))):
            server = queue.pop(0)
            missing[server] += piece
            connections[server].send(request)
        while any(missing):
            for file, _ in poll.poll(10):
                server = by_file[file]
                data = len(connections[server].recv(1 << 18))
                before = -(-missing[server] // piece)
                missing[server] -= data
                for _ in range(before - -(-missing[server] // piece)):
                    if queue:
                        other = queue.pop(0)
                        missing[other] += piece
                        connections[other].send(request)
        rounds.append(time.monotonic() - began)
    took = time.monotonic() - start
    results.put((servers * depth * piece * len(rounds) * 8 / took / 1e6, rounds))


def counters(servers):
    names = {"RetransSegs": 0, "TCPTimeouts": 0, "TCPLossProbes": 0}
    for server in range(servers):
        files = ("/proc/net/snmp", "/proc/net/netstat")
        text = inside(f"{PREFIX}-s{server}", "cat", *files).splitlines()
        for head, values in zip(text[::2], text[1::2]):
            for name, value in zip(head.split(), values.split()):
                if name in names:
                    names[name] += int(value)
    return names


def measure(servers, args, profile, buffer, window):
    bring_up(servers, args, profile, buffer)
    ready, results = multiprocessing.Semaphore(0), multiprocessing.Queue()
    server = multiprocessing.Process(target=serve_all, args=(servers, ready), daemon=True)
    server.start()
    for _ in range(servers):
        ready.acquire()
    client = multiprocessing.Process(
        target=ask, daemon=True,
        args=(servers, args.piece, window or servers * args.depth, args.depth, args.secs, results))
    client.start()
    goodput, rounds = results.get(timeout=args.secs + 60)
    client.join()
    seen = counters(servers)
    server.terminate()
    server.join()
    tear_down()
    stalls = sum(one > 0.15 for one in rounds)
    print(profile, args.rate, buffer, args.burst, args.piece, args.depth, servers,
          window or "all",
          f"{goodput:.1f}", len(rounds), stalls, f"{statistics.median(rounds) * 1e3:.1f}",
          seen["RetransSegs"], seen["TCPTimeouts"], seen["TCPLossProbes"], sep="\t", flush=True)


def main():
    numbers = lambda text: [int(one) for one in text.split(",")]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--profile", default="legacy", help="legacy, modern, or both with a comma")
    parser.add_argument("--servers", type=numbers, default=[1, 2, 4, 6, 8])
    parser.add_argument("--buffer", type=numbers, default=[32768], help="bytes of the port")
    parser.add_argument("--window", type=numbers, default=[0], help="pieces at once; 0: all")
    parser.add_argument("--piece", type=int, default=32768, help="bytes of a piece")
    parser.add_argument("--depth", type=int, default=1, help="pieces of each server in a round")
    parser.add_argument("--rate", type=int, default=100, help="Mbit/s of every link")
    parser.add_argument("--burst", type=int, default=15360, help="tokens of each shaper, bytes")
    parser.add_argument("--rto-us", type=int, default=200_000, help="least time-out")
    parser.add_argument("--secs", type=float, default=6)
    parser.add_argument("--repeat", type=int, default=1)
    args = parser.parse_args()
    print(*"profile rate buffer burst piece depth servers window mbit_s".split(),
          *"rounds stalls p50_ms retrans timeouts probes".split(), sep="\t")
    try:
        for _ in range(args.repeat):
            for buffer in args.buffer:
                for window in args.window:
                    for servers in args.servers:
                        for profile in args.profile.split(","):
                            measure(servers, args, profile, buffer, window)
    finally:
        tear_down()


main()
