"""Output of commands for terminals and pages."""
