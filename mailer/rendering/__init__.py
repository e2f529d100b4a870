"""Message types, template sources and rendering."""
