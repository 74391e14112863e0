#!/usr/bin/env bash
# Runs in the guest: are the RDMA devices up, and does data go from one process to another? With
# argument 2 from rxe0 to rxe1, where it has to cross the pair of interfaces, else within rxe0.
set -euo pipefail
devices=${1:-1}
fail() { echo "vm_test: $*" >&2; exit 1; }

[ "${PHUB_RDMA_VM:-}" = 1 ] || fail "not in the guest"
[ "$(ulimit -l)" = unlimited ] || fail "locked memory is limited to $(ulimit -l)"
for ((n = 0; n < devices; n++)); do
  ibv_devinfo -d "rxe$n" | grep PORT_ACTIVE || fail "rxe$n is not active"
  gid=$(cat "/sys/class/infiniband/rxe$n/ports/1/gids/1")
  [ "$gid" = "0000:0000:0000:0000:0000:ffff:c000:020$((n + 1))" ] || fail "rxe$n has GID $gid at 1"
done

sent() { cat /sys/class/net/rdma0/statistics/tx_packets; }
before=$(sent)
# -e sleeps for completions: a busy poll on each processor would starve the driver.
timeout 60 ibv_rc_pingpong -e -n 200 -d "rxe$((devices - 1))" -g 1 & server=$!
# Port 18515 in hexadecimal, state 0A: listening.
for ((n = 0; n < 200; n++)); do
  ! grep -qs ':4853 .* 0A ' /proc/net/tcp /proc/net/tcp6 || break
  sleep 0.1
done
timeout 60 ibv_rc_pingpong -e -n 200 -d rxe0 -g 1 127.0.0.1 || fail "the client failed"
wait "$server" || fail "the server failed"
crossed=$(($(sent) - before))
[ "$devices" = 1 ] || [ "$crossed" -ge 200 ] || fail "only $crossed packets crossed the pair"
echo "200 messages each way on $devices device(s); $crossed packets left rdma0"
