"""How what is no Python function is called as one."""
