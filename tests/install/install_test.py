"""An installation, used from outside: a C project by find_package and by pkg-config, and the Python package by pip.

Also whether the documents name the packages that what is installed is linked with.

Usage: install_test.py CMAKE BUILD SYSTEM_PYTHON
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
import processes  # noqa: E402
from processes import DEADLINE, Server, cleanups_of, temporary_folder  # noqa: E402

CMAKE = BUILD = PYTHON = ""
ALWAYS_THERE = {"libc6", "libgcc-s1", "libstdc++6", "zlib1g"}
COMPONENTS = ("server", "worker", "tools", "library", "development")


def output(*command, **more):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=5 * DEADLINE, **more)
    if done.returncode != 0:
        raise AssertionError(f"{command}: {done.stdout}")
    return done.stdout


def package_of(library):
    """Debian's, whether it lists the file under /usr or not, of which /lib is a part."""
    path = str(pathlib.Path(library).resolve())
    said = subprocess.run(["dpkg-query", "-S", path, path.removeprefix("/usr")], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True, timeout=DEADLINE).stdout
    return said.partition(":")[0] or path


class InstallTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.prefix = temporary_folder(cleanups_of(cls))
        cls.files = {}
        for component in COMPONENTS:
            before = cls.all_files()
            output(CMAKE, "--install", BUILD, "--prefix", cls.prefix, "--component", component)
            cls.files[component] = cls.all_files() - before
        processes.BIN = cls.prefix / "bin"

    @classmethod
    def all_files(cls):
        return {path.name for path in cls.prefix.rglob("*") if not path.is_dir()}

    def project(self):
        """The example in C as a user has it, who includes the installed header."""
        folder = temporary_folder(self)
        example = (ROOT / "worker/client/examples/training.c").read_text()
        self.assertIn('#include "worker/client/phub_c.h"', example)
        (folder / "training.c").write_text(example.replace('"worker/client/phub_c.h"', "<phub/phub_c.h>"))
        shutil.copy(pathlib.Path(__file__).parent / "project" / "CMakeLists.txt", folder)
        return folder

    def train(self, program):
        server = Server()
        self.addCleanup(server.close)
        workers = [subprocess.Popen([program, server.control, "2"], stdout=subprocess.PIPE, text=True) for _ in range(2)]
        for worker in workers:
            said, _ = worker.communicate(timeout=DEADLINE)
            self.assertEqual(worker.returncode, 0, said)
            self.assertIn("slope 3.000", said)

    def test_each_component_has_its_own(self):
        # The completion of a shell is of the program's name, or that with "_" before it.
        names = {component: {name for name in files if not name.startswith("_")} for component, files in self.files.items()}
        self.assertEqual(names["server"], {"phub-server", "phub-server.1"})
        self.assertIn("phub-worker", names["worker"])
        self.assertEqual(names["tools"], {"phubctl", "phub-bench", "phubrun", "phubctl.1", "phub-bench.1", "phubrun.1"})
        self.assertEqual(len(names["library"]), 2, names["library"])  # the library, and its name with the ABI's number
        self.assertLessEqual({"libphub.so", "phub_c.h", "phubConfig.cmake", "phub.pc"}, names["development"])

    def test_the_packages_that_the_documents_name(self):
        """Those of Debian 12 that something installed is linked with, but for those that each Debian has."""
        if 'VERSION_ID="12"' not in pathlib.Path("/etc/os-release").read_text() or not shutil.which("dpkg-query"):
            self.skipTest("no Debian 12")
        (named,) = re.findall(r"^apt-get install (lib.*)$", (ROOT / "deploy/README.md").read_text(), re.M)
        needed = set()
        for path in self.prefix.rglob("*"):
            if path.is_symlink() or not path.is_file() or path.read_bytes()[:4] != b"\x7fELF":
                continue
            linked = re.findall(r"NEEDED +(\S+)", output("objdump", "-p", path))
            where = dict(re.findall(r"(\S+) => (/\S+)", output("ldd", path)))
            needed |= {package_of(where[name]) for name in linked if not name.startswith("ld-linux")}
        self.assertEqual(set(named.split()), needed - ALWAYS_THERE)

    def test_a_project_that_finds_the_package(self):
        folder = self.project()
        output(CMAKE, "-S", folder, "-B", folder / "build", f"-DCMAKE_PREFIX_PATH={self.prefix}")
        output(CMAKE, "--build", folder / "build")
        self.train(folder / "build" / "training")

    def test_a_project_that_asks_pkg_config(self):
        folder = self.project()
        (pc,) = self.prefix.rglob("phub.pc")
        environment = {**os.environ, "PKG_CONFIG_PATH": str(pc.parent)}
        flags = output("pkg-config", "--cflags", "--libs", "phub", env=environment).split()
        library = output("pkg-config", "--variable=libdir", "phub", env=environment).strip()
        output("cc", folder / "training.c", "-o", folder / "training", *flags, f"-Wl,-rpath,{library}")
        self.train(folder / "training")

    def test_the_python_package(self):
        """In a venv that sees the distribution's setuptools: nothing is downloaded."""
        folder = temporary_folder(self)
        output(PYTHON, "-m", "venv", "--system-site-packages", folder / "venv")
        shutil.copytree(ROOT / "worker/torch", folder / "package", ignore=shutil.ignore_patterns("__pycache__"))
        python = folder / "venv" / "bin" / "python"
        output(python, "-m", "pip", "install", "--no-index", "--no-build-isolation", folder / "package")
        (library,) = {path.resolve() for path in self.prefix.rglob("libphub.so*")}
        environment = {**os.environ, "PHUB_LIBRARY": str(library)}
        environment.pop("PYTHONPATH", None)
        said = output(python, "-c", "import phub, pathlib\n"
                      "print(phub.library_version(), pathlib.Path(phub.__file__).with_name('py.typed').is_file())",
                      cwd=folder, env=environment)
        self.assertRegex(said, r"^\d+\.\d+\.\d+ True$")
        self.assertIn("usage: phubrun", output(folder / "venv" / "bin" / "phubrun", "--help"))
        server = Server()
        self.addCleanup(server.close)
        said = output(python, "-c", "import sys, phub, numpy, phub.numpy\n"
                      "options = phub.Options(servers=sys.argv[1], rule='sum')\n"
                      "with phub.Client(options) as client:\n"
                      "    client.register_keys([phub.Key('w', 4)])\n"
                      "    print(phub.numpy.push_pull(client, 'w', numpy.arange(4.0)))\n", server.control, env=environment)
        self.assertIn("[0. 1. 2. 3.]", said)


if __name__ == "__main__":
    CMAKE, BUILD, PYTHON = sys.argv[1:]
    unittest.main(argv=sys.argv[:1])
