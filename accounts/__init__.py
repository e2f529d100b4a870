"""Who a user is and how they prove it: users, identities, factors, and the journeys from sign-up to recovery.

May import `tokens` and `authsvc.core`; nothing of the apps above, and never `mailer`, which hears of messages through
`authsvc.messaging`. Start reading in `services`, one module for each journey; `views` is the way in.
"""
