"""The OAuth server's hosted pages: consent, device codes and connected applications."""
