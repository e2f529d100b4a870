"""The description of the API: generated from what endpoints declare, served as it was checked in, shown as a page."""
