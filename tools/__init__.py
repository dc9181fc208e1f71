"""What keeps the project: environments, pages, numbers of peers, mutants."""
