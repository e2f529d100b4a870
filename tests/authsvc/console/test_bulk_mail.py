"""Messages to several users in the console: the cost comes first, jobs send them, and one message reports them."""

from __future__ import annotations

import html
import re
from datetime import timedelta

import pytest
from django.utils import timezone

from accounts.administration import bulk_messages
from accounts.models import User
from authsvc import jobs, messaging
from authsvc.conf import Rate
from authsvc.messaging import Sender
from authsvc.models import AuditLogEntry, RateLimit
from tests import factories
from tests.accounts.administration.test_bulk_messages import queued
from tests.authsvc.console.conftest import USERS, Console
from tests.conftest import ChangeConfig, Mailbox

pytestmark = pytest.mark.django_db

INVITE = f"{USERS}invite/"


def post(console: Console, action: str, *users: User, whole_list: bool = False, **fields: str) -> str:
    """Choose an action for ticked users or the whole list, and return the page that follows."""
    token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', console.text(USERS))
    assert token
    form = {
        "csrfmiddlewaretoken": token[1],
        "action": action,
        "_selected_action": [str(user.pk) for user in users],
        "select_across": "1" if whole_list else "0",
        **fields,
    }
    response = console.client.post(USERS, form)
    if response.status_code == 302:
        return console.text(response.headers["Location"])
    return html.unescape(response.content.decode())


def costs(page: str) -> dict[str, str]:
    return dict(re.findall(r"<dt>([^<]+)</dt><dd>([^<]+)</dd>", page))


def hidden(page: str, name: str) -> str:
    [value] = re.findall(rf'name="{name}" value="([^"]*)"', page)
    return str(value)


def make_recipients() -> list[User]:
    """Two recipients, and three users who get no message."""
    at = timezone.now()
    return [
        factories.make_user(email="ada@example.com"),
        factories.make_user(email="bob@example.com"),
        factories.make_user(email="eve@example.com", banned_until=at + timedelta(days=1)),
        factories.make_user(email="gone@example.com", deleted_at=at),
        User.objects.create(phone="491700000001", aud="authenticated", created_at=at),
    ]


@pytest.mark.parametrize("action", ["send_recovery", "send_magic_link"])
@pytest.mark.parametrize("whole_list", [False, True])
def test_the_cost_is_shown_first_and_jobs_send_the_messages(
    inside: Console, mailbox: Mailbox, auth_config: ChangeConfig, action: str, whole_list: bool
) -> None:
    auth_config(limits={"email_sent": Rate(events=0)})  # of clients and administrators
    users = make_recipients()
    page = post(inside, action, *users, whole_list=whole_list)
    shown = costs(page)
    assert shown["Recipients"] == "2 by email"
    assert shown["Skipped"].startswith(f"{4 if whole_list else 3}: 1 × This account has no email address")
    assert "1 × This user is banned; 1 × This user is deleted" in shown["Skipped"]
    assert ("1 × Your own account is changed by another operator" in shown["Skipped"]) == whole_list
    assert shown["Quota of operators"].startswith("1,000 left now. The limit is 1,000 an hour")
    assert shown["Time to deliver"].startswith("All are sent now")
    assert not queued()

    extra = {"results": hidden(page, "results")} if whole_list else {}
    done = post(inside, action, *users, whole_list=whole_list, confirmed="1", reason="leak", **extra)
    noun = "Recovery email" if action == "send_recovery" else "Magic link"
    assert f"{noun} queued: 2 users. {4 if whole_list else 3} refused: " in done
    assert not mailbox.emails
    for _, _, arguments in queued():
        bulk_messages.send.function(jobs.Run(attempt=1, retry_delay=None), **arguments)
    assert {email.to for email in mailbox.emails} == {"ada@example.com", "bob@example.com"}
    assert {email.is_bulk for email in mailbox.emails} == {True}
    entries = AuditLogEntry.objects.filter(payload__action="user_recovery_requested", payload__reason="leak")
    assert entries.count() == 2
    assert not RateLimit.objects.filter(bucket__in=["email_sent", "email_sent:administration"]).exists()


def test_a_batch_that_is_sent_again_queues_the_same_message(inside: Console, mailbox: Mailbox) -> None:
    users = make_recipients()
    page = post(inside, "send_recovery", *users, whole_list=True)
    for _ in range(2):
        post(inside, "send_recovery", whole_list=True, confirmed="1", reason="leak", results=hidden(page, "results"))
        for _, _, arguments in queued():
            bulk_messages.send.function(jobs.Run(attempt=1, retry_delay=None), **arguments)
    assert sorted(email.to for email in mailbox.emails) == ["ada@example.com", "bob@example.com"]


def test_messages_beyond_the_quota_are_delivered_later(inside: Console, auth_config: ChangeConfig) -> None:
    auth_config(limits={"operator_messages": Rate(events=2)})
    users = [factories.make_user(confirmed=False) for _ in range(6)]
    page = post(inside, "resend_confirmation", *users)
    assert costs(page)["Time to deliver"].startswith("The quota permits 2 now, the others follow as it permits: ")
    assert "about 2 hours" in costs(page)["Time to deliver"]
    post(inside, "resend_confirmation", *users, confirmed="1")
    hours = [run_at and round((run_at - timezone.now()) / timedelta(hours=1)) for _, run_at, _ in queued()]
    assert hours == [None, None, 1, 1, 2, 2]
    assert costs(post(inside, "send_recovery", *users))["Quota of operators"].startswith(
        "0 left now, 6 earlier messages are waiting. The limit is 2 an hour"
    )


def test_a_message_to_one_user_is_sent_at_once(inside: Console, mailbox: Mailbox) -> None:
    ada = factories.make_user(email="ada@example.com")
    assert "Recovery email sent to ada@example.com" in post(inside, "send_recovery", ada)
    assert [email.is_bulk for email in mailbox.emails] == [False]
    assert not queued()


def test_a_quota_of_zero_is_stated_and_queues_nothing(inside: Console, auth_config: ChangeConfig) -> None:
    auth_config(limits={"operator_messages": Rate(events=0)})
    users = [factories.make_user() for _ in range(2)]
    assert "AUTH_RATE_LIMIT_OPERATOR_MESSAGES is 0" in costs(post(inside, "send_recovery", *users))["Time to deliver"]
    assert "2 refused: email rate limit exceeded" in post(inside, "send_recovery", *users, confirmed="1")
    assert not queued()


def test_several_users_are_invited_after_the_cost_is_shown(inside: Console, mailbox: Mailbox) -> None:
    text = "eve@example.com, bob@example.com\nEVE@example.com  op@example.com"
    shown = inside.submit(INVITE, email=text)
    page = html.unescape(shown.content.decode())
    assert costs(page)["Recipients"] == "3 by email"
    assert costs(page)["Time to deliver"].startswith("All are sent now")
    assert not mailbox.emails
    done = inside.submit(INVITE, email=text, shown_cost=hidden(page, "shown_cost"))
    page = html.unescape(done.content.decode())
    assert "Invited: 2 users. 1 refused: A user with this email address has already been registered" in page
    assert re.search(r'name="email"[^>]*>\s*op@example.com</textarea>', page)
    assert {(email.to, email.is_bulk) for email in mailbox.emails} == {
        ("eve@example.com", True),
        ("bob@example.com", True),
    }


def test_changed_addresses_show_their_cost_again(inside: Console, mailbox: Mailbox, auth_config: ChangeConfig) -> None:
    auth_config(limits={"operator_messages": Rate(events=1), "email_sent": Rate(events=0)})
    page = inside.submit(INVITE, email="a@example.com b@example.com").content.decode()
    page = inside.submit(
        INVITE, email="a@example.com c@example.com", shown_cost=hidden(page, "shown_cost")
    ).content.decode()
    assert "The quota permits 1 now. Invite the others" in costs(page)["Time to deliver"]
    assert not mailbox.emails
    page = inside.submit(
        INVITE, email="a@example.com c@example.com", shown_cost=hidden(page, "shown_cost")
    ).content.decode()
    assert "Invited: 1 user. 1 refused: email rate limit exceeded (c@example.com)" in page


def test_too_many_addresses_are_refused(inside: Console, mailbox: Mailbox) -> None:
    text = " ".join(f"u{number}@example.com" for number in range(101))
    refused = inside.submit(INVITE, email=text)
    assert refused.status_code == 400
    assert "Enter one to 100 email addresses." in refused.content.decode()
    assert inside.submit(INVITE, email=" ,; ").status_code == 400
    assert not mailbox.emails


def test_clients_do_not_use_the_quota_of_operators(inside: Console, auth_config: ChangeConfig) -> None:
    auth_config(limits={"operator_messages": Rate(events=2), "email_sent": Rate(events=40)})
    for sender in (Sender(("192.0.2.1",)), messaging.ADMINISTRATION):
        messaging.consume_email_quota(sender)
    users = [factories.make_user() for _ in range(2)]
    assert costs(post(inside, "send_recovery", *users))["Quota of operators"].startswith("2 left now.")
