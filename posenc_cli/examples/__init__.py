"""Code to try posenc on."""
