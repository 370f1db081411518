"""One site of a federation as a Spark application."""
