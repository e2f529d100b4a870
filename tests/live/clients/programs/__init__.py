"""Programs that use client libraries, and cannot run in the process of the tests."""
