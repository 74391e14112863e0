#!/bin/sh
# A job of Slurm: servers on the first hosts of the allocation, a worker for each task, by phubrun. Nothing runs as root,
# and there is neither a prolog nor an epilog.
#
#   sbatch --nodes 4 --ntasks-per-node 8 deploy/slurm/train.sh python mnist.py
#
# In the environment: PHUBRUN_OPTIONS, more options of phubrun, as "--servers 4", "--racks 2" or "--server 10.0.0.7:7077"; and for
# servers that it starts PHUB_SERVER_OPTIONS, "--credentials FOLDER", or "--allow-plaintext --tokens off" where everybody
# on the network may do everything.
#SBATCH --job-name=phub
#SBATCH --output=%x-%j.log
#SBATCH --open-mode=append
# Pre-empted, or its host lost: it is queued again, and the program goes on from its checkpoint.
#SBATCH --requeue
# A minute before its time is over it is asked to end, as when it is pre-empted.
#SBATCH --signal=TERM@60

if [ $# -eq 0 ]; then
  echo "nothing to run; as in: sbatch --ntasks 2 train.sh python mnist.py" >&2
  exit 2
fi
# exec: Slurm's signals to the script are phubrun's then. A shell would die of SIGTERM, and all else with it at once.
# --grace: less than Slurm's KillWait or the partition's GraceTime, after which everything is killed.
# shellcheck disable=SC2086  # several words
exec phubrun --slurm --grace 20 ${PHUBRUN_OPTIONS-} "$@"
