"""Data that is generated, found or fetched, shared by tasks."""
