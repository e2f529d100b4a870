"""ID tokens and what their issuers say of themselves: which tokens are believed, and how seldom an issuer is asked."""

from __future__ import annotations

import base64
import contextlib
import hmac
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from oauthproviders.base import deadline
from oauthproviders.errors import InvalidProviderResponse, ProviderUnavailable
from oauthproviders.oidc import openid_connect, remote_documents
from tests.conftest import ChangeConfig
from tests.fakes.http_peer import Answer, HttpPeer, in_json, redirect
from tests.fakes.issuer import Issuer, SigningKey, at_hash, unpadded

RSA = SigningKey()


@pytest.fixture(autouse=True)
def _nothing_is_kept() -> Iterator[None]:
    openid_connect.clear_caches()
    yield
    openid_connect.clear_caches()


@pytest.fixture
def issuer(peer: HttpPeer) -> Issuer:
    return Issuer(peer, key=RSA)


def verified(token: str, issuer: Issuer | openid_connect.Issuer, **given: Any) -> dict[str, Any]:
    known = issuer.name if isinstance(issuer, Issuer) else issuer
    return openid_connect.verify(token, issuer=known, **{"audiences": ["cid"], **given})


def refusal(token: str, issuer: Issuer | openid_connect.Issuer, **given: Any) -> str:
    with pytest.raises(InvalidProviderResponse) as caught:
        verified(token, issuer, **given)
    return str(caught.value)


# --- discovery --------------------------------------------------------------------------------------------------------


def test_an_issuer_says_where_its_endpoints_are(issuer: Issuer) -> None:
    said = openid_connect.discover(issuer.name)
    endpoints = (said.authorization_endpoint, said.token_endpoint, said.userinfo_endpoint, said.jwks_uri)
    assert endpoints == tuple(f"{issuer.name}/{path}" for path in ("authorize", "token", "userinfo", "keys"))
    assert (said.response_types_supported, said.scopes_supported) == (("code",), None)


@pytest.mark.parametrize("path", ["", "/realm", "/realm/"])
def test_the_document_stands_below_the_issuers_path(path: str, peer: HttpPeer) -> None:
    name = f"{peer.url}{path}"
    peer.answer(in_json({"issuer": name}), path=f"{path.rstrip('/')}/.well-known/openid-configuration")
    assert openid_connect.discover(name).issuer == name


def test_the_document_may_stand_elsewhere(peer: HttpPeer) -> None:
    peer.answer(in_json({"issuer": "https://id.example.com"}), path="/metadata")
    at = openid_connect.Issuer(name="https://id.example.com", url=f"{peer.url}/metadata")
    assert openid_connect.discover(at).issuer == "https://id.example.com"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Answer(status=500), "status 500"),
        (Answer(status=404), "status 404"),
        (redirect("https://id.example.com"), "status 302"),
        (Answer(body=b"<html>"), "the document is not of the form that was expected"),
        (in_json([]), "the document is not of the form that was expected"),
        (in_json({"issuer": 7}), "the document is not of the form that was expected"),
        (in_json({"issuer": "https://id.example.com", "scopes_supported": "all"}), "the document is not of the form"),
        (Answer(body=b"[" * 50_000 + b"]" * 50_000), "the document is not of the form that was expected"),
        (Answer(body=b'{"a":' + b"[" * 100 + b"]" * 100 + b"}"), "the answer is nested too deeply"),
        (in_json({}), "the document is about no issuer"),
        (in_json({"issuer": "https://id.example.com"}), "the document is about another issuer"),
        (Answer(body=b"x" * 2_000_000), "the answer is too long"),
        (Answer(close=True, raw=b""), "RemoteDisconnected"),
    ],
)
def test_a_document_that_is_none_is_refused(answer: Answer, reason: str, peer: HttpPeer) -> None:
    peer.answer(answer)
    with pytest.raises(ProviderUnavailable) as caught:
        openid_connect.discover(peer.url)
    assert str(caught.value).startswith(
        f'OIDC discovery from "{peer.url}/.well-known/openid-configuration" failed: {reason}'
    )


@pytest.mark.parametrize(
    "address", ["javascript:alert(1)", "ftp://id.example.com/a", "/authorize", "https://", "https://[", "data:,x"]
)
@pytest.mark.parametrize("member", ["authorization_endpoint", "token_endpoint", "userinfo_endpoint", "jwks_uri"])
def test_an_address_that_leads_nowhere_is_refused(address: str, member: str, issuer: Issuer) -> None:
    issuer.publish_discovery(**{member: address})
    with pytest.raises(ProviderUnavailable, match="an address in the document is not an https one"):
        openid_connect.discover(issuer.name)


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        ("https://appleid.apple.com", "https://account.apple.com"),
        ("https://account.apple.com", "https://appleid.apple.com"),
    ],
)
def test_apples_two_names_stand_for_one_another(said: str, asked: str, peer: HttpPeer) -> None:
    peer.answer(in_json({"issuer": said}), path="/metadata")
    assert openid_connect.discover(openid_connect.Issuer(name=asked, url=f"{peer.url}/metadata")).issuer == said


def test_an_issuer_that_hangs_is_given_up(issuer: Issuer, auth_config: ChangeConfig) -> None:
    auth_config(api={"internal_http_timeout": timedelta(seconds=0.2)})
    issuer.server.answer(Answer(hang=True), path=issuer.discovery_path)
    with pytest.raises(ProviderUnavailable, match="timed out"):
        openid_connect.discover(issuer.name)


def test_an_issuer_from_data_is_not_reached_inside_the_network(issuer: Issuer) -> None:
    with pytest.raises(ProviderUnavailable, match="the host has no public address"):
        openid_connect.discover(openid_connect.Issuer(name=issuer.name, public_only=True))
    assert issuer.server.received == []


# --- what is kept -----------------------------------------------------------------------------------------------------


def test_an_issuer_is_asked_once(issuer: Issuer) -> None:
    for _ in range(3):
        verified(issuer.token(), issuer)
    assert (issuer.request_count(issuer.discovery_path), issuer.request_count(issuer.keys_path)) == (1, 1)


def test_settings_of_another_version_do_not_use_what_is_kept(issuer: Issuer) -> None:
    for version in ("1", "1", "2"):
        verified(issuer.token(), openid_connect.Issuer(name=issuer.name, version=version))
    assert (issuer.request_count(issuer.discovery_path), issuer.request_count(issuer.keys_path)) == (2, 2)


def test_those_who_ask_at_once_share_an_answer(issuer: Issuer) -> None:
    document = in_json({"issuer": issuer.name})
    issuer.server.answer(
        Answer(headers=document.headers, body=document.body, delay=0.3), Answer(status=500), path=issuer.discovery_path
    )
    found: list[str] = []
    threads = [
        threading.Thread(target=lambda: found.append(openid_connect.discover(issuer.name).issuer)) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [issuer.name] * 8
    assert issuer.request_count(issuer.discovery_path) == 1


def test_those_who_ask_at_once_share_a_failure(issuer: Issuer) -> None:
    issuer.server.answer(Answer(status=500, delay=0.3), path=issuer.discovery_path)
    refused: list[str] = []

    def ask() -> None:
        with pytest.raises(ProviderUnavailable) as caught:
            openid_connect.discover(issuer.name)
        refused.append(str(caught.value))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) == 8
    assert issuer.request_count(issuer.discovery_path) == 1
    assert time.monotonic() - began < 2


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Source:
    """Places whose documents are numbered, or that fail."""

    def __init__(self) -> None:
        self.loads = 0
        self.fails = False

    def __call__(self, place: str) -> str:
        self.loads += 1
        if self.fails:
            raise InvalidProviderResponse("no")
        return f"{place}{self.loads}"


@pytest.fixture
def clock(auth_config: ChangeConfig) -> Clock:
    auth_config(federation={"discovery_max_age": timedelta(hours=1)})
    return Clock()


def test_a_document_is_fetched_again_when_it_is_old(clock: Clock) -> None:
    source = Source()
    kept = remote_documents.DocumentCache(source, clock=clock)
    assert kept.get("a") == "a1"
    clock.now += 3599
    assert kept.get("a") == "a1"
    clock.now += 1
    assert kept.get("a") == "a2"


def test_a_stale_document_is_used_on_while_there_is_no_other(clock: Clock) -> None:
    source = Source()
    kept = remote_documents.DocumentCache(source, clock=clock)
    kept.get("a")
    source.fails = True
    clock.now += 3600
    assert [kept.get("a"), kept.get("a"), source.loads] == ["a1", "a1", 2]
    clock.now += remote_documents.RETRY_INTERVAL
    assert [kept.get("a"), source.loads] == ["a1", 3]
    source.fails = False
    clock.now += remote_documents.RETRY_INTERVAL
    assert kept.get("a") == "a4"


def test_nobody_waits_for_a_new_document_while_there_is_a_stale_one(clock: Clock) -> None:
    fetching, go_on = threading.Event(), threading.Event()

    def load(place: str) -> str:
        if go_on.is_set():
            return "new"
        if kept_once:
            fetching.set()
            assert go_on.wait(10)
            return "new"
        kept_once.append(place)
        return "old"

    kept_once: list[str] = []
    kept = remote_documents.DocumentCache(load, clock=clock)
    kept.get("a")
    clock.now += 3600
    thread = threading.Thread(target=kept.get, args=("a",))
    thread.start()
    assert fetching.wait(10)
    assert kept.get("a") == "old"
    go_on.set()
    thread.join()
    assert kept.get("a") == "new"


def test_what_could_not_be_had_is_not_asked_for_at_once_again(clock: Clock) -> None:
    source = Source()
    source.fails = True
    kept = remote_documents.DocumentCache(source, clock=clock)
    for _ in range(3):
        with pytest.raises(InvalidProviderResponse, match="no"):
            kept.get("a")
    assert source.loads == 1
    source.fails = False
    clock.now += remote_documents.RETRY_INTERVAL
    assert kept.get("a") == "a2"


def test_a_document_is_renewed_out_of_turn_now_and_then(clock: Clock) -> None:
    source = Source()
    kept = remote_documents.DocumentCache(source, clock=clock)
    first = kept.get("a")
    second = kept.renew("a", than=first)
    assert second == "a2"
    assert kept.renew("a", than=first) is second  # somebody else was here meanwhile
    assert kept.renew("a", than=second) is second  # just renewed
    clock.now += remote_documents.RETRY_INTERVAL
    assert kept.renew("a", than=second) == "a3"


def test_a_renewal_that_fails_leaves_what_there_is(clock: Clock) -> None:
    source = Source()
    kept = remote_documents.DocumentCache(source, clock=clock)
    first = kept.get("a")
    source.fails = True
    assert kept.renew("a", than=first) is first
    assert kept.get("a") is first


def test_places_are_bounded_and_the_useless_go_first(clock: Clock) -> None:
    source = Source()
    kept = remote_documents.DocumentCache(source, clock=clock)
    places = [str(number) for number in range(remote_documents._MAX_ENTRIES)]
    for place in places:
        kept.get(place)
    source.fails = True
    for number in range(1000):
        with pytest.raises(InvalidProviderResponse):
            kept.get(f"junk {number}")
    assert len(kept._entries) == remote_documents._MAX_ENTRIES
    before = source.loads
    for place in places[1:]:
        kept.get(place)
    assert source.loads == before


# --- ID tokens --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "algorithm", ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
)
def test_every_public_key_algorithm_is_understood(algorithm: str, peer: HttpPeer) -> None:
    issuer = Issuer(peer, key=SigningKey(algorithm))
    bits = 512 if algorithm == "EdDSA" else int(algorithm[-3:])
    token = issuer.token(at_hash=at_hash("t", bits=bits))
    said = verified(token, issuer, access_token="t")
    assert (said["iss"], said["sub"], said["email"]) == (issuer.name, "7", "ada@example.com")
    assert "another access token" in refusal(token, issuer, access_token="u")


def test_without_a_list_of_algorithms_rs256_is_meant(issuer: Issuer) -> None:
    issuer.publish_discovery(id_token_signing_alg_values_supported=None)
    issuer.publish_keys(RSA, ec := SigningKey("ES256"))
    assert verified(issuer.token(), issuer)
    assert "an algorithm that its issuer does not use" in refusal(issuer.token(key=ec), issuer)


def unsigned(token: str, **header: Any) -> str:
    return f"{unpadded(json.dumps(header).encode())}.{token.split('.')[1]}."


def signed_with_public_key(token: str) -> str:
    signed = unsigned(token, alg="HS256", kid=RSA.kid)[:-1]
    published = RSA.private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return f"{signed}.{unpadded(hmac.digest(published, signed.encode(), 'sha256'))}"


@pytest.mark.parametrize("listed", [["RS256"], ["none", "HS256", "RS256"], ["none", "HS256"]])
@pytest.mark.parametrize(
    "forge",
    [
        lambda token: unsigned(token, alg="none"),
        lambda token: unsigned(token, alg="none", kid=RSA.kid),
        lambda token: unsigned(token, kid=RSA.kid),
        lambda token: unsigned(token, alg=["RS256"]),
        lambda token: unsigned(token, alg={"RS256": 1}),
        lambda token: unsigned(token, alg=None),
        signed_with_public_key,
    ],
)
def test_no_token_is_believed_that_anybody_could_have_made(forge: Any, listed: list[str], issuer: Issuer) -> None:
    issuer.publish_discovery(id_token_signing_alg_values_supported=listed)
    assert refusal(forge(issuer.token()), issuer)


def test_a_signature_must_be_by_a_key_of_the_issuer(issuer: Issuer) -> None:
    stranger = SigningKey()
    assert "no key of the issuer" in refusal(issuer.token(key=stranger), issuer)
    stranger.kid = RSA.kid
    assert "no key of the issuer" in refusal(issuer.token(key=stranger), issuer)
    head, body, signature = issuer.token().split(".")
    assert "no key of the issuer" in refusal(f"{head}.{body}.{signature[:-4]}AAAA", issuer)
    other_body = issuer.token(sub="8").split(".")[1]
    assert "no key of the issuer" in refusal(f"{head}.{other_body}.{signature}", issuer)


@pytest.mark.parametrize("token", ["", ".", "..", "abc", "a.b", "a.b.c", "a.b.c.d", "é.é.é", "e30.e30.", "\0.a.b"])
def test_what_is_no_token_is_refused(token: str, issuer: Issuer) -> None:
    assert refusal(token, issuer)


def test_a_critical_extension_is_not_understood(issuer: Issuer) -> None:
    token = RSA.sign({"iss": issuer.name, "sub": "7", "exp": time.time() + 60}, crit=["exp"], exp=1)
    assert "no signed token" in refusal(token, issuer)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"iss": "https://id.example.com"}, "another issuer"),
        ({"iss": None}, "not of the form"),
        ({"iss": 7}, "not of the form"),
        ({"exp": None}, "not of the form"),
        ({"exp": "later"}, "not of the form"),
        ({"exp": True}, "not of the form"),
        ({"exp": int(time.time()) - 60}, "expired"),
        ({"nbf": int(time.time()) + 86400}, "not valid yet"),
        ({"nbf": "now"}, "not of the form"),
        ({"iat": "now"}, "not of the form"),
        ({"sub": 7}, "not of the form"),
        ({"sub": "a\0b"}, "U+0000"),
        ({"aud": 7}, "not of the form"),
        ({"aud": ["cid", 7]}, "not of the form"),
        ({"aud": None}, "another audience"),
        ({"aud": "other"}, "another audience"),
        ({"aud": "CID"}, "another audience"),
        ({"aud": []}, "another audience"),
        ({"nonce": 7}, "not of the form"),
        ({"at_hash": 7}, "not of the form"),
        ({"at_hash": ""}, "another access token"),
    ],
)
def test_claims_must_be_right(changes: dict[str, Any], reason: str, issuer: Issuer) -> None:
    assert reason in refusal(RSA.sign(changed(issuer, changes)), issuer, access_token="t")


def changed(issuer: Issuer, changes: dict[str, Any]) -> dict[str, Any]:
    claims = json.loads(base64.urlsafe_b64decode(f"{issuer.token().split('.')[1]}=="))
    return {name: value for name, value in {**claims, **changes}.items() if value is not None}


@pytest.mark.parametrize(
    "claims", [b"[]", b"7", b"null", b"{", b'{"iss":"x","exp":NaN}', b'{"iss":"\\ud800","exp":1}', b"\xff"]
)
def test_a_signed_text_that_holds_no_claims_is_refused(claims: bytes, issuer: Issuer) -> None:
    assert "not of the form" in refusal(RSA.sign(claims), issuer)


@pytest.mark.parametrize(
    "changes",
    [
        {"nbf": int(time.time()) + 240},
        {"iat": int(time.time()) + 900},
        {"iat": 1},
        {"exp": time.time() + 86400.5},
        {"aud": ["other", "cid"]},
        {"sub": None},
    ],
)
def test_clocks_may_differ_a_little_and_audiences_be_many(changes: dict[str, Any], issuer: Issuer) -> None:
    assert verified(issuer.token(**changes), issuer)["iss"] == issuer.name


def test_a_caller_may_look_at_the_audience_itself(issuer: Issuer) -> None:
    assert verified(issuer.token(aud=["a", "b"]), issuer, audiences=None)["aud"] == ["a", "b"]


def test_a_hash_of_an_access_token_counts_where_both_are_there(issuer: Issuer) -> None:
    assert verified(issuer.token(at_hash=at_hash("t")), issuer)
    assert verified(issuer.token(), issuer, access_token="t")


def test_googles_second_spelling_is_its_own(peer: HttpPeer) -> None:
    issuer = Issuer(peer, key=RSA)
    issuer.publish_discovery(issuer="https://accounts.google.com")
    google = openid_connect.Issuer(name="https://accounts.google.com", url=f"{peer.url}{issuer.discovery_path}")
    for spelling in ("https://accounts.google.com", "accounts.google.com"):
        assert verified(issuer.token(iss=spelling), google)["iss"] == spelling
    assert "another issuer" in refusal(issuer.token(iss="http://accounts.google.com"), google)


# --- keys -------------------------------------------------------------------------------------------------------------


def test_a_new_key_is_found_when_a_token_names_it(issuer: Issuer) -> None:
    verified(issuer.token(), issuer)
    issuer.publish_keys(RSA, new := SigningKey("RS256"))
    assert verified(issuer.token(key=new), issuer)
    assert verified(issuer.token(), issuer)
    assert issuer.request_count(issuer.keys_path) == 2


def test_names_of_keys_that_nobody_has_do_not_make_the_service_ask_again_and_again(issuer: Issuer) -> None:
    verified(issuer.token(), issuer)
    for number in range(20):
        assert refusal(RSA.sign({"iss": issuer.name, "exp": time.time() + 60}, kid=f"k{number}"), issuer)
    assert issuer.request_count(issuer.keys_path) == 2


def test_keys_without_names_are_tried_in_turn(peer: HttpPeer) -> None:
    issuer = Issuer(peer, key=SigningKey(kid=""))
    issuer.publish_keys(SigningKey("ES256"), SigningKey(), issuer.key)
    assert verified(issuer.token(), issuer)


@pytest.mark.parametrize(
    "changes",
    [
        {"use": "enc"},
        {"alg": "RS512"},
        {"kty": "oct", "k": "c2VjcmV0"},
        {"kty": None},
        {"n": "AQAB"},
        {"n": 7},
        {"e": "!"},
        {"e": None},
        {"kid": "another"},
    ],
)
def test_a_key_that_is_for_something_else_is_not_used(changes: dict[str, Any], issuer: Issuer) -> None:
    key = {name: value for name, value in {**RSA.jwk, **changes}.items() if value is not None}
    issuer.server.answer(in_json({"keys": [key]}), path=issuer.keys_path)
    assert "no key of the issuer" in refusal(issuer.token(), issuer)


def test_a_key_without_a_use_of_its_own_is_used(issuer: Issuer) -> None:
    key = {name: value for name, value in RSA.jwk.items() if name not in ("use", "alg")}
    issuer.server.answer(in_json({"keys": [{"kty": "XYZ"}, key]}), path=issuer.keys_path)
    assert verified(issuer.token(), issuer)


def test_a_short_key_is_no_key(issuer: Issuer) -> None:
    short = SigningKey(bits=1024)
    issuer.publish_keys(short)
    assert "no key of the issuer" in refusal(issuer.token(key=short), issuer)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Answer(status=500), "status 500"),
        (Answer(body=b"<html>"), "not of the form"),
        (in_json({"keys": {}}), "not of the form"),
        (in_json({"keys": ["a"]}), "not of the form"),
        (in_json({"keys": []}), "no key of the issuer"),
        (Answer(body=b'{"keys":[' + b"{}," * 500_000 + b"{}]}"), "too long"),
    ],
)
def test_keys_that_are_none_verify_nothing(answer: Answer, reason: str, issuer: Issuer) -> None:
    issuer.server.answer(answer, path=issuer.keys_path)
    assert reason in refusal(issuer.token(), issuer)


def test_an_issuer_without_keys_is_not_believed(issuer: Issuer) -> None:
    issuer.publish_discovery(jwks_uri=None)
    assert "publishes no keys" in refusal(issuer.token(), issuer)


# --- who a token says it is from --------------------------------------------------------------------------------------


def test_the_claimed_issuer_is_read_from_a_token(issuer: Issuer) -> None:
    assert openid_connect.claimed_issuer(issuer.token()) == issuer.name


@pytest.mark.parametrize("token", ["", "a", "a.b.c", "a.e30.c", "a.W10.c", "a.bnVsbA.c", "a.eyJpc3MiOjd9.c", "é.é.é"])
def test_a_token_that_names_no_issuer_is_refused(token: str) -> None:
    with pytest.raises(InvalidProviderResponse):
        openid_connect.claimed_issuer(token)


# --- how long it may take ---------------------------------------------------------------------------------------------


@contextmanager
def somebody_fetching(
    kept: remote_documents.DocumentCache[str, str], place: str, go_on: threading.Event
) -> Iterator[None]:
    """While another thread waits for the document, until `go_on`."""
    thread = threading.Thread(target=kept.get, args=(place,))
    thread.start()
    try:
        yield
    finally:
        go_on.set()
        thread.join()


def test_nobody_waits_longer_for_what_another_fetches_than_they_would_for_their_own(auth_config: ChangeConfig) -> None:
    fetching, go_on = threading.Event(), threading.Event()

    def load(place: str) -> str:
        fetching.set()
        assert go_on.wait(10)
        return place

    kept = remote_documents.DocumentCache(load)
    with somebody_fetching(kept, "a", go_on):
        assert fetching.wait(10)
        auth_config(api={"max_request_duration": timedelta(seconds=0.3)})
        with deadline.shared(), pytest.raises(InvalidProviderResponse, match="timed out"):
            kept.get("a")
    assert kept.get("a") == "a"


class PatientSource(Source):
    """Asks for the time that is left, as every call to others does."""

    def __call__(self, place: str) -> str:
        deadline.remaining()
        return super().__call__(place)


def spend_patience() -> None:
    with contextlib.suppress(InvalidProviderResponse):
        while deadline.remaining():
            time.sleep(0.01)


def test_who_has_no_time_left_to_fetch_a_newer_document_leaves_that_to_others(
    clock: Clock, auth_config: ChangeConfig
) -> None:
    auth_config(api={"internal_http_timeout": timedelta(seconds=0.05)})
    kept = remote_documents.DocumentCache(PatientSource(), clock=clock)
    kept.get("a")
    clock.now += 3600
    with deadline.shared():
        spend_patience()
        assert kept.get("a") == "a1"
    assert kept.get("a") == "a2"


@pytest.mark.parametrize("is_renewed", [False, True], ids=["first", "renewed"])
def test_who_runs_out_of_time_before_fetching_spoils_no_place_for_others(
    is_renewed: bool, auth_config: ChangeConfig
) -> None:
    auth_config(api={"internal_http_timeout": timedelta(seconds=0.05)})
    is_slow = False

    def slow_clock() -> float:
        if is_slow and kept._entries["a"].lock.locked():
            spend_patience()
        return 1000.0

    kept = remote_documents.DocumentCache(PatientSource(), clock=slow_clock)
    known = kept.get("a") if is_renewed else ""

    def ask() -> str:
        return kept.renew("a", than=known) if is_renewed else kept.get("a")

    is_slow = True
    with deadline.shared(), pytest.raises(InvalidProviderResponse, match="timed out"):
        ask()
    is_slow = False
    assert ask() == ("a2" if is_renewed else "a1")


@pytest.mark.parametrize(
    ("api", "whole"),
    [
        ({"max_request_duration": timedelta(seconds=10), "internal_http_timeout": timedelta(seconds=10)}, 8),
        ({"max_request_duration": timedelta(seconds=10), "internal_http_timeout": timedelta(seconds=3)}, 3),
        ({"max_request_duration": timedelta(), "internal_http_timeout": timedelta(seconds=7)}, 7),
    ],
    ids=str,
)
def test_calls_that_belong_together_share_what_one_alone_would_have(
    auth_config: ChangeConfig, api: dict[str, timedelta], whole: int
) -> None:
    auth_config(api=api)
    assert deadline.remaining() == timedelta(seconds=whole)
    with deadline.shared():
        first = deadline.remaining()
        assert deadline.remaining() < first < timedelta(seconds=whole)
    assert deadline.remaining() == timedelta(seconds=whole)


def test_when_all_the_time_is_used_up_nothing_is_asked(issuer: Issuer, auth_config: ChangeConfig) -> None:
    auth_config(api={"max_request_duration": timedelta(microseconds=1)})
    with deadline.shared(), pytest.raises(ProviderUnavailable, match="failed: timed out"):
        openid_connect.discover(issuer.name)
    assert issuer.server.received == []
