"""/admin/users and /admin/users/{user_id}."""

from __future__ import annotations

from typing import Any

import msgspec
from django.http import HttpResponse

from accounts import error_sets, errors, schemas
from accounts.administration import paths, user_administration
from accounts.administration.user_administration import Changes, NewUser
from accounts.inputs import ChangeUserInput, DeleteUserInput, NewUserInput
from accounts.users import deletion, payloads, queries
from accounts.users.search import filters, listing, payload
from accounts.users.search.filters import UserFilter
from authsvc import clock, conf
from authsvc.api import pagination, parsing, turns
from authsvc.api.openapi.document import TOTALS, Empty, Parameter, ResponseDoc, document
from authsvc.api.renderers import Answer
from authsvc.api.views import Endpoint, ServiceRequest
from tokens.api import admin_auth
from tokens.api.authentication import AdminAuthentication
from tokens.api.permissions import IsAdmin

_NEW_USER_ERRORS = (
    *error_sets.EMAIL_FORMAT,
    errors.PhoneInvalid,
    errors.PasswordTooLong,
    errors.PasswordAndHash,
    errors.PasswordHashInvalid,
    errors.EmailOrPhoneRequired,
    errors.EmailExists,
    errors.PhoneRegistered,
    errors.UserIdMalformed,
    errors.UserIdNil,
    errors.UserIdTaken,
    errors.RoleTooLong,
    errors.AudienceTooLong,
    errors.BanDurationInvalid,
)


class UsersView(Endpoint):
    authentication_classes = (AdminAuthentication,)
    permission_classes = (IsAdmin,)

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
        _give_way(wanted, rows=page.limit)
        found = listing.list_page(wanted, page)
        answer = Answer({"users": payload.users(found.users), "aud": wanted.aud})
        answer["X-Total-Count"] = str(found.total)
        answer["Link"] = pagination.links(request.http.path, asked, page=page, total=found.total)
        return answer

    @document(body=NewUserInput, responses={200: schemas.User}, errors=_NEW_USER_ERRORS)
    def post(self, request: ServiceRequest) -> HttpResponse:
        """Make a user; nothing is sent."""
        body = parsing.parse_body(request.http, NewUserInput)
        user = user_administration.create(
            NewUser(**msgspec.structs.asdict(body)),
            actor=admin_auth.admin_of(request).actor,
            caller=request.caller,
            at=clock.now(),
        )
        return Answer(payloads.user(user))

    @staticmethod
    def _stretch(request: ServiceRequest, wanted: UserFilter) -> HttpResponse:
        asked = request.http.GET
        after, size = filters.parse_cursor_page(asked)
        _give_way(wanted, rows=size)
        found = listing.list_after(wanted, after=after, size=size)
        position: dict[str, Any] = {"next_cursor": found.next_cursor} if found.next_cursor else {}
        position["has_more"] = bool(found.next_cursor)
        answer = Answer({"users": payload.users(found.users), "aud": wanted.aud, "pagination": position})
        if found.next_cursor:
            target = pagination.url(
                request.http.path, asked, cursor=found.next_cursor, limit=size, page=None, per_page=None
            )
            answer["Link"] = f'<{target}>; rel="next"'
        return answer


class UserView(Endpoint):
    authentication_classes = (AdminAuthentication,)
    permission_classes = (IsAdmin,)

    @document(
        body=NewUserInput,
        responses={200: schemas.User},
        errors=(*_NEW_USER_ERRORS, errors.UserIdNotAUuid, errors.UserIdMismatch),
    )
    def post(self, request: ServiceRequest, user_id: str) -> HttpResponse:
        """Make a user under this id; nothing is sent."""
        chosen = paths.user_id(user_id)
        body = parsing.parse_body(request.http, NewUserInput)
        user = user_administration.create_with_id(
            chosen,
            NewUser(**msgspec.structs.asdict(body)),
            actor=admin_auth.admin_of(request).actor,
            caller=request.caller,
            at=clock.now(),
        )
        return Answer(payloads.user(user))

    @document(responses={200: schemas.User}, errors=error_sets.PATH_OF_USER)
    def get(self, request: ServiceRequest, user_id: str) -> HttpResponse:
        """Show a user."""
        return Answer(payloads.user(queries.require(paths.user_id(user_id))))

    @document(
        body=ChangeUserInput,
        responses={200: schemas.User},
        errors=(
            *error_sets.PATH_OF_USER,
            *error_sets.EMAIL_FORMAT,
            *error_sets.NEW_PASSWORD,
            errors.PhoneInvalid,
            errors.EmailExists,
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
        chosen = paths.user_id(user_id)
        body = parsing.parse_body(request.http, ChangeUserInput)
        user = user_administration.update(
            chosen,
            Changes(**msgspec.structs.asdict(body)),
            actor=admin_auth.admin_of(request).actor,
            caller=request.caller,
            at=clock.now(),
        )
        return Answer(payloads.user(user))

    @document(body=DeleteUserInput, body_optional=True, responses={200: Empty}, errors=error_sets.PATH_OF_USER)
    def delete(self, request: ServiceRequest, user_id: str) -> HttpResponse:
        """Delete a user with all that belongs to them.

        Softly, the row stays, with address and number made unreadable and free for others. The body may be left out.
        """
        chosen = paths.user_id(user_id)
        given = parsing.read_body(request.http)
        body = parsing.parse_body(request.http, DeleteUserInput) if given else DeleteUserInput()
        deletion.delete(
            chosen,
            soft=bool(body.should_soft_delete),
            actor=admin_auth.admin_of(request).actor,
            caller=request.caller,
            at=clock.now(),
        )
        return Answer({})


def _give_way(wanted: UserFilter, *, rows: int) -> None:
    if not wanted.is_exact:
        turns.of_process.give_way(rows=rows)
