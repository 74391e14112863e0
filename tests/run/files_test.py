"""Is each test case of the programs of folders in exactly one entry of ctest?

Usage: files_test.py BUILD. An entry runs `PROGRAM -# -w NoTests "[#FILE]"` (tests/run/folders.cmake). Programs that are
not built are left out, and counted. Exit status 1: the output says which cases no entry runs, or two.
"""
import collections
import pathlib
import re
import subprocess
import sys

FILE = re.compile(r"\[#(\w+)\]")
ENTRY = re.compile(r'^add_test\(\S+ "([^"]+)" "-#" "-w" "NoTests" "\[#(\w+)\]"\)$', re.MULTILINE)


def entries_of(build: pathlib.Path) -> dict[str, list[str]]:
    """{program: files that entries choose}. ctest itself says nothing about programs that are not built."""
    entries = collections.defaultdict(list)
    for path in build.rglob("CTestTestfile.cmake"):
        for program, file in ENTRY.findall(path.read_text(encoding="utf-8")):
            entries[program].append(file)
    return entries


def files_of(program: str) -> collections.Counter:
    """How many test cases of a program are in which file."""
    # The exit status of a list is the number of what is listed.
    said = subprocess.run([program, "-#", "--list-tests"], capture_output=True, text=True, check=False).stdout
    tags = "".join(line.strip() for line in said.splitlines() if line.startswith("      "))
    files = collections.Counter(FILE.findall(tags))
    total = re.search(r"^(\d+) test cases?$", said, re.MULTILINE)
    if total is None or sum(files.values()) != int(total[1]):
        sys.exit(f"{program}: its list has {total and total[1]} cases and {sum(files.values())} names of files:\n{said}")
    return files


def main() -> int:
    faults, cases, missing = [], 0, 0
    entries = entries_of(pathlib.Path(sys.argv[1]))
    for program, chosen in sorted(entries.items()):
        if not pathlib.Path(program).exists():
            missing += 1
            continue
        files = files_of(program)
        cases += sum(files.values())
        for file, count in collections.Counter(chosen).items():
            if count > 1:
                faults.append(f"{program}: {count} entries run {file}")
            if file not in files:
                faults.append(f"{program}: {file} has no test case")
        faults += [f"{program}: no entry runs the {files[file]} cases of {file}" for file in files if file not in chosen]
    for fault in faults:
        print(fault)
    print(f"{len(entries)} programs, {missing} of them not built; {cases} cases, {len(faults)} faults")
    return 1 if faults or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
