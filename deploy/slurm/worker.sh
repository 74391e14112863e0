#!/bin/sh
# phub-worker beneath phubrun, once for each task: what it is told by the environment becomes its options. After a
# checkpoint it goes on from there.
#
#   sbatch --nodes 2 --ntasks-per-node 1 deploy/slurm/train.sh deploy/slurm/worker.sh configs/mnist.textproto CHECKPOINT
#
# SIGTERM ends its training after a step that all workers agree on, with a checkpoint, and a snapshot where
# train.snapshot says so; the servers live until that is done. PHUB_RESUME_OPTIONS: more options where it goes on, as --restart-momentum.
set -eu
if [ $# -lt 2 ]; then
  echo "wanted: CONFIG CHECKPOINT; as in: sbatch train.sh worker.sh configs/mnist.textproto mnist.safetensors" >&2
  exit 2
fi
config=$1 checkpoint=$2
shift 2
if [ -e "$checkpoint" ]; then
  # shellcheck disable=SC2086  # several words
  set -- --resume "$checkpoint" ${PHUB_RESUME_OPTIONS-} "$@"
fi
for server in $(echo "$PHUB_SERVERS" | tr , ' '); do  # in their order, which server 0 is known by
  set -- "$@" --server "$server"
done
if [ -n "${PHUB_RACKS-}" ]; then
  set -- "$@" --racks "$PHUB_RACKS"
fi
exec phub-worker train "$config" --job "$PHUB_JOB" --workers "$WORLD_SIZE" --index "$RANK" --checkpoint "$checkpoint" "$@"
