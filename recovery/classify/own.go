package classify

import (
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/pattern"
)

// Where nothing known stands in the output, the program that failed may still be the project's own, and say itself what
// is wrong: an exception that nobody caught, with a trace into the project's files; a message of a program that was
// built a moment ago; the usage of a script. Such a failure is the code's, unless the message speaks of the world
// outside.

// fault is what a program of the project died of.
type fault struct {
	hit hit
	why string
}

var (
	// uncaught are the lines that runtimes print about an exception that ends the program.
	uncaught = pattern.Lazy(`^\s*\+? ?(?:Exception Group )?Traceback \(most recent call last\):|^(?:Node\.js|Bun) v\d|^Exception in thread "|^(?:PHP )?Fatal error:\s+Uncaught |^Unhandled exception|^\S+\.rb:\d+:in .*\([A-Z]\w*(?:::\w+)*\)$|^\S.* at \S+\.(?:p[lm]|t) line \d+\.$|^error: Uncaught |^\*\* \([A-Z]\w*(?:\.\w+)*\) |^ERROR: LoadError|^Execution halted$|^rake aborted!$`)
	// exception is the line of such a report that says what was thrown.
	exception = pattern.Lazy(`^[ |+-]*(?:[\w.$]+(?:Error|Exception|Group|Exit|Warning|Interrupt|Fault|Failure)|[Ee]rror|Uncaught \S+|[a-z_]\w*(?:\.\w+)+)(?: \[\w+\])?(?::|$)|^Exception in thread "[^"]*" \S|Fatal error:\s+Uncaught |^Unhandled exception\. |^\S+\.rb:\d+:in |^\S.* at \S+\.(?:p[lm]|t) line \d+\.$`)
	// outside is the vocabulary of failures that no change of the code fixes.
	outside = pattern.Lazy(`\b(?:ENOENT|EACCES|EPERM|ENOSPC|EADDR\w+|ECONN\w+|ETIMEDOUT|ESOCKET\w+|ENOTFOUND|EAI_AGAIN|EMFILE|ENFILE|ENOMEM|EPIPE|EROFS|EBUSY|EHOST\w+|ENET\w+|ENOTEMPTY|EXDEV|ELOOP|EPROTO|EAGAIN|EIO|EDQUOT|ENODEV|ENOEXEC|ETXTBSY)\b|(?i)\b(?:errno\b|connect(?:ion|ing|ed)?:? (?:to|was|is|refused|reset|timed|closed|error|aborted|failed|lost|could)|(?:could|can|would|did)(?: ?not|n't) (?:be )?(?:connect\w*|reach\w*|resolve|open\w*|written|write|load\w*|found|locate\w*|find (?:module|package|library)|create|bind|start|launch|download|fetch|access|allocate|execute|determine|install)|timed? ?out|timeout|ssl|tls|certificate\w*|proxy|permission|denied|no such (?:file|host|device)|credentials?|unauthori[sz]ed|authenticat\w+|authori[sz]ation|forbidden|memory|no space|space left|quota|too many (?:open|requests|connections)|unavailable|refused|unreachable|dns|not installed|no module|executable|(?:is )?not running|daemon|not supported|unsupported|glibc|shared librar\w+|killed|locked|busy|read-only|environment variable|command not found|429|50[234])\b`)
	// systemCode is how Node.js shows an error of the operating system.
	systemCode = pattern.Lazy(`^\s+code: '(?:E[A-Z0-9]+|ERR_DLOPEN_FAILED|MODULE_NOT_FOUND|ERR_MODULE_NOT_FOUND|ERR_SOCKET\w*|ERR_TLS\w*|UND_ERR\w*|[A-Z_]*CERT\w*)'`)
	nodeEnd    = pattern.Lazy(`^(?:Node\.js|Bun) v\d`)
	frame      = pattern.Lazy(`^\s+at \S|^[ |]*File "|^\tfrom |^#\d+ |^\s+\d+: `)
	ownUsage   = pattern.Lazy(`(?i)^\s*usage:|\b(?:unknown|unrecogni[sz]ed|invalid|unexpected|missing)(?: required)? (?:command|subcommand|option|argument|flag|parameter|action|target|mode)s?\b`)
	ownPlace   = pattern.Lazy(`^(?:--> |CMake Error at |[\w \[\]-]{0,40}[:\]] ?)?\.{0,2}/?[\w@][\w@./-]*\.[A-Za-z]\w{0,5}:\d+\b`)
	// anywhere are words that a check uses as often of the machine as of the code.
	anywhere = pattern.Lazy(`(?i)\b(?:requires?|toolchain|architecture|corrupt\w*|segmentation|exec format|https?|urls?|fetch\w*|download\w*|registry|remote|caches?|packages?|install\w*|servers?|hosts?|databases?|network|sockets?|browsers?|drivers?|command not found|cannot execute|symbol lookup|mount\w*|kernel|containers?|docker|root|sudo|tty|terminal|locale|clock|env\w*|tokens?|secrets?|passwords?|disk)\b`)
	// verdictWord is the vocabulary of checks.
	verdictWord = pattern.Lazy(`(?i)\b(?:fail(?:s|ed|ure|ures|ing)?|errors?|invalid|expected|mismatch\w*|wrong|unexpected|missing|must|should|differs?|different|not (?:equal|allowed|valid|covered|sorted|documented|implemented)|violat\w+|undefined|unresolved|duplicated?|out of (?:date|sync)|outdated|stale|broken|incomplete|forgotten|forbidden|bad|illegal|malformed|rejected|refused)\b`)
	scriptFile  = pattern.Lazy(`\.(?:[cm]?[jt]sx?|py|rb|p[lm]|php|sh|bash|java|lua|exs?|R|jl|groovy|kts?|awk)$`)
	// crash is what ends a program of the project by a fault of its own: make's line of a recipe, a shell's of a program that it names by its path.
	crash = pattern.Lazy(`^\S*make(?:\[\d+\])?: \*\*\* \[.*\] (?:Segmentation fault|Floating point exception|Bus error|Illegal instruction|Aborted)\b|^\S+: line \d+: +\d+ (?:Segmentation fault|Floating point exception|Bus error|Illegal instruction|Aborted)\s+(?:\(core dumped\))?\s*\.{1,2}/\S`)
	// died is what a shell says of any program that a signal ended.
	died = pattern.Lazy(`^\S+: line \d+: +\d+ (?:Killed|Terminated|Segmentation fault|Aborted|Bus error|Illegal instruction|Floating point exception|Hangup)\b`)
	// noFile is how runtimes name a file that is not there; the group is its path.
	noFile = pattern.Lazy(`(?:[Nn]o such file or directory)(?:, (?:open|stat|scandir|lstat|access))?:? ['"]([^'"]+)['"]|(?:FileNotFoundException|NoSuchFileException): (\S+)|no such file or directory @ \S+ - (\S+)`)
	// made are the directories and files that tools make.
	made = pattern.Lazy(`(?:^|/)(?:node_modules|dist|build|out|target|vendor|\.venv|venv|\.next|\.nuxt|coverage|tmp|\.cache|bin|obj|\.env\b|__pycache__|generated)(?:/|$)|\.lock$|\.pid$|\.sock$|\.env`)
	// framing are the lines that a runner adds when what it ran has failed.
	framing = pattern.Lazy(`^make(?:\[\d+\])?: \*\*\* |^npm (?:ERR!|error)|^exit status \d+$|^> |^ ?ELIFECYCLE|^error Command failed|^info Visit|^\s*(?:Compiling|Finished|Running|Blocking) `)
)

// ownFault finds what a program of the project says about its own end; nil if it says nothing, or something about the
// world outside.
func (j *judgement) ownFault() *fault {
	e := j.in.Exit
	if e.TimedOut || e.OOM || e.NotStarted {
		return nil
	}
	died := e.Signal
	if died == "" { // a shell's exit code for the signals that a fault of the program itself raises
		died = map[int]string{128 + 4: "SIGILL", 128 + 6: "SIGABRT", 128 + 7: "SIGBUS", 128 + 8: "SIGFPE", 128 + 11: "SIGSEGV"}[e.Code]
	}
	if j.calls.own && slices.Contains([]string{"SIGSEGV", "SIGABRT", "SIGBUS", "SIGFPE", "SIGILL", "SIGTRAP"}, died) {
		return &fault{why: "a program of the project was ended by " + died}
	}
	if e.Signal != "" {
		return nil
	}
	if j.calls.script {
		for _, o := range []*output{j.stderr, j.stdout} {
			i := int(o.end.line-o.lines) + len(o.tail) - 1
			if o.end.found && o.end.failed > 0 && i >= 0 && i < len(o.tail) {
				return &fault{hit: o.at(i), why: "tests of the project failed"}
			}
		}
	}
	first := func(finds ...func(*output) *fault) *fault {
		for _, o := range []*output{j.stderr, j.stdout} {
			for _, find := range finds {
				if f := find(o); f != nil {
					return f
				}
			}
		}
		return nil
	}
	if f := first(thrown, j.crashed); f != nil {
		return f
	}
	if e.Code >= 126 && e.Code <= 128 {
		return nil
	}
	if e.Code == 1 && j.calls.compares() {
		return &fault{why: "two things that should be the same differ"}
	}
	if f := first(j.differs); f != nil {
		return f
	}
	return first(j.said)
}

// differs finds the unified difference with which a script of the project shows, at its end, what is not as it should
// be.
func (j *judgement) differs(o *output) *fault {
	if !j.calls.own && !j.calls.script && !j.calls.opaque {
		return nil
	}
	for i := len(o.tail) - 1; i >= 1; i-- {
		l := o.tail[i]
		switch {
		case hunk().MatchString(l) && strings.HasPrefix(o.tail[i-1], "+++ "):
			return &fault{hit: o.at(i - 1), why: "two things that should be the same differ"}
		case l == "", framing().MatchString(l), l[0] == ' ', l[0] == '+', l[0] == '-', l[0] == '\\', l[0] == '@':
		default:
			return nil
		}
	}
	return nil
}

// crashed finds what make or a shell says when a program of the project was ended by a fault of its own.
func (j *judgement) crashed(o *output) *fault {
	if !j.calls.own && !j.calls.script && !j.calls.opaque {
		return nil
	}
	for i := len(o.tail) - 1; i >= max(0, len(o.tail)-10); i-- {
		if crash().MatchString(o.tail[i]) {
			return &fault{hit: o.at(i), why: "a program of the project was ended by a fault of its own"}
		}
	}
	return nil
}

// at makes a hit of a line of an output's tail.
func (o *output) at(i int) hit {
	h := hit{stream: o.name, line: o.lines - int64(len(o.tail)-1-i), text: o.tail[i]}
	h.file, h.fileLine = codePlace(o.tail[i], o.tail[max(0, i-4):i], o.tail[i+1:])
	return h
}

// thrown finds an exception that ended the program, and whose trace leads into the project's own files.
func thrown(o *output) *fault {
	last := -1 // the line that says that nobody caught it
	for i, l := range o.tail {
		if uncaught().MatchString(l) {
			last = i
		}
	}
	if last < 0 {
		return nil
	}
	what, own := -1, -1
	from := last
	if nodeEnd().MatchString(o.tail[last]) {
		from = max(0, last-40)
	}
	for i := from; i < len(o.tail) && i < from+200; i++ {
		l := o.tail[i]
		if systemCode().MatchString(l) && !strings.Contains(l, "ENOENT") {
			return nil
		}
		if exception().MatchString(l) && (what < 0 || strings.Contains(o.tail[last], "Traceback")) {
			what = i
		}
		if f, _ := placeIn(l); f != "" && !strings.HasPrefix(f, "node:") {
			own = i
		}
	}
	if own < 0 {
		return nil
	}
	if what < 0 {
		what = own
	}
	h := o.at(what)
	if h.file == "" {
		h.file, h.fileLine = placeIn(o.tail[own])
	}
	if ownFile(o.tail[what]) {
		return &fault{hit: h, why: "a program of the project asks for a file of it that is not there"}
	}
	if outside().MatchString(o.tail[what]) || what > 0 && what < len(o.tail)-1 && outside().MatchString(o.tail[what+1]) && !frame().MatchString(o.tail[what+1]) {
		return nil
	}
	return &fault{hit: h, why: "a program of the project threw what nobody caught"}
}

// ownFile reports whether a line says that a file of the project is missing: one with a relative path, in no directory
// that an installation or a build makes.
func ownFile(line string) bool {
	m := noFile().FindStringSubmatch(line)
	if m == nil {
		return false
	}
	path := m[1] + m[2] + m[3]
	return strings.ContainsAny(path, "/.") && !strings.HasPrefix(path, "/") && !strings.HasPrefix(path, "~") && !made().MatchString(path)
}

// said finds a message of a program of the project about a place in the code, about how it is called, or, if it was
// built for this run, any message.
func (j *judgement) said(o *output) *fault {
	built, _ := j.calls.matches([]string{"cargo run", "go run", "dotnet run"})
	judges, _ := j.calls.matches(judges)
	if !built && !judges && !j.calls.own {
		return nil
	}
	last, seen, decided := -1, 0, false
	for i := len(o.tail) - 1; i >= 0 && i >= len(o.tail)-40; i-- {
		l := strings.TrimSpace(o.tail[i])
		if l == "" || framing().MatchString(l) {
			continue
		}
		if outside().MatchString(l) || died().MatchString(l) {
			return nil
		}
		seen++
		switch {
		case frame().MatchString(o.tail[i]):
		case j.calls.own && ownUsage().MatchString(l):
			return &fault{hit: o.at(i), why: "a program of the project says how it wants to be called"}
		case ownPlace().MatchString(l), j.calls.own && seen <= 3:
			if f, _ := placeIn(l); f != "" {
				return &fault{hit: o.at(i), why: "a program of the project names a place in the code"}
			}
		}
		if last < 0 || !decided && seen <= 8 && verdictWord().MatchString(l) {
			last, decided = i, verdictWord().MatchString(l)
		}
	}
	if last >= 0 && j.calls.script && seen <= maxMessage && len(strings.Fields(o.tail[last])) >= minWords && !anywhere().MatchString(o.tail[last]) {
		return &fault{hit: o.at(last), why: "a program of the project ended with this message"}
	}
	if decided && j.calls.script && !anywhere().MatchString(o.tail[last]) {
		return &fault{hit: o.at(last), why: "a program of the project says what is wrong"}
	}
	if built && last >= 0 && o.name == onStderr {
		return &fault{hit: o.at(last), why: "the program that was built says so itself"}
	}
	return nil
}

const (
	maxMessage = 12 // how many lines an output may have whose last line is taken for a message
	minWords   = 3  // that a message has
)

// judges are programs that look at code and say where it is wrong.
var judges = []string{
	"go build", "go test", "go vet", "go run", "go install", "go generate", "gofmt", "golangci-lint", "staticcheck", "cargo", "rustc",
	"gcc", "g++", "cc", "c++", "clang", "clang++", "clang-tidy", "clang-format", "cmake", "ninja", "meson", "javac", "kotlinc", "scalac", "mvn", "mvnw", "gradle", "gradlew",
	"tsc", "eslint", "biome", "oxlint", "stylelint", "prettier", "vue-tsc", "svelte-check", "astro", "ng", "esbuild", "rollup", "vite", "webpack",
	"mypy", "pyright", "ruff", "flake8", "pylint", "black", "isort", "bandit", "shellcheck", "hadolint", "yamllint", "markdownlint", "actionlint", "luacheck", "luac",
	"rubocop", "phpstan", "psalm", "phpcs", "swiftc", "swift build", "ghc", "hlint", "terraform", "tofu", "tflint", "sqlfluff", "buf", "protoc", "zig", "dart", "flutter", "elixirc", "mix",
}

// compares reports whether the command ends by comparing files, and says by its exit code whether they differ.
func (c *calls) compares() bool {
	if c.hints == 0 {
		return false
	}
	last := c.words[c.hints-1]
	switch last[0] {
	case "diff", "cmp":
		return true
	case "git":
		return slices.Contains(last, "diff") && (slices.Contains(last, "--exit-code") || slices.Contains(last, "--quiet"))
	}
	return false
}

// ownProgram reports whether a command's words run what the project says, make and the scripts of package.json among
// it; ownScript only its own programs.
func ownProgram(name string, words []string) bool {
	switch name {
	case "make", "gmake", "just", "rake":
		return true
	case "npm", "pnpm", "yarn", "bun":
		a := afterFlags(words[1:])
		return len(a) > 0 && (a[0] == "run" || a[0] == "test" || a[0] == "start" || a[0] == "run-script")
	}
	return ownScript(name, words)
}

// ownScript reports whether a command's words call a program of the project: one by its path, a file of it given to an
// interpreter, or a hook of git.
func ownScript(name string, words []string) bool {
	if w := words[0]; strings.HasPrefix(w, "./") && !strings.Contains(w, "node_modules/") && !strings.Contains(w, "venv/") && !strings.HasSuffix(w, "gradlew") && !strings.HasSuffix(w, "mvnw") || strings.HasSuffix(w, ".sh") && !strings.HasPrefix(w, "/") {
		return true
	}
	switch name {
	case "git":
		return slices.Contains(words, "commit") || slices.Contains(words, "push") // their hooks
	case "python", "node", "ruby", "perl", "php", "java", "sh", "bash", "dash", "zsh", "tsx", "ts-node", "deno", "lua", "awk", "gawk", "mawk":
		for _, a := range words[1:] {
			if a == "-m" || a == "-c" || a == "-e" {
				return false
			}
			if scriptFile().MatchString(a) {
				return !foreign(a)
			}
		}
	}
	return false
}
