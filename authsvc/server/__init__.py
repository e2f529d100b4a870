"""HTTP servers and their worker processes."""
