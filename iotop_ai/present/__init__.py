"""Frame to rows of text with tokens, and numbers to words. Pure, knows no terminal."""
