"""Behaviour that all providers share: authorization URLs, profiles and invalid responses."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from responses import RequestsMock

from authsvc import conf
from oauthproviders import registry
from oauthproviders.base.contract import InvalidProviderResponse
from tests.fakes.http_peer import Response, in_json
from tests.oauthproviders.providers import recordings
from tests.oauthproviders.providers.conftest import (
    FLOW,
    authorization_request,
    profile_of,
    provider_of,
    publish,
)
from tests.oauthproviders.providers.recordings import ABSENT, Recording

EVERY = pytest.mark.parametrize("recording", recordings.ALL.values(), ids=recordings.ALL)
OAUTH2 = pytest.mark.parametrize(
    "recording",
    [pytest.param(recording, id=name) for name, recording in recordings.ALL.items() if not recording.is_oauth1],
)

INVALID_DOCUMENTS: Sequence[Any] = (None, [], {}, "id", 7, True, {"error": "invalid_grant"})


def test_every_provider_has_a_recording_and_settings() -> None:
    assert set(recordings.ALL) == set(registry.PROVIDERS) == set(conf.PROVIDERS)


@OAUTH2
def test_the_authorization_url_contains_client_and_scope(recording: Recording, mocked_requests: RequestsMock) -> None:
    publish(mocked_requests, recording.documents())
    authorization = authorization_request(recording)
    address, _, query = authorization.url.partition("?")
    parameters = parse_qsl(query, keep_blank_values=True, strict_parsing=True)
    assert address == recording.authorize
    assert parameters == sorted(parameters)
    expected = {"client_id": "cid", "redirect_uri": recordings.CALLBACK, "response_type": "code", "state": str(FLOW)}
    if recording.data["scope"] is not None:
        expected["scope"] = recording.data["scope"]
    if recording.name == "apple":
        expected["response_mode"] = "form_post"
    if recording.name == "x":
        expected |= {"code_challenge": dict(parameters)["code_challenge"], "code_challenge_method": "S256"}
    assert dict(parameters) == expected
    assert (len(authorization.secret) == 43) is (recording.name == "x")


@OAUTH2
def test_scopes_and_extra_parameters_are_forwarded(recording: Recording, mocked_requests: RequestsMock) -> None:
    publish(mocked_requests, recording.documents())
    query = dict(
        parse_qsl(urlsplit(authorization_request(recording, scopes="one,two", login_hint="a&state=b").url).query)
    )
    assert query["state"] == str(FLOW)
    assert query.get("login_hint") == (None if recording.name == "apple" else "a&state=b")
    own = recording.data["scope"] or ""
    ignored = recording.name in {"apple", "bitbucket", "notion", "workos", "zoom"}
    assert query.get("scope", "") == (own if ignored else f"{own} one two".strip())


@EVERY
def test_the_profile_contains_claims_and_addresses(recording: Recording, mocked_requests: RequestsMock) -> None:
    profile = profile_of(recording, mocked_requests)
    assert dict(profile.claims) == recording.identity_data
    assert [dataclasses.asdict(address) for address in profile.addresses] == recording.data["addresses"]


@EVERY
def test_a_code_is_exchanged_for_a_token_that_no_repr_contains(
    recording: Recording, mocked_requests: RequestsMock
) -> None:
    publish(mocked_requests, recording.documents())
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
def test_a_profile_without_a_valid_subject_is_an_error(
    recording: Recording, subject: Any, mocked_requests: RequestsMock
) -> None:
    with pytest.raises(InvalidProviderResponse):
        profile_of(recording.with_value(recording.subject, subject), mocked_requests)


@EVERY
@pytest.mark.parametrize(
    "response",
    [
        Response(status=500, body=b"{}"),
        Response(status=302, headers={"Location": "https://elsewhere.example/"}),
        Response(body=b""),
        Response(headers={"Content-Type": "text/html"}, body=b"<!doctype html><title>Sorry</title>"),
        Response(headers={"Content-Type": "application/json"}, body=b'{"id": 7'),
        Response(headers={"Content-Type": "application/json"}, body=b"\xff\xfe"),
        Response(headers={"Content-Type": "application/json"}, body=b"[" * 100_000),
        Response(headers={"Content-Type": "application/json"}, body=b" " * 2_000_000),
        *map(in_json, INVALID_DOCUMENTS),
    ],
    ids=lambda response: f"{response.status}-{response.body[:12]!r}",
)
def test_an_invalid_response_is_an_error(
    recording: Recording, response: Response, mocked_requests: RequestsMock
) -> None:
    recorded = recording.documents()
    for address in (recording.data["token"], *recording.data["documents"]):
        publish(mocked_requests, {**recorded, address: response})
        provider = provider_of(recording)
        if _is_empty_address_list(address, response):
            continue
        with pytest.raises(InvalidProviderResponse):
            provider.profile(provider.exchange(code="authcode", secret="b"))


def _is_empty_address_list(address: str, response: Response) -> bool:
    """True for a valid response without addresses."""
    return ("email" in address.lower() and response.body == b"[]") or (
        "emailAddress" in address and response.body.startswith(b"{") and response.body.endswith(b"}")
    )


@EVERY
def test_a_value_of_any_type_leads_to_a_profile_or_an_error(
    recording: Recording, mocked_requests: RequestsMock
) -> None:
    errors = 0
    for path in paths(recording):
        for value in (ABSENT, None, "", "\ud800", "a\0", 0, -1.5, True, [], [None], {}, {"a": {}}):
            try:
                profile = profile_of(recording.with_value(path, value), mocked_requests)
            except InvalidProviderResponse:
                errors += 1
                continue
            assert profile.claims["sub"]
            assert profile.claims["provider_id"] == profile.claims["sub"]
            assert {type(address.email) for address in profile.addresses} <= {str}
            assert {type(address.verified) for address in profile.addresses} <= {bool}
            json.dumps(profile.claims)
    assert errors


def paths(recording: Recording) -> Iterator[Sequence[str | int]]:
    """The paths of all values in the documents of a provider."""
    roots = {**recording.data["documents"], "": recording.data.get("token_response", {})}
    if "id_token" in recording.data:
        roots["id_token"] = recording.data["id_token"]
    for name, root in roots.items():
        yield from _below([name], root)


def _below(path: list[str | int], value: Any) -> Iterator[list[str | int]]:
    steps = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for step in steps:
        yield [*path, step]
        yield from _below([*path, step], value[step])
