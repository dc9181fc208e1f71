"""Calls of users' functions and graphs: the process that runs them, and what goes to and fro."""
