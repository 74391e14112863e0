#!/usr/bin/env bash
# Installs what is missing, builds, and runs every test.
set -euo pipefail

usage() {
  cat <<'EOF'
Usage: tests/run.sh [--quick] [ROOM...]

Builds and tests the presets dev (everything), asan and tsan (the data path, the client, the control
plane). asan's fuzz targets run for half a minute each (tests/fuzz/fuzz_long takes hours).
The tests with the label rdma run in a virtual machine (tests/rdma/in_vm --help). They are skipped
where there can be none.

ROOM is a folder, for example tests/core or server/door. The preset dev is then built for the tests
of that folder and of the folders in it, and only they run. The tests of a product's folder are those
that include its headers.
--quick runs dev only, without the tests that take long (label long) and those with RDMA.

What fails is run once more, alone, at the end. A test that passes then is unstable: the last lines
name it, with its first output. More than two unstable tests fail the run.
EOF
}
quick=no
rooms=()
while [ $# -gt 0 ]; do
  case "$1" in
    --quick) quick=yes ;;
    -h | --help) usage; exit 0 ;;
    -*) echo "unknown option: $1" >&2; usage >&2; exit 2 ;;
    *) room=${1#./}; rooms+=("${room%/}") ;;
  esac
  shift
done

cd "$(dirname "${BASH_SOURCE[0]}")/.."
source deploy/packages.sh
install_missing "${build_packages[@]}" "${test_packages[@]}"
skipped=
install_missing "${browser_packages[@]}" || echo "Going on without the test of the web page."
install_missing "${torch_packages[@]}" || echo "Going on without the tests that need PyTorch."
# PyTorch's own tests want it, and Debian has no package of it.
/usr/bin/python3 -m pip install --quiet --target build/python expecttest 2>/dev/null \
  || echo "Going on without PyTorch's own tests."
install_missing "${etcd_packages[@]}" || echo "Going on without the test with an etcd."
install_missing "${monitoring_packages[@]}" || echo "Going on without the test with Prometheus."
install_missing "${slurm_packages[@]}" || echo "Going on without the test with a Slurm."
if [ "$quick" = yes ]; then
  skipped=', except the long ones and those with RDMA'
else
  install_missing "${rdma_packages[@]}" || echo "Going on: in_vm says next whether the tests with RDMA can run."
  tests/rdma/in_vm --prepare || skipped=', except those with RDMA, skipped as said above'
fi

build() {  # build PRESET [target...]
  local preset=$1; shift
  local log=build/tests-$preset.log
  mkdir -p build
  echo "[$SECONDS s] building $preset"
  cmake --preset "$preset" >"$log" 2>&1 || { tail -n 30 "$log"; exit 1; }
  cmake --build --preset "$preset" ${1:+--target "$@"} >>"$log" 2>&1 || { grep -E 'error|FAILED' -A5 "$log" | head -60; exit 1; }
  echo "[$SECONDS s] built $preset"
}

tested=()
run() {  # run PRESET [ctest options]: what failed is left to again.py
  local preset=$1; shift
  echo "[$SECONDS s] testing $preset"
  rm -f "build/$preset/first.xml"
  # Four at a time; those that want the machine alone say so.
  ctest --preset "$preset" --no-tests=error --output-junit first.xml "$@" || true
  tested+=("$preset=build/$preset")
}

# Sets label_options and room_targets to what ctest and cmake call the rooms.
find_rooms() {
  local labels room found pattern=
  cmake --preset dev >build/tests-dev.log 2>&1 || { tail -n 30 build/tests-dev.log; exit 1; }
  labels=$(ctest --preset dev --print-labels | sed -n 's/^  //p' | grep /)
  room_targets=()
  for room in "$@"; do
    found=$(grep -E "^$room(/|$)" <<<"$labels") || {
      echo "$room: no test belongs to this folder. Write one of these:" >&2
      echo "$labels" >&2
      exit 2
    }
    pattern+="${pattern:+|}$room"
    for room in $found; do room_targets+=("room.${room//\//.}"); done
  done
  label_options=(-L "^($pattern)(/|\$)")
}

# The sanitizers watch what serves strangers and what shares memory; arithmetic is covered there by the
# kernels' own test.
build_sanitized() {
  build asan phub_sanitized_tests phub_fuzzers
  build tsan phub_sanitized_tests
}

# In the time that the tests leave.
build_sanitized_meanwhile() {
  renice -n 19 $BASHPID >/dev/null
  build_sanitized
}

# Beside others' work that build might never end. What it has built is kept.
stop_building() {
  kill -- "-$1" 2>/dev/null || true
  for _ in {1..100}; do
    kill -0 -- "-$1" 2>/dev/null || break
    sleep 0.2
  done
}

mkdir -p build
if [ ${#rooms[@]} -gt 0 ]; then
  find_rooms "${rooms[@]}"
  build dev "${room_targets[@]}"
  [ "$quick" = no ] || label_options+=(-LE '^(long|rdma)$')
  run dev "${label_options[@]}"
elif [ "$quick" = yes ]; then
  build dev
  run dev -LE '^(long|rdma)$'
else
  build dev
  set -m  # a process group of its own
  build_sanitized_meanwhile &
  sanitized=$!
  set +m
  trap 'kill -- "-$sanitized" 2>/dev/null || true' EXIT
  run dev
  stop_building "$sanitized"
  build_sanitized
  run asan -L 'sanitized|fuzz'
  run tsan -L sanitized
fi
python3 tests/run/again.py "${tested[@]}"
echo "[$SECONDS s] all tests passed$skipped"
