"""Letters and texts: takes announced messages in, keeps them sealed in the job queue and delivers them.

Imports nothing but `authsvc.core`, and nobody imports it: taken out of INSTALLED_APPS, the service works on in silence.
Start reading at `receivers.py`, then `delivery.py`.
"""
