"""Lists of users: filters, paging, SQL and payload."""
