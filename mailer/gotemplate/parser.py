"""Builds the syntax tree of a template, and rejects unsupported syntax."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mailer.gotemplate import functions, lexer, tree
from mailer.gotemplate.lexer import TemplateSyntaxError, Token

MAX_NESTING = 50
"""Limit of nested blocks, nested parentheses, and stages of one pipeline."""

_CONSTANTS = {"true": True, "false": False, "nil": None}
_BRANCHES: dict[str, type[tree.If | tree.With | tree.Range]] = {"if": tree.If, "with": tree.With, "range": tree.Range}
_END = ("end",)
_END_OR_ELSE = ("end", "else")


def parse(source: str) -> tree.Program:
    """The syntax tree of a template. Raises TemplateSyntaxError."""
    return _Parser(lexer.split(source)).program()


class _Parser:
    def __init__(self, items: list[lexer.TextItem | lexer.ActionItem]) -> None:
        self._items = iter(items)
        self._line = 1
        self._tokens: tuple[Token, ...] = ()
        self._next = 0
        self._nesting = 0
        self._names = ["$"]
        self._included: list[tuple[str, int]] = []
        self._defined: dict[str, tree.Body] = {}
        self._defaults: dict[str, tree.Body] = {}

    def program(self) -> tree.Program:
        main = self._body(until=(), top=True)
        named = self._defaults | self._defined
        for name, line in self._included:
            if name not in named:
                raise TemplateSyntaxError(f"template {name!r} is not defined", line)
        return tree.Program(main, named)

    # Blocks

    def _body(self, *, until: tuple[str, ...], top: bool = False) -> tree.Body:
        """Nodes up to one of the keywords `until`, whose action becomes the current one with the keyword consumed."""
        nodes: list[tree.Node] = []
        with self._nested():
            for item in self._items:
                if isinstance(item, lexer.TextItem):
                    nodes.append(tree.Text(item.text))
                    continue
                self._tokens, self._next, self._line = item.tokens, 0, item.line
                word = self._peek().text if self._peek().kind == "word" else ""
                if word in until:
                    self._next = 1
                    return tuple(nodes)
                node = self._action(word, top=top)
                if node is not None:
                    nodes.append(node)
        if until:
            raise self._error("block without end")
        return tuple(nodes)

    def _action(self, word: str, *, top: bool) -> tree.Node | None:
        if word in _BRANCHES:
            self._next = 1
            return self._branch(word)
        if word in ("define", "block", "template"):
            self._next = 1
            return self._named(word, top=top)
        if word in _END_OR_ELSE:
            raise self._error(f"unexpected {word}")
        pipeline = self._pipeline()
        self._finish()
        return tree.Print(pipeline)

    def _branch(self, word: str) -> tree.Node:
        outer = len(self._names)
        pipeline = self._pipeline(in_range=word == "range")
        self._finish()
        inner = len(self._names)
        body = self._body(until=_END_OR_ELSE)
        del self._names[inner:]
        otherwise: tree.Body = ()
        if self._word() == "else":
            follow = self._peek().text if self._peek().kind == "word" else ""
            if follow in ("if", "with") and word != "range":
                self._next += 1
                with self._nested():
                    otherwise = (self._branch(follow),)
            else:
                self._finish()
                otherwise = self._body(until=_END)
                self._finish()
        else:
            self._finish()
        del self._names[outer:]
        return _BRANCHES[word](pipeline, body, otherwise)

    def _named(self, word: str, *, top: bool) -> tree.Node | None:
        line = self._line
        token = self._take()
        if token.kind not in ("string", "raw"):
            raise self._error(f"{word} without a name")
        name = lexer.unquote(token, line)
        if word == "define" and not top:
            raise self._error("define inside another block")
        pipeline = None
        if word == "block" or (word == "template" and self._peek().kind != "end"):
            pipeline = self._pipeline()
        self._finish()
        if word != "template":
            outer, self._names = self._names, ["$"]
            body = self._body(until=_END)
            self._finish()
            self._names = outer
            bodies = self._defined if word == "define" else self._defaults
            if name in bodies:
                raise TemplateSyntaxError(f"template {name!r} is defined twice", line)
            bodies[name] = body
        if word == "define":
            return None
        self._included.append((name, line))
        return tree.Include(name, pipeline)

    # Expressions

    def _pipeline(self, *, in_range: bool = False) -> tree.Pipeline:
        variables, declared = self._targets(in_range=in_range)
        with self._nested():
            value = self._command()
            stages = 1
            while self._peek().kind == "pipe":
                self._take()
                stages += 1
                if self._peek().kind != "word" or stages > MAX_NESTING:
                    raise self._error("only functions can stand after |, and not too many")
                value = self._command(piped=value)
        if declared:
            self._names.extend(variables)
        return tree.Pipeline(value, variables, declared)

    def _targets(self, *, in_range: bool) -> tuple[tuple[str, ...], bool]:
        """Read `$x :=`, `$x =` or, in a range, `$k, $v :=`; returns no names if there is no assignment."""
        kinds = [token.kind for token in self._tokens[self._next : self._next + 4]]
        count = 2 if in_range and kinds[:3] == ["variable", "comma", "variable"] else 1
        at = 2 * count - 1
        if kinds[:1] != ["variable"] or kinds[at : at + 1] not in (["declare"], ["assign"]):
            return (), False
        names = tuple(self._tokens[self._next + 2 * index].text for index in range(count))
        declared = kinds[at] == "declare"
        for name in names:
            if name == "$" or (not declared and name not in self._names):
                raise self._error(f"undefined variable {name}")
        self._next += at + 1
        return names, declared

    def _command(self, piped: tree.Expression | None = None) -> tree.Expression:
        first = self._take()
        if first.kind == "word" and first.text not in _CONSTANTS:
            arguments = []
            while self._peek().kind not in ("end", "pipe", "right"):
                arguments.append(self._operand(self._take()))
            if piped is not None:
                arguments.append(piped)
            return self._call(first.text, arguments)
        if piped is not None or first.text == "nil":
            raise self._error(f"{first.text} is not a command")
        value = self._operand(first)
        if self._peek().kind not in ("end", "pipe", "right"):
            raise self._error(f"unexpected {self._peek().text} after a value")
        return value

    def _operand(self, token: Token) -> tree.Expression:
        value = self._term(token)
        keys = []
        while self._peek().kind == "field" and not self._peek().spaced:
            keys.append(self._take().text[1:])
        if not keys:
            return value
        if isinstance(value, tree.Literal):
            raise self._error(f"{token.text} has no members")
        if isinstance(value, tree.Path):
            return tree.Path(value.start, (*value.keys, *keys))
        return tree.Path(value, tuple(keys))

    def _term(self, token: Token) -> tree.Expression:
        match token.kind:
            case "dot":
                return tree.Dot()
            case "field":
                return tree.Path(tree.Dot(), (token.text[1:],))
            case "variable":
                if token.text not in self._names:
                    raise self._error(f"undefined variable {token.text}")
                return tree.Variable(token.text)
            case "string" | "raw":
                return tree.Literal(lexer.unquote(token, self._line))
            case "number":
                return tree.Literal(self._number(token.text))
            case "word" if token.text in _CONSTANTS:
                return tree.Literal(_CONSTANTS[token.text])
            case "word":
                return self._call(token.text, [])
            case "left":
                value = self._pipeline()
                if self._take().kind != "right" or value.variables:
                    raise self._error("unclosed parenthesis")
                return value.value
        raise self._error(f"unexpected {token.text or 'end of action'}")

    def _call(self, name: str, arguments: list[tree.Expression]) -> tree.Call:
        function = functions.TABLE.get(name)
        if function is None:
            raise self._error(f"function {name!r} not defined")
        if len(arguments) < function.min_arguments or (
            function.max_arguments is not None and len(arguments) > function.max_arguments
        ):
            raise self._error(f"wrong number of arguments for {name}: {len(arguments)}")
        return tree.Call(name, tuple(arguments))

    def _number(self, text: str) -> int | float:
        if "x" in text.lower():
            return int(text, 16)
        try:
            return int(text) if text.lstrip("+-").isdigit() else float(text)
        except ValueError:  # exceeds Python's limit of digits
            raise self._error("number too long") from None

    # Tokens of the current action

    def _peek(self) -> Token:
        return self._tokens[self._next] if self._next < len(self._tokens) else Token("end", "", spaced=False)

    def _take(self) -> Token:
        token = self._peek()
        self._next += 1
        return token

    def _word(self) -> str:
        """The keyword at which `_body` stopped."""
        return self._tokens[self._next - 1].text

    def _finish(self) -> None:
        if self._peek().kind != "end":
            raise self._error(f"unexpected {self._peek().text}")

    @contextmanager
    def _nested(self) -> Iterator[None]:
        self._nesting += 1
        if self._nesting > MAX_NESTING:
            raise self._error("nested too deeply")
        yield
        self._nesting -= 1

    def _error(self, problem: str) -> TemplateSyntaxError:
        return TemplateSyntaxError(problem, self._line)
