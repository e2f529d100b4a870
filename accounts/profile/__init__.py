"""The account of the signed-in user: `GET` and `PUT /user`, and reauthentication."""
