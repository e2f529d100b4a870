"""What the service says of itself to collectors: its version, and that it runs."""

from __future__ import annotations

import os
import re
from uuid import uuid4

import authsvc
from authsvc import conf
from authsvc.observability.metrics import Reading

_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)(?:[-.]?rc\.?(\d+))?")


def constants() -> list[Reading]:
    """The figures that do not change while the process lives."""
    found = _VERSION.match(authsvc.__version__)
    parts = found.groups("0") if found else ("0", "0", "0", "0")
    versions = zip(("major", "minor", "patch", "rc"), parts, strict=True)
    return [
        Reading(name="auth_running", help="Always 1.", value=1),
        *(
            Reading(name=f"global_auth_version_{name}", help=f"The {name} part of the version.", value=int(part))
            for name, part in versions
        ),
    ]


def resource(config: conf.Telemetry) -> dict[str, str | int]:
    """Attributes of what this process sends: the operator's, the version, and what tells it from its siblings."""
    named = config.variables.get("OTEL_SERVICE_NAME")
    attributes: dict[str, str | int] = {"service.name": "authsvc", **config.resource_attributes}
    if named:
        attributes["service.name"] = named.reveal()
    attributes |= {"auth.version": authsvc.__version__, "process.pid": os.getpid()}
    attributes.setdefault("service.instance.id", str(uuid4()))
    return attributes
