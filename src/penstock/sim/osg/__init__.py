"""OSG's experiments (Rivetti et al. 2016): streams, runs, figures, claims and plots."""
