"""The algorithms: pure functions and state machines over plain data; time and randomness are arguments."""
