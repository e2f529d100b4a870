"""WebAuthn ceremonies shared by passkeys and security-key factors."""
