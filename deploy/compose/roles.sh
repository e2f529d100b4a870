#!/bin/sh
# Creates the roles of the service and of the standby, and the database. The image of PostgreSQL runs this once.
set -eu
psql -v ON_ERROR_STOP=1 -U postgres -d postgres <<'SQL'
\getenv service_password DATABASE_PASSWORD
\getenv replication_password REPLICATION_PASSWORD
CREATE ROLE authsvc LOGIN PASSWORD :'service_password';
CREATE DATABASE authsvc OWNER authsvc;
CREATE ROLE replicator LOGIN REPLICATION PASSWORD :'replication_password';
SQL
echo 'host replication replicator all scram-sha-256' >> "$PGDATA/pg_hba.conf"
