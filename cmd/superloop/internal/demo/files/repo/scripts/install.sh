# Installs what deps.txt names into deps/. An installed one that is of another
# version is left as it is: remove deps/ first.
set -eu
while read -r name version; do
	if [ -d "deps/$name" ]; then
		echo "$name is installed"
		continue
	fi
	mkdir -p deps
	cp -R "vendor-src/$name-$version" "deps/$name"
	echo "$name $version installed"
done < deps.txt
