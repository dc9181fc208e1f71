"""From a request to the matrix it asks for, block by block."""
