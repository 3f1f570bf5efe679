"""One file or folder per subcommand."""
