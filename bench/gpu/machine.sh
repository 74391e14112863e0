#!/usr/bin/env bash
# The machine, and whether our programs find their libraries on it. Usage: machine.sh BUILD
build=$1
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
