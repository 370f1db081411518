"""What the policies are measured against: LAS's baselines (Rivetti et al. 2016, section 5.1)."""

from penstock.core.control.policies import BaseLine, FullKnowledge, StrawMan

__all__ = ["BaseLine", "FullKnowledge", "StrawMan"]
