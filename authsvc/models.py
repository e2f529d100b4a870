"""Imports the models of the packages, as Django expects of an app."""

from authsvc.audit.models import AuditLogEntry
from authsvc.daily_counts.models import CountProgress, DailyCount
from authsvc.security.models import RateLimit

__all__ = ["AuditLogEntry", "CountProgress", "DailyCount", "RateLimit"]
