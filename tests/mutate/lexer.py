"""Splits C++ into tokens: no compiler, no include files, no macros.

Comments, white space and preprocessor lines are left out. The tree is formatted by clang-format, and
the lexer relies on it: a comparison, a sum and && have white space on both sides, while the brackets
of a template, a sign, and a reference do not.
"""
import re

TOKEN = re.compile(r"""
    (?P<space>      \s+ | //(?:[^\n\\]|\\.|\\\n)* | /\*.*?\*/ | \\\n)
  | (?P<raw>        (?:u8|[uUL])?R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)"\w*)
  | (?P<string>     (?:u8|[uUL])?"(?:[^"\\\n]|\\.)*"\w*)
  | (?P<character>  (?:u8|[uUL])?'(?:[^'\\\n]|\\.)+')
  | (?P<number>     \.?\d(?:'?[\w.]|(?<=[eEpP])[+-])*)
  | (?P<name>       [A-Za-z_]\w*)
  | (?P<sign>       <=>|<<=|>>=|->\*|\.\.\.|::|\+\+|--|->|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|\#\#|.)
""", re.VERBOSE | re.DOTALL)
DIRECTIVE = re.compile(r"\#(?:[^\n\\/]|\\.|/\*.*?\*/|/(?!\*))*", re.DOTALL)
OPENING = {"(": ")", "[": "]", "{": "}"}
CLOSING = {closing: opening for opening, closing in OPENING.items()}


class Wrong(Exception):
    """The table, a source file or the use of the program is wrong."""


class Token:
    __slots__ = ("kind", "text", "start", "end")

    def __init__(self, kind, text, start, end):
        self.kind, self.text, self.start, self.end = kind, text, start, end

    def __repr__(self):
        return f"{self.kind} {self.text}"


class Source:
    """A file's text and tokens, and for each token its partner bracket and the bracket around it."""

    def __init__(self, text, path="?"):
        self.text, self.path = text, path
        self.tokens = list(tokens_of(text))
        self.partner = {}   # index of a bracket -> index of the other one
        self.around = []    # for each token the index of the innermost opening bracket, or -1
        self._match_brackets()

    def _match_brackets(self):
        open_ones = []
        for index, token in enumerate(self.tokens):
            if token.kind == "sign" and token.text in CLOSING:
                if not open_ones or self.tokens[open_ones[-1]].text != CLOSING[token.text]:
                    raise Wrong(f"{self.path}:{self.line_of(token)}: '{token.text}' closes nothing")
                self.partner[index] = open_ones.pop()
                self.partner[self.partner[index]] = index
            self.around.append(open_ones[-1] if open_ones else -1)
            if token.kind == "sign" and token.text in OPENING:
                open_ones.append(index)
        if open_ones:
            raise Wrong(f"{self.path}:{self.line_of(self.tokens[open_ones[-1]])}: a bracket is not closed")

    def line_of(self, token):
        return self.text.count("\n", 0, token.start) + 1

    def at(self, index):
        """The text of a token; nothing beyond the ends."""
        return self.tokens[index].text if 0 <= index < len(self.tokens) else ""

    def is_spaced(self, index):
        """Whether white space is on both sides, as about an operator with two operands."""
        token = self.tokens[index]
        return self.text[token.start - 1:token.start].isspace() and self.text[token.end:token.end + 1].isspace()

    def is_template_bracket(self, index):
        """Whether a '<' opens, or a '>' or '>>' closes, the arguments or parameters of a template."""
        if self.at(index) not in ("<", ">", ">>"):
            return False
        return self.at(index - 1) == "template" or not self.is_spaced(index)

    def after_template(self, index):
        """The index behind the '>' of the '<' at `index`; None if it is not there."""
        depth = 0
        while index < len(self.tokens) and self.at(index) not in (";", "{", "}"):
            text = self.at(index)
            if text in ("(", "["):
                index = self.partner[index]
            elif self.is_template_bracket(index):
                depth += {"<": 1, ">": -1, ">>": -2}[text]
                if depth <= 0:
                    return index + 1
            index += 1
        return None


def tokens_of(text):
    position = 0
    at_line_start = True
    while position < len(text):
        if at_line_start and (directive := DIRECTIVE.match(text, position)):
            position = directive.end()
            continue
        match = TOKEN.match(text, position)
        kind = match.lastgroup if match.lastgroup != "mark" else "raw"
        position = match.end()
        if kind == "space":
            at_line_start = at_line_start or "\n" in match[0]
            continue
        at_line_start = False
        yield Token(kind, match[0], match.start(), match.end())
