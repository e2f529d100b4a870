"""Attack: large access tokens that fill the memory of each process, and tokens that a memory dump reveals."""

from __future__ import annotations

import gc
from datetime import timedelta

import pytest
from django.utils import timezone

from accounts.models import User
from tests.conftest import Api
from tests.factories import make_session
from tokens.jwt import access_tokens, signing_keys
from tokens.jwt.access_tokens import BadJwt

pytestmark = pytest.mark.django_db


def test_token_over_48_kib_is_refused(api: Api) -> None:
    signed_in = make_session()
    User.objects.filter(id=signed_in.user.id).update(raw_user_meta_data={"a": "x" * 40_000})
    large = make_session(signed_in.user).access_token
    assert len(large) > 49_152
    for method, path in (("GET", "/user"), ("PUT", "/user"), ("POST", "/logout"), ("GET", "/admin/users")):
        response = api.request(method, path, {}, bearer=large)
        assert (response.status_code, response.json()["error_code"]) == (403, "bad_jwt")
    grant = {"id_token": large, "provider": "google"}
    assert api.post("/token?grant_type=id_token", grant).json()["error_description"] == "id_token too long"
    assert api.get("/user", bearer=signed_in.access_token).status_code == 200


def test_token_with_full_metadata_is_accepted(api: Api) -> None:
    signed_in = make_session()
    full = {"a": "x" * 16_300}
    User.objects.filter(id=signed_in.user.id).update(raw_user_meta_data=full, raw_app_meta_data=full)
    token = make_session(signed_in.user).access_token
    assert 43_000 < len(token) < 49_152
    assert api.get("/user", bearer=token).status_code == 200


def test_cache_is_bounded_by_bytes_and_holds_no_token(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = access_tokens.ClaimsCache(signing_keys.current(), max_bytes=400_000)
    monkeypatch.setattr(access_tokens, "claims_cache", cache)
    signed_in = make_session()
    tokens = [
        make_session(signed_in.user, at=timezone.now() - timedelta(seconds=seconds)).access_token
        for seconds in range(60)
    ]
    for token in tokens:
        assert api.get("/user", bearer=token).status_code == 200
    assert 0 < len(cache.claims) < 60
    assert {len(digest) for digest in cache.claims} == {32}
    held = {text for claims in cache.claims.values() for text in gc.get_referents(claims) if isinstance(text, str)}
    assert held.isdisjoint(tokens)


def test_large_token_displaces_no_other(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access_tokens, "claims_cache", None)
    signed_in = make_session()
    assert api.get("/user", bearer=signed_in.access_token).status_code == 200
    cache = access_tokens.claims_cache
    assert cache is not None
    before = dict(cache.claims)
    User.objects.filter(id=signed_in.user.id).update(raw_user_meta_data={"a": "x" * 16_000})
    large = make_session(signed_in.user).access_token
    assert api.get("/user", bearer=large).status_code == 200
    assert cache.claims == before


def test_cached_claims_belong_to_the_whole_token() -> None:
    """A token that differs from a verified one in its signature only is not found in the cache."""
    signed_in = make_session()
    now = timezone.now()
    access_tokens.decode(signed_in.access_token, at=now)
    forged = signed_in.access_token[:-10] + "AAAAAAAAAA"
    with pytest.raises(BadJwt):
        access_tokens.decode(forged, at=now)
