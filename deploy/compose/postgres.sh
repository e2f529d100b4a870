#!/bin/sh
# Runs one of the two PostgreSQL servers of compose.ha.yaml: postgres.sh [argument of postgres]...
# A server without data copies the other one and follows it as its standby.
set -eu
export PGPASSWORD="$REPLICATION_PASSWORD"
other="host=$OTHER_HOST dbname=postgres user=replicator connect_timeout=2"

is_other_primary() {
    [ "$(psql -d "$other" -Atc 'SELECT pg_is_in_recovery()' 2>/dev/null)" = f ]
}

if [ -e "$PGDATA/PG_VERSION" ]; then
    if [ ! -e "$PGDATA/standby.signal" ] && is_other_primary; then
        echo "$OTHER_HOST has been promoted: remove the data of this server, which then copies $OTHER_HOST" >&2
        exit 1
    fi
elif [ -z "${CREATES_DATABASE:-}" ] || is_other_primary; then
    # An interrupted copy must not look like a server.
    rm -rf "$PGDATA.copy"
    until is_other_primary && pg_basebackup -D "$PGDATA.copy" -d "$other" -R -c fast -X stream; do
        sleep 1
    done
    mv "$PGDATA.copy" "$PGDATA"
fi
unset PGPASSWORD
exec docker-entrypoint.sh postgres "$@"
