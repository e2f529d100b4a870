"""Sign-in of operators: password, second factor, and the console session behind the cookie."""
