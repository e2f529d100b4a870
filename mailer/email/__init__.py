"""Email: composition, and sending through SMTP or a Django email back end."""
