package multiscan

import "strings"

// benchPatterns gives about 400 expressions of the kind that classify failures
// of an environment, each with (?i) as the caller of this package writes them.
func benchPatterns() []string {
	var out []string
	each := func(template, words string) {
		for _, w := range strings.Fields(words) {
			out = append(out, "(?i)"+strings.ReplaceAll(template, "%", strings.ReplaceAll(w, "~", " ")))
		}
	}
	each(`npm (?:ERR!|error) code %\b`, `ERESOLVE ENOENT EACCES EPERM ENOSPC EINTEGRITY E401 E403 E404 E429 E500 E502 E503 ECONNRESET
		ECONNREFUSED ETIMEDOUT ENOTFOUND EAI_AGAIN ELIFECYCLE EJSONPARSE EBADENGINE EBADPLATFORM ENOTEMPTY EUSAGE ETARGET CERT_HAS_EXPIRED
		SELF_SIGNED_CERT_IN_CHAIN UNABLE_TO_GET_ISSUER_CERT_LOCALLY EMFILE EBUSY`)
	each(`\bERR_PNPM_%\b`, `NO_LOCKFILE OUTDATED_LOCKFILE FETCH_401 FETCH_404 META_FETCH_FAIL TARBALL_INTEGRITY PEER_DEP_ISSUES UNSUPPORTED_ENGINE NO_MATCHING_VERSION LOCKFILE_BREAKING_CHANGE`)
	each(`YN(?P<code>%):.*(?:failed|error|couldn't)`, `0001~┌ 0018~├ 0028~└ 0035`)
	each(`(?:error|fatal|warning): .*%`, `peer~closed~connection TLS~handshake~timeout connection~reset~by~peer no~route~to~host network~is~unreachable
		Temporary~failure~in~name~resolution Could~not~resolve~host certificate~has~expired certificate~verify~failed
		No~space~left~on~device Read-only~file~system Disk~quota~exceeded Too~many~open~files Cannot~allocate~memory Operation~not~permitted
		Permission~denied~\(publickey Device~or~resource~busy Text~file~busy Stale~file~handle Input/output~error`)
	each(`E: (?:%) ?(?P<rest>.*)$`, `Could~not~get~lock Unable~to~locate~package Unable~to~fetch~some~archives Failed~to~fetch dpkg~was~interrupted Unmet~dependencies
		Sub-process~/usr/bin/dpkg~returned You~don't~have~enough~free~space Package~'[^']+'~has~no~installation~candidate Release~file~for~.*~is~not~valid~yet
		The~repository~'[^']+'~is~not~signed Unable~to~acquire~the~dpkg~frontend~lock List~directory~/var/lib/apt/lists/partial~is~missing`)
	each(`^error: %`, `externally-managed-environment subprocess-exited-with-error could~not~compile~.(?P<crate>[\w-]+) linker~.(?:cc|lld|ld).~not~found
		failed~to~run~custom~build~command~for no~matching~package~named failed~to~select~a~version~for toolchain~'[^']+'~is~not~installed
		failed~to~get~.\S+.~as~a~dependency failed~to~download~from failed~to~load~manifest~for~workspace the~lock~file~.*~needs~to~be~updated
		package~.\S+.~cannot~be~built~because~it~requires~rustc rustup~could~not~choose~a~version current~package~believes~it's~in~a~workspace
		target~.\S+.~may~not~be~installed unable~to~get~packages~from~source could~not~find~.Cargo.toml`)
	each(`go: .*%`, `missing~go.sum~entry updates~to~go.mod~needed inconsistent~vendoring module~lookup~disabled~by dial~tcp:~lookup checksum~mismatch
		no~required~module~provides~package requires~go~>=~(?P<want>[\d.]+) cannot~find~main~module unrecognized~import~path toolchain~not~available
		parsing~go.mod go.mod~file~not~found reading~https?://\S+:~410~Gone exec:~"gcc":~executable~file~not~found`)
	each(`(?:ModuleNotFoundError|ImportError): .*%`, `No~module~named~'(?P<pkg>[^']+)' cannot~open~shared~object~file undefined~symbol: DLL~load~failed libGL\.so\.1 cannot~import~name~'[^']+'~from~partially`)
	each(`ERROR: .*%`, `Could~not~find~a~version~that~satisfies No~matching~distribution~found~for~(?P<pkg>\S+) Could~not~install~packages~due~to~an~OSError pip's~dependency~resolver
		Cannot~uninstall~'?(?P<pkg>[^'~]+) ResolutionImpossible THESE~PACKAGES~DO~NOT~MATCH~THE~HASHES Failed~building~wheel~for Failed~to~build~installable~wheels
		Package~'[^']+'~requires~a~different~Python Invalid~requirement: Microsoft~Visual~C\+\+~.*is~required HTTP~error~(?P<status>\d{3})~while~getting`)
	each(`(?:fatal|error): %`, `not~a~git~repository unable~to~access~'(?P<url>[^']+)' detected~dubious~ownership Unable~to~create~'(?P<lock>[^']+\.lock)':~File~exists
		could~not~read~Username~for Authentication~failed~for remote~end~hung~up~unexpectedly index-pack~failed early~EOF bad~object~HEAD loose~object~.*~is~corrupt
		pack~has~.*~unresolved~delta repository~'[^']+'~not~found unable~to~write~new~index~file empty~ident~name protected~hook~declined`)
	each(`docker: .*%|Cannot connect.*%`, `daemon~running permission~denied~while~trying~to~connect pull~access~denied toomanyrequests manifest~unknown port~is~already~allocated
		no~matching~manifest~for OCI~runtime~create~failed unauthorized:~authentication~required x509:~certificate~signed~by`)
	each(`(?:bash|sh|zsh|/bin/sh|env)(?:: line \d+)?: .*%`, `command~not~found Exec~format~error bad~interpreter:~No~such~file cannot~execute~binary~file Argument~list~too~long cannot~fork fork:~retry:`)
	each(`(?:error while loading shared libraries: |version .)%`, `libssl libcrypto libstdc libicu libc\.so\.6 libz\.so libpq libxml2 libffi libnss3 libatk GLIBC_2 GLIBCXX_3 CXXABI_1`)
	each(`(?:^|[^\w])%`, `FATAL~ERROR:~.*JavaScript~heap~out~of~memory java\.lang\.OutOfMemoryError java\.lang\.UnsupportedClassVersionError Could~not~reserve~enough~space~for
		OutOfMemoryError:~Metaspace GC~overhead~limit~exceeded runtime:~out~of~memory signal:~killed Killed~process~\d+ oom-kill:constraint fatal~error:~runtime:~cannot~map~pages
		MemoryError:~Unable~to~allocate virtual~memory~exhausted collect2:~fatal~error:~ld~terminated~with~signal~9 c\+\+:~internal~compiler~error:~Killed rustc.*SIGKILL:~kill`)
	each(`listen (?:tcp|udp)?.*%|%.*(?:port|address)[ =:]*(?P<port>\d+)`, `EADDRINUSE address~already~in~use EADDRNOTAVAIL bind:~permission~denied bind:~cannot~assign~requested`)
	each(`connect %(?: (?P<host>[\w.:-]+))?`, `ECONNREFUSED~127.0.0.1:5432 ECONNREFUSED~::1:6379 ECONNREFUSED~127.0.0.1:27017 ETIMEDOUT~\d+\. ENETUNREACH EHOSTUNREACH`)
	each(`(?:could not connect|connection) to (?:server|%)`, `server~at~"localhost" server~on~socket database~.*~failed redis~at host~[\w.]+~port~5432`)
	each(`cannot find module '(?P<pkg>(?:%)[^']*)'`, `@types/ @babel/ @rollup/rollup- @esbuild/ @swc/core- lightningcss- sharp node-gyp typescript jest`)
	each(`gyp ERR! (?:stack Error: |find )%`, `Python not~found:~make VS .make.~failed EACCES~permission self-signed~certificate ENOENT:~no~such`)
	each(`make(?:\[\d+\])?: (?:\*\*\* )?%`, `No~rule~to~make~target g\+\+:~No~such~file gcc:~Command~not~found cmake:~No~such~file \[[^\]]+\]~Killed \[[^\]]+\]~Error~137 clock~skew~detected`)
	each(`CMake Error.*%`, `Could~NOT~find~(?P<pkg>\w+) CMAKE_C_COMPILER~not~set CMAKE_CXX_COMPILER generator~.*~does~not~match The~source~directory~.*~does~not~exist minimum~required No~CMAKE_[A-Z]+_COMPILER~could~be~found`)
	each(`fatal error: '?(?P<header>%)'?(?: file not found|: No such file)`, `Python\.h openssl/ssl\.h zlib\.h ffi\.h libpq-fe\.h mysql\.h jpeglib\.h sqlite3\.h curses\.h readline/readline\.h bzlib\.h lzma\.h pcap\.h`)
	each(`(?:Could not resolve dependencies|Could not transfer artifact|Failed to execute goal).*%`, `Connection~refused PKIX~path~building~failed Received~fatal~alert status~code:~401 status~code:~403 Unknown~host release~version~\d+ was~not~found~in`)
	each(`(?:Execution failed for task|What went wrong:).*%`, `Unsupported~class~file~major~version Timeout~waiting~to~lock SDK~location~not~found Daemon~disappeared Could~not~GET`)
	each(`(?:bundler|gem|rake|composer|mix)(?: failed)?!?:? .*%`, `Could~not~find~gem Bundler::GemNotFound Gem::Ext::BuildError your~Ruby~version~is ext-[a-z]+.*missing~from~your~system Hex~dependency~resolution Your~lock~file~does~not~contain`)
	each(`(?:browserType\.launch|playwright|puppeteer|chrome|selenium).*%`, `Executable~doesn't~exist~at Host~system~is~missing~dependencies Failed~to~launch~the~browser~process cannot~open~display session~not~created no~usable~sandbox DevToolsActivePort`)
	each(`(?:rate limit|quota|too many requests).*(?:%)`, `api\.github\.com registry-1\.docker\.io retry~after secondary~rate HTTP~429`)
	each(`(?:signal |\(|by )%\b`, `SIGSEGV SIGABRT SIGKILL SIGBUS SIGILL SIGTERM`)
	each(`%: (?:cannot|could not|failed to|unable to) (?:open|read|write|create|stat|access) (?P<path>\S+): (?:Permission denied|No space left|Read-only)`,
		`mkdir touch tee install cp mv ln tar unzip rsync chmod chown`)
	each(`%(?: is)? not (?:installed|found on this system|in your PATH)`, `docker-compose kubectl terraform protoc pkg-config autoconf libtoolize nasm yasm ninja meson rustfmt clippy-driver golangci-lint wasm-pack ffmpeg graphviz`)
	each(`OSError: \[Errno %\]`, `1 5 12 13 23 24 26 28 30 98 99 101 104 110 111 113 122`)
	each(`(?:Error|error): %:? `, `EMFILE:~too~many~open~files ENFILE:~file~table~overflow ENOSPC:~System~limit~for~number~of~file~watchers ENOSPC:~no~space~left~on~device EROFS:~read-only
		EACCES:~permission~denied EPERM:~operation~not~permitted ENOTDIR:~not~a~directory EISDIR:~illegal~operation ELOOP:~too~many~symbolic ENAMETOOLONG:~name~too~long EXDEV:~cross-device`)
	return out
}
