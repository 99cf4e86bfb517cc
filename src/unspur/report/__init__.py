"""Pages, tables and figures; reads results, never trains."""
