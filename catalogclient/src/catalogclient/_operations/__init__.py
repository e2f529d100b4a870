"""The operations as values: how each request is built and its answer read, without sending anything."""
