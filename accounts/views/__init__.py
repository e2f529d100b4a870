"""The endpoints of accounts: parse, one service call, answer."""
