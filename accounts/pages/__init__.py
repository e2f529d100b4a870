"""The hosted pages: sign-in, sign-up, recovery, second factor and the account, rendered on the server."""
