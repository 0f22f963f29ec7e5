#!/bin/bash
# What cluster.sh runs as the first process of its namespaces: brings a cluster up, runs the command,
# and takes the cluster down. All ends when this shell ends.
# usage: inside.sh PARENT DIR OSDS STORE DISK FS NET AFFLUX VERBOSE PYTHON COMMAND...
set -eu

parent=$1 dir=$2 osds=$3 store=$4 disk=$5 fs=$6 net=$7 afflux=$8 verbose=$9 python=${10}
shift 10
command=("$@")
here=$(dirname "${BASH_SOURCE[0]}")
disk_gib=4

# The kernel ends this process with its parent, and its parent with the script, from the moment on that
# each asked for it. Who died before is seen here, in the /proc of the namespace that they are in.
read -r -a stat </proc/self/stat
read -r -a stat <"/proc/${stat[3]}/stat" || exit 2
[ "${stat[3]}" = "$parent" ] || exit 2

mount -t proc proc /proc
mount -t tmpfs tmpfs /run
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
case ${XDG_RUNTIME_DIR:-} in /run/*) mkdir -p "$XDG_RUNTIME_DIR" ;; esac

# Daemons have their sockets here by default, so that `ceph daemon osd.0` finds them.
mkdir /run/ceph /run/osd
cluster=${dir:-/run/cluster}
mount=$cluster/mount
mkdir -p "$cluster/log"
unset CEPH_ARGS
export CEPH_CONF=$cluster/ceph.conf CLUSTER=$cluster

started=${EPOCHREALTIME/./}
# Says what has been reached, and after how many milliseconds.
stage() {
    [ "$verbose" = no ] ||
        printf 'cluster.sh: %5d ms  %s\n' $(((${EPOCHREALTIME/./} - started) / 1000)) "$1" >&2
}

# Ends with the last words of everybody.
fail() {
    printf 'cluster.sh: %s; the ends of all logs:\n' "$1" >&2
    tail -n 4 "$cluster"/log/* >&2 2>/dev/null || true
    exit 2
}

# Runs a program in the background, with what it says in a log of this name. Ctrl-C is not for it.
start() {
    local log=$cluster/log/$1
    shift
    setsid "$@" >>"$log" 2>&1 </dev/null &
}

# An address of loopback for this cluster alone, so that its ports collide with nobody's.
choose_address() {
    address=10.77.0.1
    [ -z "$net" ] || return 0
    address=$("$python" "$here/monitor.py" address)
}

# Servers at ports of a bridge. A port passes what its token bucket allows: the server's end what the
# server sends, the bridge's end what it receives.
make_network() {
    ip link set lo up
    ip link add bridge type bridge
    ip address add "$address/24" dev bridge
    ip link set bridge up
    local i bucket=(root tbf rate "$net" burst 64k latency 50ms)
    for ((i = 0; i < osds; i++)); do
        ip netns add "srv$i"
        ip link add "srv$i" type veth peer name eth0 netns "srv$i"
        ip link set "srv$i" master bridge up
        ip -n "srv$i" address add "$(server_address "$i")/24" dev eth0
        ip -n "srv$i" link set lo up
        ip -n "srv$i" link set eth0 up
        tc -n "srv$i" qdisc add dev eth0 "${bucket[@]}" || fail "--net $net is no rate for tc"
        tc qdisc add dev "srv$i" "${bucket[@]}"
    done
}

server_address() {
    if [ -n "$net" ]; then echo "10.77.0.$((10 + $1))"; else echo "$address"; fi
}

configure() {
    local objects=memstore
    [ "$store" = mem ] || objects=bluestore
    sed -e "s|@FSID@|$(cat /proc/sys/kernel/random/uuid)|" -e "s|@ADDRESS@|$address|" \
        -e "s|@LOG@|$cluster/log|" -e "s|@OBJECTS@|$objects|" "$here/ceph.conf" >"$CEPH_CONF"
}

start_monitor() {
    mkdir /run/mon
    start mon.a ceph-mon --mkfs --id a --public-addrv "[v2:$address:3300]"
    wait $! || fail "the monitor could not make its store"
    start mon.a ceph-mon -f --id a --public-addrv "[v2:$address:3300]"
}

# Keeps in `disks` what disks.py makes, and in `holder` the process that must live as long.
hold() {
    local said
    exec {said}< <(exec setsid "$python" "$here/disks.py" "$@" 2>>"$cluster/log/disks")
    holder=$!
    mapfile -t -n "$osds" -u "$said" disks
    exec {said}<&-
    [ ${#disks[@]} = "$osds" ] || fail "the disks could not be made"
}

# Puts loop devices, on files that take the time of a device, in the place of files that take none.
model_disks() {
    local i files=()
    for ((i = 0; i < osds; i++)); do
        files[i]=/run/disk$i
        start "disk.$i" "$afflux" devdisk --device "$disk" --size "${disk_gib}GiB" --seed "$i" \
            --back "${disks[i]}" "${files[i]}"
        models[i]=$!
    done
    for ((i = 0; i < osds; i++)); do await_mount "${files[i]}" "${models[i]}" "disk $i"; done
    hold loops "${files[@]}"
}

# Makes what servers keep objects in. With --store mem that is a directory in memory, else a disk too
# that takes no more room than what is written to it.
format_servers() {
    local i
    [ "$store" = mem ] || hold files "${TMPDIR:-/tmp}" $((disk_gib << 30)) "$osds"
    [ -z "$disk" ] || model_disks
    for ((i = 0; i < osds; i++)); do
        mkdir "/run/osd/$i"
        [ "$store" = mem ] || ln -s "${disks[i]}" "/run/osd/$i/block"
        identities[i]=$(cat /proc/sys/kernel/random/uuid)
        start "osd.$i" ceph-osd --mkfs --no-mon-config --id "$i" --osd-uuid "${identities[i]}"
        formats[i]=$!
    done
}

start_servers() {
    local i at within
    for ((i = 0; i < osds; i++)); do
        wait "${formats[i]}" || fail "osd.$i could not make its store"
        at=$(server_address "$i") within=()
        [ -z "$net" ] || within=(ip netns exec "srv$i")
        start "osd.$i" "${within[@]}" ceph-osd -f --id "$i" --public-addr "$at" --cluster-addr "$at"
        servers[i]=$!
    done
    [ "$fs" = no ] || start mds.a ceph-mds -f --id a --public-addr "$address"
}

# Waits until a process has mounted what it serves.
await_mount() {
    until mountpoint -q "$1"; do
        kill -0 "$2" 2>/dev/null || fail "$3 could not be mounted"
        sleep 0.02
    done
}

# Waits until the monitor's commands have come so far.
await() {
    local said
    read -r said <&"$monitor" || fail "the cluster did not come up"
    [ "$said" = "$1" ]
    stage "$2"
}

mount_files() {
    mkdir -p "$mount"
    start fuse ceph-fuse -f --id admin "$mount"
    fuse=$!
    export MOUNT=$mount
    await_mount "$mount" "$fuse" CephFS
    stage "CephFS is mounted"
}

# A mount whose servers are gone would hang who looks at it, so it goes first. Processes that the
# command left behind may still use it; a ceph-fuse that died has taken it along.
unmount_files() {
    umount "$mount" 2>/dev/null || umount --lazy "$mount" 2>/dev/null || true
    local tries
    for ((tries = 0; tries < 100; tries++)); do
        kill -0 "$fuse" 2>/dev/null || return 0
        sleep 0.05
    done
}

# Servers go before their disks, so that nobody waits for a disk that is gone.
take_disks() {
    kill -KILL "${servers[@]}" "$holder"
    wait "${servers[@]}" "$holder" 2>/dev/null || true
    kill -TERM "${models[@]}"
    wait "${models[@]}" || true
}

trap 'exit 130' INT
choose_address
[ -z "$net" ] || make_network
configure
start_monitor
format_servers
exec {monitor}< <("$python" "$here/monitor.py" build "$address" "$fs" "${identities[@]}" \
    2>"$cluster/log/monitor.py")
await registered "the monitor knows the servers"
start_servers
await ready "the cluster is usable"
exec {monitor}<&-
[ "$fs" = no ] || mount_files

# The command may do with Ctrl-C what it likes.
trap : INT
status=0
"${command[@]}" || status=$?
[ "$fs" = no ] || unmount_files
[ -z "$disk" ] || take_disks
exit $status
