"""The User object and its parts: required, optional and hidden members, and the format of times."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import orjson
import pytest

from accounts.users import records
from accounts.users.records import FactorRecord, IdentityRecord, UserRecord

ID = UUID("11111111-2222-4333-8444-555555555555")
AT = datetime(2024, 5, 1, 10, 0, 0, 120000, tzinfo=UTC)
WIRE = "2024-05-01T10:00:00.120000Z"
ALWAYS = [
    "id", "aud", "role", "email", "phone", "app_metadata", "user_metadata", "identities", "created_at", "updated_at",
    "is_anonymous",
]  # fmt: skip
OPTIONAL_TIMES = [
    "email_confirmed_at", "invited_at", "phone_confirmed_at", "confirmation_sent_at", "confirmed_at",
    "recovery_sent_at", "email_change_sent_at", "phone_change_sent_at", "reauthentication_sent_at", "last_sign_in_at",
    "banned_until", "deleted_at",
]  # fmt: skip


def record(**values: Any) -> UserRecord:
    least: dict[str, Any] = {
        "id": ID, "aud": "", "role": "", "email": "", "phone": "", "password_hash": "$argon2id$the-hash",
        "created_at": AT, "updated_at": AT,
    }  # fmt: skip
    return UserRecord(**{**least, **values})


def render(of: UserRecord) -> dict[str, Any]:
    """The JSON object of a user, decoded."""
    decoded: dict[str, Any] = orjson.loads(orjson.dumps(records.render_user(of)))
    return decoded


def test_minimal_user_has_required_members() -> None:
    assert render(record()) == {
        "id": str(ID),
        "aud": "",
        "role": "",
        "email": "",
        "phone": "",
        "app_metadata": {},
        "user_metadata": {},
        "identities": [],
        "created_at": WIRE,
        "updated_at": WIRE,
        "is_anonymous": False,
    }


@pytest.mark.parametrize("name", OPTIONAL_TIMES)
def test_optional_time_is_present_when_set(name: str) -> None:
    full = render(record(**{name: AT}))
    assert set(full) - set(ALWAYS) == {name}
    assert full[name] == WIRE


@pytest.mark.parametrize(("column", "key"), [("email_change", "new_email"), ("phone_change", "new_phone")])
def test_pending_change_is_present_when_set(column: str, key: str) -> None:
    assert render(record(**{column: "x"}))[key] == "x"
    assert key not in render(record(**{column: ""}))


def test_internal_columns_are_not_rendered() -> None:
    everything = dict.fromkeys(OPTIONAL_TIMES, AT) | {"email_change": "x", "phone_change": "y"}
    full = render(record(is_sso_user=True, **everything))
    assert set(full) == {*ALWAYS, *OPTIONAL_TIMES, "new_email", "new_phone"}
    assert "$argon2id$" not in repr(full)


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (AT.replace(microsecond=0), "2024-05-01T10:00:00.000000Z"),
        (AT.replace(microsecond=1), "2024-05-01T10:00:00.000001Z"),
        (datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC), "9999-12-31T23:59:59.999999Z"),
        (datetime(1, 1, 1, tzinfo=UTC), "0001-01-01T00:00:00.000000Z"),
    ],
)
def test_times_have_six_digits_and_a_z(moment: datetime, text: str) -> None:
    assert render(record(banned_until=moment))["banned_until"] == text


@pytest.mark.parametrize("text", ['{"a": 1.0, "b": [18446744073709551616]}', "{}", '{"\\u00fc": "\\ud83d\\udd11"}'])
def test_metadata_is_rendered_as_stored(text: str) -> None:
    dumped = orjson.dumps(records.render_user(record(user_metadata_json=text, app_metadata_json=text))).decode()
    assert f'"user_metadata":{text}' in dumped
    assert f'"app_metadata":{text}' in dumped


def test_identity_is_rendered_with_claims() -> None:
    identity = IdentityRecord(
        id="i", provider_id="7", data_json='{"sub": "7"}', provider="google", last_sign_in_at=WIRE, created_at=WIRE,
        updated_at=WIRE, email="a@b.co",
    )  # fmt: skip
    (rendered,) = render(record(identities=(identity,)))["identities"]
    assert rendered == {
        "identity_id": "i",
        "id": "7",
        "user_id": str(ID),
        "identity_data": {"sub": "7"},
        "provider": "google",
        "last_sign_in_at": WIRE,
        "created_at": WIRE,
        "updated_at": WIRE,
        "email": "a@b.co",
    }


def test_identity_omits_missing_address_and_sign_in() -> None:
    identity = IdentityRecord(
        id="i", provider_id="7", data_json="{}", provider="google", last_sign_in_at=None, created_at=WIRE,
        updated_at=WIRE, email=None,
    )  # fmt: skip
    (rendered,) = render(record(identities=(identity,)))["identities"]
    assert list(rendered) == ["identity_id", "id", "user_id", "identity_data", "provider", "created_at", "updated_at"]
    assert rendered["identity_data"] == {}


def test_factors_are_present_when_set() -> None:
    factor = FactorRecord(
        id="f", friendly_name="phone", factor_type="totp", status="verified", phone=None, created_at=WIRE,
        updated_at=WIRE, last_challenged_at=None, web_authn_aaguid=None,
    )  # fmt: skip
    assert "factors" not in render(record())
    (rendered,) = render(record(factors=(factor,)))["factors"]
    assert (rendered["id"], rendered["factor_type"], rendered["status"], rendered["friendly_name"]) == (
        "f", "totp", "verified", "phone",
    )  # fmt: skip
    assert "secret" not in rendered


@pytest.mark.parametrize(
    ("metadata", "name"),
    [
        ("{}", None),
        ('{"full_name": "A. User"}', "A. User"),
        ('{"full_name": null}', None),
        ('{"full_name": {"a": 1}}', {"a": 1}),
        ('{"nested": {"full_name": "x"}}', None),
        ('{"x": "\\"full_name\\""}', None),
    ],
)
def test_the_name_of_a_user_is_in_their_metadata(metadata: str, name: object) -> None:
    assert record(user_metadata_json=metadata).full_name == name


def test_a_ban_ends_at_its_time() -> None:
    banned = record(banned_until=AT)
    assert banned.is_banned(AT - timedelta(microseconds=1))
    assert not banned.is_banned(AT)
    assert not record().is_banned(AT)


def test_the_repr_of_a_record_hides_the_hash() -> None:
    assert "the-hash" not in repr(record())
    assert "the-hash" not in str(record())
