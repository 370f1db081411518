"""One site of a federation: what it keeps of each input, given what it measures and what its peers report."""
