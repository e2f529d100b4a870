"""Adds the plan of the user to access tokens."""

from hooks.api import AccessTokenPayload, AccessTokenResponse, HookEvent


def add_plan(event: HookEvent[AccessTokenPayload]) -> AccessTokenResponse:
    claims = event.payload["claims"]
    plan = claims["app_metadata"].get("plan", "free")
    return {"claims": {**claims, "plan": plan}}
