"""Password recovery: `POST /recover`."""
