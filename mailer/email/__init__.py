"""Email: composition and SMTP."""
