"""The command line: each subcommand has a file or a folder below ``commands``."""
