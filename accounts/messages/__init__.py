"""Messages to users: confirmation emails, notification emails and SMS codes."""
