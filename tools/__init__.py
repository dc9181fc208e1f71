"""Maintain the project: environments, pages, peers' numbers, mutants."""
