#!/usr/bin/env bash
# The repository of a team that commits its nightly database dumps: two tables, a dozen nights, all much alike.
set -euo pipefail
rm -rf dumps && git init -q -b main dumps && cd dumps
git config user.email dba@example.org && git config user.name dba && git config gc.auto 0
for night in $(seq 12); do
    for table in orders shipments; do
        awk -v night="$night" -v table="$table" 'BEGIN {
            srand(length(table))
            for (i = 0; i < 300000; i++)
                printf "INSERT INTO %s VALUES (%d,%d,%.6f,%d);\n", table, i, rand() * 1e8, rand() * 100, i % 97 == night ? night : 0
        }' > "$table.sql"
    done
    git add . && git -c core.compression=1 commit -q -m "dump of night $night"
done
rm ./*.sql
