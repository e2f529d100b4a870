"""Accepts sign-ups with an address of the company only."""

from hooks.api import HookEvent, HookRejection, UserPayload


def require_company_address(event: HookEvent[UserPayload]) -> None:
    if not str(event.payload["user"].get("email") or "").endswith("@example.com"):
        raise HookRejection("Sign up with your address at example.com.", http_code=403)
