"""The account pages of hosted pages: profile, contacts, sign-in methods, sessions and data of the signed-in user."""
