"""Multi-factor authentication: enrolment, challenges, verification and recovery codes."""
