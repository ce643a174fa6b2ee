"""Programs: operations as data, lowering to them, source written from them, and what runs them."""
