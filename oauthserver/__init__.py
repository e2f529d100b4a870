"""This service as OAuth 2.1 authorization server and OpenID Connect provider for other applications.

An application is a client. Packages: `clients` (registration, authentication), `authorization` (request and
consent), `device`, `token`, `userinfo`, `grants` (consents of a user), `logout`, `discovery` and `pages`.
"""
