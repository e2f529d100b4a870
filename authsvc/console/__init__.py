"""The operator console at `/operator/`: Django's admin with the service's own sign-in.

`model_admin`, `lists`, `actions`, `filters`, `formatting`, `user_panels` and `timeline` are the base of the pages that
the apps declare in `admin`.
`site`, `view_policies`, `dashboard`, `sign_in` and `account` stand above the apps; only the URLs and the app
configuration load them.
"""
