# Sourced: installs what a build and a test run need, and says how they build. Debian 12.

# What one checkout has compiled another one finds, wherever it lies, if each file is compiled alone
# (PHUB_UNITY=OFF): files that are compiled together are included by their whole paths.
export CCACHE_BASEDIR=${CCACHE_BASEDIR:-$PWD} CCACHE_NOHASHDIR=${CCACHE_NOHASHDIR:-1}

build_packages=(
  build-essential ca-certificates ccache cmake git mold ninja-build pkg-config python3
  catch2 libboost-dev libcli11-dev libcurl4-openssl-dev libdnnl-dev libfmt-dev libgrpc++-dev libhwloc-dev libhwy-dev
  libibverbs-dev libisal-dev libjpeg62-turbo-dev libpng-dev libprotobuf-dev libspdlog-dev libsqlite3-dev libssl-dev nlohmann-json3-dev ocl-icd-opencl-dev
  prometheus-cpp-dev protobuf-compiler protobuf-compiler-grpc zlib1g-dev
)
# The peers of phub-bench, the tools of the checks, networks and an sshd on loopback for tests, and what installs
# the Python package in a test. The sshd is a program of the tests: its service need not run.
test_packages=(
  clang-14 clang-format-14 clang-tidy-14 libclang-rt-14-dev libgloo-dev libopenmpi-dev openmpi-bin
  groff-base iproute2 man-db openssh-client openssh-server valgrind
  python3-numpy python3-pip python3-setuptools python3-venv python3-wheel zsh
)
# tests/rdma: a virtual machine with software RDMA. Without them its tests are skipped.
rdma_packages=(
  busybox-static ibverbs-providers ibverbs-utils iproute2 kmod perftest qemu-system-x86 xz-utils
)
# tests/integration/watching/page_test.py: the web page in a browser. Without them it is skipped.
browser_packages=(chromium chromium-driver python3-selenium)
# tests/python, and tests/integration/training/torchvision_test.py: PyTorch. Without them what needs it is skipped.
torch_packages=(python3-torch python3-torchvision)
# tests/integration/watching/prometheus_test.py. Only the programs are used: the service need not run.
monitoring_packages=(prometheus)
# tests/integration/racks/etcd_test.py: the directory in an etcd. The same holds for its program.
etcd_packages=(etcd-server)
# tests/python/launch_slurm_test.py: a Slurm on this machine. Only the programs are used: the services need not run.
slurm_packages=(munge slurm-client slurmctld slurmd)

# install_missing PACKAGE...: asks apt only for what is not there.
install_missing() {
  local missing=() package
  for package in "$@"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' ||
      missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  echo "Installing ${#missing[@]} packages: ${missing[*]}"
  local sudo=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || { echo "Run as root, or install sudo: packages are missing." >&2; return 1; }
    sudo=(sudo)
  fi
  local log
  log=$(mktemp)
  if ! { "${sudo[@]}" apt-get update -qq &&
         "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive \
           apt-get install -qq -y --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    echo "apt could not install them; see above. Is this Debian 12 with a reachable mirror?" >&2
    return 1
  fi
  rm -f "$log"
}
