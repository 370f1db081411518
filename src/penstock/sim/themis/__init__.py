"""THEMIS's experiments (Kalyvianaki et al. 2016): federations, runs, figures, claims and plots."""
