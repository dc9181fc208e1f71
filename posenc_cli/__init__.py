"""posenc: generate, inspect, check and visualize transformer positional encodings."""
