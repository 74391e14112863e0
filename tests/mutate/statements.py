"""Finds the statements of a function that a mutant may leave out, and its checks."""

KEYWORDS = frozenset(
    "return if else for while do switch case default break continue goto throw try catch using typedef static_assert "
    "const constexpr auto static struct class enum union new delete template typename namespace operator co_return "
    "co_await co_yield static_cast const_cast reinterpret_cast dynamic_cast sizeof unsigned signed int char bool "
    "float double void long short true false nullptr".split())
ASSIGNMENTS = ("=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=")
JUMPS = ("return", "continue", "break", "throw", "goto", "co_return")
RETURNS = ("PHUB_RETURN_IF_ERROR", "PHUB_ASSIGN_OR_RETURN")  # the second also declares what later lines use
# Calls that only the log, the memory's size or our own bugs show: no test has to notice that they are gone.
IGNORED = ("PHUB_CHECK", "PHUB_DCHECK", "static_assert", "spdlog", "assert", "reserve", "shrink_to_fit", "prefetch", "HWY_UNROLL")


def starts(source, first, last):
    """Indices between two where a statement may begin."""
    for index in range(first + 1, last):
        around = source.around[index]
        if around >= 0 and source.at(around) != "{":
            continue
        before = source.at(index - 1)
        if before in (";", "{", "}", "else", "do") or (before == ")" and _ends_header(source, index - 1)):
            yield index
        elif before == ":" and _ends_label(source, index - 1):
            yield index
        elif before == "]" and source.at(source.partner[index - 1] + 1) == "[":
            yield index  # behind [[likely]]


def _ends_header(source, paren):
    opening = source.partner[paren]
    word = source.at(opening - 1)
    return word in ("if", "for", "while", "switch") or (word == "constexpr" and source.at(opening - 2) == "if")


def _ends_label(source, colon):
    index = colon - 1
    while index >= 0 and source.at(index) not in (";", "{", "}", "?", ":"):
        if source.at(index) in ("case", "default"):
            return True
        index -= 1
    return False


def _after_chain(source, index):
    """(The index behind names, calls and subscripts as in a::b(c)[d].e, whether a call is its end), or None."""
    if source.at(index) == "::":
        index += 1
    if source.tokens[index].kind != "name" or source.at(index) in KEYWORDS:
        return None
    index += 1
    is_call = False
    while True:
        text = source.at(index)
        if text in (".", "->", "::"):
            index += 2 if source.at(index + 1) == "template" else 1
            if source.tokens[index].kind != "name":
                return None
            index, is_call = index + 1, False
        elif text in ("(", "["):
            index, is_call = source.partner[index] + 1, text == "("
        elif text == "<" and source.is_template_bracket(index):
            behind = source.after_template(index)
            if behind is None or source.at(behind) not in ("(", "::"):
                return None
            index = behind
        else:
            return index, is_call


def end_of(source, index):
    """The index of the ';' that ends the statement at `index`; None if its block ends before."""
    around = source.around[index]
    while index < len(source.tokens):
        text = source.at(index)
        if text == ";" and source.around[index] == around:
            return index
        if text in ("(", "[", "{"):
            index = source.partner[index]
        elif text in (")", "]", "}"):
            return None
        index += 1
    return None


def effect_at(source, start):
    """The ';' of an assignment, or of a call whose value is unused, that begins at `start`; or None."""
    index = start
    is_step = source.at(index) in ("++", "--")
    while source.at(index) in ("++", "--", "*"):
        index += 1
    chain = _after_chain(source, index) if index < len(source.tokens) else None
    if chain is None or is_ignored(source, index) or source.at(index) in RETURNS:
        return None
    behind, is_call = chain
    text = source.at(behind)
    if text in ASSIGNMENTS:
        return end_of(source, start)
    if text in ("++", "--"):
        behind += 1
        is_step = True
    return behind if source.at(behind) == ";" and (is_step or is_call) else None


def is_ignored(source, index):
    """Whether the call at `index` is none that a test can notice."""
    if source.at(index) in IGNORED:
        return True
    while index + 2 < len(source.tokens) and source.at(index + 1) in (".", "->", "::"):
        index += 2
        if source.at(index) in IGNORED:
            return True
    return False


def ignored_ranges(source, first, last):
    """(First, last) indices of calls that no test has to notice."""
    for index in range(first, last + 1):
        if source.at(index) in IGNORED and source.at(index - 1) not in (".", "->", "::"):
            paren = index
            while paren <= last and source.at(paren) not in ("(", ";"):
                paren += 1
            if source.at(paren) == "(":
                yield index, source.partner[paren]


def check_at(source, start):
    """(First, last) index of the condition of an 'if' at `start` that only guards a jump; or None."""
    paren = start + (2 if source.at(start + 1) == "constexpr" else 1)
    if source.at(start) != "if" or source.at(paren) != "(":
        return None
    closing = source.partner[paren]
    if not _jumps(source, closing + 1):
        return None
    first = paren + 1
    for index in range(paren + 1, closing):
        if source.at(index) == ";" and source.around[index] == paren:
            first = index + 1
    return first, closing - 1


def _jumps(source, index):
    """Whether the statement at `index` is a jump, or a block that ends with one."""
    while source.at(index) == "[":
        index = source.partner[index] + 1
    if source.at(index) != "{":
        return source.at(index) in JUMPS
    closing = source.partner[index]
    last_start = None
    for start in starts(source, index, closing):
        if source.around[start] == index:
            last_start = start
    return last_start is not None and source.at(last_start) in JUMPS
