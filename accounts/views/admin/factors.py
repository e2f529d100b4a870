"""/admin/users/{user_id}/factors."""

from __future__ import annotations

from django.http import HttpResponse

from accounts import errors, payloads, refusals, shapes
from accounts.inputs import ChangeFactorInput
from accounts.services import directory, lost_factors
from accounts.views.admin import paths
from authsvc.core import clock
from authsvc.core.web import inputs
from authsvc.core.web.declarations import declares
from authsvc.core.web.renderers import Answer
from authsvc.core.web.views import Endpoint, ServiceRequest
from tokens import admins
from tokens.authentication import AdminAuthentication
from tokens.permissions import IsAdmin


class FactorsView(Endpoint):
    authentication_classes = (AdminAuthentication,)
    permission_classes = (IsAdmin,)

    @declares(answers={200: list[shapes.Factor]}, refusals=refusals.PATH_OF_USER)
    def get(self, request: ServiceRequest, user_id: str) -> HttpResponse:
        """List a user's second factors."""
        user = directory.find(paths.user_id(user_id))
        return Answer([payloads.factor(factor) for factor in user.factors])


class FactorView(Endpoint):
    authentication_classes = (AdminAuthentication,)
    permission_classes = (IsAdmin,)

    @declares(
        body=ChangeFactorInput,
        answers={200: shapes.Factor},
        refusals=(
            *refusals.PATH_OF_USER,
            *refusals.PATH_OF_FACTOR,
            errors.PhoneInvalid,
            errors.FactorNameTooLong,
            errors.FactorNameTaken,
            errors.FactorPhoneTaken,
        ),
    )
    def put(self, request: ServiceRequest, user_id: str, factor_id: str) -> HttpResponse:
        """Rename a factor of a user, or change its number."""
        user, factor = paths.user_id(user_id), paths.factor_id(factor_id)
        body = inputs.parse(request.http, ChangeFactorInput)
        changed = lost_factors.change(
            user,
            factor,
            friendly_name=body.friendly_name or "",
            phone=body.phone or "",
            actor=admins.admin_of(request).actor,
            caller=request.caller,
            at=clock.now(),
        )
        return Answer(payloads.factor(changed))

    @declares(answers={200: shapes.Factor}, refusals=(*refusals.PATH_OF_USER, *refusals.PATH_OF_FACTOR))
    def delete(self, request: ServiceRequest, user_id: str, factor_id: str) -> HttpResponse:
        """Take a factor of a user away; with the last verified one go the recovery codes."""
        removed = lost_factors.remove(
            paths.user_id(user_id), paths.factor_id(factor_id), caller=request.caller, at=clock.now()
        )
        return Answer(payloads.factor(removed))
