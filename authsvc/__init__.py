"""The Django project and the infrastructure below the apps. `urls` lists the routes, `conf` the settings."""

__version__ = "0.1.0"
