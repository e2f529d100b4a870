"""The base of console pages: rows are read-only and without secrets, and actions call a service per row."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Any
from uuid import uuid4

import pytest
from django import forms
from django.db import connection
from django.db.models import BooleanField, QuerySet
from django.db.models.expressions import RawSQL
from django.http import HttpRequest
from django.test.utils import CaptureQueriesContext
from django.urls import NoReverseMatch, path, reverse
from pytest_django import Settings

from accounts.models import User
from authsvc.console.actions import ActionContext, action
from authsvc.console.model_admin import DashboardStat, OperatorAdmin
from authsvc.console.operators import Operator
from authsvc.console.site import OperatorSite
from authsvc.errors import ValidationFailed
from authsvc.models import AuditLogEntry
from authsvc.operator_access import Access
from tests import factories
from tests.authsvc.console.conftest import Console
from tests.conftest import ApiResponse

pytestmark = pytest.mark.django_db

LIST = "/operator/accounts/user/"


class ReasonForm(forms.Form):
    reason = forms.CharField()


DONE: list[tuple[Any, ActionContext]] = []


class UserPage(OperatorAdmin):
    list_display = ("id", "email", "role")
    list_filter = ("role",)
    search_fields = ("email__startswith",)
    ordering = ("-created_at", "-id")

    def display_name(self, row: User) -> str:
        return row.email or "nobody"

    actions = ("mark", "judge", "wipe")
    row_actions = ("mark", "wipe")

    @action(label="Mark", success_message="Marked")
    def mark(self, row: User, context: ActionContext) -> str | None:
        if row.email == "immune@example.com":
            raise ValidationFailed("cannot be marked")
        DONE.append((row.email, context))
        return None

    @action(label="Judge", success_message="Judged", form=ReasonForm)
    def judge(self, row: User, context: ActionContext) -> str | None:
        DONE.append((row.email, context))
        return f"Judged for {context.values['reason']}"

    @action(label="Wipe", success_message="Wiped", confirmation="Wipe it?", is_dangerous=True)
    def wipe(self, row: User, context: ActionContext) -> str | None:
        row.delete()
        return None

    def dashboard_stats(self) -> Iterator[DashboardStat]:
        yield DashboardStat(label="Wrong users", count=1, url=self.list_url(role="wrong"), is_alarming=True)


class SlowPage(UserPage):
    def get_queryset(self, request: HttpRequest) -> QuerySet[User]:
        return User.objects.filter(RawSQL("SELECT pg_sleep(60) IS NOT NULL", [], output_field=BooleanField()))


site = OperatorSite()
site.register(User, UserPage)
urlpatterns = [path("operator/", site.urls)]


Show = Callable[[type[UserPage]], None]


@pytest.fixture
def show(settings: Settings) -> Show:
    """Replace the page of users by a subclass."""

    def register(page: type[UserPage]) -> None:
        changed = OperatorSite()
        changed.register(User, page)
        settings.ROOT_URLCONF = (path("operator/", changed.urls),)

    return register


@pytest.fixture
def inside(inside: Console, settings: Settings) -> Console:
    settings.ROOT_URLCONF = __name__
    DONE.clear()
    return inside


def do(console: Console, action: str, *rows: User, **fields: Any) -> ApiResponse:
    """Run an action of the list for these rows."""
    ids: Any = [str(row.pk) for row in rows]
    return console.submit(LIST, action=action, index="0", _selected_action=ids, **fields)


def result_text(console: Console, response: ApiResponse) -> str:
    """The text of the page that an action redirects to."""
    assert response.status_code == 302, response.content
    return console.get(response.headers["Location"]).content.decode()


def test_the_list_and_a_row_are_shown(inside: Console, operator: User) -> None:
    text = inside.get(LIST).content.decode()
    assert "op@example.com" in text
    page = inside.get(f"{LIST}{operator.pk}/change/")
    assert page.status_code == 200
    text = page.content.decode()
    assert "op@example.com" in text
    assert "argon2" not in text
    assert "encrypted" not in text
    assert ">Wipe</button>" in text


def test_secret_columns_are_not_selected(inside: Console, operator: User) -> None:
    with CaptureQueriesContext(connection) as statements:
        inside.get(LIST)
        inside.get(f"{LIST}{operator.pk}/change/")
    queries = [
        statement["sql"]
        for statement in statements
        if "last_sign_in_at" in statement["sql"] and '"' in statement["sql"]
    ]
    assert queries
    assert not [sql for sql in queries if '"encrypted_password"' in sql]


@pytest.mark.parametrize(
    "query", ["password__startswith=%24argon2", "factors__secret__startswith=J", "sessions__refresh_token_hmac_key=x"]
)
def test_filters_on_secret_columns_are_rejected(inside: Console, query: str) -> None:
    page = inside.get(f"{LIST}?{query}")
    assert page.status_code == 400
    assert b"op@example.com" not in page.content


@pytest.mark.parametrize("query", ["nothing=1", "created_at__gte=x", "id__exact=x", "e=1"])
def test_an_unknown_filter_is_rejected(inside: Console, query: str) -> None:
    page = inside.get(f"{LIST}?{query}")
    if page.status_code == 302:
        page = inside.get(page.headers["Location"])
    assert page.status_code == 400
    assert b"op@example.com" not in page.content


@pytest.mark.parametrize("query", ["role=authenticated", "created_at__gte=2100-01-01T00:00:00%2B00:00", "q=nobody"])
def test_a_filter_that_matches_nothing_shows_nothing(inside: Console, query: str) -> None:
    text = inside.get(f"{LIST}?{query}").content.decode()
    assert "No matches" in text


def test_a_list_is_counted_up_to_a_limit(inside: Console) -> None:
    factories.make_plain_users(1_001)
    with CaptureQueriesContext(connection) as statements:
        text = inside.get(LIST).content.decode()
    assert "1,002 users" in text
    counts = [statement["sql"] for statement in statements if "count(" in statement["sql"].lower()]
    assert len(counts) == 1
    assert "LIMIT 10001" in counts[0]
    assert len(statements) <= 9


def test_a_longer_list_has_an_estimated_number(inside: Console, show: Show) -> None:
    class ShortListPage(UserPage):
        max_paged, max_sorted = 1_000, 1_100

    show(ShortListPage)
    factories.make_plain_users(1_234)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE users")
    text = inside.text(LIST)
    assert "about 1,240 users" in text
    assert "pages show the first 1,000" in text
    assert "?p=20" in text
    assert "?p=21" not in text
    assert inside.get(f"{LIST}?p=21").status_code == 302
    assert "cannot have this order" in inside.text(f"{LIST}?o=3")
    assert "cannot have this order" not in inside.text(f"{LIST}?role=svc_admin&o=3")


def test_many_matches_of_a_search_are_not_sorted_by_address(inside: Console, show: Show) -> None:
    class IndexedPage(UserPage):
        max_paged = max_sorted = 5
        indexed_columns = frozenset({"created_at", "email"})

    show(IndexedPage)
    factories.make_plain_users(30)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE users")
    assert "cannot have this order" in inside.text(f"{LIST}?q=user&o=2")
    for query in ("o=2", "q=user", "q=user29&o=2"):
        assert "cannot have this order" not in inside.text(f"{LIST}?{query}")


def test_an_export_has_a_limit(inside: Console, show: Show) -> None:
    class ShortExportPage(UserPage):
        max_export_rows = 2

    show(ShortExportPage)
    factories.make_plain_users(3)
    response = inside.submit(LIST, to=f"{LIST}export/?o=2")
    assert response.headers["Location"] == f"{LIST}?o=2"
    assert "more than 2 users" in inside.text(f"{LIST}?o=2")
    assert not AuditLogEntry.objects.filter(payload__action="list_exported").exists()


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("o=2", "abc"),
        ("o=-2", "cba"),
        ("o=-2.3", "cba"),
        ("o=3.2", "bac"),
        ("o=9", "cab"),
        ("o=x", "cab"),
        ("", "cab"),
    ],
)
def test_headers_sort_by_one_column(inside: Console, operator: User, query: str, expected: str) -> None:
    for name, role in (("b", "first"), ("a", "second"), ("c", "third")):
        factories.make_user(email=f"{name}@sorted.example.com", role=role)
    text = inside.text(f"{LIST}?email__endswith=@sorted.example.com&{query}")
    assert "".join(re.findall(r"([abc])@sorted\.example\.com", text.partition("<tbody>")[2])) == expected


def test_a_slow_list_is_ended(inside: Console, show: Show) -> None:
    show(SlowPage)
    page = inside.get(LIST)
    assert page.status_code == 422
    assert b"takes too long" in page.content


@pytest.mark.parametrize("name", ["add", "delete", "history"])
def test_pages_that_change_rows_do_not_exist(name: str, settings: Settings) -> None:
    settings.ROOT_URLCONF = __name__
    with pytest.raises(NoReverseMatch):
        reverse(f"admin:accounts_user_{name}", args=[] if name == "add" else [uuid4()])


def test_a_form_posted_to_a_row_page_changes_nothing(inside: Console, operator: User) -> None:
    page = f"{LIST}{operator.pk}/change/"
    assert inside.submit(page, email="evil@example.com", _save="1").status_code == 403
    operator.refresh_from_db()
    assert operator.email == "op@example.com"


def test_an_action_passes_the_operator_to_the_service(inside: Console, operator: User) -> None:
    user = factories.make_user(email="ada@example.com")
    text = result_text(inside, do(inside, "mark", user, operator))
    assert "Marked: 2 users" in text
    [(first, context), (second, _)] = DONE
    assert {first, second} == {"ada@example.com", "op@example.com"}
    assert context.actor.role == "svc_admin"
    assert context.caller.address == "127.0.0.1"
    assert context.values == {}


def test_an_error_is_shown_and_does_not_stop_the_other_rows(inside: Console) -> None:
    rows = [factories.make_user(email=f"{name}@example.com") for name in ("ada", "immune", "bob")]
    text = result_text(inside, do(inside, "mark", *rows))
    assert "cannot be marked" in text
    assert {email for email, _ in DONE} == {"ada@example.com", "bob@example.com"}


def test_a_form_is_shown_before_the_action(inside: Console) -> None:
    user = factories.make_user(email="ada@example.com")
    page = do(inside, "judge", user)
    assert page.status_code == 200
    assert b'name="action-reason"' in page.content
    assert b"<li>ada@example.com" in page.content
    assert not DONE
    unanswered = do(inside, "judge", user, confirmed="1")
    assert b"This field is required." in unanswered.content
    assert not DONE
    assert "Judged for spam" in result_text(
        inside, do(inside, "judge", user, confirmed="1", **{"action-reason": "spam"})
    )
    assert DONE[0][1].values == {"reason": "spam"}


def test_an_action_on_a_row_page_returns_to_it(inside: Console) -> None:
    user = factories.make_user()
    page = f"{LIST}{user.pk}/change/"
    response = inside.submit(page, to=LIST, action="mark", _selected_action=str(user.pk), source_row=str(user.pk))
    assert response.headers["Location"] == page
    assert len(DONE) == 1


def test_a_dangerous_action_needs_confirmation_and_returns_to_the_list(inside: Console) -> None:
    user = factories.make_user()
    page = f"{LIST}{user.pk}/change/"
    fields = {"action": "wipe", "_selected_action": str(user.pk), "source_row": str(user.pk)}
    question = inside.submit(page, to=LIST, **fields)
    assert b"Wipe it?" in question.content
    assert User.objects.filter(pk=user.pk).exists()
    assert inside.submit(page, to=LIST, confirmed="1", **fields).headers["Location"] == LIST
    assert not User.objects.filter(pk=user.pk).exists()


def test_results_of_many_rows_are_one_message_that_fits_into_the_cookie(inside: Console) -> None:
    # A cookie with one message for each of these addresses would be longer than browsers accept.
    addresses = [f"{sha256(bytes([number])).hexdigest()[:60]}@example.com" for number in range(97)]
    rows = User.objects.bulk_create(User(email=address, aud=factories.AUDIENCE) for address in addresses)
    immune = [factories.make_user(email="immune@example.com")]
    response = do(inside, "mark", *rows, *immune)
    assert len(inside.cookie()) < 4_000
    text = result_text(inside, response)
    assert "Marked: 97 users. 1 refused: cannot be marked (immune@example.com)" in text
    assert text.count('<li class="warning">') == 1
    assert '<li class="success">' not in text


def do_list(console: Console, query: str, action: str, **fields: Any) -> list[ApiResponse]:
    """Run an action on a whole list with the buttons of each page that follows, and return all responses."""
    responses = []
    form: dict[str, Any] = {"action": action, "select_across": "1", **fields}
    while True:
        responses.append(console.submit(LIST, to=f"{LIST}{query}", **form))
        results = re.search(rb'name="results" value="([^"]+)"', responses[-1].content)
        if results is None:
            return responses
        form = {**form, "confirmed": "1", "results": results[1].decode()}


def test_an_action_runs_on_a_whole_list_in_batches(inside: Console) -> None:
    factories.make_plain_users(205)
    factories.make_user(email="immune@example.com")
    User.objects.filter(email="immune@example.com").update(role=None)
    confirmation, *batches, end = do_list(inside, "?role__isnull=True", "mark")
    assert "all 206 users of the list" in confirmation.content.decode()
    assert [re.findall(r"(\d+) of 206", page.content.decode())[0] for page in batches] == ["100", "200"]
    assert end.headers["Location"] == f"{LIST}?role__isnull=True"
    assert "Marked: 205 users. 1 refused: cannot be marked (immune@example.com)" in result_text(inside, end)
    assert len({email for email, _ in DONE}) == 205
    assert "op@example.com" not in {email for email, _ in DONE}


def test_an_action_on_a_list_keeps_its_form_and_leaves_out_later_rows(inside: Console) -> None:
    factories.make_plain_users(101)
    confirmation = inside.submit(LIST, to=LIST, action="judge", select_across="1")
    results = re.search(rb'name="results" value="([^"]+)"', confirmation.content)
    assert results
    later = factories.make_user(email="later@example.com")
    form = {"action": "judge", "select_across": "1", "confirmed": "1", "results": results[1].decode()}
    assert b"This field is required." in inside.submit(LIST, to=LIST, **form).content
    page = inside.submit(LIST, to=LIST, **form, **{"action-reason": "spam"})
    assert b'name="action-reason" value="spam"' in page.content
    results = re.search(rb'name="results" value="([^"]+)"', page.content)
    assert results
    form["results"] = results[1].decode()
    end = inside.submit(LIST, to=LIST, **form, **{"action-reason": "spam"})
    assert "Judged: 102 users" in result_text(inside, end)
    assert later.email not in {email for email, _ in DONE}


def test_an_action_on_a_list_has_no_more_rows_than_the_operator_has_confirmed(inside: Console) -> None:
    factories.make_plain_users(2)
    query = "?role__isnull=True"
    confirmation = inside.submit(LIST, to=f"{LIST}{query}", action="mark", select_across="1")
    results = re.search(rb'name="results" value="([^"]+)"', confirmation.content)
    assert results
    User.objects.update(role=None)
    factories.make_user(email="op@example.net", role="svc_admin")
    inside.sign_in("op@example.net")
    form = {"action": "mark", "select_across": "1", "confirmed": "1", "results": results[1].decode()}
    end = inside.submit(LIST, to=f"{LIST}{query}", **form)
    assert "Marked: 2 users" in result_text(inside, end)
    assert len(DONE) == 2


def test_an_action_on_a_slow_list_is_ended(inside: Console, show: Show) -> None:
    form = {"action": "mark", "select_across": "1"}
    confirmation = inside.submit(LIST, to=LIST, **form)
    results = re.search(rb'name="results" value="([^"]+)"', confirmation.content)
    assert results
    show(SlowPage)
    for further in ({}, {"confirmed": "1", "results": results[1].decode()}):
        assert inside.submit("/operator/", to=LIST, **form, **further).status_code == 422
    assert not DONE


def test_an_action_on_a_list_can_be_stopped(inside: Console) -> None:
    factories.make_plain_users(150)
    page = inside.submit(LIST, to=LIST, action="mark", select_across="1")
    for stop in ({}, {"stop": "1"}):
        results = re.search(rb'name="results" value="([^"]+)"', page.content)
        assert results
        form = {"action": "mark", "select_across": "1", "confirmed": "1", "results": results[1].decode()}
        page = inside.submit(LIST, to=LIST, **form, **stop)
    assert "Marked: 100 users. Stopped: 51 users left" in result_text(inside, page)
    assert len(DONE) == 100


def test_an_action_on_a_list_has_a_limit(inside: Console, show: Show) -> None:
    class ShortActionPage(UserPage):
        max_list_rows = 3

    show(ShortActionPage)
    factories.make_plain_users(3)
    [refused] = do_list(inside, "", "mark")
    assert "more than 3 users" in result_text(inside, refused)
    assert not DONE
    assert "Marked: 3 users" in result_text(inside, do_list(inside, "?role__isnull=True", "mark")[-1])


@pytest.mark.parametrize("results", ["", "x", "e30:1:x"])
def test_forged_results_are_rejected(inside: Console, results: str) -> None:
    form = {"action": "mark", "select_across": "1", "confirmed": "1", "results": results}
    assert inside.submit(LIST, to=LIST, **form).status_code == 400
    assert not DONE


@pytest.mark.parametrize("action", ["mark", "judge", "wipe"])
def test_an_action_on_a_missing_row_does_nothing(inside: Console, action: str) -> None:
    missing_id = str(uuid4())
    response = inside.submit(LIST, action=action, index="0", _selected_action=missing_id)
    assert "no longer exist" in result_text(inside, response)
    assert inside.submit(LIST, action=action, index="0", _selected_action="no id").status_code == 400
    assert not DONE


def test_an_action_needs_a_csrf_token(inside: Console, operator: User) -> None:
    response: Any = inside.client.post(LIST, {"action": "mark", "index": "0", "_selected_action": str(operator.pk)})
    assert response.status_code == 403
    assert not DONE


def test_a_demoted_operator_loses_access(inside: Console, operator: User) -> None:
    page = inside.get(LIST)
    assert page.status_code == 200
    token = inside.cookie("operator_csrf")
    User.objects.filter(pk=operator.pk).update(role="authenticated")
    fields = {"action": "mark", "index": "0", "_selected_action": str(operator.pk), "csrfmiddlewaretoken": token}
    response: Any = inside.client.post(LIST, fields)
    assert response.status_code == 302
    assert response.headers["Location"].startswith("/operator/login/")
    assert not DONE


def test_the_dashboard_shows_the_stats_of_lists(inside: Console) -> None:
    text = inside.get().content.decode()
    assert "Wrong users" in text
    assert f'href="{LIST}?role=wrong"' in text
    assert "alarming" in text


def test_models_of_libraries_are_not_registered() -> None:
    own = OperatorSite()
    own.register(User)
    assert not own.is_registered(User)
    own.register(User, UserPage)
    assert own.is_registered(User)


def test_operators_have_no_django_permissions() -> None:
    someone = Operator(id=uuid4(), session_id=uuid4(), role="svc_admin", access=Access.ADMIN, name="op@example.com")
    assert not someone.has_perm("accounts.change_user")
    assert not someone.has_module_perms("accounts")
    assert someone.is_staff
