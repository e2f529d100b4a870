"""Import from the database of a reference server, table by table, without ending any session.

`import_run` is the entry point; `table_definitions` maps tables and columns, and new capabilities add theirs there.
"""
