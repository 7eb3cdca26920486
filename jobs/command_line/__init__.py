"""The options and the help of the command line. Imports nothing that takes time, since --help must answer at once."""
