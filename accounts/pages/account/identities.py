"""Identities: the linked sign-in methods of the user, linking another one at a provider, and unlinking."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from uuid import UUID

from django import forms
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from accounts.identities import errors, linking
from accounts.pages import destinations, registry
from accounts.pages.account.account_page import AccountPage, AccountRowPage, QuestionPage, format_day
from accounts.pages.error_texts import text_of_code
from accounts.pages.providers import leave
from accounts.users.records import IdentityRecord
from authsvc import conf
from authsvc.api.throttling import Bucket
from authsvc.errors import ApiError
from authsvc.security import crypto
from tokens.flows import flow_states

_VERIFIER = "link_verifier"
"""Name of the cookie's value with the PKCE verifier of the flow that links an identity."""
_NOT_LINKED = _("The account was not linked.")
_OWN_PROVIDERS: dict[str, Promise] = {"email": _("Email address"), "phone": _("Phone number")}


@dataclass(frozen=True, slots=True)
class _Row:
    id: str
    label: str
    address: str
    last_used: str


def can_link() -> bool:
    return conf.current().signup.manual_linking_enabled


class IdentitiesPage(AccountPage):
    template = "pages/account/identities.html"
    title = _("Linked accounts")
    text = _("You can sign in with each of these.")
    bucket = Bucket.AUTHORIZE
    back = "pages:identities"

    def get_context(self) -> dict[str, Any]:
        return {
            **super().get_context(),
            "identities": [_row(identity, phone=self.user.phone) for identity in self.user.identities],
            "can_unlink": can_link() and len(self.user.identities) > 1,
            "providers": registry.providers.buttons() if can_link() and registry.providers else [],
        }

    def submit(self, form: forms.Form) -> HttpResponse:
        """Lead the browser to the chosen provider."""
        if not can_link() or registry.providers is None:
            raise errors.ManualLinkingDisabled
        verifier = secrets.token_urlsafe(48)
        flow = registry.providers.start(
            self.request.POST.get("provider", ""),
            code_challenge=crypto.base64url_encode(hashlib.sha256(verifier.encode()).digest()),
            target=destinations.absolute(reverse("pages:identity_linked"), request=self.request),
            linking_to=self.current,
            at=self.at,
        )
        self.request.session[_VERIFIER] = verifier
        return leave(self, flow)


class IdentityLinkedPage(AccountPage):
    """The page to which the browser returns from the provider, with a code or an error in the URL."""

    http_method_names = ["get", "head"]
    back = "pages:identities"

    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        verifier = request.session.pop(_VERIFIER, "")
        code = request.GET.get("code", "")
        if not code:
            return self.refuse(text_of_code(request.GET.get("error_code", "")) or _NOT_LINKED)
        try:
            provider = flow_states.complete_linking(auth_code=code, verifier=verifier, user_id=self.user.id, at=self.at)
        except ApiError as error:
            return self.refuse(text_of_code(error.error_code) or _NOT_LINKED)
        return self.done(gettext("Linked: %(provider)s") % {"provider": provider_label(provider)})


class IdentityRemovalPage(QuestionPage, AccountRowPage):
    title = _("Unlink account")
    button = _("Unlink")
    bucket = Bucket.USER
    back = "pages:identities"

    @cached_property
    def row(self) -> IdentityRecord:
        if not can_link():
            raise Http404
        identity_id = str(self.kwargs["identity_id"])
        for identity in self.user.identities:
            if identity.id == identity_id:
                return identity
        raise errors.IdentityNotFound

    def get_context(self) -> dict[str, Any]:
        text = gettext("You can no longer sign in with %(name)s.") % {"name": provider_label(self.row.provider)}
        return {**super().get_context(), "text": text}

    def submit(self, form: forms.Form) -> HttpResponse:
        label = provider_label(self.row.provider)
        identity_id = UUID(self.row.id)
        try:
            linking.unlink(self.current, self.user, identity_id=identity_id, caller=self.caller, at=self.at)
        except errors.AddressChangeNeedsProof as error:
            problem = _("Change your email address first: the present one belongs to this account.")
            return self.show(form, status=error.status, problem=problem)
        except errors.LastContactNeedsProof as error:
            problem = _("Add another email address or phone number first: your account has no other one.")
            return self.show(form, status=error.status, problem=problem)
        return self.done(gettext("Unlinked: %(name)s") % {"name": label})


def provider_label(name: str) -> str:
    """The name of a provider as pages show it. At most one statement."""
    if name in _OWN_PROVIDERS:
        return str(_OWN_PROVIDERS[name])
    buttons = registry.providers.buttons() if registry.providers else ()
    return next((button.label for button in buttons if button.name == name), name)


def _row(identity: IdentityRecord, *, phone: str | None) -> _Row:
    address = f"+{phone}" if identity.provider == "phone" and phone else identity.email
    return _Row(
        id=identity.id,
        label=provider_label(identity.provider),
        address=address or "",
        last_used=format_day(identity.last_sign_in_at),
    )
