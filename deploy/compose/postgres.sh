#!/bin/sh
# Runs one of the two PostgreSQL servers of compose.ha.yaml: postgres.sh [argument of postgres]...
# OWN_HOST is its name, OTHER_HOST that of the other one, and PRIMARY the one of both that accepts writes. The other one
# follows it as its standby, and never starts without that.
set -eu
export PGPASSWORD="$REPLICATION_PASSWORD"
other="host=$OTHER_HOST dbname=postgres user=replicator connect_timeout=2"

is_other_primary() {
    [ "$(psql -d "$other" -Atc 'SELECT pg_is_in_recovery()' 2>/dev/null)" = f ]
}

if [ -e "$PGDATA/PG_VERSION" ]; then
    if [ ! -e "$PGDATA/standby.signal" ] && [ "$OWN_HOST" != "$PRIMARY" ]; then
        echo "$PRIMARY is the primary: remove the data of this server, which then copies $PRIMARY" >&2
        exit 1
    fi
elif [ "$OWN_HOST" != "$PRIMARY" ] || is_other_primary; then
    # An interrupted copy must not look like a server.
    rm -rf "$PGDATA.copy"
    until is_other_primary && pg_basebackup -D "$PGDATA.copy" -d "$other" -R -c fast -X stream; do
        sleep 1
    done
    mv "$PGDATA.copy" "$PGDATA"
fi
unset PGPASSWORD
exec docker-entrypoint.sh postgres "$@"
