"""`manage.py doctor` checks everything the service depends on and prints a remedy for each failure."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

from django.core.management.base import CommandParser

from authsvc.diagnostics.registry import (
    CheckOutcome,
    CheckResult,
    Diagnostic,
    DiagnosticContext,
    diagnostics,
    failure,
)
from authsvc.management.service_command import ServiceCommand
from authsvc.observability import logs

_SIGNS = {
    CheckOutcome.OK: "ok     ",
    CheckOutcome.UNUSED: "unused ",
    CheckOutcome.WARNING: "WARNING",
    CheckOutcome.FAILURE: "FAILURE",
}


class Command(ServiceCommand):
    help = "Checks the database, keys, email, SMS, providers, telemetry and proxy; exits with 1 on a failure."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--url", default="", help="address of the running service through its proxy")
        parser.add_argument("--json", action="store_true", help="print one JSON document")

    def handle(self, *args: Any, url: str, **options: Any) -> None:
        context = DiagnosticContext(public_url=url)
        results: list[CheckResult] = []
        for diagnostic in diagnostics:
            for result in _run(diagnostic, context):
                results.append(result)
                if not options["json"]:
                    self._print(result)
        counts = Counter(result.outcome for result in results)
        if options["json"]:
            document = {"works": not counts[CheckOutcome.FAILURE], "findings": [_as_json(result) for result in results]}
            self.stdout.write(json.dumps(document, indent=2, ensure_ascii=False))
        else:
            self.stdout.write(f"{counts[CheckOutcome.FAILURE]} failures, {counts[CheckOutcome.WARNING]} warnings")
        if counts[CheckOutcome.FAILURE]:
            sys.exit(1)

    def _print(self, result: CheckResult) -> None:
        self.stdout.write(f"{_SIGNS[result.outcome]}  {result.subject}: {result.message}")
        if result.remedy:
            self.stdout.write(f"         -> {result.remedy}")


def _run(diagnostic: Diagnostic, context: DiagnosticContext) -> Iterator[CheckResult]:
    """The results of a diagnostic; an error that it does not report itself is a failure and ends only this one."""
    try:
        yield from diagnostic.run(context)
    except Exception as error:  # noqa: BLE001  (the other diagnostics must run)
        reason = logs.redact(str(error)).partition("\n")[0]
        remedy = "Report this error: the diagnostic did not expect it."
        yield failure(type(diagnostic).__module__, f"{type(error).__name__}: {reason}", remedy)


def _as_json(result: CheckResult) -> dict[str, str]:
    """A result as JSON. Its keys are part of the command's interface."""
    return {"subject": result.subject, "outcome": result.outcome, "said": result.message, "remedy": result.remedy}
