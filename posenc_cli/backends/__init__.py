"""Backends: what computes the values. Each imports its library only when it is used."""
