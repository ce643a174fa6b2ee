"""In which order to compute: nesting and sharing of contractions, common parts."""
