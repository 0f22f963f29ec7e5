#!/bin/bash
# Runs a command beside a Ceph cluster of its own: real daemons on this machine, which end with it.
#
# Everything runs in process and mount namespaces (and with --net in a network namespace) whose first
# process ends with this one. So the kernel takes away all of it, also when this script is killed by
# a signal that it cannot see.
set -eu

# Debian packages by the programs that are needed of them; `make deps` installs them.
readonly NEEDED="ceph-mon:ceph-mon ceph-osd:ceph-osd rados:ceph-common monmaptool:ceph-common"
readonly NEEDED_FS="ceph-mds:ceph-mds ceph-fuse:ceph-fuse"
readonly NEEDED_NET="ip:iproute2 tc:iproute2"

usage() {
    cat <<'END'
Runs a command beside a Ceph cluster of its own, and takes the cluster away when it ends.

usage: bench/ceph/cluster.sh [OPTIONS] -- COMMAND [ARGUMENTS...]

  --osds N        storage servers [default: 4]
  --store STORE   what they keep objects in: mem, or bluestore (in files on the disk that TMPDIR is
                  on, and that have no names) [default: mem]
  --disk SPEC     bluestore on the model of a device, as in hdd or hdd:elevator=fifo; needs root
  --fs            CephFS too, mounted by ceph-fuse
  --net RATE      a network of its own, with each server behind a port of this rate in both
                  directions, as in 400mbit
  --dir DIR       where ceph.conf and the logs go and stay; it must be empty or not there
                  [default: memory that COMMAND sees and nobody else]
  --afflux FILE   the program that makes devices for --disk
                  [default: target/release/afflux of this source tree]
  --verbose       say how long each stage took
  --help          this text

COMMAND finds in its environment
  CEPH_CONF       the cluster's ceph.conf
  CLUSTER         the directory that it is in
  MOUNT           with --fs: where CephFS is mounted, for COMMAND alone
and the pools srv0, srv1, ...: the objects of each are on one server. With --fs the files of a
directory may be bound to one of them, or to `ga` or `gb`, which are the first and the second half of
the servers: setfattr -n ceph.dir.layout.pool -v ga DIRECTORY

COMMAND has a /run, a /dev/shm and process numbers of its own. With --dir and without --net, programs
elsewhere on this machine may connect too, by DIR/ceph.conf. Nobody is asked for a password: any user
of this machine may, at an address of loopback that no other cluster has.

The exit status is that of COMMAND; 2 if there was no cluster for it. Ctrl-C reaches COMMAND. SIGTERM
ends everything at once. After SIGKILL nothing is left but the files in DIR.

Needs root, or user namespaces for those without --disk.

examples:
  bench/ceph/cluster.sh -- ceph -s
  bench/ceph/cluster.sh -- rados --pool srv0 bench 5 write
  bench/ceph/cluster.sh --fs --verbose -- sh -c 'dd if=/dev/zero of=$MOUNT/file bs=1M count=64'
  bench/ceph/cluster.sh --net 400mbit -- sh        a shell; leave it, and the cluster is gone
  bench/ceph/cluster.sh --store bluestore --disk hdd -- rados --pool srv0 bench 10 write
END
}

# Ends with what was wrong and what to do about it.
refuse() {
    printf 'cluster.sh: %s\n' "$1" >&2
    exit 2
}

osds=4 store=mem disk='' fs=no net='' dir='' afflux='' verbose=no
here=$(cd "$(dirname "$0")" && pwd)

read_options() {
    while [ $# -gt 0 ]; do
        case $1 in
        --osds | --store | --disk | --net | --dir | --afflux)
            [ -n "${2:-}" ] || refuse "$1 needs a value: see --help"
            declare -g "${1#--}=$2"
            shift
            ;;
        --fs) fs=yes ;;
        --verbose) verbose=yes ;;
        --help)
            usage
            exit 0
            ;;
        --)
            shift
            break
            ;;
        *) refuse "\`$1\` is no option: write -- before the command, and see --help" ;;
        esac
        shift
    done
    command=("$@")
    [ $# -gt 0 ] || refuse "there is no command to run: write it after --, as in -- ceph -s"
}

check_options() {
    case $osds in
    '' | *[!0-9]* | 0* | ????*) refuse "--osds $osds: give a number from 1 to 64" ;;
    esac
    [ "$osds" -le 64 ] || refuse "--osds $osds: give a number from 1 to 64"
    case $store in
    mem | bluestore) ;;
    *) refuse "--store $store: give mem or bluestore" ;;
    esac
    case $net in
    '') ;;
    *[!0-9]*bit) ;;
    *) refuse "--net $net: give a rate with its unit, as in 400mbit or 1gbit" ;;
    esac
    [ -z "$disk" ] || [ "$store" = bluestore ] || refuse "--disk needs --store bluestore"
    [ -z "$disk" ] || [ "$(id -u)" = 0 ] || refuse "--disk needs root, for loop devices: leave it out, or be root"
    [ "$fs$disk" = no ] || [ -w /dev/fuse ] ||
        refuse "--fs and --disk need to write to /dev/fuse: be root, or leave them out"
    if [ -n "$disk" ]; then
        [ -n "$afflux" ] || afflux=$here/../../target/release/afflux
        [ -x "$afflux" ] || refuse "--disk needs $afflux: run \`make build\`, or name it by --afflux"
        afflux=$(realpath "$afflux")
    fi
    if [ -n "$dir" ]; then
        dir=$(realpath -m "$dir")
        case $dir/ in
        /run/* | /dev/shm/*) refuse "--dir $dir: take one that is not in /run or /dev/shm" ;;
        esac
        [ -z "$(ls -A "$dir" 2>/dev/null)" ] || refuse "--dir $dir is not empty: remove it, or take another"
    fi
}

# Names every package that is missing, at once.
check_packages() {
    local needed=$NEEDED pair missing=''
    [ "$fs" = no ] || needed="$needed $NEEDED_FS"
    [ -z "$net" ] || needed="$needed $NEEDED_NET"
    for pair in $needed; do
        command -v "${pair%%:*}" >/dev/null || missing="$missing ${pair#*:}"
    done
    # Debian's interpreter, since it is the one that Debian's packages are for.
    python=
    for candidate in /usr/bin/python3 python3; do
        if "$candidate" -c 'import rados' 2>/dev/null; then
            python=$candidate
            break
        fi
    done
    [ -n "$python" ] || missing="$missing python3-rados"
    [ -z "$missing" ] || refuse "missing:$missing
  apt-get install --no-install-recommends$missing, or \`make deps\`"
}

# What to start the namespaces with, for this user.
check_rights() {
    unshare=(unshare --pid --mount --ipc --fork --kill-child)
    [ -z "$net" ] || unshare+=(--net)
    [ "$(id -u)" = 0 ] || unshare+=(--user --map-root-user)
    "${unshare[@]}" true 2>/dev/null ||
        refuse "this user may not make namespaces: be root, or allow it by
  sysctl kernel.unprivileged_userns_clone=1 user.max_user_namespaces=1000"
}

export PATH="$PATH:/usr/sbin:/sbin"
read_options "$@"
check_options
check_packages
check_rights

# `unshare` ends when this process does; what it starts makes sure that neither was already gone. In
# the background it would ignore Ctrl-C, and so would COMMAND.
setpriv --pdeathsig KILL env --default-signal=INT,QUIT "${unshare[@]}" \
    /bin/bash "$here/inside.sh" $$ "$dir" "$osds" "$store" "$disk" "$fs" "$net" "$afflux" \
    "$verbose" "$python" "${command[@]}" <&0 &
namespaces=$!
trap 'kill -KILL $namespaces; exit 143' TERM HUP
trap : INT QUIT
# Ctrl-C ends the waiting, but neither the namespaces nor the need to wait for them.
while wait $namespaces || true; kill -0 $namespaces 2>/dev/null; do :; done
wait $namespaces
