"""What is kept beside a query: logs of plans and bindings, journals of reports, and how much of the past stays."""
