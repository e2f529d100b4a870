"""The OpenAPI document: complete, valid, committed and served; and the page that shows it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from django.http import HttpResponse
from django.test import Client
from django.urls import path
from openapi_spec_validator import validate
from pytest_django import DjangoAssertNumQueries, Settings
from rest_framework.response import Response

import authsvc
from authsvc.api.openapi import generator, operations, responses, views
from authsvc.api.views import Endpoint, ServiceRequest
from authsvc.conf import AuthConfig
from tests import openapi
from tests.architecture.test_error_definitions import error_classes
from tests.conftest import Api
from tokens.api import grants

ChangeConfig = Callable[..., AuthConfig]


class SilentView(Endpoint):
    def get(self, request: ServiceRequest) -> HttpResponse:
        return Response(status=204)


urlpatterns = [path("silent", SilentView.as_view())]


@pytest.fixture(scope="module")
def built() -> dict[str, Any]:
    document: dict[str, Any] = generator.build()
    return document


# The document


def test_the_document_is_valid(built: dict[str, Any]) -> None:
    validate(built)


def test_the_committed_document_matches_the_endpoints(built: dict[str, Any]) -> None:
    assert views.FILE.read_bytes() == generator.dump(built), "run make reference"


def test_the_document_has_the_version_of_the_service(built: dict[str, Any]) -> None:
    assert built["info"]["version"] == authsvc.__version__


def test_every_method_of_every_endpoint_is_documented(built: dict[str, Any]) -> None:
    there = {
        (path, method) for path, view in operations.endpoints() for method in openapi.METHODS if hasattr(view, method)
    }
    described = {(path, method) for path, item in built["paths"].items() for method in item if method != "parameters"}
    assert there == described
    assert len(there) > 50


def test_undocumented_endpoints_are_detected(settings: Settings) -> None:
    settings.ROOT_URLCONF = __name__
    with pytest.raises(operations.UndocumentedOperation, match="GET /silent"):
        operations.operations()


def test_every_operation_has_a_summary_and_a_unique_id(built: dict[str, Any]) -> None:
    operations = [item[method] for item in built["paths"].values() for method in openapi.METHODS if method in item]
    assert all(operation["summary"] for operation in operations)
    ids = [operation["operationId"] for operation in operations]
    assert len(ids) == len(set(ids))
    tags = {tag["name"] for tag in built["tags"]}
    assert {tag for operation in operations for tag in operation["tags"]} == tags


def test_every_variable_of_a_path_is_a_parameter(built: dict[str, Any]) -> None:
    for operation in operations.operations():
        named = [
            parameter["name"]
            for parameter in built["paths"][operation.path]["parameters"]
            if parameter.get("in") == "path"
        ]
        assert named == operation.variables


def test_every_error_of_the_api_is_declared() -> None:
    declared = {
        error
        for operation in operations.operations()
        for error in (*operation.documented_errors, *operation.doc.redirect_errors)
    }
    of_hooks = {error for error in error_classes() if error.__module__ == "hooks.errors"}
    undeclared = error_classes() - declared - of_hooks - set(responses.ANYWHERE)
    of_the_console = {
        "CannotBeImpersonated",
        "LastFactor",
        "ListTooSlow",
        "MessageExpired",
        "MessageUndecryptable",
        "NoFactors",
        "NotFailed",
        "NotRecovering",
        "NothingChanged",
        "NothingToConfirm",
        "NothingToSendTo",
        "RecipientBanned",
        "RecipientDeleted",
        "OwnAccount",
        "SessionAlreadyEnded",
    }
    bases = {"UnprocessableInput", "FrameworkError", "HookError"}
    of_disabled_features = {"SamlDisabled"}
    of_the_pages = {"DeviceCodeNotFound", "OperatorAccount"}
    expected = of_the_console | of_the_pages | bases | of_disabled_features
    assert {error.__name__ for error in undeclared} == expected


def test_security_requirements_match_the_views(built: dict[str, Any]) -> None:
    paths = built["paths"]
    assert paths["/signup"]["post"]["security"] == []
    assert paths["/user"]["get"]["security"] == [{"bearer": []}]
    assert paths["/admin/users"]["get"]["security"] == [{"admin": []}]


def test_the_token_endpoint_documents_every_registered_grant(built: dict[str, Any]) -> None:
    operation = built["paths"]["/token"]["post"]
    (parameter,) = operation["parameters"]
    assert parameter["schema"]["enum"] == list(grants.registered())
    bodies, captcha = operation["requestBody"]["content"]["application/json"]["schema"]["allOf"]
    assert len(bodies["anyOf"]) == len(grants.registered())
    assert captcha == {"$ref": "#/components/schemas/WithCaptcha"}


def test_request_bodies_list_required_members(built: dict[str, Any]) -> None:
    schema = built["components"]["schemas"]["RefreshTokenInput"]
    assert schema["required"] == ["refresh_token"]
    assert schema["properties"]["refresh_token"] == {"type": "string"}


@pytest.mark.parametrize(
    ("response", "fault"),
    [
        ({"status": 200, "body": {"message_id": 7}}, "is not of type"),
        ({"status": 200, "body": {"secret": "x"}}, "unexpected"),
        ({"status": 202, "body": {}}, "undeclared"),
        (
            {"status": 400, "body": {"code": 400, "error_code": "not_admin", "msg": ""}, "code": "not_admin"},
            "not_admin",
        ),
    ],
    ids=["a wrong type", "a further member", "another status", "another error"],
)
def test_undocumented_responses_are_detected(response: dict[str, Any], fault: str) -> None:
    headers = {"Content-Type": "application/json", "X-Sb-Error-Code": response.get("code", "")}
    content = orjson.dumps(response["body"])
    problems = openapi.find_problems("POST", "/otp", response["status"], headers=headers, content=content)
    assert fault in " ".join(problems)


# The response


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/openapi.json", "/openapi.json/"])
def test_the_document_is_served_without_a_database_query(
    api: Api, django_assert_num_queries: DjangoAssertNumQueries, path: str
) -> None:
    with django_assert_num_queries(0):
        for _ in range(40):
            assert Client().get(path).status_code == 200
        response = api.get(path)
    assert response.status_code == 200
    assert response.content == views.FILE.read_bytes()
    assert response.headers["Content-Type"] == "application/json"
    assert response.headers["Cache-Control"] == "public, max-age=600"


def test_an_unchanged_document_is_not_sent_again(api: Api) -> None:
    etag = api.get("/openapi.json").headers["ETag"]
    again = api.get("/openapi.json", headers={"If-None-Match": etag})
    assert (again.status_code, again.content) == (304, b"")
    assert api.get("/openapi.json", headers={"If-None-Match": '"other"'}).status_code == 200


# The page


def test_the_documentation_page_is_off_by_default(api: Api) -> None:
    assert api.get("/docs").status_code == 404


@pytest.mark.parametrize(
    "config",
    [{"api": {"docs_enabled": True}}, {"mailer": {"dev_inbox_enabled": True}}],
    ids=["switched on", "with the development inbox"],
)
@pytest.mark.parametrize("path", ["/docs", "/docs/"])
def test_the_documentation_page_loads_only_files_of_the_service(
    api: Api, client: Client, auth_config: ChangeConfig, config: dict[str, Any], path: str
) -> None:
    auth_config(**config)
    response = api.get(path)
    assert (response.status_code, response.headers["Cache-Control"]) == (200, "no-store")
    page = response.content.decode()
    addresses = re.findall(r'(?:src|href)="(/docs/[^"]+)"', page)
    assert [address.rpartition("/")[2] for address in addresses] == [
        "swagger-ui.css",
        "page.css",
        "swagger-ui-bundle.js",
        "page.js",
    ]
    assert "://" not in page
    for address in addresses:
        asset = client.get(address)
        assert asset.status_code == 200
        assert asset.content
        assert asset.headers["Content-Type"].partition(";")[0] == (
            "text/css" if address.endswith(".css") else "text/javascript"
        )
        assert asset.headers["X-Content-Type-Options"] == "nosniff"
        assert "immutable" in asset.headers["Cache-Control"]


def test_the_policy_of_the_documentation_page_permits_no_inline_code(api: Api, auth_config: ChangeConfig) -> None:
    auth_config(api={"docs_enabled": True})
    response = api.get("/docs")
    policy = response.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
    assert "unsafe" not in policy
    assert not re.search(rb"<script(?![^>]* src=)|<style| style=| on\w+=", response.content)


@pytest.mark.parametrize("path", ["/docs/{digest}/openapi.json", "/docs/{digest}/swagger-ui.js.map", "/docs/0/page.js"])
def test_other_files_are_not_served(api: Api, client: Client, auth_config: ChangeConfig, path: str) -> None:
    auth_config(api={"docs_enabled": True})
    [digest] = set(re.findall(r"/docs/(\w+)/", api.get("/docs").content.decode()))
    assert client.get(path.format(digest=digest)).status_code == 404
    assert client.get(f"/docs/{digest}/page.js").status_code == 200


def test_the_files_of_the_documentation_page_are_off_by_default(
    api: Api, client: Client, auth_config: ChangeConfig
) -> None:
    auth_config(api={"docs_enabled": True})
    [digest] = set(re.findall(r"/docs/(\w+)/", api.get("/docs").content.decode()))
    auth_config(api={"docs_enabled": False})
    assert client.get(f"/docs/{digest}/page.js").status_code == 404
