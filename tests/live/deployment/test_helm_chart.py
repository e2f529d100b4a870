"""The Helm chart: helm renders it, Kubernetes knows every field, and the service accepts its settings.

`kubernetes_validate` contains the schemas that kubeconform downloads from GitHub, which a test cannot rely on.
"""

from __future__ import annotations

import json
import re
import subprocess
from typing import Any

import jsonschema  # type: ignore[import-untyped]  # it ships no types
import kubernetes_validate
import pytest
import yaml

from authsvc import conf
from authsvc.conf import dotenv
from authsvc.server import serving
from tests.live.deployment import programs
from tests.live.documentation import pages

CHART = programs.DEPLOY / "helm" / "authsvc"
KUBERNETES = "1.36"
URLS = {"AUTH_SITE_URL": "https://app.example.com", "AUTH_API_EXTERNAL_URL": "https://auth.example.com"}
EVERYTHING = {
    "image": {"digest": f"sha256:{'0' * 64}"},
    "extraEnv": [{"name": "DATABASE_URL", "valueFrom": {"secretKeyRef": {"name": "auth-db-app", "key": "uri"}}}],
    "extraEnvFrom": [{"secretRef": {"name": "smtp"}}],
    "extraVolumes": [{"name": "ca", "secret": {"secretName": "auth-db-ca"}}],
    "extraVolumeMounts": [{"name": "ca", "mountPath": "/etc/postgresql-ca", "readOnly": True}],
    "autoscaling": {"enabled": True},
    "ingress": {"enabled": True, "className": "nginx", "tlsSecret": "auth-tls"},
    "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
    "networkPolicy": {"from": [{"namespaceSelector": {}}], "egress": [{"ports": [{"port": 5432}]}]},
    "nodeSelector": {"disk": "fast"},
    "tolerations": [{"operator": "Exists"}],
    "affinity": {"podAntiAffinity": {}},
    "imagePullSecrets": [{"name": "registry"}],
    "podSecurityContext": {"runAsUser": 2000, "fsGroup": 2000},
    "securityContext": {"runAsUser": 2000},
    "podAnnotations": {"team": "identity"},
    "podLabels": {"team": "identity"},
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": "zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"team": "identity"}},
        }
    ],
    "service": {"annotations": {"team": "identity"}},
    "serviceAccount": {"annotations": {"team": "identity"}},
}
LEAST = {
    section: {"enabled": False} for section in ("worker", "migrations", "podDisruptionBudget", "networkPolicy")
} | {"serviceAccount": {"name": "default"}, "topologySpreadConstraints": []}


def _only(required: dict[str, Any], **optional: Any) -> dict[str, Any]:
    """The schema of an object without further fields."""
    properties = required | optional
    return {"type": "object", "required": [*required], "properties": properties, "additionalProperties": False}


_LABELS = {"type": "object", "additionalProperties": {"type": "string"}}
_ENDPOINT = {
    "port": {"type": "string"},
    "path": {"type": "string"},
    "interval": {
        "type": "string",
        "pattern": "^(0|(([0-9]+)y)?(([0-9]+)w)?(([0-9]+)d)?(([0-9]+)h)?(([0-9]+)m)?(([0-9]+)s)?(([0-9]+)ms)?)$",
    },
}
SERVICE_MONITOR = _only(
    {
        "apiVersion": {"const": "monitoring.coreos.com/v1"},
        "kind": {"const": "ServiceMonitor"},
        "metadata": _only({"name": {"type": "string"}}, labels=_LABELS),
        "spec": _only(
            {
                "jobLabel": {"const": "app.kubernetes.io/name"},
                "selector": _only({}, matchLabels=_LABELS),
                "endpoints": {"type": "array", "items": _only({}, **_ENDPOINT)},
            }
        ),
    }
)
"""The fields of the Prometheus operator's API 0.95 that the chart uses. Its schema is on GitHub only."""


def helm(*arguments: str, values: dict[str, Any] | None = None) -> subprocess.CompletedProcess[str]:
    given = dict(values or {})
    given["settings"] = URLS | given.get("settings", {})
    return subprocess.run(
        [programs.find("helm"), *arguments, str(CHART), "-f", "-"],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        check=False,
    )


class UniqueKeys(yaml.SafeLoader):
    """Refuses a key that occurs twice, of which YAML libraries take the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value]
        assert len(keys) == len(set(keys)), keys
        return super().construct_mapping(node, deep)


def render(values: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    ran = helm("template", "auth", values=values)
    assert ran.returncode == 0, ran.stderr
    return [document for document in yaml.load_all(ran.stdout, UniqueKeys) if document]


def test_helm_accepts_the_chart() -> None:
    ran = helm("lint", "--strict")
    assert ran.returncode == 0, ran.stdout


@pytest.mark.parametrize("values", [{}, EVERYTHING, LEAST], ids=["default", "everything", "least"])
def test_kubernetes_knows_every_field(values: dict[str, Any]) -> None:
    objects = render(values)
    for document in objects:
        if document["kind"] == "ServiceMonitor":
            jsonschema.validate(document, SERVICE_MONITOR)
        else:
            kubernetes_validate.validate(document, KUBERNETES, strict=True)
    kinds = {document["kind"] for document in objects}
    assert {"Deployment", "Service", "ConfigMap"} <= kinds
    assert ("HorizontalPodAutoscaler" in kinds) is (values is EVERYTHING)
    assert ("NetworkPolicy" in kinds) is (values is not LEAST)
    assert ("ServiceMonitor" in kinds) is (values is EVERYTHING)


def pods_of(objects: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Name of the workload → specification of its pods."""
    return {
        document["metadata"]["name"]: document["spec"]["template"]["spec"]
        for document in objects
        if document["kind"] in ("Deployment", "Job")
    }


def test_pods_are_confined_and_may_finish_their_requests() -> None:
    pods = pods_of(render())
    assert pods.keys() == {"auth-authsvc", "auth-authsvc-worker", "auth-authsvc-migrations"}
    for pod in pods.values():
        [container] = pod["containers"]
        assert pod["securityContext"] == {
            "runAsNonRoot": True,
            "runAsUser": 10001,
            "runAsGroup": 10001,
            "seccompProfile": {"type": "RuntimeDefault"},
        }
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert [mount["mountPath"] for mount in container["volumeMounts"]] == ["/tmp"]
        assert container["envFrom"][-1] == {"secretRef": {"name": "authsvc"}}
    server = pods["auth-authsvc"]
    pause = server["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert server["terminationGracePeriodSeconds"] > serving.DRAIN_SECONDS + pause


def test_openshift_may_choose_the_user() -> None:
    values = {"podSecurityContext": {"runAsUser": None, "runAsGroup": None, "fsGroupChangePolicy": "OnRootMismatch"}}
    pods = pods_of(render(values))

    assert len(pods) == 3
    for pod in pods.values():
        assert pod["securityContext"] == {
            "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
            "fsGroupChangePolicy": "OnRootMismatch",
        }


def test_values_hold_no_secret() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())["properties"]["settings"]["propertyNames"]
    rows = (pages.DOCS / "reference" / "settings.md").read_text().splitlines()
    settings = [
        (name.replace("<PROVIDER>", "GITHUB").replace("<HOOK>", "SEND_SMS"), "*secret*" in row)
        for row in rows
        for name in re.findall(r"`([A-Z][A-Z0-9_<>]+)`", row.split("|")[1] if row.startswith("|") else "")
    ]
    assert len(settings) > 250
    refused = re.compile(schema["not"]["pattern"])
    wrong = [name for name, is_secret in settings if "<" not in name and bool(refused.search(name)) is not is_secret]
    assert wrong == []
    assert refused.search("OTEL_EXPORTER_OTLP_TRACES_HEADERS")  # one of those that the page writes as OTEL_<NAME>


def test_numbers_have_no_exponent() -> None:
    values = {"settings": {"AUTH_RATE_LIMIT_EMAIL_SENT": 12_345_678, "AUTH_RATE_LIMIT_VERIFY": 0.00001}}
    for document in render(values):
        if document["kind"] == "ConfigMap":
            assert document["data"]["AUTH_RATE_LIMIT_EMAIL_SENT"] == "12345678"
            assert document["data"]["AUTH_RATE_LIMIT_VERIFY"] == "0.00001"


def test_every_pod_has_the_further_variables_and_files() -> None:
    pods = pods_of(render(EVERYTHING))
    assert len(pods) == 3
    for pod in pods.values():
        [container] = pod["containers"]
        assert container["image"].endswith(f"@sha256:{'0' * 64}")
        assert container["envFrom"][1:] == [{"secretRef": {"name": "authsvc"}}, {"secretRef": {"name": "smtp"}}]
        assert container["env"][-1]["name"] == "DATABASE_URL"
        assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}


def test_only_permitted_peers_read_metrics_without_the_operator_of_prometheus() -> None:
    peers = [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}]
    objects = render({"metrics": {"enabled": True}, "networkPolicy": {"metricsFrom": peers}})
    [policy] = [document["spec"] for document in objects if document["kind"] == "NetworkPolicy"]
    assert policy["ingress"] == [{"ports": [{"port": "http"}]}, {"ports": [{"port": "metrics"}], "from": peers}]
    assert [document["metadata"]["name"] for document in objects if document["kind"] == "Service"] == [
        "auth-authsvc",
        "auth-authsvc-metrics",
    ]


@pytest.mark.parametrize(
    ("autoscaling", "reason"),
    [
        ({}, "autoscaling.latency needs metrics.enabled or serviceMonitor.enabled"),
        ({"latency": {"enabled": False}, "cpu": 0}, "autoscaling needs latency.enabled or cpu"),
        (
            {"latency": {"enabled": False}, "minReplicas": 7},
            "autoscaling.minReplicas is above autoscaling.maxReplicas",
        ),
    ],
)
def test_an_autoscaler_needs_a_metric_and_a_range(autoscaling: dict[str, Any], reason: str) -> None:
    ran = helm("template", "auth", values={"autoscaling": {"enabled": True, **autoscaling}})
    assert ran.returncode != 0
    assert reason in ran.stderr


def test_labels_and_annotations_of_pods_are_those_of_the_migrations_too() -> None:
    templates = [
        document["spec"]["template"]["metadata"]
        for document in render(EVERYTHING)
        if "spec" in document and "template" in document["spec"]
    ]
    assert len(templates) == 3
    for metadata in templates:
        assert metadata["labels"]["team"] == metadata["annotations"]["team"] == "identity"


def test_a_release_may_have_the_name_of_a_number() -> None:
    ran = helm("template", "1e3")
    objects = list(yaml.safe_load_all(ran.stdout))
    assert {document["metadata"]["labels"]["app.kubernetes.io/instance"] for document in objects} == {"1e3"}


def test_the_service_accepts_the_settings_of_the_guide() -> None:
    guide = pages.DOCS / "how-to" / "kubernetes.md"
    [values] = [block for block in pages.blocks(guide, "yaml") if block.startswith("image:")]
    [secrets] = pages.blocks(guide, "ini")
    settings, of_migrations = [
        document["data"] for document in render(yaml.safe_load(values)) if document["kind"] == "ConfigMap"
    ]
    assert settings == of_migrations
    accepted = conf.load({**settings, **dotenv.parse(secrets)})
    assert accepted.smtp.user
    assert accepted.smtp.password.reveal()


@pytest.mark.parametrize(
    "values",
    [
        {"settings": {"AUTH_JWT_SECRET": "in plain text"}},
        {"settings": {"DATABASE_URL": "postgres://u:p@db/auth"}},
        {"settings": {"OTEL_EXPORTER_OTLP_METRICS_HEADERS": "authorization=Bearer t"}},
        {"settings": {"AUTH_SITE_URL": ""}},
        {"existingSecret": ""},
        {"image": {"tag": f"0.1.0@sha256:{'0' * 64}"}},
        {"imagePullSecrets": ["registry"]},
        {"nodeSelector": {"gpu": True}},
        {"podLabels": {"version": 1}},
        {"podLabels": {"app.kubernetes.io/component": "server"}},
        {"podAnnotations": {"checksum/settings": "none"}},
        {"extraEnv": [{"name": "LOG_LEVEL", "value": 1}]},
        {"settings": {"AUTH_API_HOST": "127.0.0.1"}},
        {"serviceMonitor": {"interval": "30"}},
        {"podDisruptionBudget": {"maxUnavailable": 0}},
        {"replicas": 0},
        {"autoscaling": {"latency": {"target": True}}},
        {"podSecurityContext": {"runAsUser": 0}},
        {"no_such_value": 1},
    ],
    ids=str,
)
def test_invalid_values_are_refused(values: dict[str, Any]) -> None:
    ran = helm("template", "auth", values=values)
    assert ran.returncode != 0
    assert "values don't meet the specifications of the schema" in ran.stderr
