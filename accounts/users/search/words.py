"""Search of users by words in any order, in email address, phone and names, without regard to case and accents.

One trigram index has the folded text of these columns. A word of three letters or digits is found anywhere in it; a
shorter one at the beginning of a column or of a name, where the index finds it too.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache

from django.db.models import BooleanField, QuerySet
from django.db.models.expressions import RawSQL

from accounts.models import User
from accounts.users.search import queries
from authsvc.db.sql import fetch_row, namespaced

INDEX = "users_words_search_idx"
_MAX_WORDS = 8
_COLUMNS = ("email", "phone", "raw_user_meta_data ->> 'full_name'", "raw_user_meta_data ->> 'name'")
# Letters that Unicode does not decompose into a base letter and accents.
_FOLDED_LETTERS = ("øłđħıŧ", "oldhit")
_SHARP_S = ("ß", "ss")
_ACCENTS = re.compile("[\u0300-\u036f]")
_ASCII_UPPER = str.maketrans({chr(code): chr(code + 32) for code in range(ord("A"), ord("Z") + 1)})
_LETTER_OR_DIGIT = re.compile(r"[^\W_]")
_PHONE_CHARACTERS = re.compile(r"[\d+()/.-]*\d[\d+()/.-]*")


def parse(text: str) -> list[str]:
    """The folded words of a typed text, at most 8. Adjacent parts of a phone number are one word of digits."""
    words: list[str] = []
    is_number = False
    for typed in fold(text).split()[:_MAX_WORDS]:
        is_part = bool(_PHONE_CHARACTERS.fullmatch(typed))
        word = re.sub(r"\D", "", typed) if is_part and (is_number or typed[0] in "+(") else typed
        if is_part and is_number and words[-1].isdigit():
            words[-1] += word
        else:
            words.append(word)
        is_number = is_part
    return words


def fold(text: str) -> str:
    """As `expression` does."""
    text = text.replace("\0", "")
    if not _is_unicode():
        return _lower(text)
    if not text.isascii():
        text = _lower(_ACCENTS.sub("", unicodedata.normalize("NFKD", text))).replace(*_SHARP_S)
        return text.translate(str.maketrans(*_FOLDED_LETTERS))
    return _lower(text)


@cache
def expression() -> str:
    """The SQL expression of the index: the folded columns, each after a space.

    Text in ASCII, which is the most frequent, takes a fifth of the time.
    """
    users = namespaced("users")
    text = " || ".join(f"' ' || coalesce({users}.{column}, '')" for column in _COLUMNS)
    if not _is_unicode():
        return f"lower({text})"
    folded = f"replace(lower(regexp_replace(normalize({text}, NFKD), '[\\u0300-\\u036f]', '', 'g')), 'ß', 'ss')"
    letters, bases = _FOLDED_LETTERS
    return (
        f"CASE WHEN octet_length({text}) = char_length({text}) THEN lower({text})"
        f" ELSE translate({folded}, '{letters}', '{bases}') END"
    )


def filter_matching(users: QuerySet[User], words: list[str]) -> QuerySet[User]:
    """The users whose text has all words."""
    for word in words:
        is_beginning = _begins_with_indexed(word) and not queries.is_indexed(word)
        pattern = f"% {_escape(word)}%" if is_beginning else f"%{_escape(word)}%"
        condition = RawSQL(f"({expression()}) LIKE %s", [pattern], output_field=BooleanField())  # noqa: S611  (own SQL)
        users = users.filter(condition)
    return users


def is_indexed(words: list[str]) -> bool:
    """True if the index finds at least one of the words."""
    return any(queries.is_indexed(word) or _begins_with_indexed(word) for word in words)


def has_index() -> bool:
    """True if the index exists and is complete."""
    sql = "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(quote_ident(%s))"
    row = fetch_row(sql, [namespaced(INDEX)])
    return bool(row and row[0])


def _begins_with_indexed(word: str) -> bool:
    first = word[0]
    return bool(_LETTER_OR_DIGIT.match(first)) and (first.isascii() or queries.indexes_all_letters())


def _lower(text: str) -> str:
    return text.lower() if _lowers_all_letters() else text.translate(_ASCII_UPPER)


def _escape(word: str) -> str:
    return re.sub(r"([\\%_])", r"\\\1", word)


@cache
def _lowers_all_letters() -> bool:
    """False in a database whose locale defines the case of ASCII letters only."""
    row = fetch_row("SELECT lower('Ж') = 'ж'", []) if _is_unicode() else None
    return bool(row and row[0])


@cache
def _is_unicode() -> bool:
    """True if the database can normalise text."""
    row = fetch_row("SELECT current_setting('server_encoding')", [])
    return bool(row and row[0] == "UTF8")
