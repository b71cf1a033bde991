"""From rows to tables and curves: selection and statistics."""
