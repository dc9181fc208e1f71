"""Files: atomic replacement, and one module a format."""
