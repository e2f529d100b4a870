"""/admin/users, with factors, passkeys and failed attempts."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any
from uuid import UUID

import msgspec
from django.http import HttpResponse
from django.utils import timezone
from rest_framework.response import Response

from accounts import errors as account_errors
from accounts import schemas as account_schemas
from accounts.administration import admin_factors, errors, schemas, user_administration
from accounts.administration.schemas import ChangeFactorInput, ChangeUserInput, DeleteUserInput, NewUserInput
from accounts.administration.user_administration import NewUser, UserChanges
from accounts.mfa import errors as mfa_errors
from accounts.passkeys import errors as passkey_errors
from accounts.passkeys import management
from accounts.passkeys import schemas as passkey_schemas
from accounts.users import deletion, identifiers, queries, records
from accounts.users.search import filters, listing, payload
from accounts.users.search.filters import UserFilter
from authsvc import conf
from authsvc.api import pagination, parsing, throttling
from authsvc.api.openapi.document import PAGE, PER_PAGE, TOTALS, Empty, Parameter, ResponseDoc, document
from authsvc.api.views import Endpoint, ServiceRequest
from authsvc.db import read_replica
from tokens.api import authentication
from tokens.api.authentication import AdminAuthentication
from tokens.api.permissions import IsAdmin

_NEW_USER_ERRORS = (
    account_errors.MetadataTooLarge,
    *account_errors.EMAIL_FORMAT_ERRORS,
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
            PAGE,
            PER_PAGE,
            Parameter("count", "`exact` counts every row for the total instead of estimating a large one.", ("exact",)),
            Parameter("sort", "The order, `created_at desc` by default.", ("created_at asc", "created_at desc")),
            Parameter(
                "filter", "Part of the email address or of `user_metadata.full_name`; `%` and `_` are wildcards."
            ),
            Parameter("email", "The exact email address."),
            Parameter("phone", "The exact phone."),
            Parameter("id", "The exact id."),
            Parameter("cursor", "With pagination by cursor: `next_cursor` of the previous page."),
            Parameter("limit", "With pagination by cursor: users per page, up to 1000.", minimum=1),
        ),
        responses={
            200: ResponseDoc(
                "Users, newest first; with pagination by cursor without the total.", schemas.UserList, headers=TOTALS
            )
        },
        errors=(pagination.ListParameterInvalid, filters.SortInvalid, pagination.PaginationInvalid),
    )
    def get(self, request: ServiceRequest) -> HttpResponse:
        """List the users of an audience, including soft-deleted ones.

        All conditions must match. An empty condition or an unknown parameter is an error.
        """
        parameters = request.http.GET
        user_filter = filters.parse(parameters, aud=request.caller.audience)
        by_page = any(pagination.first(parameters, name) for name in ("page", "per_page"))
        if conf.current().experimental.cursor_pagination_enabled and not by_page:
            return self._list_by_cursor(request, user_filter)
        page = pagination.parse(parameters)
        with _list_slot(user_filter), read_replica.permit(_may_read_replica(request, user_filter)):
            user_page = read_replica.read(lambda: listing.list_page(user_filter, page))
            users = payload.render_users(user_page.users)
        response = Response({"users": users, "aud": user_filter.aud})
        response["X-Total-Count"] = str(user_page.total)
        response["Link"] = pagination.links(request.http.path, parameters, page=page, total=user_page.total)
        return response

    @document(body=NewUserInput, responses={200: account_schemas.User}, errors=_NEW_USER_ERRORS)
    def post(self, request: ServiceRequest) -> HttpResponse:
        """Create a user. No message is sent."""
        body = parsing.parse_body(request, NewUserInput)
        user = user_administration.create(
            NewUser(**msgspec.structs.asdict(body)),
            actor=authentication.get_admin(request).actor,
            caller=request.caller,
            at=timezone.now(),
        )
        return Response(records.render_user(user))

    @staticmethod
    def _list_by_cursor(request: ServiceRequest, user_filter: UserFilter) -> HttpResponse:
        parameters = request.http.GET
        after, size = filters.parse_cursor_page(parameters)
        with _list_slot(user_filter), read_replica.permit(_may_read_replica(request, user_filter)):
            user_page = read_replica.read(lambda: listing.list_after(user_filter, after=after, size=size))
            users = payload.render_users(user_page.users)
        position: dict[str, Any] = {"next_cursor": user_page.next_cursor} if user_page.next_cursor else {}
        position["has_more"] = bool(user_page.next_cursor)
        response = Response({"users": users, "aud": user_filter.aud, "pagination": position})
        if user_page.next_cursor:
            target = pagination.url(
                request.http.path, parameters, cursor=user_page.next_cursor, limit=size, page=None, per_page=None
            )
            response["Link"] = f'<{target}>; rel="next"'
        return response


class AdminUserView(AdminEndpoint):
    @document(
        body=NewUserInput,
        responses={200: account_schemas.User},
        errors=(*_NEW_USER_ERRORS, errors.UserIdNotAUuid, errors.UserIdMismatch),
    )
    def post(self, request: ServiceRequest, user_id: str) -> HttpResponse:
        """Create a user with this id. No message is sent."""
        parsed_id = _parse_user_id(user_id)
        body = parsing.parse_body(request, NewUserInput)
        user = user_administration.create_with_id(
            parsed_id,
            NewUser(**msgspec.structs.asdict(body)),
            actor=authentication.get_admin(request).actor,
            caller=request.caller,
            at=timezone.now(),
        )
        return Response(records.render_user(user))

    @document(responses={200: account_schemas.User}, errors=errors.USER_PATH)
    def get(self, request: ServiceRequest, user_id: str) -> HttpResponse:
        """Get a user."""
        return Response(records.render_user(queries.require(_parse_user_id(user_id))))

    @document(
        body=ChangeUserInput,
        responses={200: account_schemas.User},
        errors=(
            *errors.USER_PATH,
            *account_errors.EMAIL_FORMAT_ERRORS,
            *account_errors.NEW_PASSWORD_ERRORS,
            account_errors.PhoneInvalid,
            account_errors.EmailExists,
            errors.PhoneRegistered,
            account_errors.MetadataTooLarge,
            errors.RoleTooLong,
            errors.BanDurationInvalid,
        ),
    )
    def put(self, request: ServiceRequest, user_id: str) -> HttpResponse:
        """Change a user. No message is sent.

        A new password revokes all sessions, links and codes of the user; a new email address or phone revokes the links
        and codes.
        """
        parsed_id = _parse_user_id(user_id)
        body = parsing.parse_body(request, ChangeUserInput)
        user = user_administration.update(
            parsed_id,
            UserChanges(**msgspec.structs.asdict(body)),
            actor=authentication.get_admin(request).actor,
            caller=request.caller,
            at=timezone.now(),
        )
        return Response(records.render_user(user))

    @document(body=DeleteUserInput, body_optional=True, responses={200: Empty}, errors=errors.USER_PATH)
    def delete(self, request: ServiceRequest, user_id: str) -> HttpResponse:
        """Delete a user with all related data.

        A soft deletion keeps the row, with email address and phone replaced by hashes. The body is optional.
        """
        parsed_id = _parse_user_id(user_id)
        content = parsing.read_body(request.http)
        body = parsing.parse_body(request, DeleteUserInput) if content else DeleteUserInput()
        deletion.delete(
            parsed_id,
            soft=bool(body.should_soft_delete),
            actor=authentication.get_admin(request).actor,
            caller=request.caller,
            at=timezone.now(),
        )
        return Response({})


class UserFactorsView(AdminEndpoint):
    @document(responses={200: list[account_schemas.Factor]}, errors=errors.USER_PATH)
    def get(self, request: ServiceRequest, user_id: str) -> HttpResponse:
        """List a user's second factors."""
        user = queries.require(_parse_user_id(user_id))
        return Response([records.render_factor(factor) for factor in user.factors])


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
        """Rename a factor of a user, or change its phone."""
        user, factor = _parse_user_id(user_id), _parse_factor_id(factor_id)
        body = parsing.parse_body(request, ChangeFactorInput)
        changed = admin_factors.update(
            user,
            factor,
            friendly_name=body.friendly_name or "",
            phone=body.phone or "",
            actor=authentication.get_admin(request).actor,
            caller=request.caller,
            at=timezone.now(),
        )
        return Response(records.render_factor(changed))

    @document(responses={200: account_schemas.Factor}, errors=(*errors.USER_PATH, *mfa_errors.FACTOR_PATH))
    def delete(self, request: ServiceRequest, user_id: str, factor_id: str) -> HttpResponse:
        """Remove a factor of a user. With the last verified factor, the recovery codes are removed too."""
        removed = admin_factors.remove(
            _parse_user_id(user_id),
            _parse_factor_id(factor_id),
            actor=authentication.get_admin(request).actor,
            caller=request.caller,
            at=timezone.now(),
        )
        return Response(records.render_factor(removed))


class UserPasskeysView(AdminEndpoint):
    @document(responses={200: list[passkey_schemas.Passkey]}, errors=errors.USER_PATH)
    def get(self, request: ServiceRequest, user_id: str) -> HttpResponse:
        """List a user's passkeys."""
        user = queries.require(_parse_user_id(user_id))
        return Response([management.render_passkey(passkey) for passkey in management.list_passkeys(user)])


class UserPasskeyView(AdminEndpoint):
    @document(responses={204: None}, errors=(*errors.USER_PATH, passkey_errors.PasskeyNotFound))
    def delete(self, request: ServiceRequest, user_id: str, passkey_id: str) -> HttpResponse:
        """Remove a user's passkey."""
        user = queries.require(_parse_user_id(user_id))
        actor = authentication.get_admin(request).actor
        management.remove_as_admin(
            user, identifiers.uuid(passkey_id), actor=actor, caller=request.caller, at=timezone.now()
        )
        return Response(status=204)


class FailedAttemptsView(AdminEndpoint):
    @document(responses={204: None}, errors=errors.USER_PATH)
    def delete(self, request: ServiceRequest, user_id: str) -> HttpResponse:
        """Reset the count of a user's wrong passwords and codes.

        At `AUTH_SECURITY_MAX_FAILED_ATTEMPTS_PER_ACCOUNT` correct ones count only from addresses of earlier sign-ins.
        """
        user_administration.reset_failed_attempts(
            _parse_user_id(user_id),
            actor=authentication.get_admin(request).actor,
            caller=request.caller,
            at=timezone.now(),
        )
        return Response(status=204)


def _may_read_replica(request: ServiceRequest, user_filter: UserFilter) -> bool:
    return not user_filter.is_exact and not pagination.requires_fresh(request.http)


def _list_slot(user_filter: UserFilter) -> AbstractContextManager[None]:
    """A slot for lists; a search for one user is as cheap as any other request and needs none."""
    return nullcontext() if user_filter.is_exact else throttling.list_slot()


def _parse_user_id(text: str) -> UUID:
    """The user id in a path. Raises UserIdNotAUuid."""
    user_id = identifiers.uuid(text)
    if user_id is None:
        raise errors.UserIdNotAUuid
    return user_id


def _parse_factor_id(text: str) -> UUID:
    """The factor id in a path. Raises FactorIdNotAUuid."""
    factor_id = identifiers.uuid(text)
    if factor_id is None:
        raise mfa_errors.FactorIdNotAUuid
    return factor_id
