"""The callbacks of training frameworks. Each module needs its framework and is imported only if it is used."""
