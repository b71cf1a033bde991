"""User input: values and YAML files, read strictly, and commands as a user can type them."""
