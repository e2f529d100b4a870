"""Commands of the mailer."""
