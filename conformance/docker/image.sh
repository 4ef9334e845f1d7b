#!/usr/bin/env bash
# image.sh engines [TAG] | rest FLOE [TAG]: makes an image out of this Debian machine's own installed packages, where no image
# can be pulled.
#   engines  its essential packages, Python and Java: every driver of the registry runs in it (FLOE_IMAGE=floe/engines:local)
#   rest     the same with the given floe binary serving a REST catalog: takes the variables of Iceberg's REST fixture
#            (FLOE_IMAGE_REST=floe/rest:local)
set -euo pipefail
export PATH=$PATH:/usr/sbin:/sbin
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

engines() {
  local tag=$1 java packages jvm
  java=$(readlink -f "$(command -v java)") || { echo "no java on the path" >&2; exit 1; }
  java=${java%/bin/java}
  # the dependencies of a JRE and of Python, and what every Debian system has
  packages=$(apt-cache depends --recurse --installed --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces \
      --no-enhances openjdk-17-jre-headless python3 ca-certificates netbase | grep -E '^[a-z0-9]' | grep -v openjdk- | sort -u)
  packages+=" $(dpkg-query -W -f '${Essential} ${Package}\n' | awk '$1 == "yes" {print $2}')"
  {
    # shellcheck disable=SC2086 # a list of words
    dpkg -L $packages 2>/dev/null | sort -u || true
    printf '%s\n' /bin /sbin /lib /lib64 /etc/ld.so.cache /usr/bin/java
    for jvm in "$java" /usr/lib/jvm/*25* /etc/java-17-openjdk /etc/ssl/certs /etc/alternatives; do
      # a newer Java for the engines that need it
      if [ -e "$jvm" ]; then find "$jvm" -not -path '*/jmods/*' -not -name src.zip -not -name ct.sym; fi
    done
  } | sed -E 's,^/(bin|sbin|lib|lib64)/,/usr/\1/,' |
    grep -vE '^/(proc|sys|dev|run|tmp|root|var/(tmp|run|lock))(/|$)|^/\.$|^/etc(/passwd|/group)?$|^/usr/share/(doc|man|locale|info|lintian)/|/__pycache__' |
    sort -u | while IFS= read -r f; do if [ -e "$f" ] || [ -L "$f" ]; then printf '%s\0' "${f#/}"; fi; done >"$work/list"
  mkdir -p "$work"/own/{proc,sys,dev,run,tmp,var/tmp,root,etc}
  chmod 1777 "$work"/own/tmp "$work"/own/var/tmp
  echo 'root:x:0:0:root:/root:/bin/sh' >"$work/own/etc/passwd"
  echo 'root:x:0:' >"$work/own/etc/group"
  tar -C / --no-recursion --null --hard-dereference -cf "$work/image.tar" -T "$work/list"
  tar -C "$work/own" --no-recursion -rf "$work/image.tar" proc sys dev run tmp var/tmp root etc etc/passwd etc/group
  docker import -c "ENV PATH=$java/bin:/usr/sbin:/usr/bin:/sbin:/bin" -c "ENV JAVA_HOME=$java" -c 'ENV LANG=C.UTF-8' \
    "$work/image.tar" "$tag" >/dev/null
  docker run --rm --network none "$tag" sh -c 'java -version 2>&1 && python3 -c "import ssl, json"' >/dev/null
}

rest() {
  local floe=$1 tag=$2 id
  docker image inspect floe/engines:local >/dev/null 2>&1 || engines floe/engines:local
  cp "$floe" "$work/floe"
  strip "$work/floe" 2>/dev/null || true
  printf '#!/bin/sh\nexec floe serve --warehouse "${CATALOG_WAREHOUSE:?}" --port "${CATALOG_REST_PORT:-8181}"\n' >"$work/rest"
  chmod 755 "$work/rest" "$work/floe"
  id=$(docker create floe/engines:local /usr/bin/floe-rest)
  docker cp -q "$work/floe" "$id:/usr/bin/floe"
  docker cp -q "$work/rest" "$id:/usr/bin/floe-rest"
  docker commit "$id" "$tag" >/dev/null
  docker rm "$id" >/dev/null
}

case ${1:-} in
  engines) engines "${2:-floe/engines:local}"; tag=${2:-floe/engines:local} ;;
  rest) rest "${2:?path of a floe binary}" "${3:-floe/rest:local}"; tag=${3:-floe/rest:local} ;;
  *) echo "image.sh engines [TAG] | rest FLOE [TAG]" >&2; exit 2 ;;
esac
docker images --format '{{.Repository}}:{{.Tag}} {{.Size}}' "$tag"
