"""What is shown in a terminal or written as a page, for whoever runs a command."""
