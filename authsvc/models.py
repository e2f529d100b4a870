"""Imports the models of the packages, as Django expects of an app."""

from authsvc.audit.models import AuditLogEntry
from authsvc.security.models import RateLimit

__all__ = ["AuditLogEntry", "RateLimit"]
