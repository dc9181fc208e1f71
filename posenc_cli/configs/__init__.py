"""Models: what their configs say of positions, and the presets that posenc ships."""
