"""What an import did: counts that add up, reasons, and what was left behind."""

from __future__ import annotations

from dataclasses import dataclass, field

_HEADS = ("read", "made", "new", "changed", "same", "skipped", "removed")


@dataclass(slots=True, kw_only=True)
class Tally:
    """The rows of one table: read + made = new + changed + same + skipped."""

    read: int = 0
    made: int = 0
    """Not in a table of this name at the source, but in columns of another."""
    new: int = 0
    changed: int = 0
    same: int = 0
    removed: int = 0
    """Were here from an earlier pass and are no longer at the source."""
    reasons: dict[str, int] = field(default_factory=dict)
    lost: int = 0
    """Skipped, although their user is taken and would miss them."""

    @property
    def skipped(self) -> int:
        return sum(self.reasons.values())


@dataclass(slots=True, kw_only=True)
class Report:
    version: str
    tallies: dict[str, Tally] = field(default_factory=dict)
    left_behind: list[str] = field(default_factory=list)
    """Tables that are not taken, with the number of their rows and why."""
    warnings: list[str] = field(default_factory=list)

    @property
    def lost(self) -> int:
        return sum(tally.lost for tally in self.tallies.values())

    def lines(self) -> list[str]:
        width = max(len(name) for name in ("table", *self.tallies))
        lines = [
            f"source: {'version ' + self.version if self.version else 'a database that does not tell its version'}"
        ]
        lines.append(f"{'table':{width}}" + "".join(f"{head:>11}" for head in _HEADS))
        for name, tally in self.tallies.items():
            lines.append(f"{name:{width}}" + "".join(f"{getattr(tally, head):11,}" for head in _HEADS))
        for name, tally in self.tallies.items():
            lines += [f"skipped: {name}: {number:,} rows: {reason}" for reason, number in tally.reasons.items()]
        return [*lines, *(f"not taken: {text}" for text in self.left_behind)]
