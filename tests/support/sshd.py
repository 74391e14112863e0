"""A real sshd on this machine, whose only user is who runs the test."""
import getpass
import os
import pathlib
import shutil
import socket
import subprocess

from processes import free_port, temporary_folder, until

PATH = os.environ["PATH"] + ":/usr/sbin:/sbin"


def missing():
    """The programs that it takes and that are not there."""
    return [name for name in ("ssh", "ssh-keygen", "sshd") if not shutil.which(name, path=PATH)]


def answers(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Sshd:
    """Ends with the test. `user`: who may log in; `stranger`, a key that it does not know, is for who may not."""

    user = getpass.getuser()

    def __init__(self, test, **environment):
        """`environment`: of its sessions."""
        self.folder = temporary_folder(test)
        for key in ("host", "user", "stranger"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.folder / key], check=True)
        shutil.copy(self.folder / "user.pub", self.folder / "authorized")
        self.port = free_port()
        variables = " ".join(f'"{name}={value}"' for name, value in environment.items())
        (self.folder / "config").write_text(
            f"Port {self.port}\nListenAddress 127.0.0.1\nListenAddress ::1\nHostKey {self.folder / 'host'}\n"
            f"AuthorizedKeysFile {self.folder / 'authorized'}\nPidFile none\nStrictModes no\n"
            "UsePAM no\nPermitRootLogin prohibit-password\nMaxStartups 100\n"
            + (f"SetEnv {variables}\n" if variables else ""), encoding="utf-8")
        if os.geteuid() == 0:
            os.makedirs("/run/sshd", exist_ok=True)  # it wants the folder to be there
        self.process = subprocess.Popen([shutil.which("sshd", path=PATH), "-D", "-e", "-f", self.folder / "config"],
                                        stderr=subprocess.DEVNULL)
        test.addCleanup(self.process.wait)
        test.addCleanup(self.process.terminate)
        until(lambda: answers(self.port), "sshd listens")

    def words(self, key="user"):
        """Of ssh, to reach it as the owner of that key."""
        return ["-p", str(self.port), "-i", str(self.folder / key), "-o", "IdentitiesOnly=yes",
                "-o", "StrictHostKeyChecking=no", "-o", f"UserKnownHostsFile={self.folder / 'known'}",
                "-o", "LogLevel=ERROR"]

    def sessions(self):
        """PIDs of what sshd has started for its sessions."""
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(word) for word in children.read_text().split()]
