"""/admin/users and /admin/users/{user_id}."""

from __future__ import annotations

from typing import Any

import msgspec
from django.conf import settings
from django.http import HttpResponse

from accounts import listed, paging, payloads, selection
from accounts.inputs import ChangeUserInput, DeleteUserInput, NewUserInput
from accounts.selection import Selection
from accounts.services import administration, deletion, directory
from accounts.services.administration import Changes, NewUser
from accounts.views.admin import paths
from authsvc.core import clock
from authsvc.core.web import inputs
from authsvc.core.web.renderers import Answer
from authsvc.core.web.views import Endpoint, ServiceRequest
from tokens import admins
from tokens.authentication import AdminAuthentication
from tokens.permissions import IsAdmin


class UsersView(Endpoint):
    authentication_classes = (AdminAuthentication,)
    permission_classes = (IsAdmin,)

    def get(self, request: ServiceRequest) -> HttpResponse:
        asked = request.http.GET
        wanted = selection.read(asked, aud=request.caller.audience)
        by_page = any(paging.first(asked, name) for name in ("page", "per_page"))
        if settings.AUTH.experimental.cursor_pagination_enabled and not by_page:
            return self._stretch(request, wanted)
        page = paging.read(asked)
        found = directory.page(wanted, page)
        answer = Answer({"users": listed.users(found.found), "aud": wanted.aud})
        answer["X-Total-Count"] = str(found.total)
        answer["Link"] = paging.links(request.http.path, asked, page=page, total=found.total)
        return answer

    def post(self, request: ServiceRequest) -> HttpResponse:
        body = inputs.parse(request.http, NewUserInput)
        user = administration.create(
            NewUser(**msgspec.structs.asdict(body)),
            actor=admins.admin_of(request).actor,
            caller=request.caller,
            at=clock.now(),
        )
        return Answer(payloads.user(user))

    @staticmethod
    def _stretch(request: ServiceRequest, wanted: Selection) -> HttpResponse:
        asked = request.http.GET
        after, size = selection.read_position(asked)
        found = directory.stretch(wanted, after=after, size=size)
        pagination: dict[str, Any] = {"next_cursor": found.next_cursor} if found.next_cursor else {}
        pagination["has_more"] = bool(found.next_cursor)
        answer = Answer({"users": listed.users(found.found), "aud": wanted.aud, "pagination": pagination})
        if found.next_cursor:
            target = paging.url(
                request.http.path, asked, cursor=found.next_cursor, limit=size, page=None, per_page=None
            )
            answer["Link"] = f'<{target}>; rel="next"'
        return answer


class UserView(Endpoint):
    authentication_classes = (AdminAuthentication,)
    permission_classes = (IsAdmin,)

    def post(self, request: ServiceRequest, user_id: str) -> HttpResponse:
        chosen = paths.user_id(user_id)
        body = inputs.parse(request.http, NewUserInput)
        user = administration.create_with_id(
            chosen,
            NewUser(**msgspec.structs.asdict(body)),
            actor=admins.admin_of(request).actor,
            caller=request.caller,
            at=clock.now(),
        )
        return Answer(payloads.user(user))

    def get(self, request: ServiceRequest, user_id: str) -> HttpResponse:
        return Answer(payloads.user(directory.find(paths.user_id(user_id))))

    def put(self, request: ServiceRequest, user_id: str) -> HttpResponse:
        chosen = paths.user_id(user_id)
        body = inputs.parse(request.http, ChangeUserInput)
        user = administration.update(
            chosen,
            Changes(**msgspec.structs.asdict(body)),
            actor=admins.admin_of(request).actor,
            caller=request.caller,
            at=clock.now(),
        )
        return Answer(payloads.user(user))

    def delete(self, request: ServiceRequest, user_id: str) -> HttpResponse:
        chosen = paths.user_id(user_id)
        given = inputs.body(request.http)
        body = inputs.parse(request.http, DeleteUserInput) if given else DeleteUserInput()
        deletion.delete(
            chosen,
            soft=bool(body.should_soft_delete),
            actor=admins.admin_of(request).actor,
            caller=request.caller,
            at=clock.now(),
        )
        return Answer({})
