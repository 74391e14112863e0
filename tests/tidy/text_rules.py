"""The rules of plain words that a machine can see: long sentences, beginnings, words to avoid.

CONTRIBUTING.md explains them. Like those of rules.py, these are pure functions of the tree, given as
{path: text}. Documents, public headers and protos keep all of them. Other sources are behind: for
each top-level folder text_counts.json has how often their comments break them, and that may only fall.
"""

import json
import re

WORDS_MAX = 35
COUNTS = "tests/tidy/text_counts.json"

DOCUMENTS = re.compile(r"\.md$")
PUBLIC = re.compile(r"^(proto/.*\.proto|worker/client/phub(_c)?\.h)$")
COUNTED = re.compile(r"\.(h|cc|c|cu|cuh|proto|py)$")

# Each with what to write instead. Of a C++ comment these are a sentence without its subject.
BEGINNINGS = re.compile(r"(As one that|Of|Whose|Who)\b")
AVOIDED = [
    (re.compile(pattern, re.I), better) for pattern, better in [
        (r"\bseats?\b", "member, or its index"),
        (r"\bk(?:eeps?|ept) (?:\w+ )?back\b", "residual"),
        (r"\bpatience\b", "round timeout"),
        (r"\b(?:strangers?|guests?)\b", "unauthenticated connection"),
        (r"\bkeepers?\b", "agent"),
        (r"\bso many\b", "the number's name"),
        (r"\blost:", "rejected"),
    ]
]

FENCE = re.compile(r"^\s*(```|~~~)")
LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
CODE = re.compile(r"`[^`]*`")
NEW_BLOCK = re.compile(r"(?:[-*+]|\d+\.)\s|\||<")
# A period of a number or an abbreviation ends no sentence.
END = re.compile(r"(?<!\be\.g\.)(?<!\bi\.e\.)(?<!\bet al\.)(?<!\bvs\.)(?<=[.!?])[\"')*_]*\s+")
COMMENT = re.compile(r"^\s*(?://+|/\*+|\*(?!/)|#(?!!))\s?(.*?)(?:\*/)?\s*$")
TRAILING = re.compile(r"\s(?://|/\*|#)\s(.*?)(?:\*/)?\s*$")


def blocks_of(lines):
    """(number of its first line, text) of each paragraph, list item and table cell of a document."""
    block, start, is_code = [], 0, False
    for number, line in enumerate([*lines, ""], 1):
        text = line.strip()
        is_fence = bool(FENCE.match(line))
        ends = is_fence or is_code or not text or text.startswith("#") or NEW_BLOCK.match(text)
        if ends and block:
            yield start, " ".join(block)
            block = []
        if is_fence:
            is_code = not is_code
        elif text.startswith("|") and not is_code:
            yield from ((number, cell.strip()) for cell in text.strip("|").split("|"))
        elif text and not is_code and not text.startswith("#"):
            if not block:
                start = number
            block.append(text)


def words_of(text):
    """The words of a sentence; code counts as one, and so does a link's text as it reads."""
    return [word for word in text.split() if re.search(r"\w", word)]


def plain(text):
    return CODE.sub("x", LINK.sub(r"\1", text))


def sentence_violations(path, lines):
    for number, block in blocks_of(lines):
        for sentence in END.split(plain(block)):
            words = words_of(sentence)
            if len(words) > WORDS_MAX:
                yield (f"{path}:{number}: a sentence of {len(words)} words, \"{' '.join(words[:6])} ...\"; "
                       f"the limit is {WORDS_MAX}: one idea in each")


def avoided_violations(path, number, text):
    for word, better in AVOIDED:
        if match := word.search(CODE.sub("", text)):
            yield f"{path}:{number}: '{match.group(0)}': {better}"


def comments_of(lines):
    """(line number, text, whether it begins a comment) of each line that has one."""
    was_comment = False
    for number, line in enumerate(lines, 1):
        own = COMMENT.match(line)
        match = own or TRAILING.search(line)
        if match:
            yield number, match.group(1), not (own and was_comment)
        was_comment = bool(own) and bool(own.group(1))


def comment_violations(path, lines):
    for number, text, begins in comments_of(lines):
        if begins and (match := BEGINNINGS.match(text)):
            yield f"{path}:{number}: a comment begins with '{match.group(0)}': subject and verb first"
        yield from avoided_violations(path, number, text)


def document_violations(path, lines):
    yield from sentence_violations(path, lines)
    for number, block in blocks_of(lines):
        yield from avoided_violations(path, number, LINK.sub(r"\1", block))


def violations(tree):
    """Of documents, public headers and protos, as 'path:line: what and the cure'."""
    found = []
    for path, text in sorted(tree.items()):
        if text is None:
            continue
        if DOCUMENTS.search(path):
            found += document_violations(path, text.splitlines())
        elif PUBLIC.search(path):
            found += comment_violations(path, text.splitlines())
    return found


def counted(tree):
    """{top-level folder: violations in the comments of its other sources}."""
    found = {}
    for path, text in sorted(tree.items()):
        # These two have the words as examples.
        if text is None or not COUNTED.search(path) or PUBLIC.search(path) or path.startswith("tests/tidy/text_rules"):
            continue
        for violation in comment_violations(path, text.splitlines()):
            found.setdefault(path.partition("/")[0], []).append(violation)
    return found


def ratchet(tree):
    """(violations, hints): folders with more than COUNTS says, and those with fewer."""
    allowed = json.loads(tree.get(COUNTS) or "{}")
    found = counted(tree)
    violated, hints = [], []
    for folder in sorted(set(allowed) | set(found)):
        have, may = len(found.get(folder, [])), allowed.get(folder, 0)
        if have > may:
            violated.append(f"{COUNTS}: {folder}: {have} comments break the rules of plain words, {may} may: "
                            f"mend the new one; check_tree.py ROOT --list {folder} prints all")
        elif have < may:
            hints.append(f"{COUNTS}: {folder}: {have} instead of {may}: lower the number")
    return violated, hints
