#!/bin/sh
# A certificate for one host name, signed by itself, unless one is there already.
set -eu
folder="$1" host="$2"
if [ -e "$folder/fullchain.pem" ]; then exit 0; fi
umask 077
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 825 -subj "/CN=$host" \
    -addext "subjectAltName=DNS:$host" -keyout "$folder/privkey.pem" -out "$folder/fullchain.pem"
