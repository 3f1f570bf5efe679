"""Lines, tables, graphs, units and theme."""
