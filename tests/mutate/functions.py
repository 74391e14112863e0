"""Finds the definitions in a C++ file by their names: functions, and constants with an initialiser."""
import dataclasses

TYPES = ("class", "struct", "union")
NO_NAME = ("alignas", "decltype", "explicit", "noexcept", "requires", "__attribute__", "if", "for", "while", "switch")


@dataclasses.dataclass(frozen=True)
class Definition:
    name: str    # with namespaces and classes; an unnamed namespace adds nothing
    first: int   # index of its first token: ':' or '{' of a function, '=' or '{' of a constant
    last: int    # index of its last token


def definitions(source):
    """All of a file, in order; what is inside a function belongs to the function."""
    found = []
    _scan(source, 0, len(source.tokens), "", found)
    return found


def _scan(source, index, end, scope, found):
    """The declarations of a namespace or a class between two indices."""
    while index < end:
        text = source.at(index)
        if text in (";", "}"):
            index += 1
        elif text in ("public", "private", "protected") and source.at(index + 1) == ":":
            index += 2
        else:
            index = _declaration(source, index, end, scope, found)


def _declaration(source, start, end, scope, found):
    """One declaration from `start`; returns the index behind it."""
    words = []       # top-level names so far
    name = None      # of the function, once its parameters are seen
    initialiser = None  # where a constant's value starts
    in_members = False  # between a constructor's ':' and its body
    index = start
    while index < end:
        text = source.at(index)
        if text == ";":
            if initialiser is not None and words:
                found.append(Definition(scope + words[-1], initialiser, index - 1))
            return index + 1
        if text == "<" and source.is_template_bracket(index):
            index = source.after_template(index) or index + 1
        elif text == "(":
            if name is None and initialiser is None:
                name = _name_before(source, index, start)
            index = source.partner[index] + 1
        elif text == "[":
            index = source.partner[index] + 1
        elif text == "=" and source.at(index - 1) != "operator" and initialiser is None and name is None:
            initialiser = index
            index += 1
        elif text == ":" and name is not None and initialiser is None:
            in_members = in_members or index
            index += 1
        elif text == "{":
            closing = source.partner[index]
            if initialiser is None and in_members and source.at(index - 1) not in (")", "}"):
                index = closing + 1  # a member's value
            elif initialiser is None and name is not None:
                found.append(Definition(scope + name, in_members or index, closing))
                return closing + 1
            elif initialiser is None and (inner := _scope_of(source, start, index)) is not None:
                if inner != "enum":
                    _scan(source, index + 1, closing, scope + inner, found)
                return closing + 1
            else:
                initialiser = initialiser or index
                index = closing + 1
        else:
            if source.tokens[index].kind == "name" and initialiser is None:
                words.append(text)
            index += 1
    return end


def _scope_of(source, start, brace):
    """What a '{' of a namespace or type adds to names; 'enum' for an enumeration; None for a value."""
    words = [source.at(i) for i in range(start, brace)]
    if words and words[0] == "extern" and len(words) <= 2:
        return ""
    if "namespace" in words[:2]:
        names = [word for word in words[words.index("namespace") + 1:] if word[0].isalnum() or word[0] == "_"]
        return "".join(f"{name}::" for name in names)
    if "enum" in words:
        return "enum"
    index = start
    while index < brace and source.at(index) not in TYPES:
        is_template = source.at(index) == "<" and source.is_template_bracket(index)
        index = (source.after_template(index) or brace) if is_template else index + 1
    if index == brace:
        return None
    name = ""
    index += 1
    while index < brace and source.at(index) not in (":", "final"):
        if source.at(index) in ("(", "["):
            index = source.partner[index]
        elif source.at(index) == "<":
            break  # a specialisation
        elif source.tokens[index].kind == "name" and source.at(index) != "alignas":
            name = f"{name}::{source.at(index)}" if source.at(index - 1) == "::" else source.at(index)
        index += 1
    return f"{name}::" if name else ""


def _name_before(source, paren, start):
    """The function's name before the '(' of its parameters; None if that '(' is another's."""
    index = paren - 1
    if source.at(index) in NO_NAME:
        return None
    for first in range(max(start, paren - 3), paren):
        if source.at(first) == "operator":
            name = "operator" + "".join(source.at(i) for i in range(first + 1, paren))
            if source.at(paren + 1) == ")" and first == paren - 1 and source.at(paren + 2) == "(":
                return None  # operator(): its parameters follow
            if first == paren - 1:
                name = "operator()"
            return _qualifiers(source, first, start) + name
    if source.at(index) == ">":  # a specialisation: find its '<'
        depth = 0
        while index > start:
            depth += {"<": -1, ">": 1, ">>": 2}.get(source.at(index), 0)
            index -= 1
            if depth == 0:
                break
    if source.tokens[index].kind != "name" or index < start:
        return None
    name = source.at(index)
    if source.at(index - 1) == "~":
        index -= 1
        name = "~" + name
    return _qualifiers(source, index, start) + name


def _qualifiers(source, index, start):
    """'Class::' before a name at `index`, without the arguments of templates."""
    names = ""
    while index - 2 >= start and source.at(index - 1) == "::":
        index -= 2
        if source.at(index) == ">":
            while index > start and source.at(index) != "<":
                index -= 1
            index -= 1
        names = f"{source.at(index)}::{names}"
    return names
