"""What people start: the command line, the prompt, the page, the demonstration."""
