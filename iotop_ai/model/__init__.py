"""Pure records and arithmetic: what the collectors read, and the rates computed from it.

Nothing here reads a file, a clock or a socket.
"""
