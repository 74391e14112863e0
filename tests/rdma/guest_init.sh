#!/bin/busybox sh
# Process 1 of the guest, under busybox: starts the other processors, loads modules, shows the host's
# files, makes the RDMA devices, runs the command. in_vm puts it and the folder /job into the initramfs.
# It ends by a reboot, which ends QEMU.
export PATH=/bin:/sbin:/usr/bin:/usr/sbin
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev

fail() { echo "in_vm: $*" >/dev/console; reboot -f; }

# The kernel has booted with one.
start_processors() {
  for processor in /sys/devices/system/cpu/cpu*/online; do
    [ "$(cat "$processor")" = 1 ] || echo 1 >"$processor" || fail "cannot start ${processor%/online}"
  done
}

load_modules() {
  while read -r module; do
    insmod "/modules/$module" || fail "cannot load $module"
  done </modules/order
}

# The host's root, read-only under a layer in memory; the shared folders are the host's own.
show_host() {
  nine=trans=virtio,version=9p2000.L,msize=512000
  mount -t 9p -o "$nine,cache=loose,ro" root /lower || fail "cannot mount the host's root"
  mount -t tmpfs -o mode=755 upper /upper
  mkdir /upper/files /upper/work
  mount -t overlay -o lowerdir=/lower,upperdir=/upper/files,workdir=/upper/work overlay /host ||
    fail "cannot mount the overlay"
  n=0
  while read -r folder; do
    mount -t 9p -o "$nine,cache=mmap" "share$n" "/host$folder" || fail "cannot mount $folder"
    n=$((n + 1))
  done </job/shares
  mount -t sysfs sys /host/sys
  mount -t devtmpfs dev /host/dev
  mkdir -p /host/dev/shm /host/dev/pts
  mount -t tmpfs -o mode=1777 shm /host/dev/shm
  mount -t devpts -o ptmxmode=666 pts /host/dev/pts
  ln -s /proc/self/fd /host/dev/fd
  for link in 0:stdin 1:stdout 2:stderr; do ln -s "fd/${link%:*}" "/host/dev/${link#*:}"; done
}

# rdma0 and rdma1 are the two ends of one veth pair. Left alone the kernel would carry a packet from
# one to the other over `lo`, as both addresses are its own; the rules send it across the pair.
make_network() {
  {
    echo "link set lo up"
    echo "link add rdma0 type veth peer name rdma1"
    for n in 0 1; do
      own=192.0.2.$((n + 1)) peer=192.0.2.$((2 - n))
      echo "addr add $own/24 dev rdma$n"
      echo "link set rdma$n mtu 9000 address 02:00:00:00:00:0$((n + 1)) up"
      echo "neigh add $peer lladdr 02:00:00:00:00:0$((2 - n)) dev rdma$n"
      echo "route add $peer dev rdma$n src $own table 10$n"
      echo "rule add pref 1 iif rdma$n lookup local"
      echo "rule add pref 2 from $own to $peer lookup 10$n"
    done
    echo "rule add pref 3 lookup local"
    echo "rule del pref 0"
  } | chroot /host /bin/ip -batch - || fail "cannot set up the network"
  echo 0 >/proc/sys/net/ipv4/conf/all/rp_filter
  for n in 0 1; do
    echo 0 >/proc/sys/net/ipv4/conf/rdma$n/rp_filter
    echo 1 >/proc/sys/net/ipv4/conf/rdma$n/accept_local
  done
  n=0
  while [ "$n" -lt "$devices" ]; do
    chroot /host /bin/rdma link add "rxe$n" type rxe netdev "rdma$n" || fail "cannot make rxe$n"
    n=$((n + 1))
  done
}

# Shortly before the host ends the machine: what each thread of the command waits in.
tell_what_runs() {
  sleep "$1"
  echo "in_vm: nearly out of time; threads, state and where they wait in the kernel:"
  for task in /proc/[0-9]*/task/[0-9]*; do
    read -r words <"${task%/task/*}/cmdline"
    [ -n "$words" ] || continue  # a thread of the kernel
    read -r name <"$task/comm" && read -r call _ <"$task/syscall" && read -r place _ <"$task/wchan"
    echo "${task#/proc/} $name: system call $call, in $place"
  done
}

# The command has a PID namespace of its own, whose end kills what it left behind. It writes to
# pipes, so that it can open /dev/stdout again; two cats carry them to the host.
run_command() {
  for port in /sys/class/virtio-ports/*; do ln -s "/dev/${port##*/}" "/$(cat "$port/name")"; done
  mkfifo /out.pipe /err.pipe
  cat /out.pipe >/out & out=$!
  cat /err.pipe >/err & err=$!
  ulimit -l unlimited
  ulimit -n 65536
  echo "in_vm: the machine is up" >/dev/console
  [ "$timeout" -le 20 ] || tell_what_runs $((timeout - 15)) >/dev/console 2>&1 &
  unshare -p -f sh -c 'mount -t proc proc /host/proc; chroot /host /bin/bash -s; exit $?' \
    </job/command >/out.pipe 2>/err.pipe
  status=$?
  wait "$out" "$err"
  echo "$status" >/status
}

. /job/settings
start_processors >/dev/console 2>&1
load_modules >/dev/console 2>&1
show_host >/dev/console 2>&1
make_network >/dev/console 2>&1
run_command
reboot -f
