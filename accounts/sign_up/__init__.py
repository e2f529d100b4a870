"""Sign-up by email, phone, or anonymously."""
