"""Base classes of endpoints, request parsing, error responses, throttling, CORS, client IP and OpenAPI."""
