"""One-time codes and links."""
