"""Widgets that know no type of iotop_ai."""
