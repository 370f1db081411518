"""What commands show in a terminal or write as a page: `html` and `pictures` for all, `network` for networks."""
