"""The base class of the hosted pages.

A page is a subclass of `HostedPage` with a route in a `urls.py`:

    class NamePage(HostedPage):
        template = "pages/name.html"  # {% extends "pages/form_page.html" %}: title, form and one button
        title = _("Name")
        requires_user = True  # redirects to the sign-in; afterwards `self.current` and `self.user` are the user
        bucket = Bucket.USER  # the rate limit of the matching endpoint; `captcha = True` where it has a captcha
        form_class = NameForm

        def submit(self, form: NameForm) -> HttpResponse:  # a valid form; an ApiError becomes a message on the page
            rename(self.user, form.cleaned_data["name"], caller=self.caller, at=self.at)
            messages.success(self.request, _("Saved."))
            return self.redirect(reverse("pages:account"))

The class applies the switch of the pages, the language, the cookie, CSRF protection and the security headers. Views
that need more than one form override `post` and call `self.attempt(form, function)`. `get_context` adds variables of
the template. URLs come from `reverse` or `{% url %}`; redirects that parameters decide come from `destinations` alone.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import cached_property
from typing import Any, ClassVar, cast

from django import forms
from django.contrib.messages.middleware import MessageMiddleware
from django.core.exceptions import BadRequest, SuspiciousOperation
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.http.multipartparser import MultiPartParserError
from django.http.response import HttpResponseBase
from django.middleware.csrf import CsrfViewMiddleware
from django.template.loader import render_to_string
from django.urls import get_script_prefix, reverse
from django.utils import timezone
from django.utils.decorators import decorator_from_middleware
from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from django.views import View

from accounts.pages import browser_session, destinations, language_choice, registry, theme
from accounts.pages.error_texts import error_text
from accounts.users.queries import get_user_record
from accounts.users.records import UserRecord
from authsvc import conf, languages
from authsvc.api import captcha, exception_handler, throttling
from authsvc.api.renderers import NO_STORE, SeeOther
from authsvc.api.throttling import Bucket
from authsvc.caller import Caller, page_caller_of
from authsvc.errors import ApiError, BodyTooLarge
from tokens.sessions import browser_sessions
from tokens.sessions.users import SignedInUser

_MAX_FORM_BYTES = 262_144
_CSRF_SECRET = "csrf"
_HEADERS = {
    "Cache-Control": NO_STORE,
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Robots-Tag": "noindex",
}


class HostedPage(View):
    """A page: GET shows it, POST submits its form."""

    http_method_names = ["get", "head", "post"]
    template: ClassVar[str] = "pages/form_page.html"
    title: ClassVar[str | Promise] = ""
    text: ClassVar[str | Promise] = ""
    """A sentence above the form."""
    button: ClassVar[str | Promise] = _("Continue")
    form_class: ClassVar[type[forms.Form]] = forms.Form
    requires_user: ClassVar[bool] = False
    """True if only signed-in users may see the page, after their second factor."""
    bucket: ClassVar[Bucket | None] = None
    """The rate limit of a submission."""
    captcha: ClassVar[bool] = False
    """True if a submission needs a solved captcha, if captchas are enabled."""
    form_action: ClassVar[str] = "'self'"
    """`form-action` of the Content-Security-Policy, which browsers apply to redirects after the form as well. Empty:
    the form may lead to other origins."""
    referrer_policy: ClassVar[str] = "same-origin"
    """`strict-origin` for a URL with a secret. `no-referrer` would remove the Origin of forms."""
    accepts_other_sites: ClassVar[bool] = False
    """True if applications send the form from their own site. It must not change anything without a further proof."""

    request: HttpRequest

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if not conf.current().pages.enabled:
            raise Http404
        if self.accepts_other_sites:
            request._dont_enforce_csrf_checks = True  # type: ignore[attr-defined]  # read by Django

        def respond(request: HttpRequest) -> HttpResponse:
            return self._respond(request, *args, **kwargs)

        with destinations.below_external_path(request), languages.use(language_choice.of_request(request)):
            browser_session.load(request)
            response = MessageMiddleware(respond)(request)
            assert isinstance(response, HttpResponse)  # noqa: S101  (narrowing; `respond` is synchronous)
            browser_session.save(request, response)
            self._set_headers(response)
            return response

    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        return self.show()

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        return self.attempt(self.create_form(request.POST), self.submit)

    def submit(self, form: Any) -> HttpResponse:
        """The response to a valid form. An ApiError below 500 becomes a message on the page."""
        raise NotImplementedError

    def create_form(self, data: QueryDict | None = None) -> forms.Form:
        return self.form_class(data)

    def get_context(self) -> dict[str, Any]:
        """Additional variables of the template."""
        return {}

    def attempt(self, form: forms.Form | None, action: Callable[[Any], HttpResponse]) -> HttpResponse:
        """Check rate limit, captcha and form, then call the action with the form. Errors are shown on the page.

        `form` is None for a button alone.
        """
        try:
            self.check_limits()
            if form is not None and not form.is_valid():
                return self.show(form, status=400)
            return action(form)
        except ApiError as error:
            return self.show_error(error, form=form)

    def check_limits(self) -> None:
        """Raises RequestRateExceeded and the errors of the captcha."""
        if self.bucket is not None:
            throttling.check(self.bucket, self.request)
        if self.captcha:
            captcha.check_form(self.request)

    def show(
        self,
        form: forms.Form | None = None,
        *,
        template: str = "",
        status: int = 200,
        problem: str | Promise = "",
        **context: Any,
    ) -> HttpResponse:
        """The page with this form; `problem` is a message at the top."""
        variables = {
            "title": self.title,
            "text": self.text,
            "button": self.button,
            "form": form if form is not None else self.create_form(),
            "problem": problem,
            "next": destinations.next_path(self.request),
            "current": browser_session.signed_in(self.request),
            "sections": self._sections(),
            **self._captcha_context(),
            **self.get_context(),
            **context,
        }
        if self.accepts_other_sites and self.request.method == "POST":
            # Browsers send no cookie with a form of another site. Without a menu, and its CSRF secret, the page sets
            # none, which would replace that of a user who is signed in.
            variables["languages"] = {}
        return render(self.request, template or self.template, variables, status=status)

    def show_error(self, error: ApiError, *, form: forms.Form | None = None, **context: Any) -> HttpResponse:
        """The page with the text and the status of an error. Raises it again if the service failed."""
        if error.status >= 500:
            raise error
        page = self.show(form, status=error.status, problem=error_text(error), **context)
        return exception_handler.with_error(self.request, page, error)

    def redirect(self, url: str) -> HttpResponse:
        """Redirect after a form (303). Parameters of a request reach it through `destinations` only."""
        return SeeOther(url)

    @property
    def current(self) -> SignedInUser:
        """The signed-in user, on a page that requires one."""
        current = browser_session.signed_in(self.request)
        assert current is not None  # noqa: S101  (checked before the page runs)
        return current

    @cached_property
    def user(self) -> UserRecord:
        """The row of the signed-in user, with identities and factors, on a page that requires one."""
        return get_user_record(self.current)

    @cached_property
    def caller(self) -> Caller:
        return page_caller_of(self.request)

    @cached_property
    def at(self) -> datetime:
        """The time of the request."""
        return timezone.now()

    def redirect_before_page(self) -> HttpResponse | None:
        """The redirect to a step that has to come first; None if the page can be shown."""
        if not self.requires_user:
            return None
        current = browser_session.signed_in(self.request)
        if current is not None and not browser_sessions.needs_second_factor(current):
            return None
        step = reverse("pages:sign_in" if current is None else "pages:second_factor")
        return self.redirect(destinations.with_next(step, destinations.own_path(self.request)))

    def _respond(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        def view(request: HttpRequest) -> HttpResponse:
            with languages.use(language_choice.of_user(request)):
                return self.redirect_before_page() or cast(
                    HttpResponse, super(HostedPage, self).dispatch(request, *args, **kwargs)
                )

        try:
            if int(request.META.get("CONTENT_LENGTH") or 0) > _MAX_FORM_BYTES:
                raise BodyTooLarge
            request.POST  # noqa: B018  (a malformed form is refused here, and counts as empty from then on)
            # Created for each request, so that a reload of CSRF_TRUSTED_ORIGINS takes effect.
            return cast(HttpResponse, decorator_from_middleware(_PageCsrf)(view)(request))
        except Exception as error:  # noqa: BLE001  (the page of an unexpected error is logged)
            if not hasattr(request, "_post"):
                request._mark_post_parse_error()  # type: ignore[attr-defined]  # private
            return error_page(request, error)

    def _set_headers(self, response: HttpResponse) -> None:
        for name, value in _HEADERS.items():
            response.headers.setdefault(name, value)
        if "Location" not in response:
            response.headers.setdefault("Cross-Origin-Opener-Policy", self.opener_policy())
        response.headers.setdefault("Referrer-Policy", self.referrer_policy)
        response.headers.setdefault("Content-Security-Policy", self.content_policy())

    def is_step_of_authorization(self) -> bool:
        """True if the page leads to that of an authorization request, and so to the site of its client."""
        return destinations.next_path(self.request).startswith(f"{get_script_prefix()}oauth/")

    def opener_policy(self) -> str:
        # Applications open authorization requests in a window, which a strict policy of any of its pages, and of a
        # redirect on the way, would separate from them.
        return "unsafe-none" if self.is_step_of_authorization() else "same-origin"

    def content_policy(self, *, images: str = "") -> str:
        """The Content-Security-Policy; `images` is a further source of images."""
        widget = captcha.widget() if self.captcha else None
        further = f" {widget.origins}" if widget else ""
        look = theme.current()
        frames = f" frame-src {widget.origins};" if widget else ""
        leaves = not self.form_action or self.is_step_of_authorization()
        form_action = "" if leaves else f" form-action {self.form_action};"
        image_sources = f"'self' data: {look.image_source} {images}".rstrip()
        return (
            f"default-src 'none'; script-src 'self'{further}; style-src 'self' {look.style_source}{further};"
            f" img-src {image_sources};"
            f" connect-src 'self'{further};{frames}{form_action} base-uri 'none'; frame-ancestors 'none'"
        )

    def _captcha_context(self) -> dict[str, Any]:
        widget = captcha.widget() if self.captcha else None
        return {"captcha": widget, "site_key": conf.current().captcha.site_key} if widget else {}

    def _sections(self) -> list[registry.Section]:
        if not self.requires_user:
            return []
        available = (section for section in registry.sections if section.is_available(self.current))
        return sorted(available, key=lambda section: section.position)


class _PageCsrf(CsrfViewMiddleware):
    """Django's CSRF protection, with the secret in the signed cookie of the pages; the console has its own cookie."""

    def _get_secret(self, request: HttpRequest) -> str | None:
        secret: str | None = request.session.get(_CSRF_SECRET)
        return secret

    def _set_csrf_cookie(self, request: HttpRequest, response: HttpResponseBase) -> None:
        if request.session.get(_CSRF_SECRET) != request.META["CSRF_COOKIE"]:
            request.session[_CSRF_SECRET] = request.META["CSRF_COOKIE"]

    def _reject(self, request: HttpRequest, reason: str) -> HttpResponse:
        text = gettext(
            "The form has expired, or another site has sent it. Open the page again, and repeat your input. If that"
            " does not help, permit cookies for this site."
        )
        path = destinations.own_path(request)
        return _message_page(request, 403, gettext("Form expired"), text, retry_path=path)


def render(request: HttpRequest, template: str, context: dict[str, Any], *, status: int = 200) -> HttpResponse:
    """A response with this template of the pages."""
    look = theme.current()
    variables = {
        "theme": look,
        "site_name": look.name,
        "languages": languages.names(),
        "own_path": destinations.own_path(request),
        **context,
    }
    return HttpResponse(render_to_string(template, variables, request=request), status=status)


def error_page(request: HttpRequest, error: Exception) -> HttpResponse:
    """The page for an exception. Unexpected ones are logged, and the page shows the request id only."""
    match error:
        case Http404():
            return _message_page(request, 404, gettext("Not found"), gettext("This page does not exist."))
        case SuspiciousOperation() | BadRequest() | MultiPartParserError():
            return _message_page(request, 400, gettext("Bad request"), gettext("The request is malformed."))
        case ApiError() if error.status < 500:
            page = _message_page(request, error.status, gettext("This did not work"), error_text(error))
            return exception_handler.with_error(request, page, error)
    api_error = exception_handler.to_api_error(error)
    request_id = request.META.get("authsvc.request_id")
    text = error_text(api_error)
    page = _message_page(request, api_error.status, gettext("Something went wrong"), text, request_id=request_id)
    return exception_handler.with_error(request, page, api_error)


def _message_page(request: HttpRequest, status: int, title: str, text: str, **context: Any) -> HttpResponse:
    return render(request, "pages/error.html", {"title": title, "text": text, **context}, status=status)
