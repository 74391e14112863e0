"""A small disk for a test, which can be filled. Needs root."""
import os
import pathlib
import subprocess
import tempfile

MIB = 1 << 20


class Disk:
    """A file system of some MiB."""

    def __init__(self, mib):
        self.folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.folder.name)
        self.fillings = 0
        self.is_mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={mib}m", "tmpfs", self.path],
            capture_output=True).returncode == 0

    def close(self):
        if self.is_mounted:
            subprocess.run(["umount", "-l", self.path], check=False)
        self.folder.cleanup()

    def fill(self, but=0):
        """To the last byte, but for so many."""
        self.fillings += 1
        with open(self.path / f"filling{self.fillings}", "wb", buffering=0) as file:
            for size in (MIB, 4096, 1):
                try:
                    while True:
                        file.write(b"x" * size)
                except OSError:
                    pass
            file.truncate(max(0, file.tell() - but))

    def make_room(self):
        for filling in self.path.glob("filling*"):
            filling.unlink()


def may_mount():
    probe = Disk(1)
    probe.close()
    return os.geteuid() == 0 and probe.is_mounted
