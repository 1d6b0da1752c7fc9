# The engine, version 0.21.5: makes a script of a template on standard input; {1} is
# the script's first argument.
if [ "${1:-}" = --version ]; then
	echo 0.21.5
	exit 0
fi
sed -e 's/{1}/$1/g' -e 's/.*/echo "&"/'
