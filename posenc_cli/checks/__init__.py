"""Checks of what others computed, against the exact values."""
