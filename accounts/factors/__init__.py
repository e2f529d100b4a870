"""What second factors consist of, without a database: codes, addresses for apps, ceremonies."""
