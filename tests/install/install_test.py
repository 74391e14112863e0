"""An installation, used from outside: a C project by find_package and by pkg-config, and the Python package by pip.

Usage: install_test.py CMAKE BUILD SYSTEM_PYTHON
"""
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
import processes  # noqa: E402
from processes import DEADLINE, Server, temporary_folder  # noqa: E402

CMAKE = BUILD = PYTHON = ""
COMPONENTS = ("server", "worker", "tools", "library", "development")


def output(*command, **more):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=5 * DEADLINE, **more)
    if done.returncode != 0:
        raise AssertionError(f"{command}: {done.stdout}")
    return done.stdout


class InstallTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.prefix = temporary_folder(cls_cleanups(cls))
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
        names = self.files
        self.assertEqual(names["server"], {"phub-server", "phub-server.1"})  # and its completion, of its name
        self.assertIn("phub-worker", names["worker"])
        self.assertEqual(names["tools"], {"phubctl", "phub-bench", "phubrun", "phubctl.1", "phub-bench.1", "phubrun.1"})
        self.assertEqual(len(names["library"]), 2, names["library"])  # the library, and its name with the ABI's number
        self.assertLessEqual({"libphub.so", "phub_c.h", "phubConfig.cmake", "phub.pc"}, names["development"])

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


def cls_cleanups(cls):
    """A class as temporary_folder wants a test: what it adds is cleaned up after all tests of the class."""
    class Cleanups:
        addCleanup = staticmethod(cls.addClassCleanup)
    return Cleanups


if __name__ == "__main__":
    CMAKE, BUILD, PYTHON = sys.argv[1:]
    unittest.main(argv=sys.argv[:1])
