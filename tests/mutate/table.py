"""Reads table.toml, finds its functions in the tree, and makes their mutants."""
import collections
import dataclasses
import fnmatch
import pathlib
import re
import tomllib

import functions
import operators
from lexer import Source, Wrong

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = pathlib.Path(__file__).resolve().parent / "table.toml"
FOLDERS = ("common", "kernels", "server", "worker", "bench")
SUFFIXES = (".cc", ".h", ".cu", ".cuh")
TEST_NAME = re.compile(r"\b(?:add_test\(\s*NAME|phub_\w*(?:test|simulation)\(|add_executable\()\s*([\w.-]+)")
TEST_FOLDER = re.compile(r"\bphub_test_folder\(([^)]*)\)")


@dataclasses.dataclass(frozen=True)
class Row:
    name: str      # as in the table: "Class::function", or "file.cc:function" where the name is there twice
    tests: tuple   # one of them has to fail; each is several names of tests with spaces between, `*` for anything

    @property
    def function(self):
        return self.name[len(self.file) + 1:] if self.file else self.name

    @property
    def file(self):
        """The end of the file's path, or nothing."""
        before, colon, behind = self.name.partition(":")
        return before if colon and not behind.startswith(":") else ""


@dataclasses.dataclass(frozen=True)
class Mutant:
    id: str        # "file:function:operator:n"
    row: Row
    file: str
    line: int
    start: int     # in the file's text
    end: int
    old: str
    new: str

    def apply(self, content):
        """The changed content; nothing if the file has another text there."""
        if content[self.start:self.end] != self.old:
            return None
        return content[:self.start] + self.new + content[self.end:]

    def shown(self):
        old, new = (short(" ".join(text.split()), 44) for text in (self.old, self.new))
        return f"line {self.line}: {old or 'nothing'} -> {new or 'nothing'}"


def short(words, columns):
    return words if len(words) <= columns else words[:columns - 3] + "..."


@dataclasses.dataclass(frozen=True)
class Table:
    rows: tuple
    equal: dict    # id of a mutant that no test can notice -> (a text of its line, the reason)


def read(path=TABLE):
    entries = tomllib.loads(path.read_text(encoding="utf-8"))
    if wrong := set(entries) - {"tests", "equal"}:
        raise Wrong(f"{path.name}: {', '.join(sorted(wrong))}: unknown")
    tests = collections.defaultdict(list)
    for test, names in entries.get("tests", {}).items():
        for name in names:
            if test in tests[name]:
                raise Wrong(f"{path.name}: {test} has {name} twice")
            tests[name].append(test)
    equal = {}
    for entry in entries.get("equal", []):
        if set(entry) != {"mutant", "text", "reason"} or not all(entry.values()):
            raise Wrong(f"{path.name}: an equal mutant has an id, a text of its line and a reason: {entry}")
        equal[entry["mutant"]] = (entry["text"], entry["reason"])
    return Table(tuple(Row(name, tuple(each)) for name, each in tests.items()), equal)


class Code:
    """The source files of a tree, and where their definitions are."""

    def __init__(self, root=ROOT, folders=FOLDERS):
        self.root = root
        self.places = collections.defaultdict(list)  # last part of a name -> (file, definition)
        self.sources = {}
        for folder in folders:
            for path in sorted((root / folder).rglob("*")):
                if path.suffix in SUFFIXES:
                    self._read(path)

    def _read(self, path):
        file = str(path.relative_to(self.root))
        source = self.sources[file] = Source(path.read_text(encoding="utf-8"), file)
        for definition in functions.definitions(source):
            self.places[definition.name.rpartition("::")[2]].append((file, definition))

    def find(self, row):
        """(File, the definitions of a row's function: several if it is overloaded). Raises Wrong."""
        found = collections.defaultdict(list)
        for file, definition in self.places[row.function.rpartition("::")[2]]:
            is_file = not row.file or f"/{file}".endswith(f"/{row.file}")
            if is_file and f"::{definition.name}".endswith(f"::{row.function}"):
                found[file, definition.name].append(definition)
        if not found:
            raise Wrong(f"{row.name}: no such function; what is it called now?")
        if len(found) > 1:
            raise Wrong(f"{row.name}: several: " + ", ".join(f"{file}:{name}" for file, name in found))
        (file, _), definitions = found.popitem()
        return file, definitions

    def mutants(self, row):
        file, definitions = self.find(row)
        source = self.sources[file]
        counts = collections.Counter()
        for name in operators.OPERATORS:
            for definition in definitions:
                for start, end, new in operators.changes(source, definition, name):
                    counts[name] += 1
                    line = source.text.count("\n", 0, start) + 1
                    yield Mutant(f"{file}:{row.function}:{name}:{counts[name]}", row, file, line, start, end,
                                 source.text[start:end], new)


def tests_in_cmake(root=ROOT):
    """The names of tests and test programs in the CMakeLists.txt files of the tests."""
    names = set()
    for path in (root / "tests").rglob("CMakeLists.txt"):
        text = path.read_text(encoding="utf-8")
        names.update(TEST_NAME.findall(text))
        for folder in TEST_FOLDER.findall(text):
            names.update(tests_of_folder(root, folder.split()))
    return names


def tests_of_folder(root, words):
    """The names of the tests of phub_test_folder(words...), as tests/run/folders.cmake gives them."""
    names = {path.stem for path in (root / "tests" / words[0]).glob("*_test.cc")}
    suffix = words[words.index("SUFFIX") + 1] if "SUFFIX" in words else None
    for stem in (pathlib.PurePath(word).stem for word in words if word.endswith("_test.cc")):
        names.add(f"{stem.removesuffix('_test')}_{suffix}_test" if suffix else stem)
    return names


def faults(table, code, tests):
    """What is wrong with a table: a sentence each."""
    found, ids, named = [], {}, {}
    for row in table.rows:
        found += [f"{row.name}: no test is named {name}" for name in " ".join(row.tests).split()
                  if not fnmatch.filter(tests, name)]
        try:
            mutants = list(code.mutants(row))
            file, definitions = code.find(row)
        except Wrong as wrong:
            found.append(str(wrong))
            continue
        if not mutants:
            found.append(f"{row.name}: no operator changes anything in it")
        other = named.setdefault((file, definitions[0].name), row.name)
        if other != row.name:
            found.append(f"{row.name}: the table has it as {other} too")
        ids.update((mutant.id, mutant) for mutant in mutants)
    for mutant, (text, _) in table.equal.items():
        if mutant not in ids:
            found.append(f"{mutant}: is excused, and there is no such mutant")
        elif text not in code.sources[ids[mutant].file].text.splitlines()[ids[mutant].line - 1]:
            found.append(f"{mutant}: is excused for '{text}', which its line does not have")
    return found
