"""Forms of the console that create and edit custom providers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from django import forms

from accounts.admin.forms import JSONObjectField
from oauthproviders.custom import provider
from oauthproviders.custom.definitions import ProviderDefinition
from oauthproviders.models import CustomProvider, ProviderType


class ListField(forms.CharField):
    """A list of texts; `separator` is a space for words, or a line break for values that may contain spaces."""

    def __init__(self, *, separator: str, **options: Any) -> None:
        self._separator = separator
        widget = forms.TextInput() if separator == " " else forms.Textarea(attrs={"rows": 3})
        widget.attrs |= {"spellcheck": "false", "autocapitalize": "none"}
        super().__init__(required=False, widget=widget, **options)

    def prepare_value(self, value: Any) -> Any:
        return self._separator.join(map(str, value)) if isinstance(value, list) else value

    def to_python(self, value: Any) -> Any:
        text = super().to_python(value) or ""
        parts = text.split() if self._separator == " " else text.splitlines()
        return [part.strip() for part in parts if part.strip()]

    def run_validators(self, value: list[str]) -> None:
        super().run_validators("\n".join(value))


def _text(label: str, **options: Any) -> forms.CharField:
    widget = forms.TextInput(attrs={"spellcheck": "false", "autocapitalize": "none", "autocomplete": "off"})
    # The service reports missing values and wrong URLs with the texts of the API.
    return forms.CharField(label=label, required=False, widget=widget, **options)


def _url_field(label: str, **options: Any) -> forms.CharField:
    field = _text(label, **options)
    field.widget.attrs["inputmode"] = "url"
    return field


class ProviderForm(forms.Form):
    """The values of a custom provider. Subclasses have the URLs of one type."""

    provider_type: ClassVar[ProviderType]
    titles: ClassVar[Sequence[tuple[str, tuple[str, ...]]]]
    """The groups of fields with their titles."""

    identifier = _text(
        "Identifier",
        initial=provider.PREFIX,
        help_text="The parameter provider of requests, for example custom:corp. It cannot be changed later.",
    )
    name = _text("Name")
    client_id = _text("Client ID")
    client_secret = forms.CharField(
        label="Client secret",
        required=False,
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )
    scopes = ListField(
        label="Scopes", separator=" ", help_text="Separated by spaces, for example: openid email profile"
    )
    pkce_enabled = forms.BooleanField(label_suffix="", label="Use PKCE (S256)", required=False, initial=True)
    email_optional = forms.BooleanField(
        label_suffix="", label="Users without an email address may sign in", required=False
    )
    enabled = forms.BooleanField(
        label_suffix="", label="Enabled: users can sign in through this provider", required=False, initial=True
    )
    authorization_params = JSONObjectField(
        label="Further parameters of the authorization URL (JSON)", help_text='For example {"prompt": "login"}'
    )
    attribute_mapping = JSONObjectField(
        label="Attribute mapping (JSON)",
        help_text='Claim to set → claim to read: {"name": "nickname"}. Other values than texts are constants.',
    )
    custom_claims_allowlist = ListField(
        label="Further claims to store", separator="\n", help_text="One claim in each line, stored as custom_claims."
    )

    def __init__(self, *args: Any, row: CustomProvider | None = None, **options: Any) -> None:
        """`row`: the provider to edit; None for a new one."""
        if row is not None:
            options["initial"] = {name: getattr(row, name) for name in self.base_fields if name != "client_secret"}
        super().__init__(*args, **options)
        self.row = row
        if row is None:
            return
        for name in ("identifier", "enabled"):
            del self.fields[name]
        self.fields["client_secret"].help_text = "Leave empty to keep the stored secret, which is never shown."
        for name, field in self.fields.items():
            # Only what the operator changed is stored, so that changes of others in the meantime stay.
            field.show_hidden_initial = name != "client_secret"

    def groups(self) -> Iterator[tuple[str, list[forms.BoundField]]]:
        for title, names in self.titles:
            yield title, [self[name] for name in names if name in self.fields]

    @property
    def changed_values(self) -> dict[str, Any]:
        """The values to store: those that the operator changed; of a new provider all."""
        names = self.fields if self.row is None else self.changed_data
        return {name: self.cleaned_data[name] for name in names}

    def definition(self) -> ProviderDefinition:
        values = self.changed_values
        if self.row is None:
            values |= {"provider_type": self.provider_type.value}
        return ProviderDefinition(**values)

    @property
    def resets_discovery_url(self) -> bool:
        return self.row is not None and self.changed_values.get("discovery_url") == ""

    @property
    def has_new_urls(self) -> bool:
        """True if the client secret would be sent to another server than that of the stored values."""
        return not {"issuer", "discovery_url", "token_url"}.isdisjoint(self.changed_values)

    def emptied_values(self) -> list[str]:
        """Names of required values that the operator removed."""
        required = ("name", "client_id", "issuer", "authorization_url", "token_url", "userinfo_url")
        return [name for name in required if self.changed_values.get(name) == ""]


_CLAIMS = ("Profile", ("email_optional", "attribute_mapping", "custom_claims_allowlist"))


class OpenIdConnectForm(ProviderForm):
    provider_type = ProviderType.OIDC
    titles = (
        ("Provider", ("identifier", "name", "issuer", "discovery_url", "enabled")),
        ("Client", ("client_id", "client_secret", "acceptable_client_ids", "scopes", "pkce_enabled",
                    "authorization_params", "skip_nonce_check")),
        _CLAIMS,
    )  # fmt: skip

    issuer = _url_field("Issuer", help_text="Exactly as the provider writes it in its discovery document.")
    discovery_url = _url_field(
        "URL of the discovery document", help_text="Leave empty for the issuer + /.well-known/openid-configuration"
    )
    acceptable_client_ids = ListField(
        label="Further client IDs",
        separator="\n",
        help_text="One in each line. ID tokens for these clients, such as mobile apps, are accepted too.",
    )
    skip_nonce_check = forms.BooleanField(
        label_suffix="", label="Accept ID tokens of apps without comparing their nonce", required=False
    )


class OAuth2Form(ProviderForm):
    provider_type = ProviderType.OAUTH2
    titles = (
        ("Provider", ("identifier", "name", "authorization_url", "token_url", "userinfo_url", "enabled")),
        ("Client", ("client_id", "client_secret", "scopes", "pkce_enabled", "authorization_params")),
        _CLAIMS,
    )

    authorization_url = _url_field("Authorization endpoint")
    token_url = _url_field("Token endpoint")
    userinfo_url = _url_field("User info endpoint")


FORMS: dict[str, type[ProviderForm]] = {form.provider_type.value: form for form in (OpenIdConnectForm, OAuth2Form)}
