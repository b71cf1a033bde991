"""Tables and figures as text, files and a page."""
