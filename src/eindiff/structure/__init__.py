"""The values of derivatives in the structure that their labels have, and how to solve with them."""
