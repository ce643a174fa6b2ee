"""What people start: the command line (`cli`), the prompt, both on a `terminal`, and the `page` in a browser."""
