"""Sign-in with external providers: OAuth 2.0, OAuth 1.0a, OpenID Connect, and custom providers.

The app may import `accounts`, `tokens` and `authsvc`. Only `authsvc.urls` imports it. `flow/` contains the sign-in
flows, `registry.py` the list of providers, `providers/` one module per provider.
"""
