"""The user row: columns, record, payload, deletion, erasure and search."""
