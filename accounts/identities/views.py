"""DELETE /user/identities/{identity_id}."""

from __future__ import annotations

from django.http import HttpResponse
from django.utils import timezone
from rest_framework.response import Response

from accounts.identities import errors, linking
from accounts.users import identifiers
from accounts.users.queries import get_user_record
from authsvc import conf
from authsvc.api.openapi.document import Empty, document
from authsvc.api.views import Endpoint, ServiceRequest
from tokens.api import authentication
from tokens.api.authentication import BearerAuthentication
from tokens.api.permissions import IsSignedIn


class IdentityView(Endpoint):
    authentication_classes = (BearerAuthentication,)
    permission_classes = (IsSignedIn,)

    @document(
        responses={200: Empty},
        errors=(
            errors.ManualLinkingDisabled,
            errors.IdentityIdNotAUuid,
            errors.UnexpectedAudience,
            errors.IdentityNotFound,
            errors.LinkingNeedsAal2,
            errors.SingleIdentity,
            errors.NoFreeEmail,
            errors.AddressChangeNeedsProof,
            errors.LastContactNeedsProof,
        ),
    )
    def delete(self, request: ServiceRequest, identity_id: str) -> HttpResponse:
        """Unlink an identity of the user. The last identity cannot be unlinked."""
        if not conf.current().signup.manual_linking_enabled:
            raise errors.ManualLinkingDisabled
        identity_uuid = identifiers.uuid(identity_id)
        if identity_uuid is None:
            raise errors.IdentityIdNotAUuid
        if not authentication.has_requested_audience(request):
            raise errors.UnexpectedAudience
        signed_in = authentication.get_signed_in_user(request)
        linking.unlink(
            signed_in, get_user_record(signed_in), identity_id=identity_uuid, caller=request.caller, at=timezone.now()
        )
        return Response({})
