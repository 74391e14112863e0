"""Checks the rules of rules.py and text_rules.py on this repository: git's files and untracked ones not ignored.

usage: check_tree.py ROOT; exits 1 and prints each violation if there is any. check_tree.py ROOT
--list FOLDER prints the comments of a folder that text_counts.json counts.
"""

import pathlib
import subprocess
import sys

import rules
import text_rules


def paths_of(root):
    listing = subprocess.run(
        ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        check=True, capture_output=True).stdout
    return sorted({path for path in listing.decode().split("\0") if path})


def text_of(file):
    data = file.read_bytes()
    if b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def main():
    root = pathlib.Path(sys.argv[1])
    # A file that is deleted but not committed yet is listed by git and absent.
    files = {path: root / path for path in paths_of(root)}
    tree = {path: text_of(file) for path, file in files.items() if file.is_file()}
    if not tree:
        sys.exit(f"{root}: git lists no files; is this a clone?")
    if sys.argv[2:3] == ["--list"]:
        print("\n".join(text_rules.counted(tree).get(sys.argv[3], [])))
        return
    above, below = text_rules.ratchet(tree)
    found = rules.violations(tree) + list(rules.readme_violations(tree)) + text_rules.violations(tree) + above
    print("\n".join(below + found + [f"{len(tree)} files, {len(found)} violations"]))
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
