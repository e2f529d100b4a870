"""One user from sign-up to logout, through the API only."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlsplit

import pytest

from tests.conftest import Api, Mailbox

EMAIL, PASSWORD = "ada@example.com", "correct horse 1"


def _target(link: str) -> str:
    parts = urlsplit(link)
    return f"{parts.path}?{parts.query}"


@pytest.mark.django_db
def test_sign_up_confirm_sign_in_refresh_recover_and_logout(api: Api, mailbox: Mailbox) -> None:
    # Sign up: a user, but no session before the address is confirmed.
    made = api.post("/signup", {"email": EMAIL, "password": PASSWORD, "data": {"name": "Ada"}})
    assert made.status_code == 200
    assert "access_token" not in made.json()
    user_id = made.json()["id"]
    credentials = {"email": EMAIL, "password": PASSWORD}
    assert api.post("/token?grant_type=password", credentials).json()["error_code"] == "email_not_confirmed"

    # Confirm: the link of the only email redirects to the site with a session, once.
    [confirmation] = mailbox.emails
    assert (confirmation.type, confirmation.to) == ("confirmation", EMAIL)
    link = _target(confirmation.variables["ConfirmationURL"])
    landed = urlsplit(api.get(link).headers["Location"])
    session = dict(parse_qsl(landed.fragment))
    assert (landed.netloc, session["type"]) == ("localhost:3000", "signup")
    assert "error_code=otp_expired" in api.get(link).headers["Location"]

    # The access token of the link works, and so does one of a password sign-in.
    user = api.get("/user", bearer=session["access_token"]).json()
    assert (user["id"], user["email"], user["user_metadata"]["name"]) == (user_id, EMAIL, "Ada")
    signed_in = api.post("/token?grant_type=password", credentials).json()
    assert signed_in["user"]["id"] == user_id

    # Refresh: the new refresh token works.
    refreshed = api.post("/token?grant_type=refresh_token", {"refresh_token": signed_in["refresh_token"]}).json()
    assert refreshed["refresh_token"] != signed_in["refresh_token"]
    assert api.get("/user", bearer=refreshed["access_token"]).status_code == 200

    # Recovery: the code in the email starts a third session.
    mailbox.clear()
    assert api.post("/recover", {"email": EMAIL}).status_code == 200
    [recovery] = mailbox.emails
    code = recovery.variables["Token"]
    recovered = api.post("/verify", {"type": "recovery", "email": EMAIL, "token": code}).json()
    assert recovered["user"]["id"] == user_id

    # A global logout ends all three sessions.
    assert api.post("/logout", bearer=recovered["access_token"]).status_code == 204
    for token in (session["access_token"], refreshed["access_token"], recovered["access_token"]):
        gone = api.get("/user", bearer=token)
        assert (gone.status_code, gone.json()["error_code"]) == (403, "session_not_found")
    late = api.post("/token?grant_type=refresh_token", {"refresh_token": refreshed["refresh_token"]})
    assert (late.status_code, late.json()["error_code"]) == (400, "refresh_token_not_found")
