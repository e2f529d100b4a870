"""Moving in: a reference server's database copied into ours, table by table, with nobody signed out.

May import every app's models and nothing imports it but the command. Start reading at `passes.py`; what is taken from
which column stands in `declarations.py`, where a new capability adds its tables.
"""
