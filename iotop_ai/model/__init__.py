"""Pure records and arithmetic: what a reading is, what a rate is. Reads no file, clock or socket."""
