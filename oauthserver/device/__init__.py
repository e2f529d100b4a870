"""Sign-in on devices without a browser (RFC 8628): requests, and the decision of the user."""
