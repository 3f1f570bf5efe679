"""Everything that relies on undocumented behaviour of Textual."""
