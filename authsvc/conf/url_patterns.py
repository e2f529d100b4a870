"""The glob patterns of URI_ALLOW_LIST, matched in linear time.

Regular expressions backtrack, so a hostile URL could keep a pattern with several wildcards busy for seconds. A pattern
is an automaton without empty transitions instead (Glushkov's construction), whose set of states is one integer: a
match takes one step per character.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, auto

_SEPARATORS = frozenset("./")
_SLASH = frozenset("/")
# `[a-z]` or `[abc]`. A hyphen in second place always means a range, and then the range is the whole list.
_BRACKET = re.compile(r"\[(!?+)(?:([^\\])-(.)|(?!.-)((?:\\.|[^\]\\])+))\]", re.DOTALL)
_ASCII = 128


class _Part(Enum):
    """The part of a URL that a place in a pattern belongs to."""

    SCHEME = auto()
    AFTER_COLON = auto()
    AFTER_SLASH = auto()
    AUTHORITY = auto()
    PATH = auto()
    UNKNOWN = auto()
    """After a wildcard or a list that may have matched the end of the scheme."""


@dataclass(frozen=True, slots=True)
class _CharacterSet:
    """The characters that one state accepts: a set or a range, or all others."""

    members: frozenset[str] = frozenset()
    range: tuple[str, str] | None = None
    is_negated: bool = False

    def accepts(self, character: str) -> bool:
        if self.range is not None:
            return (self.range[0] <= character <= self.range[1]) is not self.is_negated
        return (character in self.members) is not self.is_negated


@dataclass(frozen=True, slots=True)
class _Fragment:
    """A part of the automaton; states are bits of integers."""

    first: int = 0
    last: int = 0
    is_nullable: bool = True
    """True if it matches the empty text."""


@dataclass(slots=True)
class _Group:
    """A pattern, or a pair of braces with its alternatives."""

    part: _Part
    """The position of the first character of the group."""
    sequence: _Fragment = field(default_factory=_Fragment)
    """The current alternative."""
    alternatives: list[_Fragment] = field(default_factory=list)
    ends: list[_Part] = field(default_factory=list)


class UrlPattern:
    """A compiled pattern."""

    def __init__(self, sets: list[_CharacterSet], following: list[int], whole: _Fragment) -> None:
        self._sets = sets
        self._following = following
        self._whole = whole
        self._ascii = [self._accepting(chr(code)) for code in range(_ASCII)]

    def matches(self, text: str) -> bool:
        """True if the pattern matches the whole text. Takes one step per character."""
        if not text:
            return self._whole.is_nullable
        active, reached = self._whole.first, 0
        successors: dict[int, int] = {}
        for character in text:
            code = ord(character)
            reached = active & (self._ascii[code] if code < _ASCII else self._accepting(character))
            if not reached:
                return False
            following = successors.get(reached)
            if following is None:
                following = successors[reached] = self.follow(reached)
            active = following
        return bool(reached & self._whole.last)

    def _accepting(self, character: str) -> int:
        """The states that accept the character."""
        states = 0
        for number, characters in enumerate(self._sets):
            if characters.accepts(character):
                states |= 1 << number
        return states

    def follow(self, states: int) -> int:
        following = 0
        for number in _numbers(states):
            following |= self._following[number]
        return following


def compile_pattern(text: str) -> UrlPattern:
    """Compile the allow-list glob `text`.

    `*` is any run without `/`, and before the path also without `.`; `**` any run; `?` one character but `.` and `/`;
    `[abc]`, `[!abc]`, `[a-z]`, `[!a-z]` one character; `{p,q}` alternatives; `\\c` the character c. A `**` that is only
    a part of the authority never matches `/`; otherwise `https://**.example.com/` would match a path on any host.
    Raises ValueError for anything unfinished.
    """
    return _Compiler(text).compile()


class _Compiler:
    def __init__(self, text: str) -> None:
        self._text = text
        self._sets: list[_CharacterSet] = []
        self._following: list[int] = []
        self._part = _Part.SCHEME
        self._group = _Group(self._part)

    def compile(self) -> UrlPattern:
        """Build the automaton. Raises ValueError for anything unfinished."""
        text, position = self._text, 0
        outer: list[_Group] = []
        while position < len(text):
            character = text[position]
            position += 1
            match character:
                case "*" if text.startswith("*", position):
                    position += 1
                    rest = text[position:].lstrip("*")
                    is_host_part = self._part is _Part.AUTHORITY and rest[:1] not in ("", "/")
                    self._repeat(_CharacterSet(_SLASH if is_host_part else frozenset(), is_negated=True))
                case "*":
                    in_path = self._part in (_Part.PATH, _Part.AFTER_COLON, _Part.AFTER_SLASH)
                    self._repeat(_CharacterSet(_SLASH if in_path else _SEPARATORS, is_negated=True))
                case "?":
                    self._add(_CharacterSet(_SEPARATORS, is_negated=True))
                case "[":
                    bracket = _BRACKET.match(text, position - 1)
                    if bracket is None:
                        raise ValueError(f"pattern {text!r} has a bracket that is neither a list nor a single range")
                    self._add(_character_set(bracket))
                    self._leave_scheme()
                    position = bracket.end()
                case "{":
                    outer.append(self._group)
                    self._group = _Group(self._part)
                case "}" if outer:
                    alternatives = self._end_group()
                    self._group = outer.pop()
                    self._append(alternatives)
                case "," if outer:
                    self._end_alternative()
                case "\\":
                    if position == len(text):
                        raise ValueError(f"pattern {text!r} ends in a lone backslash")
                    self._add_literal(text[position])
                    position += 1
                case _:
                    self._add_literal(character)
        if outer:
            raise ValueError(f"pattern {text!r} has an unclosed brace")
        return UrlPattern(self._sets, self._following, self._group.sequence)

    def _add_literal(self, character: str) -> None:
        self._add(_CharacterSet(frozenset(character)))
        match self._part, character:
            case _Part.SCHEME, ":":
                self._part = _Part.AFTER_COLON
            case _Part.AFTER_COLON, "/":
                self._part = _Part.AFTER_SLASH
            case _Part.AFTER_SLASH, "/":
                self._part = _Part.AUTHORITY
            case (_Part.AFTER_COLON | _Part.AFTER_SLASH, _) | (_Part.AUTHORITY, "/"):
                self._part = _Part.PATH

    def _repeat(self, characters: _CharacterSet) -> None:
        """Append any run of the characters."""
        state = self._new_state(characters)
        self._append(_Fragment(state, state))
        self._following[-1] |= state
        if characters.accepts("/"):
            self._leave_scheme()

    def _leave_scheme(self) -> None:
        """Record that the last token may have matched the end of the scheme, so that the part is no longer known."""
        if self._part in (_Part.SCHEME, _Part.AFTER_COLON, _Part.AFTER_SLASH):
            self._part = _Part.UNKNOWN

    def _add(self, characters: _CharacterSet) -> None:
        state = self._new_state(characters)
        self._append(_Fragment(state, state, is_nullable=False))

    def _new_state(self, characters: _CharacterSet) -> int:
        self._sets.append(characters)
        self._following.append(0)
        return 1 << (len(self._sets) - 1)

    def _append(self, added: _Fragment) -> None:
        before = self._group.sequence
        for number in _numbers(before.last):
            self._following[number] |= added.first
        self._group.sequence = _Fragment(
            before.first | (added.first if before.is_nullable else 0),
            added.last | (before.last if added.is_nullable else 0),
            before.is_nullable and added.is_nullable,
        )

    def _end_alternative(self) -> None:
        group = self._group
        group.alternatives.append(group.sequence)
        group.ends.append(self._part)
        group.sequence, self._part = _Fragment(), group.part

    def _end_group(self) -> _Fragment:
        """All alternatives; the part after them is known only if each of them ends in the same one."""
        self._end_alternative()
        group = self._group
        self._part = group.ends[0] if len(set(group.ends)) == 1 else _Part.UNKNOWN
        first = last = 0
        for alternative in group.alternatives:
            first |= alternative.first
            last |= alternative.last
        return _Fragment(first, last, any(alternative.is_nullable for alternative in group.alternatives))


def _character_set(bracket: re.Match[str]) -> _CharacterSet:
    negation, low, high, members = bracket.groups()
    if members is not None:
        return _CharacterSet(frozenset(re.sub(r"\\(.)", r"\1", members, flags=re.DOTALL)), is_negated=bool(negation))
    if low > high:
        raise ValueError(f"pattern {bracket.string!r} has a range that runs backwards")
    return _CharacterSet(range=(low, high), is_negated=bool(negation))


def _numbers(states: int) -> Iterator[int]:
    """The numbers of the bits that are set."""
    while states:
        lowest = states & -states
        yield lowest.bit_length() - 1
        states ^= lowest
