#!/bin/sh
# A database for everybody in /data, made where there is none, and its server as process 1.
set -e
programs=$(echo /usr/lib/postgresql/*/bin)
if ! [ -s /data/main/PG_VERSION ]; then
    "$programs/initdb" -D /data/main -U root -A trust --locale=C --no-sync
    echo "host all all all trust" >> /data/main/pg_hba.conf
fi
exec "$programs/postgres" -D /data/main -p 8080 -c 'listen_addresses=*' -c unix_socket_directories=/data -c jit=off
