"""From torch modules to NIR graphs: a copy of a model runs, what it calls is noted, and the notes become nodes."""
