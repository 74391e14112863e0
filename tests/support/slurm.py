"""A real Slurm on this machine: slurmctld, slurmd and munged of Debian, with one host, in folders of their own."""
import os
import shutil
import socket
import subprocess

from processes import DEADLINE, free_port, temporary_folder, until

PATH = os.environ["PATH"] + ":/usr/sbin:/sbin"
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol", "scancel")
# Nothing of the machine is asked for: no cgroups, no accounting.
CONFIGURATION = """
ClusterName=phubtest
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
ReturnToService=2
KillWait=30
SlurmctldPort={ctld_port}
SlurmdPort={d_port}
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmdSpoolDir={folder}/spool
StateSaveLocation={folder}/state
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
SchedulerType=sched/backfill
SchedulerParameters=sched_min_interval=1000
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN
PartitionName=low Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def missing():
    """Why there can be none here; empty: there can."""
    absent = [name for name in PROGRAMS if not shutil.which(name, path=PATH)]
    if absent:
        return f"missing: {', '.join(absent)} (apt-get install slurmctld slurmd slurm-client munge)"
    return "" if os.geteuid() == 0 else "slurmd wants to be root"


class Slurm:
    """Ends with the test. Commands find it by `environment`."""

    def __init__(self, test):
        self.folder = temporary_folder(test)
        self.folder.chmod(0o755)
        self.host = socket.gethostname().partition(".")[0]
        self.environment = {**os.environ, "SLURM_CONF": str(self.folder / "slurm.conf"), "PATH": PATH}
        self._running = []
        test.addCleanup(self._end)
        for name in ("munge", "spool", "state"):
            (self.folder / name).mkdir(mode=0o755)
        (self.folder / "slurm.conf").write_text(CONFIGURATION.format(
            host=self.host, user="root", folder=self.folder, ctld_port=free_port(), d_port=free_port(),
            cpus=os.cpu_count()), encoding="utf-8")
        (self.folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n", encoding="utf-8")
        key = self.folder / "munge" / "key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        socket_path = self.folder / "munge" / "socket"
        self._start("munged", "--foreground", "--force", f"--socket={socket_path}", f"--key-file={key}",
                    f"--log-file={self.folder / 'munge' / 'log'}", f"--pid-file={self.folder / 'munge' / 'pid'}",
                    f"--seed-file={self.folder / 'munge' / 'seed'}")
        until(socket_path.exists, "munged listens")
        self._start("slurmctld", "-D")
        self._start("slurmd", "-D", "-N", self.host)
        until(self._is_idle, "Slurm has a host")

    def _start(self, *words):
        with open(self.folder / f"{words[0]}.out", "wb") as log:
            self._running.append(subprocess.Popen(words, env=self.environment, stdin=subprocess.DEVNULL, stdout=log,
                                                  stderr=log, start_new_session=True))

    def _is_idle(self):
        for process in self._running:
            assert process.poll() is None, self.logs()
        said = self.run("sinfo", "--noheader", "-o", "%T", check=False)
        return said.returncode == 0 and said.stdout.strip() == "idle"

    def logs(self):
        return "\n".join(f"{path.name}: {path.read_text(errors='replace')[-2000:]}"
                         for path in sorted([*self.folder.glob("*.log"), *self.folder.glob("*.out")]))

    def run(self, *words, check=True, **more):
        done = subprocess.run([str(word) for word in words], env={**self.environment, **more}, capture_output=True,
                              text=True, timeout=DEADLINE, stdin=subprocess.DEVNULL)
        assert not check or done.returncode == 0, f"{words}: {done.stderr}{done.stdout}"
        return done

    def submit(self, *words, **more):
        """The number of a batch job."""
        return self.run("sbatch", "--parsable", *words, **more).stdout.strip()

    def state(self, job):
        said = self.run("scontrol", "--oneliner", "show", "job", job).stdout
        return said.partition("JobState=")[2].split()[0]

    def until_over(self, job):
        until(lambda: self.state(job) not in ("PENDING", "RUNNING", "COMPLETING", "CONFIGURING"), f"job {job} is over")
        return self.state(job)

    def _end(self):
        try:
            if len(self._running) == 3:
                self.run("scancel", "--full", "--signal=KILL", "--user=root", check=False)
                self.run("scancel", "--user=root", check=False)
                until(lambda: not self.run("squeue", "--noheader", check=False).stdout, "no job is left")
        finally:
            for process in reversed(self._running):
                process.terminate()
                process.wait()
