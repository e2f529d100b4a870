"""/admin/users with factors and passkeys, /invite and /admin/generate_link."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any
from uuid import UUID

import msgspec
from django.http import HttpResponse
from rest_framework.response import Response

from accounts import error_sets
from accounts import errors as account_errors
from accounts import schemas as account_schemas
from accounts.administration import action_links, admin_factors, errors, invitations, schemas, user_administration
from accounts.administration.action_links import ActionLink, Wish
from accounts.administration.schemas import (
    ChangeFactorInput,
    ChangeUserInput,
    DeleteUserInput,
    GenerateLinkInput,
    InviteInput,
    NewUserInput,
)
from accounts.administration.user_administration import Changes, NewUser
from accounts.mfa import errors as mfa_errors
from accounts.passkeys import errors as passkey_errors
from accounts.passkeys import management
from accounts.passkeys import payloads as passkey_payloads
from accounts.passkeys import schemas as passkey_schemas
from accounts.users import deletion, identifiers, payloads, queries
from accounts.users.search import filters, listing, payload
from accounts.users.search.filters import UserFilter
from authsvc import clock, conf
from authsvc.api import pagination, parsing, throttling
from authsvc.api.openapi.document import REDIRECT_TO, TOTALS, Empty, Parameter, ResponseDoc, document
from authsvc.api.views import Endpoint, ServiceRequest
from authsvc.security import redirects
from tokens.api import admin_auth
from tokens.api.authentication import AdminAuthentication
from tokens.api.permissions import IsAdmin

_NEW_USER_ERRORS = (
    *error_sets.EMAIL_FORMAT,
    account_errors.PhoneInvalid,
    account_errors.PasswordTooLong,
    errors.PasswordAndHash,
    errors.PasswordHashInvalid,
    errors.EmailOrPhoneRequired,
    account_errors.EmailExists,
    errors.PhoneRegistered,
    errors.UserIdMalformed,
    errors.UserIdNil,
    errors.UserIdTaken,
    errors.RoleTooLong,
    errors.AudienceTooLong,
    errors.BanDurationInvalid,
)


class AdminEndpoint(Endpoint):
    authentication_classes = (AdminAuthentication,)
    permission_classes = (IsAdmin,)


class UsersView(AdminEndpoint):
    @document(
        query=(
            Parameter("page", "Counted from 1."),
            Parameter("per_page", "Entries on a page, 50 unless given."),
            Parameter("count", "`exact`: count every row for the total, where an estimate would be told.", ("exact",)),
            Parameter("sort", "By age, `created_at desc` unless given.", ("created_at asc", "created_at desc")),
            Parameter("filter", "Part of the address, or of `user_metadata.full_name`; `%` and `_` are wild."),
            Parameter("email", "Exactly this address."),
            Parameter("phone", "Exactly this number."),
            Parameter("id", "Exactly this user."),
            Parameter("cursor", "Where the list goes by cursor: what the page before said."),
            Parameter("limit", "Where the list goes by cursor: entries on a page, up to 1000."),
        ),
        responses={
            200: ResponseDoc("Users, newest first; by cursor without the total.", schemas.UserList, headers=TOTALS)
        },
        errors=(pagination.ListParameterInvalid, filters.SortInvalid, pagination.PaginationInvalid),
    )
    def get(self, request: ServiceRequest) -> HttpResponse:
        """List the users of an audience, those deleted softly included.

        Conditions add up. One that is empty, and a parameter that is not known, is refused and never means "all".
        """
        asked = request.http.GET
        wanted = filters.parse(asked, aud=request.caller.audience)
        by_page = any(pagination.first(asked, name) for name in ("page", "per_page"))
        if conf.current().experimental.cursor_pagination_enabled and not by_page:
            return self._stretch(request, wanted)
        page = pagination.parse(asked)
        with _list_slot(wanted):
            found = listing.list_page(wanted, page)
            users = payload.users(found.users)
        answer = Response({"users": users, "aud": wanted.aud})
        answer["X-Total-Count"] = str(found.total)
        answer["Link"] = pagination.links(request.http.path, asked, page=page, total=found.total)
        return answer

    @document(body=NewUserInput, responses={200: account_schemas.User}, errors=_NEW_USER_ERRORS)
    def post(self, request: ServiceRequest) -> HttpResponse:
        """Make a user; nothing is sent."""
        body = parsing.parse_body(request, NewUserInput)
        user = user_administration.create(
            NewUser(**msgspec.structs.asdict(body)),
            actor=admin_auth.admin_of(request).actor,
            caller=request.caller,
            at=clock.now(),
        )
        return Response(payloads.user(user))

    @staticmethod
    def _stretch(request: ServiceRequest, wanted: UserFilter) -> HttpResponse:
        asked = request.http.GET
        after, size = filters.parse_cursor_page(asked)
        with _list_slot(wanted):
            found = listing.list_after(wanted, after=after, size=size)
            users = payload.users(found.users)
        position: dict[str, Any] = {"next_cursor": found.next_cursor} if found.next_cursor else {}
        position["has_more"] = bool(found.next_cursor)
        answer = Response({"users": users, "aud": wanted.aud, "pagination": position})
        if found.next_cursor:
            target = pagination.url(
                request.http.path, asked, cursor=found.next_cursor, limit=size, page=None, per_page=None
            )
            answer["Link"] = f'<{target}>; rel="next"'
        return answer


class UserView(AdminEndpoint):
    @document(
        body=NewUserInput,
        responses={200: account_schemas.User},
        errors=(*_NEW_USER_ERRORS, errors.UserIdNotAUuid, errors.UserIdMismatch),
    )
    def post(self, request: ServiceRequest, user_id: str) -> HttpResponse:
        """Make a user under this id; nothing is sent."""
        chosen = _user_id(user_id)
        body = parsing.parse_body(request, NewUserInput)
        user = user_administration.create_with_id(
            chosen,
            NewUser(**msgspec.structs.asdict(body)),
            actor=admin_auth.admin_of(request).actor,
            caller=request.caller,
            at=clock.now(),
        )
        return Response(payloads.user(user))

    @document(responses={200: account_schemas.User}, errors=errors.USER_PATH)
    def get(self, request: ServiceRequest, user_id: str) -> HttpResponse:
        """Show a user."""
        return Response(payloads.user(queries.require(_user_id(user_id))))

    @document(
        body=ChangeUserInput,
        responses={200: account_schemas.User},
        errors=(
            *errors.USER_PATH,
            *error_sets.EMAIL_FORMAT,
            *error_sets.NEW_PASSWORD,
            account_errors.PhoneInvalid,
            account_errors.EmailExists,
            errors.PhoneRegistered,
            errors.RoleTooLong,
            errors.BanDurationInvalid,
        ),
    )
    def put(self, request: ServiceRequest, user_id: str) -> HttpResponse:
        """Change a user at once; nothing is sent.

        A password ends every sign-in and every outstanding link and code, another address or number the links and
        codes.
        """
        chosen = _user_id(user_id)
        body = parsing.parse_body(request, ChangeUserInput)
        user = user_administration.update(
            chosen,
            Changes(**msgspec.structs.asdict(body)),
            actor=admin_auth.admin_of(request).actor,
            caller=request.caller,
            at=clock.now(),
        )
        return Response(payloads.user(user))

    @document(body=DeleteUserInput, body_optional=True, responses={200: Empty}, errors=errors.USER_PATH)
    def delete(self, request: ServiceRequest, user_id: str) -> HttpResponse:
        """Delete a user with all that belongs to them.

        Softly, the row stays, with address and number made unreadable and free for others. The body may be left out.
        """
        chosen = _user_id(user_id)
        given = parsing.read_body(request.http)
        body = parsing.parse_body(request, DeleteUserInput) if given else DeleteUserInput()
        deletion.delete(
            chosen,
            soft=bool(body.should_soft_delete),
            actor=admin_auth.admin_of(request).actor,
            caller=request.caller,
            at=clock.now(),
        )
        return Response({})


class UserFactorsView(AdminEndpoint):
    @document(responses={200: list[account_schemas.Factor]}, errors=errors.USER_PATH)
    def get(self, request: ServiceRequest, user_id: str) -> HttpResponse:
        """List a user's second factors."""
        user = queries.require(_user_id(user_id))
        return Response([payloads.factor(factor) for factor in user.factors])


class UserFactorView(AdminEndpoint):
    @document(
        body=ChangeFactorInput,
        responses={200: account_schemas.Factor},
        errors=(
            *errors.USER_PATH,
            *mfa_errors.FACTOR_PATH,
            account_errors.PhoneInvalid,
            mfa_errors.FactorNameTooLong,
            mfa_errors.FactorNameTaken,
            mfa_errors.FactorPhoneTaken,
        ),
    )
    def put(self, request: ServiceRequest, user_id: str, factor_id: str) -> HttpResponse:
        """Rename a factor of a user, or change its number."""
        user, factor = _user_id(user_id), _factor_id(factor_id)
        body = parsing.parse_body(request, ChangeFactorInput)
        changed = admin_factors.change(
            user,
            factor,
            friendly_name=body.friendly_name or "",
            phone=body.phone or "",
            actor=admin_auth.admin_of(request).actor,
            caller=request.caller,
            at=clock.now(),
        )
        return Response(payloads.factor(changed))

    @document(responses={200: account_schemas.Factor}, errors=(*errors.USER_PATH, *mfa_errors.FACTOR_PATH))
    def delete(self, request: ServiceRequest, user_id: str, factor_id: str) -> HttpResponse:
        """Take a factor of a user away; with the last verified one go the recovery codes."""
        removed = admin_factors.remove(_user_id(user_id), _factor_id(factor_id), caller=request.caller, at=clock.now())
        return Response(payloads.factor(removed))


class UserPasskeysView(AdminEndpoint):
    @document(responses={200: list[passkey_schemas.Passkey]}, errors=errors.USER_PATH)
    def get(self, request: ServiceRequest, user_id: str) -> HttpResponse:
        """List a user's passkeys."""
        user = queries.require(_user_id(user_id))
        return Response([passkey_payloads.passkey(passkey) for passkey in management.list_passkeys(user)])


class UserPasskeyView(AdminEndpoint):
    @document(responses={204: None}, errors=(*errors.USER_PATH, passkey_errors.PasskeyNotFound))
    def delete(self, request: ServiceRequest, user_id: str, passkey_id: str) -> HttpResponse:
        """Remove a user's passkey."""
        user = queries.require(_user_id(user_id))
        actor = admin_auth.admin_of(request).actor
        management.remove_as_admin(
            user, identifiers.uuid(passkey_id), actor=actor, caller=request.caller, at=clock.now()
        )
        return Response(status=204)


class InviteView(AdminEndpoint):
    @document(
        body=InviteInput,
        query=(REDIRECT_TO,),
        responses={200: account_schemas.User},
        errors=(*error_sets.EMAIL_FORMAT, *error_sets.EMAIL_DELIVERY, account_errors.EmailExists),
    )
    def post(self, request: ServiceRequest) -> HttpResponse:
        """Make an account for an address and mail an invitation.

        Whoever is invited again gets a new link, and the former one is dead.
        """
        body = parsing.parse_body(request, InviteInput)
        user = invitations.invite(
            email=body.email or "",
            data=body.data or {},
            redirect_to=self.redirect_target(request),
            actor=admin_auth.admin_of(request).actor,
            caller=request.caller,
            at=clock.now(),
        )
        return Response(payloads.user(user))


class GenerateLinkView(AdminEndpoint):
    @document(
        body=GenerateLinkInput,
        query=(REDIRECT_TO,),
        responses={200: schemas.ActionLink},
        errors=(
            *error_sets.EMAIL_FORMAT,
            *error_sets.EMAIL_DELIVERY,
            *error_sets.NEW_PASSWORD,
            errors.LinkTypeUnknown,
            account_errors.PasswordRequired,
            errors.UserWithEmailNotFound,
            account_errors.EmailExists,
            errors.SecureEmailChangeOff,
        ),
    )
    def post(self, request: ServiceRequest) -> HttpResponse:
        """Make the link and the code of a mail, for the caller to deliver.

        Whoever has them is the user. An invitation is mailed too, unless
        `AUTH_MAILER_GENERATE_LINK_INVITE_ENABLED` is off.
        """
        body = parsing.parse_body(request, GenerateLinkInput)
        wish = Wish(
            type=body.type or "",
            email=body.email or "",
            new_email=body.new_email or "",
            password=body.password or "",
            data=body.data or {},
            redirect_to=self._target(request, asked=body.redirect_to or ""),
        )
        made = action_links.generate(
            wish,
            actor=admin_auth.admin_of(request).actor,
            caller=request.caller,
            at=clock.now(),
        )
        return Response(_action_link(made))

    def _target(self, request: ServiceRequest, *, asked: str) -> str:
        """The one in the body where it is permitted, which only here is a candidate at all."""
        if redirects.is_permitted(asked):
            return redirects.resolve(header=asked, query=None, referer=None)
        return self.redirect_target(request)


def _list_slot(wanted: UserFilter) -> AbstractContextManager[None]:
    """A slot for lists; a search for one user is as cheap as any other request and needs none."""
    return nullcontext() if wanted.is_exact else throttling.list_slot()


def _action_link(link: ActionLink) -> dict[str, Any]:
    """The User object, with the link and the code among its members."""
    return {
        **payloads.user(link.user),
        "action_link": link.url,
        "email_otp": link.secret.code,
        "hashed_token": link.secret.link_token,
        "verification_type": link.type,
        "redirect_to": link.redirect_to,
    }


def _user_id(text: str) -> UUID:
    """The user id in a path. Raises UserIdNotAUuid."""
    user_id = identifiers.uuid(text)
    if user_id is None:
        raise errors.UserIdNotAUuid
    return user_id


def _factor_id(text: str) -> UUID:
    """The factor id in a path. Raises FactorIdNotAUuid."""
    factor_id = identifiers.uuid(text)
    if factor_id is None:
        raise mfa_errors.FactorIdNotAUuid
    return factor_id
