"""`manage.py doctor` and the deployment checks."""
