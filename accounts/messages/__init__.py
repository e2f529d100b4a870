"""Messages that accounts sends: confirmation emails, notification emails and SMS codes."""
