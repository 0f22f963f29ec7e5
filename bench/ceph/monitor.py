"""What cluster.sh asks of the monitor, in one process: each start of `ceph` would cost 0.3 s.

usage: monitor.py address
       monitor.py build ADDRESS FS UUID...

The first prints an address of loopback where no monitor is. The second makes a cluster of the servers
with these identities; it prints `registered` when they may start, and `ready` when all of it is usable.
"""

import concurrent.futures
import json
import random
import socket
import sys
import time

PORT = 3300
PATIENCE_SECS = 120


def free_address():
    """An address of loopback, one of four million, at which this machine has no monitor."""
    while True:
        bytes_of = (127, random.randint(64, 127), random.randint(0, 255), random.randint(1, 254))
        address = ".".join(map(str, bytes_of))
        with socket.socket() as probe:
            try:
                probe.bind((address, PORT))
            except OSError:
                continue
            return address


def until(reached, what):
    """Waits until `reached()`."""
    deadline = time.monotonic() + PATIENCE_SECS
    while not reached():
        if time.monotonic() > deadline:
            sys.exit(f"{what}: not after {PATIENCE_SECS} s")
        time.sleep(0.01)


def listens(address):
    with socket.socket() as probe:
        return probe.connect_ex((address, PORT)) == 0


class Cluster:
    """A connection to the monitor."""

    def __init__(self):
        import rados

        self.rados = rados.Rados(conffile=rados.Rados.DEFAULT_CONF_FILES, name="client.admin")
        self.rados.connect(timeout=PATIENCE_SECS)
        self.workers = concurrent.futures.ThreadPoolExecutor(8)

    def ask(self, prefix, **arguments):
        command = json.dumps({"prefix": prefix, "format": "json", **arguments})
        code, answer, said = self.rados.mon_command(command, b"")
        if code:
            sys.exit(f"{prefix} {arguments}: {said} ({code})")
        return json.loads(answer) if answer.strip() else None

    def each(self, servers, do):
        """Does it for all servers at once: the monitor takes several changes in one step."""
        for done in [self.workers.submit(do, server) for server in servers]:
            done.result()

    def pool(self, name, root, groups):
        """A pool on the servers below a root of the CRUSH map."""
        self.ask("osd crush rule create-simple", name=name, root=root, type="osd", mode="firstn")
        self.ask("osd pool create", pool=name, pg_num=groups, pgp_num=groups, rule=name)

    def register(self, server, identity):
        self.ask("osd new", uuid=identity, id=server)
        self.ask("osd crush add", id=server, weight=1.0, args=[f"host=srv{server}", "root=default"])

    def server_pool(self, server):
        self.pool(f"srv{server}", f"srv{server}", 4)

    def tag(self, server):
        """Marks a pool as one for Afflux; CephFS takes none that is marked for others already."""
        pool, sure = f"srv{server}", True
        self.ask("osd pool application enable", pool=pool, app="afflux", yes_i_really_mean_it=sure)

    def group_pool(self, name, servers):
        self.ask("osd crush add-bucket", name=name, type="root")
        for server in servers:
            self.ask("osd crush link", name=f"srv{server}", args=[f"root={name}"])
        self.pool(name, name, 8)

    def make_files(self, count):
        """CephFS, whose files may be on all servers, on half of them, or on one."""
        self.pool("names", "default", 4)
        self.pool("files", "default", 16)
        self.ask("fs new", fs_name="fs", metadata="names", data="files")
        halves = {"ga": range(count // 2), "gb": range(count // 2, count)}
        halves = {name: servers for name, servers in halves.items() if servers}
        for name, servers in halves.items():
            self.group_pool(name, servers)
        for name in [*halves, *(f"srv{server}" for server in range(count))]:
            self.ask("fs add_data_pool", fs_name="fs", pool=name)

    def all_up(self, count):
        return self.ask("osd stat")["num_up_osds"] == count

    def files_served(self):
        systems = self.ask("fs dump")["filesystems"]
        states = [mds["state"] for system in systems for mds in system["mdsmap"]["info"].values()]
        return "up:active" in states

    def probe(self, server):
        """An object that comes and goes: the way to the server's pool is open."""
        with self.rados.open_ioctx(f"srv{server}") as pool:
            pool.write_full("probe", b"probe")
            pool.remove_object("probe")


def build(address, files, identities):
    """Makes the cluster."""
    until(lambda: listens(address), "the monitor answers")
    cluster, servers = Cluster(), range(len(identities))
    cluster.each(servers, lambda server: cluster.register(server, identities[server]))
    print("registered", flush=True)
    cluster.each(servers, cluster.server_pool)
    if files:
        cluster.make_files(len(identities))
    cluster.each(servers, cluster.tag)
    until(lambda: cluster.all_up(len(identities)), "all servers are up")
    cluster.each(servers, cluster.probe)
    if files:
        until(cluster.files_served, "the metadata server is active")
    print("ready", flush=True)


if sys.argv[1] == "address":
    print(free_address())
else:
    build(sys.argv[2], sys.argv[3] == "yes", sys.argv[4:])
