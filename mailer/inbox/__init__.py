"""The development inbox and message previews."""
