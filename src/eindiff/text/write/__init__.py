"""From expressions to text, in three steps.

A notation (`notation_matrix` with `notation_network`, `notation_einsum`, `notation_index`) makes a small tree (`tree`)
of each node; `document` puts them together and names what is large and occurs twice; a style (`plain` and Unicode,
`latex`, `mathml`) writes the trees down. `to_text` is the whole.
"""
