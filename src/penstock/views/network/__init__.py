"""A network as it runs: in a terminal, as a drawing, as a page, and in numbers."""
