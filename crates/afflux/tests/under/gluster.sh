# A real GlusterFS of two bricks, in namespaces of its own so that it meets nobody else; when this
# shell ends, all of it ends. Runs a command with its mount in MOUNT.
# usage: gluster.sh STATE BRICKS COMMAND...
set -eu
state=$1 bricks=$2
shift 2
# Peers must have an address that is not that of loopback; nothing outside can be reached.
ip link set lo up
ip address add 10.99.0.1/32 dev lo
for place in /run /dev/shm /var/log/glusterfs; do mount -t tmpfs tmpfs "$place"; done
mkdir -p "$state/peers" "$state/mount" "$bricks/1" "$bricks/2"
cat >"$state/glusterd.vol" <<END
volume management
    type mgmt/glusterd
    option working-directory $state/peers
    option transport-type socket
    option transport.socket.bind-address 10.99.0.1
    option glusterd-sockfile $state/socket
    option max-port 60999
end-volume
END
glusterd -f "$state/glusterd.vol" -p "$state/pid" -N &
gluster="gluster --mode=script --glusterd-sock=$state/socket"
tries=0
until $gluster volume list >"$state/log" 2>&1; do
    tries=$((tries + 1))
    [ $tries -lt 60 ] || { cat "$state/log" >&2; exit 3; }
    sleep 0.5
done
$gluster volume create v "10.99.0.1:$bricks/1" "10.99.0.1:$bricks/2" force >"$state/log"
$gluster volume start v >"$state/log"
glusterfs --volfile-server=10.99.0.1 --volfile-id=v "$state/mount"
MOUNT=$state/mount
export MOUNT
cd "$MOUNT"
status=0
"$@" || status=$?
cd /
umount "$MOUNT"
exit $status
