#!/bin/sh
# Runs one of the two PostgreSQL servers of compose.ha.yaml: postgres.sh [argument of postgres]...
# OWN_HOST names this server, OTHER_HOST the other one, and PRIMARY the one that accepts writes. The other one runs only
# as its standby.
set -eu
export PGPASSWORD="$REPLICATION_PASSWORD"
other="host=$OTHER_HOST dbname=postgres user=replicator connect_timeout=2"

is_other_primary() {
    [ "$(psql -d "$other" -Atc 'SELECT pg_is_in_recovery()')" = f ]
}

# The other server is the primary, or PRIMARY says that it will be.
must_follow() {
    [ "$OWN_HOST" != "$PRIMARY" ] || is_other_primary 2>/dev/null
}

if [ -e "$PGDATA/PG_VERSION" ]; then
    # The last line that roles.sh writes.
    if ! grep -q '^host replication replicator' "$PGDATA/pg_hba.conf"; then
        echo "The first start of $OWN_HOST was interrupted. Remove its data and start it again." >&2
        exit 1
    fi
    if [ ! -e "$PGDATA/standby.signal" ] && must_follow; then
        echo "$OWN_HOST was a primary, and $OTHER_HOST is or will be the primary (PRIMARY=$PRIMARY)." \
            "Correct PRIMARY if that is wrong. Otherwise remove the data of $OWN_HOST, which then copies $OTHER_HOST." >&2
        exit 1
    fi
elif must_follow; then
    # An interrupted copy must not look like a server.
    rm -rf "$PGDATA.copy"
    until is_other_primary && pg_basebackup -D "$PGDATA.copy" -d "$other" -R -c fast -X stream; do
        sleep 1
    done
    # Into a directory that exists, mv would move the copy.
    [ ! -d "$PGDATA" ] || rmdir "$PGDATA"
    mv "$PGDATA.copy" "$PGDATA"
fi
unset PGPASSWORD
exec docker-entrypoint.sh postgres "$@"
