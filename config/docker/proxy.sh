#!/bin/sh
# The shipped configuration of nginx for one host name, before the server of another container; then nginx itself.
set -eu
host="$1" server="$2"
folder="${3:-/etc/nginx/conf.d}"
sed -e "s/assay\.example\.org/$host/g" -e "s/127\.0\.0\.1:8000/$server/" "$(dirname "$0")/nginx.conf" > "$folder/default.conf"
exec nginx -g "daemon off;"
