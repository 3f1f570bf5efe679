"""All code that relies on undocumented behaviour of Textual."""
