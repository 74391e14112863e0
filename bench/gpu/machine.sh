#!/usr/bin/env bash
# Shows the machine, its GPU, and whether our programs find their libraries on it.
usage="Usage: bench/gpu/machine.sh BUILD, a build's folder or an unpacked kit"
case "${1:-}" in
  -h | --help) echo "$usage"; exit 0 ;;
  "") echo "$usage" >&2; exit 2 ;;
esac
build=$1
command -v nvidia-smi >/dev/null || { echo "nvidia-smi is not there: this machine has no NVIDIA driver" >&2; exit 1; }
nvidia-smi
nvidia-smi -q -d CLOCK,PERFORMANCE | head -60
nvidia-smi --query-gpu=pcie.link.gen.current,pcie.link.width.current --format=csv
lscpu | head -25
free -g
uname -r
ldd --version | head -1
cat /sys/kernel/mm/transparent_hugepage/shmem_enabled
which nsys ncu compute-sanitizer
cat "$build/needs.txt" "$build/commit.txt" 2>/dev/null
missing=$(ldd "$build"/bin/* "$build"/tests/cuda_* 2>/dev/null | grep 'not found' | sort -u)
if [ -n "$missing" ]; then
  echo "libraries are missing: $missing"
  exit 1
fi
"$build/bin/phub-worker" model lenet >/dev/null || exit 1
nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.sm,clocks.max.memory --format=csv,noheader
