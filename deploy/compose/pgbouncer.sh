#!/bin/sh
# Runs PgBouncer in front of the PostgreSQL server POSTGRES_HOST: pgbouncer.sh deploy/pgbouncer.ini
set -eu
folder=$(mktemp -d)
printf '"authsvc" "%s"\n' "$DATABASE_PASSWORD" > "$folder/userlist.txt"
sed -e "s|host=127.0.0.1|host=$POSTGRES_HOST|" -e 's|^listen_addr = .*|listen_addr = *|' \
    -e "s|/etc/pgbouncer/userlist.txt|$folder/userlist.txt|" "$1" > "$folder/pgbouncer.ini"
exec pgbouncer "$folder/pgbouncer.ini"
