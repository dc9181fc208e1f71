"""How functions and arrays of other libraries are called, made and read."""
