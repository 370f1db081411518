"""One module a paper: its figures as data, claims and plots."""
