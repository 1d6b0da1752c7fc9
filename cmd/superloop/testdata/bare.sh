#!/bin/sh
# $WORK/bare.sh COMMAND...: runs it where no namespaces are to be had, as in most
# containers: nothing can be kept from agents there (level none).
exec unshare --user --map-root-user sh -c '
	echo 0 > /proc/sys/user/max_user_namespaces && exec setpriv --bounding-set=-all --inh-caps=-all -- "$@"' bare "$@"
