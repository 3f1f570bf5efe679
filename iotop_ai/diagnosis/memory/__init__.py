"""The memory of ``engine.fold()``, kept from one Sample to the next."""
