"""The providers of the hosted pages: the buttons of the sign-in, and the start of a flow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from django.core.exceptions import BadRequest
from django.http import HttpResponse

from accounts.pages.registry import ProviderButton
from authsvc import conf
from oauthproviders import registry
from oauthproviders.flow import authorize, callback
from oauthproviders.flow.authorize import FlowRequest
from oauthproviders.models import CustomProvider
from tokens.sessions.users import SignedInUser

_LABELS = {
    "azure": "Microsoft",
    "github": "GitHub",
    "gitlab": "GitLab",
    "linkedin": "LinkedIn",
    "linkedin_oidc": "LinkedIn",
    "slack_oidc": "Slack",
    "vercel_marketplace": "Vercel",
    "workos": "WorkOS",
}


@dataclass(frozen=True, slots=True)
class PageFlow:
    """A flow that a page has started."""

    url: str = field(repr=False)
    flow_id: UUID

    def set_cookies(self, response: HttpResponse) -> None:
        callback.set_flow_cookie(response, flow_id=self.flow_id)


class PageProviders:
    """Built-in providers in the order of their names, then custom ones."""

    def buttons(self) -> Sequence[ProviderButton]:
        """The enabled providers. At most one statement, for custom providers."""
        configured = conf.current().providers.items()
        enabled = [name for name, config in configured if not registry.configuration_error(name, config)]
        buttons = [ProviderButton(name, _LABELS.get(name, name.capitalize())) for name in enabled]
        if conf.current().custom_providers.enabled:
            rows = CustomProvider.objects.filter(enabled=True).order_by("name", "identifier")
            buttons += [ProviderButton(identifier, name) for identifier, name in rows.values_list("identifier", "name")]
        return buttons

    def start(
        self, name: str, *, code_challenge: str, target: str, linking_to: SignedInUser | None, at: datetime
    ) -> PageFlow:
        if "\0" in name:
            raise BadRequest  # PostgreSQL, which has the custom providers, cannot look it up
        request = FlowRequest(
            provider=name.lower(),
            scopes="",
            code_challenge=code_challenge,
            code_challenge_method="s256",
            invite_token="",
            extra={},
        )
        start = authorize.start_flow(request, target=target, linking_to=linking_to, at=at)
        return PageFlow(start.url, start.flow_id)
