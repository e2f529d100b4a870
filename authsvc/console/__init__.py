"""The operator console at `/operator/`: Django's admin behind our own sign-in.

May import every app but the mailer; only `authsvc.urls` and `authsvc.settings` import it. What it shows is declared
in the apps' `admin.py` on `authsvc.console.model_admin`. Start reading at `middleware.py`, then `sign_in.py`.
"""
