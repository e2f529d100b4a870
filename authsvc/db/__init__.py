"""Database: PostgreSQL backend, raw SQL helpers, advisory locks, embedded PostgreSQL."""
