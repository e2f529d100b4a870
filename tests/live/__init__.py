"""Tests that start servers, browsers, client libraries and other programs."""
