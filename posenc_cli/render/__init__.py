"""Rendering: values, axes and titles into pictures and reports."""
