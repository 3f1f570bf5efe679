"""The screens of the apps, one per file."""
