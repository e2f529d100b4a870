"""The endpoints, one module for each kind of caller: browsers on their way, and administrators."""
