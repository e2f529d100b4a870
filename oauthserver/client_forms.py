"""Forms of the console about clients."""

from __future__ import annotations

from typing import Any

import orjson
from django import forms

from oauthserver.clients.client_metadata import (
    AUTHORIZATION_CODE,
    CLIENT_CREDENTIALS,
    DEVICE_CODE,
    REFRESH_TOKEN,
    ClientRegistration,
    ClientUpdate,
    type_of,
)
from oauthserver.models import AuthMethod, OAuthClient

_METHODS = {
    AuthMethod.BASIC.value: "confidential, HTTP Basic",
    AuthMethod.POST.value: "confidential, secret in the body",
    AuthMethod.PRIVATE_KEY_JWT.value: "confidential, with a key of its own (private_key_jwt)",
    AuthMethod.NONE.value: "public, without a secret",
}
_GRANTS = {
    "signs_in_users": (AUTHORIZATION_CODE, REFRESH_TOKEN),
    "uses_device_codes": (DEVICE_CODE, REFRESH_TOKEN),
    "acts_for_itself": (CLIENT_CREDENTIALS,),
}
"""Field → grant types that it permits."""


class LinesField(forms.CharField):
    """Texts, one in each line."""

    def __init__(self, *, rows: int, **options: Any) -> None:
        widget = forms.Textarea(attrs={"rows": rows, "spellcheck": "false", "autocapitalize": "none"})
        super().__init__(required=False, widget=widget, **options)

    def has_changed(self, initial: Any, data: Any) -> bool:
        return _lines(initial or "") != _lines(data or "")  # browsers change the ends of lines


class RegistrationForm(forms.Form):
    client_name = forms.CharField(
        label="Name", required=False, help_text="Users see it when the client asks for access."
    )
    redirect_uris = LinesField(
        label="Redirect URIs",
        rows=3,
        help_text="One in each line, as the client sends them. On http://localhost and 127.0.0.1, any port matches.",
    )
    token_endpoint_auth_method = forms.ChoiceField(
        label="Type",
        choices=list(_METHODS.items()),
        help_text="Public: apps on devices and in browsers, which cannot keep a secret.",
    )
    client_uri = forms.CharField(label="Home page", required=False)
    post_logout_redirect_uris = LinesField(
        label="Redirect URIs after logout",
        rows=2,
        help_text="One in each line. Where the browser may continue when the client signs the user out.",
    )
    backchannel_logout_uri = forms.CharField(
        label="Back-channel logout (URL)",
        required=False,
        help_text="Receives a logout token when a session of the client ends.",
    )
    logo_uri = forms.CharField(label="Logo (URL)", required=False)
    jwks = forms.CharField(
        label="Public keys",
        required=False,
        widget=forms.Textarea(attrs={"rows": 3, "spellcheck": "false", "autocapitalize": "none"}),
        help_text="A JSON Web Key Set, for private_key_jwt; or else their URL.",
    )
    jwks_uri = forms.CharField(
        label="URL of the public keys", required=False, help_text="https, on a public host. Fetched when it is needed."
    )
    signs_in_users = forms.BooleanField(label_suffix="", label="Signs users in", required=False, initial=True)
    uses_device_codes = forms.BooleanField(
        label_suffix="", label="Signs users in on devices without a browser", required=False
    )
    acts_for_itself = forms.BooleanField(
        label_suffix="",
        label="Acts for itself, without a user",
        required=False,
        help_text="A confidential client gets access tokens with its credentials alone (client_credentials).",
    )
    scope = forms.CharField(
        label="Scopes of its own", required=False, help_text="Separated by spaces; your APIs define and check them."
    )
    resource = forms.CharField(
        label="Resource",
        required=False,
        help_text="The URI of the API that this client operates. It can introspect access tokens for it.",
    )
    require_pushed_authorization_requests = forms.BooleanField(
        label_suffix="", label="Must push authorization requests (PAR)", required=False
    )

    def clean_jwks(self) -> dict[str, Any] | None:
        text = self.cleaned_data["jwks"].strip()
        if not text:
            return None
        try:
            keys = orjson.loads(text)
        except orjson.JSONDecodeError:
            raise forms.ValidationError("Enter valid JSON.") from None
        if not isinstance(keys, dict):
            raise forms.ValidationError("Enter a JSON Web Key Set.")
        return keys

    def clean(self) -> dict[str, Any]:
        if not any(self.cleaned_data.get(name) for name in _GRANTS):
            raise forms.ValidationError("Select at least one way in which the client gets tokens.")
        return self.cleaned_data

    def registration(self) -> ClientRegistration:
        """The metadata of a valid form."""
        values = {name: value for name, value in self.cleaned_data.items() if name not in _GRANTS}
        grant_types = dict.fromkeys(
            grant for name, grants in _GRANTS.items() if self.cleaned_data[name] for grant in grants
        )
        lists = {name: _lines(values[name]) for name in ("redirect_uris", "post_logout_redirect_uris")}
        return ClientRegistration(**{**values, **lists, "grant_types": list(grant_types)})


class ClientEditForm(RegistrationForm):
    """The metadata of a client, whose type cannot be changed.

    The values that the operator saw come back in hidden fields, so that those that others change meanwhile are kept.
    """

    def __init__(self, data: Any, *, client: OAuthClient) -> None:
        super().__init__(data, initial=_initial(client))
        self._client = client
        for field in self.fields.values():
            field.show_hidden_initial = True
        methods = [(method, label) for method, label in _METHODS.items() if type_of(method) == client.client_type]
        self.fields["token_endpoint_auth_method"].choices = methods  # type: ignore[attr-defined]  # of a ChoiceField

    def clean(self) -> dict[str, Any]:
        if not self.changed_data:
            raise forms.ValidationError("No value has changed.")
        return super().clean()

    def changes(self) -> ClientUpdate:
        """The values of a valid form that the operator has changed."""
        typed = self.registration()
        values = {name: getattr(typed, name) for name in self.changed_data if name not in _GRANTS}
        if len(values) < len(self.changed_data):
            values["grant_types"] = self._grant_types()
        # The absence of a value is no change; an empty key set removes the keys.
        return ClientUpdate(**{name: {} if value is None else value for name, value in values.items()})

    def _grant_types(self) -> list[str]:
        """Those that the client has now, with the changes of the operator."""
        permitted = dict.fromkeys(self._client.grant_type_list)
        for name, grants in _GRANTS.items():
            if name not in self.changed_data:
                continue
            if self.cleaned_data[name]:
                permitted |= dict.fromkeys(grants)
            else:
                permitted.pop(grants[0], None)
        if not any(REFRESH_TOKEN in grants and grants[0] in permitted for grants in _GRANTS.values()):
            permitted.pop(REFRESH_TOKEN, None)
        return list(permitted)


def _initial(client: OAuthClient) -> dict[str, Any]:
    names = (name for name in RegistrationForm.base_fields if name not in _GRANTS)
    return {
        **{name: getattr(client, name) for name in names},
        "redirect_uris": "\n".join(client.redirect_uri_list),
        "post_logout_redirect_uris": "\n".join(client.post_logout_redirect_uri_list),
        **{name: grants[0] in client.grant_type_list for name, grants in _GRANTS.items()},
    }


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]
