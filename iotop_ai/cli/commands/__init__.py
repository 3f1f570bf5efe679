"""The subcommands: each has a file or a folder."""
