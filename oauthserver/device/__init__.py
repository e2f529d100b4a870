"""Sign-in on devices without a browser (RFC 8628): requests, the decision of the user, and polling."""
