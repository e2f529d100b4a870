"""The test plans of the OpenID Foundation's conformance suite, written from the published descriptions of its modules.

One test for each module, in this process; `docs/reference/standards.md` lists the modules that differ.
"""
