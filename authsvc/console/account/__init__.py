"""The operator's own account at `/operator/account/`: password, second factors, passkeys, recovery codes and sessions.

Every role may use these pages. They read the console's own session, and call the services of the API as its user.
"""
