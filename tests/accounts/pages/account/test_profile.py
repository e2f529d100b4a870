"""The profile page."""

from __future__ import annotations

import html

import pytest

from accounts.models import User
from tests.conftest import ChangeConfig
from tests.observations import audit_payloads
from tests.page_browser import PageBrowser

pytestmark = pytest.mark.django_db

PROFILE = "/account/profile"


def test_the_profile_is_saved_as_user_metadata(inside: PageBrowser, user: User) -> None:
    User.objects.filter(id=user.id).update(raw_user_meta_data={"theme": "dark", "full_name": "Ada"})
    assert 'value="Ada"' in inside.text(PROFILE)
    fields = {"name": "Ada <b>Lovelace</b>", "picture": "https://img.example/ada.png", "locale": "en"}
    assert inside.submit(PROFILE, **fields).headers["Location"] == PROFILE
    assert User.objects.get().raw_user_meta_data == {
        "theme": "dark",
        "full_name": "Ada <b>Lovelace</b>",
        "name": "Ada <b>Lovelace</b>",
        "picture": "https://img.example/ada.png",
        "avatar_url": "https://img.example/ada.png",
        "locale": "en",
    }
    page = inside.text(PROFILE)
    assert "Your profile is saved." in page
    assert html.escape("Ada <b>Lovelace</b>") in page
    assert "<b>" not in page
    assert [entry["action"] for entry in audit_payloads()] == ["login", "user_modified"]


def test_empty_fields_delete_their_keys_and_unchanged_ones_write_nothing(inside: PageBrowser, user: User) -> None:
    User.objects.filter(id=user.id).update(raw_user_meta_data={"name": "Ada", "locale": "en_GB", "picture": 7})
    assert inside.submit(PROFILE, name="Ada", locale="en").headers["Location"] == PROFILE
    assert User.objects.get().raw_user_meta_data == {"name": "Ada", "locale": "en_GB", "picture": 7}
    assert len(audit_payloads()) == 1
    assert inside.submit(PROFILE, name="", locale="").headers["Location"] == PROFILE
    assert User.objects.get().raw_user_meta_data == {"picture": 7}


@pytest.mark.parametrize(
    "fields",
    [
        {"picture": "http://img.example/a.png"},
        {"picture": "javascript:alert(1)"},
        {"locale": "xx"},
        {"name": "x" * 256},
    ],
)
def test_invalid_values_are_not_saved(inside: PageBrowser, fields: dict[str, str]) -> None:
    before = User.objects.get().raw_user_meta_data
    response = inside.submit(PROFILE, **fields)
    assert (response.status_code, b'aria-invalid="true"' in response.content) == (400, True)
    assert User.objects.get().raw_user_meta_data == before


def test_metadata_has_a_limit(inside: PageBrowser, auth_config: ChangeConfig) -> None:
    auth_config(metadata={"max_user_bytes": 100})
    response = inside.submit(PROFILE, name="x" * 200)
    assert (response.status_code, "must not be larger" in response.content.decode()) == (400, True)
