"""The rules of the tree that a machine can check: who may include whom, sizes, words, folders.

ARCHITECTURE.md and CONTRIBUTING.md explain them. `violations` is a pure function of the tree, given
as {path: text}; it touches no files, so the rules are tested on small made-up trees.
"""

import fnmatch
import re

FOLDERS = {"server", "worker", "proto", "common", "kernels", "deploy", "tests", "bench", "configs"}
HIDDEN_FOLDERS = {".ci"}
LINES_MAX = 500

# A room is a folder.
ROOM_FILES_MAX = 25
# Where no room may come to include itself by way of others.
ROOMS_IN_ORDER = re.compile(r"^(bench|server|common|worker)/")

# Where a room says what it is.
ROOMS_WITH_README = re.compile(r"^(bench|common|kernels|server|worker)/")

CODE = re.compile(r"\.(h|hpp|cc|cpp|c|cu|cuh)$")
COUNTED = re.compile(r"(\.(h|hpp|cc|cpp|c|cu|cuh|py|sh|proto|cmake|textproto)|CMakeLists\.txt)$")
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')
CONDITIONAL = re.compile(r"^\s*#\s*(?:if|ifdef|ifndef|elif)\b(.*)")

# Layer -> the layers that it may include.
# The client's half of the protocol: for workers, and for a server that is a client of another.
CLIENT = {"common/rendezvous", "common/exchange", "common/connect"}
LEAVES = {"common/base", "common/memory", "common/transport", "common", "kernels", "proto"} | CLIENT
MAY_INCLUDE = {
    "common/base": {"common/base"},
    "common/transport": {"common/base", "common/memory", "common/transport"},
    "common/memory": {"common/base", "common/memory"},
    "common": {"common/base", "common", "proto"},
    "common/rendezvous": {"common/base", "common/transport", "common", "common/rendezvous", "proto"},
    "common/exchange": {"common/base", "common/transport", "common", "common/exchange"},
    "common/connect": {"common/base", "common/memory", "common/transport", "common"} | CLIENT,
    "kernels": {"common/base", "kernels"},
    "server": LEAVES | {"server"},
    "worker": LEAVES | {"worker"},
    "bench": LEAVES | {"server", "worker", "bench"},
    "tests": LEAVES | {"server", "worker", "bench", "tests"},
}

# What, its headers, and the only files that may include them.
RESERVED = [
    ("protobuf and gRPC",
     re.compile(r"(\.pb\.h$|^grpc|^google/protobuf/)"),
     re.compile(r"^(common/(config/|job/|rendezvous/|rpc/|steps/step_waits|text/message_json)"
                r"|server/(rpc/|page/|directory/etcd|doctor/peer/|phubctl|main|daemon|serve)"
                r"|worker/(client/named_options|data/formats/shards/example|nn/graph/description|cli/options/|train/report/event_file)|bench/|tests/)")),
    ("verbs", re.compile(r"^(infiniband|rdma)/"),
     re.compile(r"^(common/transport/verbs/|tests/support/)")),
    ("gRPC's TLS", re.compile(r"^grpc(pp)?/(security/(tls_|.*credentials)|grpc_security)"),
     re.compile(r"^(common/rpc/credentials|tests/)")),
    ("SQLite", re.compile(r"^sqlite3"), re.compile(r"^(server/state/|tests/(unit/state/|integration/client/cycles_test))")),
    ("Prometheus", re.compile(r"^prometheus/"), re.compile(r"^(server/metrics/|tests/)")),
    ("Boost.Beast", re.compile(r"^boost/beast"), re.compile(r"^server/http/")),
    ("oneDNN", re.compile(r"^(oneapi/dnnl|dnnl)"), re.compile(r"^worker/nn/")),
    ("CUDA", re.compile(r"^(cuda|cudnn|cublas|nvml|nccl|curand|cooperative_groups)"),
     re.compile(r"^(kernels/cuda/|worker/cuda/|tests/cuda/)")),
    ("hwloc", re.compile(r"^hwloc"), re.compile(r"^common/base/affinity")),
    ("ISA-L", re.compile(r"^isa-l"), re.compile(r"^common/protocol/crc32c")),
    ("Highway", re.compile(r"^hwy/"), re.compile(r"^(kernels/cpu/|tests/unit/kernels/targets)")),
]

# Preprocessor conditionals: check.h switches its checks, Highway compiles a file several times.
CONDITIONAL_FILES = re.compile(r"^(common/base/check\.h$|kernels/cpu/)")

# A value of a log's field goes through log_value(), which escapes what would end the field.
LOGGING = re.compile(r"^(server|worker)/")
RAW_FIELD = re.compile(r'=\\"\{')

# In pieces, so that this file does not break its own rule.
WORDS = re.compile(r"\b(" + "|".join(["TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK"]) + r")\b")
MACHINE_PATHS = re.compile(r"(?<![\w.\-])/(?:ho" + r"me|ro" + r"ot|wo" + r"rk|Us" + r"ers)/"
                           r"|\.\./sha" + r"red\b")

# Files that comments and documents name, by the end of their paths; `*` stands for anything.
COMMENTS = [(re.compile(r"\.(h|hpp|cc|cpp|c|cu|cuh|proto)$"), re.compile(r"(?:(?<!:)//|/\*|^\s*\*\s)(.*)")),
            (re.compile(r"(\.(py|sh|cmake|toml)|CMakeLists\.txt)$"), re.compile(r"(?:^|\s)#\s(.*)")),
            (re.compile(r"\.md$"), re.compile(r"(.*)"))]
NAMED = re.compile(r"(?<![\w./*:<{}-])[\w./*-]*[\w*]\.(?:h|cc|cu|py)(?![\w>{]|\.\w)")
GENERATED = re.compile(r"\.pb\.(h|cc)$")
NOT_OURS = re.compile(r"^(cuda|cudnn|nccl)\.h$|^(linux|hwy|tensorflow)/|(^|/)[A-Z]+\.")


def layer_of(path):
    """The layer of a file of ours, or of an included header; None for anything else."""
    parts = path.split("/")
    if parts[0] == "common" and len(parts) > 2 and f"common/{parts[1]}" in MAY_INCLUDE:
        return f"common/{parts[1]}"
    return parts[0] if parts[0] in MAY_INCLUDE or parts[0] == "proto" else None


def folder_violations(path):
    folder, slash, _ = path.partition("/")
    if slash and folder not in FOLDERS | HIDDEN_FOLDERS:
        yield f"{path}: folder '{folder}' is not one of {' '.join(sorted(FOLDERS))}"


def include_violations(path, number, quote, header):
    where = f"{path}:{number}"
    own, other = layer_of(path), layer_of(header)
    if quote == '"' and other is None:
        yield f"{where}: \"{header}\": name our headers by their path from the root, others by <>"
    if own is not None and other is not None and other not in MAY_INCLUDE.get(own, set()):
        yield f"{where}: {own} may not include {other} ({header})"
    for what, headers, allowed in RESERVED:
        if headers.search(header) and not allowed.search(path):
            yield f"{where}: {what} ({header}) may be included by {allowed.pattern} only"


def is_feature(condition):
    """Whether a condition asks for more than the compiler's own macros, as __x86_64__."""
    names = re.findall(r"[A-Za-z_]\w*", condition.split("//")[0])
    return any(name != "defined" and not name.startswith("__") for name in names) or not names


def code_violations(path, lines):
    for number, line in enumerate(lines, 1):
        if match := INCLUDE.match(line):
            yield from include_violations(path, number, *match.groups())
        if match := CONDITIONAL.match(line):
            if not CONDITIONAL_FILES.search(path) and is_feature(match.group(1)):
                yield (f"{path}:{number}: '{line.strip()}': CMake chooses source files, the "
                       "preprocessor does not choose features")
        if LOGGING.search(path) and RAW_FIELD.search(line):
            yield f"{path}:{number}: a field of the log in quotes of its own: key={{}} and log_value()"


def text_violations(path, lines):
    for number, line in enumerate(lines, 1):
        if match := WORDS.search(line):
            yield f"{path}:{number}: '{match.group(0)}': do it, or open an issue"
        if match := MACHINE_PATHS.search(line):
            yield f"{path}:{number}: '{match.group(0)}' is a path of one machine"


def names_of(path, lines):
    """(line number, name) of each file that the comments of a file name, or a document's text."""
    for kind, comment in COMMENTS:
        if not kind.search(path):
            continue
        for number, line in enumerate(lines, 1):
            if match := comment.search(line):
                yield from ((number, name) for name in NAMED.findall(match.group(1)))


def name_violations(tree):
    """Files that are named and gone."""
    ends = set()
    for path in tree:
        parts = path.split("/")
        ends.update("/".join(parts[i:]) for i in range(len(parts)))
    for path, text in sorted(tree.items()):
        for number, name in names_of(path, (text or "").splitlines()):
            is_there = fnmatch.filter(ends, name) if "*" in name else name in ends
            if not is_there and not NOT_OURS.search(name) and not GENERATED.search(name):
                yield f"{path}:{number}: {name}: no such file; say what it is called now"


def room_of(path):
    return path.rpartition("/")[0]


def size_violations(tree):
    files = {}
    for path in tree:
        if CODE.search(path):
            files[room_of(path)] = files.get(room_of(path), 0) + 1
    for room, count in sorted(files.items()):
        if count > ROOM_FILES_MAX:
            yield (f"{room}: {count} files; a room has at most {ROOM_FILES_MAX}: make a room inside it for those "
                   "that belong together, and say in its README.md what lives there")


def readme_violations(tree):
    rooms = {room_of(path) for path in tree if CODE.search(path) and ROOMS_WITH_README.search(path)}
    for room in sorted(rooms):
        if f"{room}/README.md" not in tree:
            yield f"{room}: no README.md: say what lives there, who may come in and what was decided"


def room_includes(tree):
    """{room: {room that it includes: an include that says so}}, of rooms that are in order."""
    found = {}
    for path, text in sorted(tree.items()):
        if text is None or not CODE.search(path) or not ROOMS_IN_ORDER.search(path):
            continue
        own = room_of(path)
        for line in text.splitlines():
            match = INCLUDE.match(line)
            if match and ROOMS_IN_ORDER.search(match.group(2)) and room_of(match.group(2)) != own:
                found.setdefault(own, {}).setdefault(room_of(match.group(2)),
                                                     f"{path} includes {match.group(2)}")
    return found


def circle_violations(tree):
    """Each circle of rooms once, with an include for each of its arrows."""
    includes = room_includes(tree)
    done = set()

    def visit(room, way):
        if room in way:
            circle = way[way.index(room):] + [room]
            arrows = "; ".join(includes[a][b] for a, b in zip(circle, circle[1:]))
            yield (f"{' -> '.join(circle)}: rooms that include each other ({arrows}): move what both "
                   "need into a room beneath them")
            return
        if room in done:
            return
        for other in sorted(includes.get(room, {})):
            yield from visit(other, way + [room])
        done.add(room)
    for room in sorted(includes):
        yield from visit(room, [])


def violations(tree):
    """All violations in {path: text}, as 'path:line: what and the cure'. Text None: not text."""
    found = []
    for path, text in sorted(tree.items()):
        found += folder_violations(path)
        if text is None:
            continue
        lines = text.splitlines()
        found += text_violations(path, lines)
        if COUNTED.search(path) and len(lines) > LINES_MAX:
            found.append(f"{path}: {len(lines)} lines; the limit is {LINES_MAX}: split it by idea")
        if CODE.search(path):
            found += code_violations(path, lines)
    return found + list(size_violations(tree)) + list(circle_violations(tree)) + list(name_violations(tree))
