"""Any fx graph seen as a tree of modules: read, selected, cut out and edited by module, call and phase."""
