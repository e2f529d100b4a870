"""Personal data of tokens: sessions, refresh tokens, one-time tokens and unfinished flows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from django.db import transaction
from django.db.models import Q, QuerySet

from authsvc.db.sql import fetch_row, namespaced
from authsvc.personal_data import DataSubject, Row, export_rows
from tokens.models import AmrClaim, FlowState, ImpersonationLink, LegacyRefreshToken, OneTimeToken, Session

_SECRETS = {
    Session: {"refresh_token_hmac_key"},
    LegacyRefreshToken: {"token", "parent"},
    OneTimeToken: {"token_hash", "link_hash"},
    FlowState: {
        "auth_code", "code_challenge", "provider_access_token", "provider_refresh_token", "invite_token",
    },
    ImpersonationLink: {"link_hash"},
}  # fmt: skip

_OF_OPERATOR = {"ip", "user_agent", "impersonator_session_id"}
"""Columns of an impersonated session that describe the operator's device, which is no data of the user."""


class TokensPersonalData:
    def export(self, data_subject: DataSubject) -> Iterator[tuple[str, Iterable[Row]]]:
        sessions = Session.objects.filter(user_id=data_subject.id).order_by("created_at", "id")
        own, of_operators = sessions.filter(impersonator_id=None), sessions.exclude(impersonator_id=None)
        yield (
            "sessions",
            chain(
                export_rows(own, without=_SECRETS[Session]),
                export_rows(of_operators, without=_SECRETS[Session] | _OF_OPERATOR),
            ),
        )
        yield (
            "mfa_amr_claims",
            export_rows(AmrClaim.objects.filter(session__user_id=data_subject.id).order_by("created_at", "id")),
        )
        legacy = LegacyRefreshToken.objects.filter(user_id=data_subject.id).order_by("id")
        yield "refresh_tokens", export_rows(legacy, without=_SECRETS[LegacyRefreshToken])
        secrets = OneTimeToken.objects.filter(user_id=data_subject.id).order_by("created_at", "id")
        yield "one_time_tokens", export_rows(secrets, without=_SECRETS[OneTimeToken])
        links = ImpersonationLink.objects.filter(user_id=data_subject.id).order_by("created_at", "id")
        yield "impersonation_links", export_rows(links, without=_SECRETS[ImpersonationLink])
        yield "flow_state", export_rows(_flows(data_subject).order_by("created_at", "id"), without=_SECRETS[FlowState])

    def erase(self, data_subject: DataSubject) -> Mapping[str, int]:
        with transaction.atomic(savepoint=False):
            legacy = LegacyRefreshToken.objects.filter(user_id=data_subject.id)._raw_delete("default")
            flows, links = _delete_flows_and_links(data_subject)
        return {"refresh_tokens": legacy, "flow_state": flows, "impersonation_links": links}


def _delete_flows_and_links(data_subject: DataSubject) -> tuple[int, int]:
    """Delete unfinished flows and the links of operators; their numbers. One statement."""
    sql = f"""
        WITH flows AS (DELETE FROM {namespaced("flow_state")} WHERE user_id = %(id)s OR linking_target_id = %(id)s
            RETURNING id),
        links AS (DELETE FROM {namespaced("impersonation_links")} WHERE user_id = %(id)s RETURNING id)
        SELECT (SELECT count(*) FROM flows), (SELECT count(*) FROM links)
    """  # noqa: S608  (own table names)
    row = fetch_row(sql, {"id": data_subject.id})
    return (row[0], row[1]) if row else (0, 0)


def _flows(data_subject: DataSubject) -> QuerySet[FlowState]:
    return FlowState.objects.filter(Q(user_id=data_subject.id) | Q(linking_target_id=data_subject.id))
