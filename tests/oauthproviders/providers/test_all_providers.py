"""What is true of every provider: the way there, the profile that comes back, and that no answer breaks anything."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from authsvc import conf
from oauthproviders import registry
from oauthproviders.errors import InvalidProviderResponse
from tests.fakes.http_peer import Answer, in_json
from tests.oauthproviders.providers import recordings
from tests.oauthproviders.providers.conftest import FLOW, Internet, begin, profile_of, provider_of
from tests.oauthproviders.providers.recordings import ABSENT, Recording

EVERY = pytest.mark.parametrize("recording", recordings.ALL.values(), ids=recordings.ALL)
OAUTH2 = pytest.mark.parametrize(
    "recording", [pytest.param(each, id=name) for name, each in recordings.ALL.items() if not each.is_oauth1]
)

NO_DOCUMENTS: Sequence[Any] = (None, [], {}, "id", 7, True, {"error": "invalid_grant"})


def test_every_provider_is_recorded_and_can_be_configured() -> None:
    assert set(recordings.ALL) == set(registry.PROVIDERS) == set(conf.PROVIDERS)


@OAUTH2
def test_the_way_there_says_who_asks_and_for_what(recording: Recording, internet: Internet) -> None:
    internet.answers = recording.answers()
    outset = begin(recording)
    address, _, query = outset.url.partition("?")
    parameters = parse_qsl(query, keep_blank_values=True, strict_parsing=True)
    assert address == recording.authorize
    assert parameters == sorted(parameters)
    wanted = {"client_id": "cid", "redirect_uri": recordings.CALLBACK, "response_type": "code", "state": str(FLOW)}
    if recording.data["scope"] is not None:
        wanted["scope"] = recording.data["scope"]
    if recording.name == "apple":
        wanted["response_mode"] = "form_post"
    if recording.name == "x":
        wanted |= {"code_challenge": dict(parameters)["code_challenge"], "code_challenge_method": "S256"}
    assert dict(parameters) == wanted
    assert (len(outset.secret) == 43) is (recording.name == "x")


@OAUTH2
def test_scopes_and_extra_parameters_are_forwarded_where_they_are_taken(
    recording: Recording, internet: Internet
) -> None:
    internet.answers = recording.answers()
    query = dict(parse_qsl(urlsplit(begin(recording, scopes="one,two", login_hint="a&state=b").url).query))
    assert query["state"] == str(FLOW)
    assert query.get("login_hint") == (None if recording.name == "apple" else "a&state=b")
    own = recording.data["scope"] or ""
    ignored = recording.name in {"apple", "bitbucket", "notion", "workos", "zoom"}
    assert query.get("scope", "") == (own if ignored else f"{own} one two".strip())


@EVERY
def test_a_profile_becomes_claims_and_addresses(recording: Recording, internet: Internet) -> None:
    profile = profile_of(recording, internet)
    assert dict(profile.claims) == recording.identity_data
    assert [vars_of(each) for each in profile.addresses] == recording.data["addresses"]


@EVERY
def test_what_is_exchanged_is_a_token_and_nothing_shows_it(recording: Recording, internet: Internet) -> None:
    internet.answers = recording.answers()
    provider = provider_of(recording)
    token = provider.exchange(code="authcode", secret="b")
    assert (token.access_token, token.refresh_token) == ("t", "" if recording.is_oauth1 else "r")
    assert "'t'" not in repr(token)
    assert recordings.SECRET not in repr(vars(provider))


@EVERY
@pytest.mark.parametrize(
    "subject",
    [ABSENT, None, "", " ", [], {}, True, 1.5, "a\0b", "x" * 1025],
    ids=lambda value: "absent" if value is ABSENT else repr(value),
)
def test_nobody_signs_in_without_a_subject(recording: Recording, subject: Any, internet: Internet) -> None:
    with pytest.raises(InvalidProviderResponse):
        profile_of(recording.with_value(recording.subject, subject), internet)


@EVERY
@pytest.mark.parametrize(
    "answer",
    [
        Answer(status=500, body=b"{}"),
        Answer(status=302, headers={"Location": "https://elsewhere.example/"}),
        Answer(body=b""),
        Answer(headers={"Content-Type": "text/html"}, body=b"<!doctype html><title>Sorry</title>"),
        Answer(headers={"Content-Type": "application/json"}, body=b'{"id": 7'),
        Answer(headers={"Content-Type": "application/json"}, body=b"\xff\xfe"),
        Answer(headers={"Content-Type": "application/json"}, body=b"[" * 100_000),
        Answer(headers={"Content-Type": "application/json"}, body=b" " * 2_000_000),
        *map(in_json, NO_DOCUMENTS),
    ],
    ids=lambda answer: f"{answer.status}-{answer.body[:12]!r}",
)
def test_an_answer_that_is_none_is_refused_wherever_it_comes_from(
    recording: Recording, answer: Answer, internet: Internet
) -> None:
    recorded = recording.answers()
    for address in (recording.data["token"], *recording.data["documents"]):
        internet.answers = {**recorded, address: answer}
        provider = provider_of(recording)
        if _is_of_addresses(address, answer):
            continue
        with pytest.raises(InvalidProviderResponse):
            provider.profile(provider.exchange(code="authcode", secret="b"))


def _is_of_addresses(address: str, answer: Answer) -> bool:
    """Whether this answer says of somebody that they have no address, which is no fault."""
    return ("email" in address.lower() and answer.body == b"[]") or (
        "emailAddress" in address and answer.body.startswith(b"{") and answer.body.endswith(b"}")
    )


@EVERY
def test_a_value_of_any_type_anywhere_gives_a_profile_or_a_refusal(recording: Recording, internet: Internet) -> None:
    refused = 0
    for way in ways(recording):
        for value in (ABSENT, None, "", "\ud800", "a\0", 0, -1.5, True, [], [None], {}, {"a": {}}):
            try:
                profile = profile_of(recording.with_value(way, value), internet)
            except InvalidProviderResponse:
                refused += 1
                continue
            assert profile.claims["sub"]
            assert profile.claims["provider_id"] == profile.claims["sub"]
            assert {type(each.email) for each in profile.addresses} <= {str}
            assert {type(each.verified) for each in profile.addresses} <= {bool}
            json.dumps(profile.claims)
    assert refused


def ways(recording: Recording) -> Iterator[Sequence[str | int]]:
    """To every value of what the provider says."""
    roots = {**recording.data["documents"], "": recording.data.get("token_answer", {})}
    if "id_token" in recording.data:
        roots["id_token"] = recording.data["id_token"]
    for name, root in roots.items():
        yield from _below([name], root)


def _below(way: list[str | int], value: Any) -> Iterator[list[str | int]]:
    steps = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for step in steps:
        yield [*way, step]
        yield from _below([*way, step], value[step])


def vars_of(address: Any) -> dict[str, Any]:
    return {name: getattr(address, name) for name in ("email", "verified", "primary")}
