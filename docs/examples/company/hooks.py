"""Adds the plan of the user to access tokens."""

from hooks.api import AccessTokenAnswer, AccessTokenPayload, HookEvent


def add_plan(event: HookEvent[AccessTokenPayload]) -> AccessTokenAnswer:
    claims = event.payload["claims"]
    plan = claims["app_metadata"].get("plan", "free")
    return {"claims": {**claims, "plan": plan}}
