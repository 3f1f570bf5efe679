"""The fold's memory, kept from one Sample to the next."""
