"""Sign-in through others: OAuth 2.0 and 1.0a providers, OpenID Connect, and providers that an administrator defines.

May import accounts, tokens and authsvc.core; nothing but `authsvc.urls` and the plug-in lists know it. Start reading at
`urls.py` for a journey, at `registry.py` and `providers/` for a provider.
"""
