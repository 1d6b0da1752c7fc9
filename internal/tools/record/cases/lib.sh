# What the preparations of several cases need. Each runs in an empty repository;
# $TOP is the directory above it.
put() { mkdir -p "$(dirname "$1")"; cat > "$1"; }        # put FILE < text
say() { local f=$1; shift; mkdir -p "$(dirname "$f")"; printf '%s\n' "$@" > "$f"; }   # say FILE LINE...
jsmods() { ln -s "$TOOLS/js/node_modules" node_modules; }                # the JavaScript tools, as installed
jscopy() { mkdir node_modules; cp -r "$TOOLS/js/node_modules/$1" node_modules/; }
pkg() { printf '{"name":"app","version":"1.0.0","private":true%s}\n' "${1:+,$1}" > package.json; }
scripts() { pkg "\"scripts\":{$1}"; }
gomod() { printf 'module example.com/app\n\ngo 1.22\n' > go.mod; }
crate() { mkdir -p src; printf '[package]\nname = "app"\nversion = "0.1.0"\nedition = "2021"\n%s\n' "$1" > Cargo.toml; export CARGO_TARGET_DIR=$TOP/target; }
deb() { export PATH="/usr/bin:/bin:$PATH"; }                            # the programs of the distribution first
maven() { # maven: a project that is built with the distribution's own plugins and junit, without a network
  put pom.xml <<'X'
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>com.acme</groupId><artifactId>app</artifactId><version>1.0</version>
  <properties><maven.compiler.source>17</maven.compiler.source><maven.compiler.target>17</maven.compiler.target></properties>
  <dependencies><dependency><groupId>junit</groupId><artifactId>junit</artifactId><version>4.x</version><scope>test</scope></dependency></dependencies>
</project>
X
  mkdir -p "$TOP/mv"; cp /etc/maven/settings-debian.xml "$TOP/mv/settings.xml"; export MAVEN_OPTS="-Duser.home=$TOP/mv -Dstyle.color=never"
  mkdir -p "$TOP/mv/.m2"; cp "$TOP/mv/settings.xml" "$TOP/mv/.m2/settings.xml"
}
ws() { mkdir -p "packages/$1"; printf '{"name":"@acme/%s","version":"1.0.0","scripts":{%s}%s}\n' "$1" "$2" "${3:+,$3}" > "packages/$1/package.json"; } # ws NAME SCRIPTS [KEYS]
mono() { # mono SCRIPTS: the root of the packages that ws made, for every workspace tool
  printf '{"name":"acme","private":true,"packageManager":"npm@10.8.2","workspaces":["packages/*"],"scripts":{%s}}\n' "$1" > package.json
  echo '{"ui":"stream","tasks":{"build":{"dependsOn":["^build"]},"test":{},"lint":{},"dev":{"persistent":true,"cache":false}}}' > turbo.json
  printf 'packages:\n  - packages/*\n' > pnpm-workspace.yaml; echo '{"version":"1.0.0"}' > lerna.json; echo '{}' > nx.json; git init -q .
  export TURBO_TELEMETRY_DISABLED=1 DO_NOT_TRACK=1 TURBO_NO_UPDATE_NOTIFIER=1 NX_DAEMON=false
  npm install -s --no-audit --no-fund >/dev/null
}
repo() { git init -q -b main . && git config user.email dev@example.com && git config user.name Dev && git commit -q --allow-empty -m start; }
use() { export PATH="$TOOLS/$1/node_modules/.bin:$PATH"; }             # a package manager of another version
py() { export PATH="$HOME/.pyenv/versions/$1/bin:$PATH" PYENV_VERSION=$1; }
serving() { # serving PORT MODE: such a server runs from now on, as $server
  python3 "$CASES/serve.py" "$@" & server=$!
  for _ in $(seq 200); do (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null && break; sleep 0.05; done
}
with() { serving "$@"; sh -c "$CMD"; local rc=$?; kill "$server"; exit $rc; } # with PORT MODE: run $CMD while such a server runs
small() { # small SIZE: run $CMD in a file system of that size that holds a copy of the repository
  mount -t tmpfs -o size="$1" none "$TOP/mnt" && cp -a "$TOP/repo/." "$TOP/mnt/" && mount --bind "$TOP/mnt" "$TOP/repo" && cd "$TOP/repo" && exec sh -c "$CMD"
}
disk() { # disk SIZE DIRECTORY [OPTION]: run $CMD beside an empty small file system
  mkdir -p "$2" && mount -t tmpfs -o "size=$1${3:+,$3}" none "$2" && cd "$TOP/repo" && exec sh -c "$CMD"
}
readonly_fs() { mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" && cd "$TOP/repo" && exec sh -c "$CMD"; }
nobody() { exec setpriv --reuid 65534 --regid 65534 --clear-groups sh -c "$CMD"; }
postgres_at() { # postgres_at PORT: run $CMD while a new database server runs
  local bin=/usr/lib/postgresql/15/bin
  chmod 777 "$TOP"; echo secret > "$TOP/pw"
  setpriv --reuid 65534 --regid 65534 --clear-groups "$bin/initdb" -D "$TOP/pg" -U app --auth="${PGMODE:-trust}" --pwfile="$TOP/pw" >/dev/null || exit 0
  setpriv --reuid 65534 --regid 65534 --clear-groups "$bin/postgres" -D "$TOP/pg" -p "$1" -k "$TOP" -c listen_addresses=127.0.0.1 -c max_connections="${PGMAX:-20}" -c superuser_reserved_connections=0 -c fsync=off >/dev/null 2>&1 & local s=$!
  for _ in $(seq 200); do "$bin/pg_isready" -q -h 127.0.0.1 -p "$1" && break; sleep 0.05; done
  sh -c "$CMD"; local rc=$?; kill -INT $s; exit $rc
}
aptmirror() { # aptmirror DATE UNTIL: apt uses a signed package list of that date, valid until then
  local m=$TOP/m/dists/stable g="gpg -q --homedir $TOP/g --batch --yes"
  mkdir -p -m 700 "$TOP/g" && mkdir -p "$TOP/none" "$TOP/st/lists/partial" "$m/main/binary-amd64"; : > "$m/main/binary-amd64/Packages"
  (cd "$m" && printf 'Origin: acme\nSuite: stable\nCodename: stable\nDate: %s\nValid-Until: %s\nArchitectures: amd64\nComponents: main\nSHA256:\n %s 0 main/binary-amd64/Packages\n' \
    "$1" "$2" "$(sha256sum main/binary-amd64/Packages | cut -d' ' -f1)" > Release
   $g --passphrase '' --quick-gen-key acme default default never && $g --clearsign -o InRelease Release && $g --export > "$TOP/key.gpg") || exit 1
  chmod 644 "$TOP/key.gpg"; say "$TOP/sources.list" "deb [signed-by=$TOP/key.gpg] file:$TOP/m stable main"
  say "$TOP/apt.conf" "Dir::State::lists \"$TOP/st/lists\";" "Dir::Etc::sourcelist \"$TOP/sources.list\";" 'Dir::Etc::sourceparts "/dev/null";' 'APT::Sandbox::User "root";' "Dir::Etc::parts \"$TOP/none\";" 'Acquire::Check-Valid-Until "true";' 'Acquire::Check-Date "true";'
  export APT_CONFIG=$TOP/apt.conf
}
speak() { unset LC_ALL LANGUAGE; export LANG=$1.UTF-8; } # speak de_DE: the locale of a user (it must be generated)
words() { export LC_ALL=C.UTF-8 LANGUAGE=$1; } # messages in another language
redis_at() { # redis_at PORT [OPTION...]: run $CMD while a new redis server runs
  redis-server --port "$1" --dir "$TOP" --save "" "${@:2}" >/dev/null 2>&1 & local s=$!
  for _ in $(seq 200); do (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null && break; sleep 0.05; done
  sh -c "$CMD"; local rc=$?; kill $s; exit $rc
}
mariadb_at() { # mariadb_at PORT [OPTION...]: run $CMD while a new database server runs; the user app has the password "app"
  mariadb-install-db --no-defaults --user=root --datadir="$TOP/my" --auth-root-authentication-method=normal >/dev/null 2>&1 || exit 0
  mariadbd --no-defaults --user=root --datadir="$TOP/my" --port="$1" --bind-address=127.0.0.1 --socket="$TOP/my.sock" --pid-file="$TOP/my.pid" "${@:2}" >/dev/null 2>&1 & local s=$!
  for _ in $(seq 200); do mariadb-admin --no-defaults -S "$TOP/my.sock" -u root ping >/dev/null 2>&1 && break; sleep 0.05; done
  mariadb --no-defaults -S "$TOP/my.sock" -u root -e "create database shop; create user app@'127.0.0.1' identified by 'app'; grant select on shop.* to app@'127.0.0.1'; ${MYSETUP:-}"
  sh -c "$CMD"; local rc=$?; kill $s; exit $rc
}
jswith() { # jswith NAME...: the packages of several directories of tools, as installed
  mkdir node_modules
  local n; for n in "$@"; do ln -s "$TOOLS/$n/node_modules"/* "$TOOLS/$n/node_modules/.bin" node_modules/ 2>/dev/null; done; true
}
mariadb_shop_at() { # mariadb_shop_at PORT: run $CMD while a new MariaDB server runs, whose user app has a password
  mariadb-install-db --no-defaults --datadir="$TOP/my" --auth-root-authentication-method=normal --skip-test-db >/dev/null 2>&1
  mariadbd --no-defaults --user=root --datadir="$TOP/my" --socket="$TOP/my.sock" --pid-file="$TOP/my.pid" --port="$1" --bind-address=127.0.0.1 >/dev/null 2>&1 & local s=$!
  for _ in $(seq 400); do mariadb-admin --no-defaults -S "$TOP/my.sock" -u root ping >/dev/null 2>&1 && break; sleep 0.05; done
  mariadb --no-defaults -S "$TOP/my.sock" -u root -e "create database shop; create user app@'127.0.0.1' identified by 'secret'; create user ro@'127.0.0.1'; grant select on shop.* to ro@'127.0.0.1'; create table shop.item (id int)"
  sh -c "$CMD"; local rc=$?; kill $s; exit $rc
}
fog_mvn() { # fog_mvn: a Maven project with the distribution's plugins, offline; with fog_pom DIRECTORY ARTIFACT [XML] for modules
  mkdir -p "$TOP/mv/.m2"; say "$TOP/mv/.m2/settings.xml" '<settings><localRepository>/usr/share/maven-repo</localRepository><offline>true</offline></settings>'
  export MAVEN_OPTS="-Duser.home=$TOP/mv -Dstyle.color=never -Xmx256m"
}
fog_pom() { # fog_pom DIRECTORY ARTIFACT [XML]
  put "$1/pom.xml" <<X
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>com.acme</groupId><artifactId>$2</artifactId><version>1.0</version>
  <properties><maven.compiler.source>17</maven.compiler.source><maven.compiler.target>17</maven.compiler.target><project.build.sourceEncoding>UTF-8</project.build.sourceEncoding></properties>
  $3
  <build><plugins>
    <plugin><groupId>org.apache.maven.plugins</groupId><artifactId>maven-resources-plugin</artifactId><version>3.3.0</version></plugin>
    <plugin><groupId>org.apache.maven.plugins</groupId><artifactId>maven-compiler-plugin</artifactId><version>3.10.1</version></plugin>
    <plugin><groupId>org.apache.maven.plugins</groupId><artifactId>maven-surefire-plugin</artifactId><version>2.22.3</version></plugin>
    <plugin><groupId>org.apache.maven.plugins</groupId><artifactId>maven-jar-plugin</artifactId><version>3.3.0</version></plugin>
  </plugins></build>
</project>
X
}
