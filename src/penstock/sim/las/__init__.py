"""LAS's experiments (Rivetti et al. 2016): runs, figures, claims and plots."""
