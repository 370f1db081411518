"""What is shown in a terminal or written as a page by commands."""
