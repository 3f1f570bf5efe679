"""Turns Frames into rows of text with style tokens, and numbers into words. Pure, and independent of any terminal."""
