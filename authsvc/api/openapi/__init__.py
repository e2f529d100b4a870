"""The OpenAPI document: generated from the endpoints, served as checked in, and shown as an HTML page."""
