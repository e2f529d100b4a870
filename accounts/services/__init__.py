"""The journeys of accounts, one module each."""
