#!/bin/sh
# $WORK/user.sh COMMAND...: runs it as an ordinary user, who has no capability. The
# files of root are then those of this user.
[ "$(id -u)" = 0 ] || exec "$@"
export SUPERLOOP_TEST_TRUSTED=$(dirname "$(command -v git)") # else an agent could replace it
exec unshare --user --map-user=1000 --map-group=1000 -- "$@"
