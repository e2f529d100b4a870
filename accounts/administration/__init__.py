"""Administration API: users, factors, passkeys, invitations, action links and the audit trail."""
