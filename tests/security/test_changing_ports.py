"""A client gets a new limit with each connection, because a proxy writes the client's port into X-Forwarded-For."""

from __future__ import annotations

import pytest

from authsvc.models import AuditLogEntry
from tests import factories
from tests.conftest import Api, ChangeConfig

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("slow_refill")]

BURST = 30


@pytest.mark.parametrize("form", ["198.51.100.7:{port}", "[2001:db8::7]:{port}"])
@pytest.mark.parametrize("header", ["X-Forwarded-For", "X-Real-IP"])
def test_ports_do_not_distinguish_clients(api: Api, auth_config: ChangeConfig, form: str, header: str) -> None:
    auth_config(limits={"header": "" if header == "X-Forwarded-For" else header})
    body = {"email": "ann@example.com", "password": "a wrong guess"}
    statuses = [
        api.post("/token?grant_type=password", body, headers={header: form.format(port=40_000 + number)}).status_code
        for number in range(BURST + 1)
    ]
    assert (statuses[0], statuses[BURST]) == (400, 429)
    other = api.post("/token?grant_type=password", body, headers={header: "198.51.100.8:40000"})
    assert other.status_code == 400


@pytest.mark.parametrize(
    ("forwarded_for", "address"),
    [("198.51.100.7:4711", "198.51.100.7"), ("203.0.113.9, [2001:DB8::7]:443, 10.0.0.1:80", "2001:db8::7")],
)
def test_the_audit_trail_names_the_client_and_not_the_proxy(api: Api, forwarded_for: str, address: str) -> None:
    factories.make_user(email="ann@example.com")
    body = {"email": "ann@example.com", "password": factories.PASSWORD}
    assert api.post("/token?grant_type=password", body, headers={"X-Forwarded-For": forwarded_for}).status_code == 200
    assert AuditLogEntry.objects.get().ip_address == address
