"""A plan on its way to the gate: claimed folders, bindings, rules, the control row, and the gate in Catalyst."""
