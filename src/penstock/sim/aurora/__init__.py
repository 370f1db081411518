"""Aurora's experiments (Tatbul et al. 2003): networks, runs, figures, claims and plots."""
