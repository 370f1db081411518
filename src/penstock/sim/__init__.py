"""The simulator: the same algorithms on virtual time, and the figures of the papers."""
