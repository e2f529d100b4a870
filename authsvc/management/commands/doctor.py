"""`manage.py doctor`: what works of all that the service needs from elsewhere, and how to mend what does not."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections import Counter
from typing import Any

from django.core.management.base import CommandParser

from authsvc import plugins
from authsvc.diagnostics.checks import Circumstances, Examination, Finding, Outcome
from authsvc.management.service_command import ServiceCommand

_SIGNS = {Outcome.OK: "ok     ", Outcome.UNUSED: "unused ", Outcome.WARNING: "WARNING", Outcome.FAILURE: "FAILURE"}


class Command(ServiceCommand):
    help = "Looks at what the service needs, from database to proxy; ends with 1 when something does not work."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--url", default="", help="where the running service is reached through its proxy")
        parser.add_argument("--json", action="store_true", help="print one JSON document")

    def handle(self, *args: Any, url: str, **options: Any) -> None:
        circumstances = Circumstances(public_url=url)
        found: list[Finding] = []
        examinations: list[Examination] = plugins.in_order("EXAMINATIONS")
        for examination in examinations:
            for finding in examination.examine(circumstances):
                found.append(finding)
                if not options["json"]:
                    self._print(finding)
        counts = Counter(finding.outcome for finding in found)
        if options["json"]:
            document = {"works": not counts[Outcome.FAILURE], "findings": [dataclasses.asdict(each) for each in found]}
            self.stdout.write(json.dumps(document, indent=2, ensure_ascii=False))
        else:
            self.stdout.write(f"{counts[Outcome.FAILURE]} failures, {counts[Outcome.WARNING]} warnings")
        if counts[Outcome.FAILURE]:
            sys.exit(1)

    def _print(self, finding: Finding) -> None:
        self.stdout.write(f"{_SIGNS[finding.outcome]}  {finding.subject}: {finding.said}")
        if finding.remedy:
            self.stdout.write(f"         -> {finding.remedy}")
