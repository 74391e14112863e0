"""The operators: each yields (start, end, replacement) for what it would change in a definition."""
import re

import expressions
import statements

COMPARISONS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
LOGIC = {"&&": "||", "||": "&&"}
SIGNS = {"+": "-", "-": "+", "+=": "-=", "-=": "+="}
# Highway's functions stand for operators.
VECTOR_COMPARISONS = {"Lt": "Le", "Le": "Lt", "Gt": "Ge", "Ge": "Gt", "Eq": "Ne", "Ne": "Eq"}
VECTOR_SIGNS = {"Add": "Sub", "Sub": "Add"}
EXTREMES = {"min": "max", "max": "min", "Min": "Max", "Max": "Min"}
NUMBER = re.compile(r"(\d[\d']*)([A-Za-z_]\w*)?")
SQL = re.compile(r'"(?:SELECT|INSERT|UPDATE|DELETE) |".* (?:WHERE|AND|SET) ')
SQL_SWAPS = {" AND ": " OR ", " = 0": " = 1", " = 1": " = 0", " < ": " >= ", " > ": " <= ", " ASC": " DESC", " DESC": ""}
SQL_PARTS = re.compile("|".join(re.escape(each) + (r"\b" if each[-1] != " " else "") for each in SQL_SWAPS))
NOT_DECIMAL = re.compile(r"0[xXbB\d]")
DEFAULTS = ("= {}", "= nullptr", "{}")  # a field left out has these anyway
FLAGS = {"true": "false", "false": "true"}


def _swap(source, index, pairs):
    token = source.tokens[index]
    return token.start, token.end, pairs[token.text]


def _is_vector_call(source, index, pairs):
    return (source.at(index) in pairs and source.at(index + 1) == "(" and source.at(index - 1) == "::"
            and source.at(index - 2) == "hn")


def compare(source, first, last):
    """'<' becomes '<=', '==' becomes '!=', and so on."""
    for index in range(first, last + 1):
        if source.at(index) in COMPARISONS and source.is_spaced(index) and source.at(index - 1) != "template":
            yield _swap(source, index, COMPARISONS)
        elif _is_vector_call(source, index, VECTOR_COMPARISONS):
            yield _swap(source, index, VECTOR_COMPARISONS)


def check(source, first, last):
    """A check is dropped: the condition of an 'if' that guards a jump is false; an error is not returned."""
    for start in statements.starts(source, first, last):
        condition = statements.check_at(source, start)
        if condition is not None:
            yield from _never(source, start, *condition)
        elif source.at(start) == "PHUB_RETURN_IF_ERROR":
            token = source.tokens[start]
            yield token.start, token.end, "static_cast<void>"


def _never(source, start, first, last):
    """The condition made false, with its names still used; of a declared variable, the jump is left out."""
    begin, end = source.tokens[first].start, source.tokens[last].end
    declares = any(source.at(i) == "=" and source.around[i] == source.around[first] for i in range(first, last + 1))
    if not declares:
        yield begin, end, f"false && ({source.text[begin:end]})"
        return
    body = last + 2
    if source.at(body) == "{":
        yield source.tokens[body].start, source.tokens[source.partner[body]].end, "{}"
    elif (semicolon := statements.end_of(source, body)) is not None:
        yield source.tokens[body].start, source.tokens[semicolon].end, "{}"


def bound(source, first, last):
    """A number becomes one more or less, 0 becomes 1, true becomes false."""
    for index in range(first, last + 1):
        token = source.tokens[index]
        if token.text in FLAGS:
            yield _swap(source, index, FLAGS)
        elif token.kind == "number" and not _is_template_argument(source, index):
            match = NUMBER.fullmatch(token.text)
            if match is None or NOT_DECIMAL.match(token.text):
                yield token.start, token.end, f"({token.text} + 1)"
                continue
            value = int(match[1].replace("'", ""))
            suffix = match[2] or ""
            if value != 1:
                yield token.start, token.end, f"{value + 1}{suffix}"
            if value > 0:
                yield token.start, token.end, f"{value - 1}{suffix}"


def _is_template_argument(source, index):
    return source.is_template_bracket(index - 1) or source.is_template_bracket(index + 1)


def statement(source, first, last):
    """An assignment, or a call whose value is unused, is left out."""
    for start in statements.starts(source, first, last):
        semicolon = statements.effect_at(source, start)
        if semicolon is not None:
            yield source.tokens[start].start, source.tokens[semicolon].end, "{}"


def field(source, first, last):
    """A designated initialiser is left out: '.name = value' in braces."""
    for index in range(first + 1, last):
        if source.at(index) != "." or source.at(index - 1) not in ("{", ",") or source.at(index + 2) not in ("=", "{"):
            continue
        end = index + 2
        while source.at(end) not in (",", "}"):
            end = source.partner[end] + 1 if source.at(end) in ("(", "[", "{") else end + 1
        if source.text[source.tokens[index + 2].start:source.tokens[end - 1].end] in DEFAULTS:
            continue
        behind = source.tokens[end].end if source.at(end) == "," else source.tokens[end].start
        yield source.tokens[index].start, behind, ""


def logic(source, first, last):
    """'&&' becomes '||', and the other way round."""
    for index in range(first, last + 1):
        if source.at(index) in LOGIC and source.is_spaced(index) and source.at(index + 1) not in ("{", ";", "="):
            yield _swap(source, index, LOGIC)


def negation(source, first, last):
    """A '!' is dropped."""
    for index in range(first, last + 1):
        if source.at(index) == "!":
            yield source.tokens[index].start, source.tokens[index].end, ""


def sign(source, first, last):
    """'+' becomes '-', and the other way round; not where text is put together."""
    for index in range(first, last + 1):
        if source.at(index) in SIGNS and source.is_spaced(index):
            if "string" not in (source.tokens[index - 1].kind, source.tokens[index + 1].kind):
                yield _swap(source, index, SIGNS)
        elif _is_vector_call(source, index, VECTOR_SIGNS):
            yield _swap(source, index, VECTOR_SIGNS)


def extreme(source, first, last):
    """A minimum becomes a maximum, and the other way round."""
    for index in range(first, last + 1):
        if (source.at(index) in EXTREMES and source.at(index - 1) == "::" and source.at(index - 2) in ("std", "hn")
                and (source.at(index + 1) in ("(", "<"))):
            yield _swap(source, index, EXTREMES)


def choice(source, first, last):
    """The condition of 'condition ? a : b' is negated."""
    for index in range(first, last + 1):
        if source.at(index) == "?":
            begin = expressions.operand_before(source, index)
            start, end = source.tokens[begin].start, source.tokens[index - 1].end
            yield start, end, f"!({source.text[start:end]})"


def result(source, first, last):
    """What a function of the type bool returns is negated, where no other operator changes it."""
    if not expressions.returns_bool(source, first):
        return
    for start in statements.starts(source, first, last):
        semicolon = statements.end_of(source, start)
        if source.at(start) == "return" and semicolon is not None and semicolon > start + 1:
            words = [source.at(i) for i in range(start + 1, semicolon)]
            if not set(words) & {*COMPARISONS, *LOGIC, *FLAGS, "!"}:
                begin, end = source.tokens[start + 1].start, source.tokens[semicolon - 1].end
                yield begin, end, f"!({source.text[begin:end]})"


def text(source, first, last):
    """A returned text becomes another; in SQL, AND becomes OR, and a number another."""
    for index in range(first + 1, last):
        token = source.tokens[index]
        if token.kind != "string":
            continue
        if source.at(index - 1) == "return" and source.at(index + 1) == ";":
            yield token.end - 1, token.end - 1, "?"
        elif SQL.match(token.text):
            for match in SQL_PARTS.finditer(token.text):
                yield token.start + match.start(), token.start + match.end(), SQL_SWAPS[match[0]]


OPERATORS = {each.__name__: each for each in
             (compare, check, bound, statement, field, logic, negation, sign, extreme,
              choice, result, text)}


def changes(source, definition, name):
    """(Start, end, replacement) of all changes that an operator makes in a definition, in order."""
    ignored = [(source.tokens[first].start, source.tokens[last].end) for first, last in
               statements.ignored_ranges(source, definition.first, definition.last)]
    for start, end, replacement in OPERATORS[name](source, definition.first, definition.last):
        if not any(first <= start and end <= last for first, last in ignored):
            yield start, end, replacement
