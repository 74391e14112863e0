"""What libphub.so shows of itself is what is written down in abi.txt, and the Python package agrees.

Usage: abi_test.py LIBRARY C_COMPILER
"""
import ctypes
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "worker/torch"))
from phub import _library  # noqa: E402

LIBRARY = COMPILER = ""
CHANGED = ("the ABI of libphub changed. What is added goes to the end and into abi.txt; what old programs "
           "would go wrong with raises PHUB_ABI in worker/client/CMakeLists.txt too")


def written():
    """(functions, {struct: (size, {field: (offset, size)})}) of abi.txt."""
    functions, structs = [], {}
    for line in (pathlib.Path(__file__).parent / "abi.txt").read_text().splitlines():
        words = line.split()
        if not words or words[0] == "#":
            continue
        if words[0] == "function":
            functions.append(words[1])
        elif words[0] == "struct":
            structs[words[1]] = (int(words[2]), {})
        else:
            list(structs.values())[-1][1][words[0]] = (int(words[1]), int(words[2]))
    return functions, structs


def fields_of_header():
    """{struct: its fields, in order} of phub_c.h."""
    header = re.sub(r"/\*.*?\*/", "", (ROOT / "worker/client/phub_c.h").read_text(), flags=re.S)
    return {name: re.findall(r"(\w+);", body)
            for body, name in re.findall(r"typedef struct \{(.*?)\} (\w+);", header, re.S)}


class AbiTest(unittest.TestCase):
    maxDiff = None

    def test_functions(self):
        shown = subprocess.run(["nm", "-D", "--defined-only", LIBRARY], check=True, capture_output=True, text=True).stdout
        names = [line.split()[2].split("@")[0] for line in shown.splitlines() if line.split()[1] != "A"]
        self.assertEqual(sorted(names), sorted(written()[0]), CHANGED)
        header = (ROOT / "worker/client/phub_c.h").read_text()
        declared = set(re.findall(r"\b(phub_\w+)\(", re.sub(r"/\*.*?\*/", "", header, flags=re.S)))
        self.assertEqual(sorted(declared), sorted(written()[0]), CHANGED)

    def test_structs(self):
        prints = []
        for struct, fields in fields_of_header().items():
            prints.append(f'printf("struct {struct} %zu\\n", sizeof({struct}));')
            prints += [f'printf("{field} %zu %zu\\n", offsetof({struct}, {field}), sizeof((({struct}*)0)->{field}));'
                       for field in fields]
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder) / "layout.c"
            source.write_text('#include "worker/client/phub_c.h"\n#include <stdio.h>\nint main(void) {\n'
                              + "\n".join(prints) + "\nreturn 0;\n}\n")
            subprocess.run([COMPILER, f"-I{ROOT}", source, "-o", source.with_suffix("")], check=True)
            out = subprocess.run([source.with_suffix("")], check=True, capture_output=True, text=True).stdout
        as_written = []
        for struct, (size, fields) in written()[1].items():
            as_written.append(f"struct {struct} {size}")
            as_written += [f"{field} {offset} {size}" for field, (offset, size) in fields.items()]
        self.assertEqual(out.splitlines(), as_written, CHANGED)

    def test_the_python_package_has_the_same(self):
        functions, structs = written()
        size, fields = structs["phub_key"]
        self.assertEqual(ctypes.sizeof(_library.Key), size)
        layout = {name: (getattr(_library.Key, name).offset, getattr(_library.Key, name).size)
                  for name, _ in _library.Key._fields_}
        self.assertEqual(layout, fields)
        self.assertEqual(sorted(_library.SIGNATURES), sorted(functions))

    def test_one_version_everywhere(self):
        version = re.search(r'kVersion\[\] = "(.*)"', (ROOT / "common/base/version.h").read_text())[1]
        library = ctypes.CDLL(LIBRARY)
        library.phub_version.restype = ctypes.c_char_p
        self.assertEqual(library.phub_version().decode(), version)
        package = (ROOT / "worker/torch/pyproject.toml").read_text()
        self.assertEqual(re.search(r'^version = "(.*)"', package, re.M)[1], version)
        named = subprocess.run(["readelf", "-d", LIBRARY], check=True, capture_output=True, text=True).stdout
        self.assertEqual(re.search(r"SONAME.*\[(.*)\]", named)[1], f"libphub.so.{_library.ABI}")


if __name__ == "__main__":
    LIBRARY, COMPILER = sys.argv[1:]
    unittest.main(argv=sys.argv[:1])
