# Builds build/greet.sh from greet.in. This is the host; the engine that it starts
# is installed in deps/, and has to have the host's version.
set -eu
host=0.21.5
engine=deps/engine/engine.sh
if [ ! -f "$engine" ]; then
	echo "Cannot find module 'engine'" >&2
	exit 1
fi
binary=$(sh "$engine" --version)
if [ "$binary" != "$host" ]; then
	echo "Cannot start service: Host version \"$host\" does not match binary version \"$binary\"" >&2
	exit 1
fi
mkdir -p build
sh "$engine" < greet.in > build/greet.sh
