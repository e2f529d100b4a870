"""Users, their identities and factors, and the requests from sign-up to account deletion.

Each package holds the views, services and queries of one capability. The app may import `tokens` and `authsvc`, but
neither `oauthproviders` nor `mailer`, which receives messages through the signals of `authsvc.messaging`.
"""
