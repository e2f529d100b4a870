"""This service as OAuth 2.1 authorization server and OpenID Connect provider for other applications.

An application is a client. The packages are its capabilities: `clients` (registration), `authorization` (request and
consent), `token`, `userinfo`, `grants` (consents of a user) and `discovery`.
"""
