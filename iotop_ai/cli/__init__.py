"""The command line: one file or folder per subcommand."""
