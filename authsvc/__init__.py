"""The project package: settings, routes and commands above, the base kit `authsvc.core` below every app.

Start reading at `authsvc/urls.py`.
"""

__version__ = "0.1.0"
