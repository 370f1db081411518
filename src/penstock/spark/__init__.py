"""Penstock inside Spark Structured Streaming."""
