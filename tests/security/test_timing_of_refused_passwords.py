"""The time of a refused password tells which addresses have an imported account.

The tests count the hash operations of a refusal instead of measuring its time.
"""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

import bcrypt
import pytest
from django.db import connection
from django.db.backends.signals import connection_created
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from accounts.models import PasswordHashKind, User
from accounts.passwords import hash_kinds
from authsvc.conf import Secret
from authsvc.security import encryption
from tests.accounts.administration.admin_requests import expect_success
from tests.authsvc.console.conftest import Console
from tests.conftest import Api, ChangeConfig
from tests.factories import PASSWORD, make_user
from tests.recorded_metrics import RecordedMetrics

pytestmark = pytest.mark.django_db

ARGON2ID = "$argon2id$v=19$m=32,t=3,p=2$SFVpOWJ0eXhjRzVkdGN1RQ$RXnb8rh7LaDcn07xsssqqulZYXOM/EUCEFMVcAcyYVk"
FIREBASE = (
    "$fbscrypt$v=1,n=14,r=8,p=1,ss=Bw==,sk=ou9tdYTGyYm8kuR6Dt0Bp0kDuAYoXrK16mbZO4yGwAn3oLspjnN0/c41v8xZnO1n14J3MjKj1b2"
    "g6AUCAlFwMw==$C0sHCg9ek77hsg==$zKVTMvnWVw5BBOZNUdnsalx4c4c7y/w7IS5p6Ut2+CfEFFlz37J9huyQfov4iizN8dbjvEJlM5tQaJP84+"
    "hfTw=="
)
Work = Counter[tuple[str, str]]


def bcrypt_hash(costs: int) -> str:
    return bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(costs)).decode()


@pytest.fixture
def accounts(recorded: RecordedMetrics) -> None:
    """One account of each kind that a password sign-in can meet."""
    at = timezone.now()
    make_user(email="own@example.com")
    make_user(email="none@example.com", password="")
    make_user(email="unusable@example.com", password_hash="!")
    make_user(email="cheap@example.com", password_hash=bcrypt_hash(4))
    make_user(email="strong@example.com", password_hash=bcrypt_hash(6))
    make_user(email="argon2@example.com", password_hash=ARGON2ID)
    make_user(email="firebase@example.com", password_hash=FIREBASE)
    make_user(email="banned@example.com", banned_until=at + timedelta(days=1))
    make_user(email="unconfirmed@example.com", confirmed=False)
    make_user(email="sso@example.com", is_sso_user=True)
    make_user(email="gone@example.com", deleted_at=at)
    hash_kinds.survey(at=at)


def work_of(recorded: RecordedMetrics, action: Any) -> Work:
    """The hash comparisons of an action: kind → number; those of bcrypt in units of its lowest costs."""
    before = _comparisons(recorded)
    action()
    spent = _comparisons(recorded)
    spent.subtract(before)
    total: Work = Counter()
    for (algorithm, costs), number in spent.items():
        if algorithm == "bcrypt":
            total["bcrypt", "04"] += number * 2 ** (int(costs) - 4)
        elif algorithm != "unknown":  # takes no time
            total[algorithm, costs] += number
    return +total


def _comparisons(recorded: RecordedMetrics) -> Work:
    changes = recorded.changes("auth_compare_hash_and_password_submitted_total", "alg", "cost")
    return Counter({(algorithm, costs): int(number) for (algorithm, costs), number in changes.items()})


def guess(api: Api, email: str, password: str = "a wrong guess") -> int:
    return api.post("/token?grant_type=password", {"email": email, "password": password}).status_code


ADDRESSES = (
    "unknown", "own", "none", "unusable", "cheap", "strong", "argon2", "firebase", "banned", "unconfirmed", "sso",
    "gone",
)  # fmt: skip


@pytest.mark.usefixtures("accounts", "no_request_limits")
def test_every_refusal_costs_the_same(api: Api, recorded: RecordedMetrics) -> None:
    work = {}
    for name in ADDRESSES:
        work[name] = work_of(recorded, lambda name=name: guess(api, f"{name}@example.com"))
        work[f"{name}, too long"] = work_of(
            recorded,
            lambda name=name: guess(api, f"{name}@example.com", "x" * 100),
        )
    # The password is correct, and the account is refused for another reason.
    for name in ("banned", "unconfirmed"):
        work[f"{name}, correct"] = work_of(
            recorded,
            lambda name=name: guess(api, f"{name}@example.com", PASSWORD),
        )
    console = Console()
    work["no operator"] = work_of(recorded, lambda: console.sign_in("own@example.com"))
    work["no operator, wrong"] = work_of(recorded, lambda: console.sign_in("own@example.com", "a wrong guess"))
    expected = work["unknown"]
    assert expected["bcrypt", "04"] == 4
    assert expected["argon2id", "m=32,t=3,p=2"] == expected["fbscrypt", "n=14,r=8,p=1"] == 1
    assert {name: units for name, units in work.items() if units != expected} == {}


@pytest.mark.usefixtures("accounts", "no_request_limits")
def test_a_successful_sign_in_costs_one_comparison_and_reads_no_kinds(api: Api, recorded: RecordedMetrics) -> None:
    with CaptureQueriesContext(connection) as statements:
        work = work_of(recorded, lambda: guess(api, "own@example.com", PASSWORD))
    assert list(work.values()) == [1]
    assert "password_hash_kinds" not in str(statements.captured_queries)


@pytest.mark.usefixtures("no_request_limits")
def test_without_imported_hashes_a_refusal_costs_one_comparison(api: Api, recorded: RecordedMetrics) -> None:
    make_user(email="own@example.com")
    for name in ("own", "unknown"):
        assert list(work_of(recorded, lambda name=name: guess(api, f"{name}@example.com")).values()) == [1]


@pytest.mark.usefixtures("no_request_limits")
def test_a_kind_counts_from_its_first_account_to_its_last(api: Api, recorded: RecordedMetrics) -> None:
    def refused() -> Work:
        return work_of(recorded, lambda: guess(api, "unknown@example.com"))

    alone = refused()
    body = {"email": "new@example.com", "password_hash": bcrypt_hash(5), "email_confirm": True}
    expect_success(api, "POST", "/admin/users", body)
    with_import = refused()
    assert with_import == alone + Counter({("bcrypt", "04"): 2})
    assert guess(api, "new@example.com", PASSWORD) == 200  # stores a hash of our own instead
    hash_kinds.survey(at=timezone.now() + timedelta(hours=1), is_due=True)
    assert refused() == alone


@pytest.mark.usefixtures("no_request_limits")
def test_encrypted_and_unannounced_hashes_count_too(
    api: Api, recorded: RecordedMetrics, auth_config: ChangeConfig
) -> None:
    key = Secret("A" * 43)
    auth_config(
        database={"encrypt": True, "encryption_key": key, "encryption_key_id": "a", "decryption_keys": {"a": key}}
    )
    for costs in (4, 5):
        user = make_user(email=f"user{costs}@example.com")
        User.objects.filter(id=user.id).update(password=encryption.encrypt(bcrypt_hash(costs), bound_to=user.id))
    hash_kinds.survey(at=timezone.now())
    assert {"bcrypt 04", "bcrypt 05"} <= set(PasswordHashKind.objects.values_list("kind", flat=True))
    # A row that no import has announced is known after the first attempt.
    make_user(email="restored@example.com", password_hash=bcrypt_hash(6))
    guess(api, "restored@example.com")
    works = [
        work_of(recorded, lambda name=name: guess(api, f"{name}@example.com"))
        for name in ("unknown", "restored", "user4")
    ]
    assert works[0] == works[1] == works[2]
    assert works[0]["bcrypt", "04"] == 4


def test_the_worker_surveys_once_a_day() -> None:
    at = timezone.now()
    hash_kinds.survey(at=at)
    make_user(password_hash=bcrypt_hash(4))
    hash_kinds.survey(at=at + timedelta(hours=23))
    assert hash_kinds.remembered() == frozenset()
    hash_kinds.survey(at=at + timedelta(hours=25))
    assert {str(kind) for kind in hash_kinds.remembered()} >= {"bcrypt 04"}


def test_a_survey_is_not_repeated_after_another_process_has_just_finished_it() -> None:
    at = timezone.now()

    def finish_survey(**_: object) -> None:
        PasswordHashKind.objects.create(kind="", seen_at=at)

    make_user(password_hash=bcrypt_hash(4))
    connection_created.connect(finish_survey)  # the connection of the lock
    try:
        hash_kinds.survey(at=at)
    finally:
        connection_created.disconnect(finish_survey)
    assert PasswordHashKind.objects.count() == 1
    assert hash_kinds.remembered() == frozenset()


def test_a_costly_kind_beyond_the_limits_is_never_computed(api: Api, recorded: RecordedMetrics) -> None:
    make_user(email="own@example.com", password_hash=ARGON2ID.replace("m=32", "m=9999999"))
    hash_kinds.survey(at=timezone.now())
    work = work_of(recorded, lambda: guess(api, "unknown@example.com"))
    assert all("9999999" not in costs for _, costs in work)
