"""Stored rows to statistics, tables and figures; imports neither torch nor ray."""
