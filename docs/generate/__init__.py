"""Pages of the site that are made, and what runs the code on all of them."""
