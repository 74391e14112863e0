#!/usr/bin/env bash
# Builds PHub and trains a LeNet on real MNIST images: one server, two workers, this machine.
set -euo pipefail

usage() {
  cat <<'EOF'
Usage: deploy/quickstart.sh [--build-only] [--epochs N] [--transport auto|shm|tcp]

Installs what is missing (apt), builds build/release, starts a phub-server on a free port and two
phub-workers, trains LeNet on the bundled MNIST images, and leaves nothing running.
EOF
}

build_only=no
worker_options=()
while [ $# -gt 0 ]; do
  case "$1" in
    --build-only) build_only=yes ;;
    --epochs | --transport)
      [ $# -ge 2 ] || { echo "$1 needs a value" >&2; exit 2; }
      worker_options+=("$1" "$2"); shift ;;
    -h | --help) usage; exit 0 ;;
    *) echo "unknown option: $1" >&2; usage >&2; exit 2 ;;
  esac
  shift
done

cd "$(dirname "${BASH_SOURCE[0]}")/.."
source deploy/packages.sh
install_missing "${build_packages[@]}"

echo "Building build/release (the first time takes several minutes) ..."
log=build/quickstart.log
mkdir -p build
if ! { cmake --preset release && cmake --build --preset release \
         --target phub-server phub-worker phubctl phub_shared; } >"$log" 2>&1; then
  tail -n 40 "$log" >&2
  echo "The build failed; the whole output is in $log." >&2
  exit 1
fi
bin=build/release/bin
[ "$build_only" = no ] || { echo "Built: $bin"; exit 0; }

work=$(mktemp -d)
pids=()
cleanup() {
  for pid in "${pids[@]}"; do kill -TERM "$pid" 2>/dev/null || true; done
  for pid in "${pids[@]}"; do wait "$pid" 2>/dev/null || true; done
  rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

"$bin/phub-server" --control 127.0.0.1:0 --data 127.0.0.1:0 --log-level warn >"$work/server" 2>&1 &
pids+=($!)
server=
for _ in $(seq 100); do
  server=$(sed -n 's/^phub-server ready control=\([^ ]*\).*/\1/p' "$work/server")
  [ -z "$server" ] || break
  kill -0 "${pids[0]}" 2>/dev/null || { cat "$work/server" >&2; exit 1; }
  sleep 0.1
done
[ -n "$server" ] || { echo "phub-server did not start within 10 s" >&2; cat "$work/server" >&2; exit 1; }
echo "phub-server at $server; two workers train LeNet on 8,000 MNIST images."

checkpoint=build/quickstart-lenet.safetensors
metrics=build/quickstart-metrics.jsonl
train=("$bin/phub-worker" train configs/mnist.textproto --server "$server" --job mnist --workers 2)
"${train[@]}" --index 1 "${worker_options[@]}" >"$work/worker1" 2>&1 &
pids+=($!)
second=$!
start=$SECONDS
if ! "${train[@]}" --index 0 --checkpoint "$checkpoint" --metrics "$metrics" "${worker_options[@]}"; then
  echo "Worker 0 failed; worker 1 said:" >&2
  cat "$work/worker1" >&2
  exit 1
fi
if ! wait "$second"; then
  echo "Worker 1 failed:" >&2
  cat "$work/worker1" >&2
  exit 1
fi

cat <<EOF

Trained in $((SECONDS - start)) s. To look further:
  $checkpoint   the model (safetensors), $metrics   every step
  $bin/phub-server --config configs/server.textproto      a server that stays
  $bin/phubctl --help                                     jobs, plan, statistics
How fast is it here? Build the bench (a minute), then ask it:
  cmake --build build/release --target phub-bench
  $bin/phub-bench exchange --transport shm
EOF
