"""Claims about the user, and the UserInfo endpoint."""
