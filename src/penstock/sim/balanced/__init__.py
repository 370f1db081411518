"""One policy for cost, worth and fairness against the papers, each on its own ground: runs, figures, claims, plots."""
