"""YAML and JSON files to typed objects, or one error with file:line and a suggestion."""
