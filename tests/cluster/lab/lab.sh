#!/usr/bin/env bash
# Hosts that share a kernel and nothing else; tests/cluster/hosts.py runs this and says what is in the
# environment. Everything lies in namespaces without a name outside, whose first process is `client`:
# with it goes all of the lab.
#   lab.sh client             a bridge, at the hosts' gateway; ends with its input
#   lab.sh host NAME ADDRESS  one host on that bridge, from its network to sshd
set -eu

# An empty folder in place of one, but for those of $KEEP that lie in it.
veil() {
  mount -t tmpfs -o "mode=$2" tmpfs /mnt
  for path in $KEEP; do
    case $path in
      "$1"/*) mkdir -p "/mnt${path#"$1"}" && mount --rbind "$path" "/mnt${path#"$1"}" ;;
    esac
  done
  mount --move /mnt "$1"
}

# Ray's and SSH's files of other runs, and what only this machine's user may read.
veil_all() {
  veil /tmp 1777
  veil "$HIDE" 755
  mount -t tmpfs -o mode=755 tmpfs /run
  mount -t tmpfs -o mode=1777 tmpfs /dev/shm
}

client() {
  veil_all
  for name in passwd hosts resolv.conf; do mount --bind "$LAB/etc/$name" "/etc/$name"; done
  ip link set lo up
  ip link add br0 type bridge
  ip link set br0 up
  ip addr add "$GATEWAY/24" dev br0
  echo ready
  exec cat
}

host() {
  ip link del "v-$1" 2>/dev/null || true # of a host that was lost
  ip netns del "$1" 2>/dev/null || true
  ip netns add "$1"
  ip -n "$1" link set lo up
  ip link add "v-$1" type veth peer name eth0 netns "$1"
  ip link set "v-$1" master br0 up
  ip -n "$1" addr add "$2/24" dev eth0
  ip -n "$1" link set eth0 up
  # Nothing is forwarded; Ray asks for the way to the internet to learn its own address.
  ip -n "$1" route add default via "$GATEWAY"
  exec ip netns exec "$1" unshare --pid --fork --kill-child --mount-proc --mount --uts --ipc \
    bash "$0" node "$1"
}

# A host from inside: a disk of its own, which is there again when the host was lost.
node() {
  hostname "$1"
  veil_all
  mkdir -p /run/sshd "$LAB/disks/$1"
  mount --bind "$LAB/disks/$1" /home
  test -e "/home/$SSH_USER" || furnish
  exec /usr/sbin/sshd -D -e -f /dev/null -o Port=22 -o HostKey="$LAB/keys/host" -o PidFile=none \
    -o UsePAM=no -o MaxStartups=100
}

# A home with what a package index would give it.
furnish() {
  mkdir "/home/$SSH_USER"
  cd "/home/$SSH_USER"
  cp -r /etc/skel/. .
  mkdir -p .ssh .config/pip .local/bin
  cp "$LAB/keys/id.pub" .ssh/authorized_keys
  printf '[global]\nno-index = true\n[install]\nno-build-isolation = false\n' >.config/pip/pip.conf
  cp "$HERE/uv.sh" .local/bin/uv
  "$BASE_PYTHON" -m venv --without-pip nalu-venv
  echo "$PACKAGES" >"$(echo nalu-venv/lib/python3*/site-packages)/lab.pth"
  { echo "#!$PWD/nalu-venv/bin/python"; tail -n +2 "$RAY"; } >nalu-venv/bin/ray
  chmod +x nalu-venv/bin/ray .local/bin/uv
  chmod -R go-w .
  chown -R "$SSH_USER" .
  cd /
}

HERE=$(dirname "$0")
"$@"
