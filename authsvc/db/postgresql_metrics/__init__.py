"""The database backend with the database metrics of django-prometheus, for use while metrics are on."""
