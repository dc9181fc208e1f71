"""What an array is: how it may be read, its rates, the rules that give them, and their trial."""
