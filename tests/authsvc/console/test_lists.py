"""Lists of the console: search by words, exports, and order for viewers."""

from __future__ import annotations

import csv
import io
import re
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from accounts.admin import search
from accounts.models import User
from accounts.users.search import words
from authsvc.console import csv_export
from authsvc.console.formatting import Tone, badge
from authsvc.models import AuditLogEntry
from hooks.models import WebhookEndpoint
from mailer.models import Attempt
from oauthserver.models import OAuthClient
from tests import factories
from tests.authsvc.console.conftest import LISTS, START, USERS, Console
from tests.conftest import ApiResponse, ChangeConfig

pytestmark = pytest.mark.django_db

EXPORT = f"{USERS}export/"


@pytest.fixture
def ada() -> User:
    user = factories.make_user(email="ada.l@example.com", data={"full_name": "Ada Lovelace-Ünal"})
    User.objects.filter(pk=user.pk).update(phone="442079460000")
    return user


@pytest.fixture
def auditor(console: Console, auth_config: ChangeConfig) -> Console:
    """The browser of a viewer."""
    auth_config(console={"roles": {"auditor": "viewer", "helper": "support"}})
    factories.make_user(email="auditor@example.org", role="auditor")
    console.sign_in("auditor@example.org")
    return console


def export(console: Console, query: str = "") -> ApiResponse:
    return console.submit(START, to=f"{EXPORT}{query}")


def rows_of(response: Any) -> list[list[str]]:
    assert response.status_code == 200, response.content
    return list(csv.reader(io.StringIO(response.getvalue().decode())))


@pytest.mark.parametrize(
    "typed",
    [
        "ada love", "LOVELACE Ada", "unal lovelace", "ÜNAL", "u\N{COMBINING DIAERESIS}nal", "@example ada", "ada.l@ex",
        "+44 20 7946", "(20) 79 46", "794600", "ada 7946", "a l", "ad", "ad unal 442",
    ],
)  # fmt: skip
def test_words_are_found_in_any_order(ada: User, typed: str) -> None:
    factories.make_user(email="bob@example.org", data={"full_name": "Bob Byron"})
    assert [user.pk for user in search.find(User.objects.all(), typed)] == [ada.pk]


@pytest.mark.parametrize("typed", ["ada bob", "velac e", "%", "_da", "4421", "ce", "ada\0x", " "])
def test_other_words_are_not_found(ada: User, typed: str) -> None:
    assert not search.find(User.objects.all(), typed)


@pytest.mark.parametrize(
    "name", ["Łukasz Øyvind", "STRAẞE Straße", "Жанна", "Ｆｕｌｌ ﬁne", "İpek", "Ἀθῆναι", "e\u0301e"]
)
def test_service_and_database_fold_alike(name: str) -> None:
    user = factories.make_user(email="folded@example.com", data={"name": name})
    for typed in (name, name.upper(), name.lower()):
        assert [row.pk for row in search.find(User.objects.all(), typed)] == [user.pk], words.parse(typed)


def test_a_search_is_combined_with_filters_and_order(inside: Console, ada: User) -> None:
    banned = factories.make_user(email="ada.b@example.com")
    User.objects.filter(pk=banned.pk).update(banned_until=timezone.now() + timedelta(days=1))
    assert str(ada.pk) not in (text := inside.text(f"{USERS}?q=ada&state=banned"))
    assert str(banned.pk) in text
    text = inside.text(f"{USERS}?q=ada&o=1")
    assert text.index(str(banned.pk)) < text.index(str(ada.pk))


def test_viewers_cannot_sort_by_personal_data(auditor: Console) -> None:
    for name in ("b", "a"):
        factories.make_user(email=f"{name}@example.com")
    assert "o=1" not in auditor.text(USERS)
    by_age, sorted_rows = (
        re.findall(r"user/([0-9a-f-]{36})/change", auditor.text(f"{USERS}{q}")) for q in ("", "?o=1")
    )
    assert len(by_age) == 3
    assert sorted_rows == by_age


def test_the_filtered_list_is_exported_in_its_order(inside: Console, operator: User, ada: User) -> None:
    other = factories.make_user(email="ada.b@example.com", data={"full_name": "=cmd|' /C calc'!A0"})
    factories.make_user(email="bob@example.com")
    response = export(inside, "?q=ada&o=1")
    assert response.headers["Content-Type"] == "text/csv; charset=utf-8"
    assert response.headers["Content-Disposition"].startswith('attachment; filename="users-')
    titles, *rows = rows_of(response)
    assert titles[:5] == ["id", "email", "phone", "name", "state"]
    assert [row[:5] for row in rows] == [
        [str(other.pk), "ada.b@example.com", "", "'=cmd|' /C calc'!A0", "confirmed"],
        [str(ada.pk), "ada.l@example.com", "442079460000", "Ada Lovelace-Ünal", "confirmed"],
    ]
    entry = AuditLogEntry.objects.get(payload__action="list_exported")
    assert entry.payload["actor_id"] == str(operator.pk)
    assert entry.payload["traits"] == {"list": "users", "filter": "q, o=1", "rows": 2, "personal_data": "shown"}


@pytest.mark.parametrize("text", ["=1", "+1", "-1", "@a", "\tx", "\rx", "\nx", "\uff1d1"])
def test_cells_are_no_formulas(text: str) -> None:
    assert csv_export.to_cell(text) == f"'{text}"


def test_cells_are_text() -> None:
    assert csv_export.to_cell(badge("<a & b>", Tone.GOOD)) == "<a & b>"
    assert csv_export.to_cell(None) == ""


def test_an_export_for_a_viewer_hides_personal_data(auditor: Console, ada: User) -> None:
    path = f"{EXPORT}?state=operators"
    auditor.submit(START, to="/operator/personal-data/", next=path)  # of the page, not of the export
    _, *rows = rows_of(auditor.submit(START, to=EXPORT))
    assert [str(ada.pk), "a•••@e•••", "•••00"] in [row[:3] for row in rows]
    assert "Lovelace" not in str(rows)
    [entry] = AuditLogEntry.objects.filter(payload__action="list_exported")
    assert entry.payload["traits"]["personal_data"] == "hidden"
    assert auditor.submit(START, to=f"{EXPORT}?email__startswith=ada").status_code == 400
    assert "ada" not in str(rows_of(auditor.submit(START, to=f"{EXPORT}?q=lovelace"))[1:])


def test_lists_name_columns_as_operators_do(inside: Console) -> None:
    text = inside.text(USERS)
    assert "Last sign-in" in text
    assert "Created" in text
    assert "reated at" not in text
    assert "last sign in at" not in text.lower()


def test_viewers_see_no_address_in_the_response_of_a_gateway(auditor: Console) -> None:
    Attempt.objects.create(
        message_id="00000000-0000-4000-8000-000000000000", channel="email", kind="recovery", attempt=1,
        outcome="delivered", gateway_id="250 queued for ada.l@example.com",
    )  # fmt: skip
    text = auditor.text("/operator/mailer/attempt/")
    assert "250 queued for a•••@e•••" in text
    assert "ada.l@" not in text


def test_the_filter_of_an_export_is_hidden_from_viewers(auditor: Console) -> None:
    AuditLogEntry.objects.create(
        payload={"action": "list_exported", "traits": {"filter": "q=lovelace", "rows": 1}}, created_at=timezone.now()
    )
    text = auditor.text("/operator/core/auditlogentry/")
    assert "List exported" in text
    assert "lovelace" not in text


# The sessions of all users are not exported.
@pytest.mark.parametrize("name", [name for name in LISTS if name != "tokens/session"])
def test_every_list_is_exported(inside: Console, name: str) -> None:
    Attempt.objects.create(
        message_id="00000000-0000-4000-8000-000000000000", channel="email", kind="recovery", attempt=1,
        outcome="failed", error="@bad",
    )  # fmt: skip
    titles, *rows = rows_of(inside.submit(START, to=f"/operator/{name}/export/"))
    assert len(titles) > 4
    assert all(len(row) == len(titles) for row in rows)
    assert ("'@bad" in str(rows)) == (name == "mailer/attempt")


def test_lists_whose_first_column_is_the_name_of_a_row_are_exported(inside: Console) -> None:
    OAuthClient.objects.create(registration_type="manual", token_endpoint_auth_method="none", client_name="Shop")
    WebhookEndpoint.objects.create(url="https://shop.example.com/hook", secret="x", event_types=["*"])
    for name, expected in (("oauthserver/oauthclient", "Shop"), ("hooks/webhookendpoint", "https://shop.example.com")):
        titles, row = rows_of(inside.submit(START, to=f"/operator/{name}/export/"))
        assert row[0] == expected
        assert len(titles) == len(row)


def test_an_export_needs_a_form(inside: Console) -> None:
    assert inside.get(EXPORT).status_code == 405
    without_token: Any = inside.client.post(EXPORT)
    assert without_token.status_code == 403


def test_an_export_reads_batches(inside: Console) -> None:
    factories.make_plain_users(2_500)
    _, *rows = rows_of(export(inside, "?o=-1"))
    assert [row[1] for row in rows] == sorted((row[1] for row in rows), reverse=True)
    assert len(rows) == 2_501
