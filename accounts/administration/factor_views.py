"""/admin/users/{user_id}/factors."""

from __future__ import annotations

from django.http import HttpResponse

from accounts import error_sets, errors, schemas
from accounts.administration import admin_factors, paths
from accounts.inputs import ChangeFactorInput
from accounts.users import payloads, queries
from authsvc import clock
from authsvc.api import parsing
from authsvc.api.openapi.document import document
from authsvc.api.renderers import Answer
from authsvc.api.views import Endpoint, ServiceRequest
from tokens.api import admin_auth
from tokens.api.authentication import AdminAuthentication
from tokens.api.permissions import IsAdmin


class FactorsView(Endpoint):
    authentication_classes = (AdminAuthentication,)
    permission_classes = (IsAdmin,)

    @document(responses={200: list[schemas.Factor]}, errors=error_sets.PATH_OF_USER)
    def get(self, request: ServiceRequest, user_id: str) -> HttpResponse:
        """List a user's second factors."""
        user = queries.require(paths.user_id(user_id))
        return Answer([payloads.factor(factor) for factor in user.factors])


class FactorView(Endpoint):
    authentication_classes = (AdminAuthentication,)
    permission_classes = (IsAdmin,)

    @document(
        body=ChangeFactorInput,
        responses={200: schemas.Factor},
        errors=(
            *error_sets.PATH_OF_USER,
            *error_sets.PATH_OF_FACTOR,
            errors.PhoneInvalid,
            errors.FactorNameTooLong,
            errors.FactorNameTaken,
            errors.FactorPhoneTaken,
        ),
    )
    def put(self, request: ServiceRequest, user_id: str, factor_id: str) -> HttpResponse:
        """Rename a factor of a user, or change its number."""
        user, factor = paths.user_id(user_id), paths.factor_id(factor_id)
        body = parsing.parse_body(request.http, ChangeFactorInput)
        changed = admin_factors.change(
            user,
            factor,
            friendly_name=body.friendly_name or "",
            phone=body.phone or "",
            actor=admin_auth.admin_of(request).actor,
            caller=request.caller,
            at=clock.now(),
        )
        return Answer(payloads.factor(changed))

    @document(responses={200: schemas.Factor}, errors=(*error_sets.PATH_OF_USER, *error_sets.PATH_OF_FACTOR))
    def delete(self, request: ServiceRequest, user_id: str, factor_id: str) -> HttpResponse:
        """Take a factor of a user away; with the last verified one go the recovery codes."""
        removed = admin_factors.remove(
            paths.user_id(user_id), paths.factor_id(factor_id), caller=request.caller, at=clock.now()
        )
        return Answer(payloads.factor(removed))
