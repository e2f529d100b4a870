"""Hostile texts for every parser that reads input: only documented errors, bounded work, bounded memory.

The examples are the same in each run. `FUZZING_EXAMPLES=100000` and `FUZZING_RANDOM=1` search further.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import string
import tracemalloc
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import UUID

import ada_url
import jwt
import orjson
import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from authsvc.api import parsing
from authsvc.conf import Secret, dotenv, durations, url_patterns
from authsvc.errors import BadJson
from authsvc.security import crypto, redirects
from mailer import gotemplate
from tests.conftest import Api, ChangeConfig
from tokens.jwt import access_tokens, signing_keys
from tokens.jwt.access_tokens import BadJwt, Claims
from tokens.sessions import errors, refresh_tokens

EXAMPLES = int(os.environ.get("FUZZING_EXAMPLES", "0"))
NOW = datetime(2030, 1, 1, tzinfo=UTC)
LONG = 200_000
"""Characters of a long text. Quadratic work on it takes hours, so that the test exceeds its time limit."""
MIB = 1_048_576
SECRET = "a secret of at least thirty-two characters"


def fuzz(examples: int) -> settings:
    return settings(
        max_examples=EXAMPLES or examples,
        derandomize="FUZZING_RANDOM" not in os.environ,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


def pieces(*parts: str, size: int = 12) -> st.SearchStrategy[str]:
    """Texts of these parts and of any characters."""
    return st.lists(st.sampled_from(parts) | st.text(max_size=6), max_size=size).map("".join)


def repeated(*parts: str) -> st.SearchStrategy[str]:
    """Long texts of one to three repeated parts, with an end that does not fit."""
    part = st.lists(st.sampled_from(parts), min_size=1, max_size=3).map("".join)
    return st.builds(
        lambda start, part, end: start + part * (LONG // max(1, len(part))) + end,
        st.sampled_from(parts),
        part,
        st.sampled_from((*parts, "\0", "!")),
    )


# Redirect targets

SITE = "https://app.example.com/start"
ALLOW_LIST = (
    "https://*.example.org/**",
    "https://example.net/*/done?x=*",
    "myapp://callback/**",
    "https://**.wild.example/",
)
URL_PARTS = (
    *(
        "https:",
        "http:",
        "myapp:",
        "javascript:",
        "data:",
        "//",
        "/",
        "\\",
        "?",
        "#",
        "@",
        ":",
        ":443",
        ":8443",
        "..",
        ".",
    ),
    *("app.example.com", "a.example.org", "example.net", "callback", "b.wild.example", "evil.test", "localhost"),
    *(
        "127.0.0.1",
        "0x7f.1",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "2130706433",
        "%2e",
        "%2F",
        "%00",
        "%0d%0a",
        "%",
        "xn--",
        "done",
    ),
    *(
        "\t",
        "\n",
        "\r",
        "\0",
        " ",
        "\u3002",
        "\uff0e",
        "\ud800",
        "é",
        "\u202e",
        "*",
        "**",
        "[",
        "]",
        "{",
        "}",
        "a",
        "x=1",
    ),
)
URLS = pieces(*URL_PARTS) | st.builds(
    "".join, st.tuples(st.sampled_from(("", SITE, "https://a.example.org/")), pieces(*URL_PARTS))
)


@pytest.fixture
def redirect_rule(auth_config: ChangeConfig) -> None:
    auth_config(site={"url": SITE, "allow_list": ALLOW_LIST})


@fuzz(250)
@given(url=URLS, referer=URLS, code=st.text(st.characters(exclude_categories=["Cs"]), max_size=10))
@example(url="https://app.example.com\\@evil.test/", referer="", code="")
def test_a_permitted_target_is_one_of_the_rule_and_safe_in_a_header(
    redirect_rule: None, url: str, referer: str, code: str
) -> None:
    target = redirects.resolve(header=url, query=None, referer=referer)
    for location in (
        redirects.with_query(target, {"code": code}),
        redirects.with_fragment(target, {"error": code}),
        redirects.with_error(target, {"error": code, "sb": ""}, in_query=True),
    ):
        assert location.isascii()
        assert location.isprintable()
        followed = ada_url.URL(location, base="https://auth.example.com/verify")
        assert not followed.username + followed.password
        assert (
            followed.origin == "https://app.example.com"
            or (followed.protocol == "https:" and followed.hostname.endswith(".example.org"))
            or (followed.protocol == "https:" and followed.hostname == "example.net")
            or (followed.protocol == "https:" and followed.hostname.endswith(".wild.example"))
            or (followed.protocol == "myapp:" and followed.hostname == "callback")
        )
    query = urlsplit(redirects.with_query(target, {"code": code})).query
    assert parse_qs(query, keep_blank_values=True)["code"] == [code]


@fuzz(20)
@given(url=repeated(*URL_PARTS))
def test_a_long_target_takes_no_work(redirect_rule: None, url: str) -> None:
    assert not redirects.is_permitted(url)


@fuzz(250)
@given(
    pattern=pieces("*", "**", "?", "[", "]", "[!", "-", "{", "}", ",", "\\", "/", ".", "https://", "a", "b"),
    text=pieces("a", "b", "/", ".", "https://", "*", "[", "]", ","),
)
@example(pattern="{*,}" * 20, text="a" * 2000)
def test_any_allow_list_entry_is_refused_or_matched_with_one_step_per_character(pattern: str, text: str) -> None:
    try:
        compiled = url_patterns.compile_pattern(pattern)
    except ValueError:
        return
    assert compiled.matches(text) in (True, False)
    assert compiled.matches(text * 2000) in (True, False)


# Access tokens

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just(str(UUID(int=1))),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=8,
)
CLAIM_NAMES = (
    *("sub", "aud", "role", "session_id", "exp", "nbf", "iat", "iss", "aal", "amr", "is_anonymous", "email", "phone"),
    *("app_metadata", "user_metadata", "jti", "kid", "alg", "method", "timestamp", "provider"),
)
TIMES = st.sampled_from([0, 1, -1, 2**31, 2**53, 2**63, 2**64, 10**30, 1e308, -1e308, 0.5, "1", True, None])
CLAIMS = st.dictionaries(st.sampled_from(CLAIM_NAMES), JSON_VALUES | TIMES, max_size=8)
AMR = st.lists(
    st.fixed_dictionaries({"method": JSON_VALUES, "timestamp": TIMES | JSON_VALUES}) | JSON_VALUES, max_size=3
)


@cache
def _keys() -> tuple[dict[str, Any], ...]:
    algorithms = ("ES256", "EdDSA")
    signing = [signing_keys.generate(algorithm=algorithm) | {"kid": algorithm} for algorithm in algorithms]
    return signing[0], signing[1] | {"key_ops": ["verify"]}


@pytest.fixture
def jwt_keys(auth_config: ChangeConfig) -> None:
    auth_config(jwt={"secret": Secret(SECRET), "keys": _keys(), "valid_methods": ("HS256", "ES256", "EdDSA")})


def decode(token: str) -> Claims | None:
    """The claims, None for a refused token; raises any other error than the documented one."""
    try:
        return access_tokens.decode(token, at=NOW)
    except BadJwt:
        return None


def _sign(claims: dict[str, Any], header: dict[str, Any]) -> str:
    content = orjson.dumps(claims, default=str, option=orjson.OPT_NON_STR_KEYS)
    signed = f"{crypto.base64url_encode(orjson.dumps(header))}.{crypto.base64url_encode(content)}"
    signature = jwt.algorithms.HMACAlgorithm(jwt.algorithms.HMACAlgorithm.SHA256).sign(signed.encode(), SECRET.encode())
    return f"{signed}.{crypto.base64url_encode(signature)}"


@fuzz(150)
@given(
    header=st.dictionaries(
        st.sampled_from(["alg", "kid", "typ", "crit", "b64", "jwk", "jku", "x5c", "zip"]), JSON_VALUES
    )
    | st.builds(
        lambda alg, kid: {"alg": alg, "kid": kid},
        st.sampled_from(["HS256", "hs256", "none", "None", "RS256", "ES256", "EdDSA", "HS512", "", "PS256"]),
        st.sampled_from(["", "ES256", "EdDSA", "other"]) | JSON_VALUES,
    ),
    claims=CLAIMS,
    signature=st.binary(max_size=70),
    parts=st.lists(
        st.sampled_from([".", "..", "=", "-", "_", "+", "/", "e30", "bnVsbA", "W10", "\ud800", "\0"]), max_size=6
    ),
)
def test_a_token_without_a_valid_signature_is_refused(
    jwt_keys: None, header: dict[str, Any], claims: dict[str, Any], signature: bytes, parts: list[str]
) -> None:
    encoded = [crypto.base64url_encode(orjson.dumps(part)) for part in (_plain(header), _plain(claims))]
    assert decode(".".join([*encoded, crypto.base64url_encode(signature)])) is None
    assert decode(".".join([*encoded, *parts])) is None
    assert decode("".join(parts)) is None


def _plain(value: Any) -> Any:
    """The value as orjson can write it: integers of 64 bits at most."""
    if isinstance(value, dict):
        return {key.encode(errors="replace").decode(): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    if isinstance(value, int) and not isinstance(value, bool) and not -(2**63) <= value < 2**64:
        return float(value) if abs(value) < 1e308 else None
    return value.encode(errors="replace").decode() if isinstance(value, str) else value


@fuzz(150)
@given(claims=CLAIMS, amr=st.none() | AMR)
def test_signed_claims_of_any_type_are_converted_or_refused(
    jwt_keys: None, claims: dict[str, Any], amr: list[Any] | None
) -> None:
    claims = _plain(claims if amr is None else {**claims, "amr": amr})
    accepted = decode(_sign(claims, {"alg": "HS256", "typ": "JWT"}))
    if accepted is not None:
        assert isinstance(accepted.sub, str)
        assert isinstance(accepted.role, str)
        assert accepted.session_id is None or isinstance(accepted.session_id, str)
        assert all(isinstance(audience, str) for audience in accepted.aud)
        assert accepted.exp is None or accepted.exp > NOW.timestamp()
        assert accepted.raw == orjson.loads(orjson.dumps(claims))


@fuzz(150)
@given(position=st.integers(0, 10_000), character=st.characters() | st.sampled_from(string.ascii_letters + "-_.="))
def test_a_changed_token_is_refused(jwt_keys: None, position: int, character: str) -> None:
    token = _sign({"sub": str(UUID(int=1)), "role": "authenticated", "exp": 2**33}, {"alg": "HS256"})
    assert decode(token) is not None
    position %= len(token)
    assume(token[position] != character)
    assert decode(token[:position] + character + token[position + 1 :]) is None
    assert decode(token[:position] + character + token[position:]) is None
    assert decode(token[:position]) is None


@pytest.mark.django_db
@fuzz(100)
@given(claims=CLAIMS, amr=st.none() | AMR)
def test_signed_claims_of_any_type_do_not_break_an_endpoint(
    jwt_keys: None, no_request_limits: None, claims: dict[str, Any], amr: list[Any] | None
) -> None:
    claims = _plain({"sub": str(UUID(int=1)), **claims} if amr is None else {**claims, "amr": amr})
    token = _sign(claims, {"alg": "HS256"})
    for path in ("/user", "/admin/users", f"/admin/users/{UUID(int=1)}"):
        assert Api().get(path, bearer=token).status_code < 500


# Refresh tokens

KEY = b"k" * 32
BASE64 = pieces("A", "_", "-", "=", "+", "/", "AA", "AAAA", "A" * 51, "gICA", "____", "\ud800", "é", "\0", size=20)


@fuzz(150)
@given(text=BASE64 | st.binary(max_size=80).map(crypto.base64url_encode))
def test_a_text_is_a_refresh_token_or_malformed(text: str) -> None:
    try:
        refresh_tokens.check_format(text)
    except errors.RefreshTokenNotValid:
        with pytest.raises(refresh_tokens.Malformed):
            refresh_tokens.decode(text)
    else:
        assert refresh_tokens.is_legacy(text)


@fuzz(250)
@given(session=st.uuids(), counter=st.integers(0, 2**63 - 1), position=st.integers(0, 61), character=st.characters())
def test_a_changed_refresh_token_is_malformed_or_not_signed(
    session: UUID, counter: int, position: int, character: str
) -> None:
    text = refresh_tokens.encode(session_id=session, counter=counter, key=KEY)
    decoded = refresh_tokens.decode(text)
    assert (decoded.session_id, decoded.counter, decoded.is_signed_with(KEY)) == (session, counter, True)
    assert not decoded.is_signed_with(b"l" * 32)
    position %= len(text)
    changed = text[:position] + character + text[position + 1 :]
    assume(changed != text)
    with pytest.raises(refresh_tokens.Malformed):
        refresh_tokens.decode(changed)


@fuzz(150)
@given(body=st.binary(min_size=17, max_size=60))
def test_any_content_with_a_valid_checksum_is_decoded_or_malformed(body: bytes) -> None:
    body = b"\0" + body
    text = crypto.base64url_encode(body + hashlib.sha256(body).digest()[:4])
    try:
        decoded = refresh_tokens.decode(text)
    except refresh_tokens.Malformed:
        return
    assert 0 <= decoded.counter < 2**63
    assert not decoded.is_signed_with(KEY)


@pytest.mark.django_db
@fuzz(100)
@given(text=BASE64 | st.binary(max_size=80).map(crypto.base64url_encode) | JSON_VALUES)
def test_no_text_as_refresh_token_breaks_the_endpoint(no_request_limits: None, text: object) -> None:
    body = orjson.dumps({"refresh_token": _plain(text)})
    assert Api().post("/token?grant_type=refresh_token", body).status_code == 400


# Settings files and durations

ENV_PARTS = (
    *("KEY", "=", ":", "export", "export ", " ", "\t", "\v", "\u0085", "\u00a0", "\n", "\r\n", "\r", "#", " #"),
    *("'", '"', "\\", "\\\\", '\\"', "\\n", "$", "${KEY}", "a.b", "é", "\0", "\u2028", "=hunter2", "'hunter2"),
)


@fuzz(250)
@given(text=pieces(*ENV_PARTS, size=20))
def test_a_settings_file_is_read_or_refused_without_its_content(text: str) -> None:
    try:
        variables = dotenv.parse(text)
    except dotenv.DotenvError as error:
        message = str(error)
    else:
        message = ""
        assert all(set(key) and not set(key) & set(" \t\n='\"#") for key in variables)
        assert sum(map(len, variables.values())) <= len(text)
    assert "hunter2" not in message


@fuzz(150)
@given(value=st.text(st.characters(exclude_characters="\r"), max_size=30))
def test_a_quoted_value_is_read_as_written(value: str) -> None:
    quoted = value.replace("\\", "\\\\").replace('"', '\\"')
    assert dotenv.parse(f'A=1\nKEY="{quoted}"\nB=2') == {"A": "1", "KEY": value, "B": "2"}


@fuzz(20)
@given(text=repeated(*ENV_PARTS))
def test_a_long_settings_file_takes_one_pass(text: str) -> None:
    with contextlib.suppress(dotenv.DotenvError):
        dotenv.parse(text)


DURATION_PARTS = (
    "0",
    "1",
    "9",
    ".",
    "ns",
    "us",
    "µs",
    "μs",
    "ms",
    "s",
    "m",
    "h",
    "+",
    "-",
    "e",
    " ",
    "٣",
    "9" * 41,
    "1h",
)


@fuzz(250)
@given(text=pieces(*DURATION_PARTS))
def test_a_duration_is_read_or_refused(text: str) -> None:
    try:
        length = durations.parse(text)
    except ValueError:
        return
    assert abs(length) <= durations.LIMIT + timedelta(microseconds=1)
    assert durations.parse(durations.text(length)) == length


@fuzz(20)
@given(text=repeated(*DURATION_PARTS))
def test_a_long_duration_takes_one_pass(text: str) -> None:
    with contextlib.suppress(ValueError):
        durations.parse(text)


# Templates

TEMPLATE_PARTS = (
    *(
        "{{",
        "}}",
        "{{-",
        "-}}",
        " ",
        "\n",
        "/*",
        "*/",
        "(",
        ")",
        "|",
        ",",
        ":=",
        "=",
        ".",
        ".Token",
        ".Data",
        ".Data.list",
    ),
    *(
        "$",
        "$x",
        "$x := ",
        "if ",
        "else",
        "else if ",
        "end",
        "{{end}}",
        "range ",
        "with ",
        "define ",
        "template ",
        "block ",
    ),
    *(
        "break",
        "continue",
        '"a"',
        '"',
        "`",
        "`raw`",
        "'c'",
        "0",
        "-1",
        "1e9",
        "0x1f",
        "9" * 30,
        "nil",
        "true",
        "and ",
        "or ",
    ),
    *(
        "not ",
        "len ",
        "index ",
        "slice ",
        "printf ",
        "print ",
        "println ",
        "html ",
        "js ",
        "urlquery ",
        "eq ",
        "lt ",
        "call ",
    ),
    *('printf "%*d" ', '"%999999999d" ', '"%[1]s%v%q%x" ', "{{if .Data}}", "{{range .Data.list}}", '{{define "a"}}'),
    *(
        '{{template "a" .}}',
        "{{.Token}}",
        "<a href='",
        "<script>",
        "<style>",
        "<!--",
        'onclick="',
        "</script>",
        "\\",
        "\0",
    ),
)
VARIABLES: dict[str, Any] = {
    "Token": "<b>'\"`\\\u2028",
    "SiteURL": "javascript:alert(1)",
    "Data": {"list": [1, 2.5, None, True, "x", [], {"a": {"b": "c"}}], "name": "é" * 50, "n": 10**18, "": 0},
}


@fuzz(500)
@given(source=pieces(*TEMPLATE_PARTS, size=20), mode=st.sampled_from(gotemplate.Mode))
def test_a_template_is_rendered_or_refused(source: str, mode: gotemplate.Mode) -> None:
    try:
        text = gotemplate.compile(source).render(VARIABLES, mode=mode)
    except (gotemplate.TemplateSyntaxError, gotemplate.TemplateRenderError):
        return
    assert len(text) <= 2_000_000


@fuzz(20)
@given(source=repeated(*TEMPLATE_PARTS), mode=st.sampled_from(gotemplate.Mode))
def test_a_long_template_takes_bounded_work(source: str, mode: gotemplate.Mode) -> None:
    with contextlib.suppress(gotemplate.TemplateSyntaxError, gotemplate.TemplateRenderError):
        gotemplate.compile(source).render(VARIABLES, mode=mode)


# JSON bodies

BODIES = (
    st.binary(max_size=40)
    | JSON_VALUES.map(lambda value: orjson.dumps(_plain(value)))
    | pieces(
        '{"',
        '":',
        "[",
        "]",
        "{",
        "}",
        ",",
        "1e999",
        "-0",
        "\\ud800",
        "\\u0000",
        "null",
        "true",
        '"email"',
        '"data"',
        "NaN",
    ).map(lambda text: text.encode(errors="replace"))
)
MEMBERS = (
    *(
        "email",
        "phone",
        "password",
        "data",
        "channel",
        "create_user",
        "type",
        "token",
        "token_hash",
        "redirect_to",
        "nonce",
    ),
    *("code_challenge", "code_challenge_method", "gotrue_meta_security", "refresh_token", "auth_code", "code_verifier"),
    *("id_token", "provider", "factor_type", "friendly_name", "issuer", "challenge_id", "code", "app_metadata", "role"),
    *("ban_duration", "user_metadata", "current_password", "is_sso_user", "id", "banned_until", "password_hash"),
)
NEAR_BODIES = st.dictionaries(
    st.sampled_from(MEMBERS),
    JSON_VALUES
    | st.sampled_from(
        ["ada@example.com", "+15551234567", "sms", "email", "signup", "totp", "s256", "github", "24h", "x" * 300]
    ),
    min_size=1,
    max_size=7,
).map(lambda body: orjson.dumps(_plain(body)))
PATHS = (
    *("/signup", "/otp", "/magiclink", "/recover", "/resend", "/verify", "/verify/confirm"),
    *(f"/token?grant_type={grant}" for grant in ("password", "refresh_token", "pkce", "id_token", "web3", "")),
    *("/passkeys/authentication/options", "/passkeys/authentication/verify", "/callback"),
)
ADMIN_PATHS = (
    "/admin/users",
    "/invite",
    "/admin/generate_link",
    "/admin/custom-providers",
    f"/admin/users/{UUID(int=1)}",
)


@pytest.fixture
def phone_sign_up(auth_config: ChangeConfig) -> None:
    auth_config(signup={"phone_enabled": True})


@pytest.mark.django_db
@fuzz(150)
@given(path=st.sampled_from((*PATHS, *ADMIN_PATHS)), body=BODIES | NEAR_BODIES)
def test_no_body_breaks_an_endpoint(no_request_limits: None, phone_sign_up: None, path: str, body: bytes) -> None:
    token = access_tokens.issue_service_token(role="service_role", lifetime=timedelta(hours=1), at=datetime.now(UTC))
    assert Api().post(path, body, bearer=token if path in ADMIN_PATHS else "").status_code < 500


@fuzz(20)
@given(
    text=repeated(
        "[", "]", "{", "}", '{"a":', '"', "\\u0000", "\\ud83d\\ude00", ",", "1", "[],", "{},", '{"a":1},', "9", "-"
    )
)
def test_a_long_body_takes_bounded_work_and_memory(text: str) -> None:
    body = (text * (MIB // len(text) + 1))[:MIB].encode()
    tracemalloc.start()
    try:
        parsing.StrictJSONParser().parse(io.BytesIO(body))
    except BadJson:
        pass
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 100 * MIB
