"""The report of an import: counts per table, reasons for skipped rows, and tables that were not imported."""

from __future__ import annotations

from dataclasses import dataclass, field

_COLUMNS = ("read", "derived", "new", "changed", "unchanged", "skipped", "deleted")


class ImportRejected(Exception):
    """The import was rejected and wrote nothing. The message contains no password, secret or user address."""


@dataclass(slots=True, kw_only=True)
class Tally:
    """Rows of one table: read + derived = new + changed + unchanged + skipped."""

    read: int = 0
    derived: int = 0
    """Rows derived from columns of other tables of the source."""
    new: int = 0
    changed: int = 0
    unchanged: int = 0
    deleted: int = 0
    """Rows of an earlier run that are no longer at the source."""
    reasons: dict[str, int] = field(default_factory=dict)
    lost: int = 0
    """Skipped sessions, tokens and passkeys of imported users."""

    @property
    def skipped(self) -> int:
        return sum(self.reasons.values())


@dataclass(slots=True, kw_only=True)
class ImportReport:
    version: str
    tallies: dict[str, Tally] = field(default_factory=dict)
    not_imported: list[str] = field(default_factory=list)
    """Tables that were not imported, with their row count and the reason."""
    warnings: list[str] = field(default_factory=list)

    @property
    def lost(self) -> int:
        return sum(tally.lost for tally in self.tallies.values())

    def lines(self) -> list[str]:
        width = max(len(name) for name in ("table", *self.tallies))
        lines = [f"source: {'version ' + self.version if self.version else 'unknown version'}"]
        lines.append(f"{'table':{width}}" + "".join(f"{column:>11}" for column in _COLUMNS))
        for name, tally in self.tallies.items():
            lines.append(f"{name:{width}}" + "".join(f"{getattr(tally, column):11,}" for column in _COLUMNS))
        for name, tally in self.tallies.items():
            lines += [f"skipped: {name}: {number:,} rows: {reason}" for reason, number in tally.reasons.items()]
        return [*lines, *(f"not imported: {text}" for text in self.not_imported)]
