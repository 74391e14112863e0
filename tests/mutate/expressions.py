"""Finds where an operand begins, and what type a function is declared with."""
import statements

BEFORE_OPERANDS = ("(", "[", "{", ",", ";", "?", ":", "<<", "return", "co_return", "case")


def operand_before(source, question):
    """The index where the condition before a '?' begins."""
    index = question - 1
    while True:
        text = source.at(index)
        if text in (")", "]", "}"):
            index = source.partner[index] - 1
        elif text in statements.ASSIGNMENTS or text in BEFORE_OPERANDS:
            return index + 1
        elif text == ">" and source.is_template_bracket(index):
            index = _template_start(source, index) - 1
        else:
            index -= 1


def _template_start(source, index):
    depth = 0
    while index > 0:
        if source.is_template_bracket(index):
            depth += {"<": -1, ">": 1, ">>": 2}[source.at(index)]
            if depth <= 0:
                return index
        index -= 1
    return index


def returns_bool(source, first):
    """Whether the function whose body begins at `first` is declared as bool."""
    index = first - 1
    while index >= 0 and source.at(index) not in (";", "}", "{"):
        if source.at(index) in (")", "]"):
            index = source.partner[index]
        elif source.at(index) == "bool" and source.at(index - 1) != "operator":
            return True
        elif source.at(index) in ("public", "private", "protected", "class", "struct"):
            return False
        index -= 1
    return False
