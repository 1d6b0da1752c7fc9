package classify

import (
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/pattern"
)

// If no handler matches the output, the failed program may still be the project's own and report the cause itself: an
// uncaught exception with a trace into the project's files, a message of a program that the command has just built, or
// the usage of a script. The code is to blame for such a failure, unless the message is about the environment.

// fault is the cause of the end of a program of the project.
type fault struct {
	hit     hit
	why     string
	message bool // only the words of a message say so
}

var (
	// uncaught matches the lines that runtimes print about an exception that ends the program.
	uncaught = pattern.Lazy(`^\s*\+? ?(?:Exception Group )?Traceback \(most recent call last\):|^(?:Node\.js|Bun) v\d|^Exception in thread "|^(?:PHP )?Fatal error:\s+Uncaught |^Unhandled exception|^\S+\.rb:\d+:in .*\([A-Z]\w*(?:::\w+)*\)$|^\S.* at \S+\.(?:p[lm]|t) line \d+\.$|^error: Uncaught |^\*\* \([A-Z]\w*(?:\.\w+)*\) |^ERROR: LoadError|^Execution halted$|^rake aborted!$`)
	// exception matches the line of a runtime's report that names the exception.
	exception = pattern.Lazy(`^[ |+-]*(?:[\w.$]+(?:Error|Exception|Group|Exit|Warning|Interrupt|Fault|Failure)|[Ee]rror|Uncaught \S+|[a-z_]\w*(?:\.\w+)+)(?: \[\w+\])?(?::|$)|^Exception in thread "[^"]*" \S|Fatal error:\s+Uncaught |^Unhandled exception\. |^\S+\.rb:\d+:in |^\S.* at \S+\.(?:p[lm]|t) line \d+\.$`)
	// outside matches the vocabulary of failures that no change of the code fixes.
	outside = pattern.Lazy(`\b(?:ENOENT|EACCES|EPERM|ENOSPC|EADDR\w+|ECONN\w+|ETIMEDOUT|ESOCKET\w+|ENOTFOUND|EAI_AGAIN|EMFILE|ENFILE|ENOMEM|EPIPE|EROFS|EBUSY|EHOST\w+|ENET\w+|ENOTEMPTY|EXDEV|ELOOP|EPROTO|EAGAIN|EIO|EDQUOT|ENODEV|ENOEXEC|ETXTBSY)\b|(?i)\b(?:errno\b|connect(?:ion|ing|ed)?:? (?:to|was|is|refused|reset|timed|closed|error|aborted|failed|lost|could)|(?:could|can|would|did)(?: ?not|n't) (?:be )?(?:connect\w*|reach\w*|resolve|open\w*|written|write|load\w*|found|locate\w*|find (?:module|package|library)|create|bind|start|launch|download|fetch|access|allocate|execute|determine|install)|timed? ?out|timeout|ssl|tls|certificate\w*|proxy|permission|denied|no such (?:file|host|device)|credentials?|unauthori[sz]ed|authenticat\w+|authori[sz]ation|forbidden|memory|no space|space left|quota|too many (?:open|requests|connections)|unavailable|refused|unreachable|dns|not installed|no module|executable|(?:is )?not running|daemon|not supported|unsupported|glibc|shared librar\w+|killed|locked|busy|read-only|environment variable|command not found|429|50[234])\b`)
	// systemCode matches the line in which Node.js shows the code of an error of the system, a module, TLS or a socket.
	systemCode = pattern.Lazy(`^\s+code: '(?:E[A-Z0-9]+|ERR_DLOPEN_FAILED|MODULE_NOT_FOUND|ERR_MODULE_NOT_FOUND|ERR_SOCKET\w*|ERR_TLS\w*|UND_ERR\w*|[A-Z_]*CERT\w*)'`)
	nodeEnd    = pattern.Lazy(`^(?:Node\.js|Bun) v\d`)
	frame      = pattern.Lazy(`^\s+at \S|^[ |]*File "|^\tfrom |^#\d+ |^\s+\d+: `)
	ownUsage   = pattern.Lazy(`(?i)^\s*usage(?: of \S+)?:|\b(?:unknown|unrecogni[sz]ed|invalid|unexpected|missing)(?: required)? (?:command|subcommand|option|argument|flag|parameter|action|target|mode)s?\b`)
	ownPlace   = pattern.Lazy(`^(?:--> |CMake Error at |[\w \[\]-]{0,40}[:\]] ?)?\.{0,2}/?[\w@][\w@./-]*\.[A-Za-z]\w{0,5}:\d+\b`)
	// anywhere matches words that a check uses for the machine as often as for the code.
	anywhere = pattern.Lazy(`(?i)\b(?:requires?|toolchain|architecture|corrupt\w*|segmentation|exec format|https?|urls?|fetch\w*|download\w*|registry|remote|caches?|packages?|install\w*|servers?|hosts?|databases?|network|sockets?|browsers?|drivers?|command not found|cannot execute|symbol lookup|mount\w*|kernel|containers?|docker|root|sudo|tty|terminal|locale|clock|env\w*|tokens?|secrets?|passwords?|disk)\b`)
	// verdictWord matches the words with which a check says that something is wrong.
	verdictWord = pattern.Lazy(`(?i)\b(?:fail(?:s|ed|ure|ures|ing)?|errors?|invalid|expected|got \S+, want|mismatch\w*|wrong|unexpected|missing|must|should|differs?|different|not (?:equal|allowed|valid|covered|sorted|documented|implemented)|violat\w+|undefined|unresolved|duplicated?|out of (?:date|sync)|outdated|stale|broken|incomplete|forgotten|forbidden|bad|illegal|malformed|rejected|refused)\b`)
	// nothingWrong matches the words with which a check says that there is none of it.
	nothingWrong = pattern.Lazy(`(?i)\b(?:0|no|zero|without(?: any)?) (?:fail(?:ed|ures?)?|errors?|violations?|mismatch\w*|differences?|duplicates?)\b|\b(?:fail(?:ed|ures?)?|errors?|violations?) ?[:=] ?0\b`)
	scriptFile   = pattern.Lazy(`\.(?:[cm]?[jt]sx?|py|rb|p[lm]|php|sh|bash|java|lua|exs?|R|jl|groovy|kts?|awk|scm|erl|escript|tcl|test|nim|ml|hs|m|rkt|lisp|cl|pl6|raku|cr|ps1|fish|exp|swift|zsh)$`)
	// crash matches the line with which make or a shell reports that a signal such as SIGSEGV ended a program of the
	// project. A line of make names a recipe; a line of a shell names the program by a relative path.
	crash = pattern.Lazy(`^\S*make(?:\[\d+\])?: \*\*\* \[.*\] (?:Segmentation fault|Floating point exception|Bus error|Illegal instruction|Aborted)\b|^\S+: line \d+: +\d+ (?:Segmentation fault|Floating point exception|Bus error|Illegal instruction|Aborted)\s+(?:\(core dumped\))?\s*\.{1,2}/\S`)
	// died matches the line that a shell prints about any program that a signal has ended.
	died = pattern.Lazy(`^\S+: line \d+: +\d+ (?:Killed|Terminated|Segmentation fault|Aborted|Bus error|Illegal instruction|Floating point exception|Hangup)\b`)
	// diagnosed matches a place in a file, as compilers, interpreters and checkers write it before or after a message.
	diagnosed = pattern.Lazy(`^(?:\[\w+\] +)?([\w@./-]+\.\w+)(?::\d+(?:[.:-]\d+)*:|\(\d+(?:, ?\d+)?\):?) |^([\w@./-]+\.\w+):\d+:\d+:$|^File "([^"]+)", line \d+|^At line \d+ of file (\S+)$|^(?:[Ee]rror: )?([\w@./-]+\.\w+): syntax error in line \d+| in ([\w@./-]+\.\w+):\d+$|^\d{10,} (?:ERROR|WARNING) "([^"]+)" \d+:\d+ |^The error appears to (?:be|have been) in '([^']+)': line \d+|\(\.?/?([\w@./-]+\.\w+)\) \[Line \d+, Column \d+\]`)
	// literal matches a string of the code that a message quotes.
	literal = pattern.Lazy(`"[^"]*"|'[^']*'|‘[^’]*’|` + "`[^`]*`")
	// faulty matches the words with which such a message says that the code is wrong.
	faulty = pattern.Lazy(`(?i)\berror\b|\bunknown (?:directive|key|field|property|option|attribute|keyword)\b|\b(?:unexpected|undeclared|undefined|invalid|syntax|mismatch\w*|incompatible)\b`)
	// lacks matches the words of messages about something that is not there, which may be a part to install.
	lacks = pattern.Lazy(`(?i)\b(?:not found|no such|cannot (?:open|find|load|import|locate|resolve|access)|can.t (?:open|find|load|locate|resolve)|could not|couldn.t|missing|unable to|not supported|unsupported|unavailable|installed|version \d|library|librar\w+|package|modules?\b.*(?:unknown|failed)|no code for|does not exist|unbound module|unknown package|failed to load)\b`)
	// noFile matches the lines in which runtimes report a missing file. One of its groups is the path.
	noFile = pattern.Lazy(`(?:[Nn]o such file or directory)(?:, (?:open|stat|scandir|lstat|access))?:? ['"]([^'"]+)['"]|(?:FileNotFoundException|NoSuchFileException): (\S+)|no such file or directory @ \S+ - (\S+)`)
	// made matches the paths of directories and files that an installation or a build makes.
	made = pattern.Lazy(`(?:^|/)(?:node_modules|dist|build|out|target|vendor|\.venv|venv|\.next|\.nuxt|coverage|tmp|\.cache|bin|obj|\.env\b|__pycache__|generated)(?:/|$)|\.lock$|\.pid$|\.sock$|\.env`)
	// framing matches the lines that a runner such as make or npm, or the runtime of R, adds after the failure.
	framing = pattern.Lazy(`^make(?:\[\d+\])?: \*\*\* |^npm (?:ERR!|error)|^exit status \d+$|^> (?:[^A-Z]|[A-Z][A-Z0-9_]|$)|^ ?ELIFECYCLE|^error Command failed|^info Visit|^Execution halted$|^ ?(?:Lerna|NX)\b.* (?:Running target|Successfully|Ran target) |^Failed tasks:$|^- \S+:\S+$|^\s*(?:Compiling|Finished|Running|Blocking) `)
)

// ownFault is findFault, once.
func (j *judgement) ownFault() *fault {
	if !j.faultKnown {
		j.fault, j.faultKnown = j.findFault(), true
	}
	return j.fault
}

// findFault finds the message of a program of the project about its own end. It returns nil if there is no such message,
// or if the message is about the environment. The matches must be in order.
func (j *judgement) findFault() *fault {
	e := j.in.Exit
	if e.TimedOut || e.OOM || e.NotStarted {
		return nil
	}
	died := e.Signal
	if died == "" { // a shell's exit code for a signal that a fault of the program itself raises
		died = map[int]string{128 + 4: "SIGILL", 128 + 6: "SIGABRT", 128 + 7: "SIGBUS", 128 + 8: "SIGFPE", 128 + 11: "SIGSEGV"}[e.Code]
	}
	if j.calls.own && slices.Contains([]string{"SIGSEGV", "SIGABRT", "SIGBUS", "SIGFPE", "SIGILL", "SIGTRAP"}, died) {
		return &fault{why: "a program of the project was ended by " + died}
	}
	if e.Signal != "" {
		return nil
	}
	if j.ownWords != nil {
		return &fault{hit: *j.ownWords, why: "the code makes this error itself"}
	}
	if len(j.failures) > 0 {
		f := j.failures[0]
		o := j.stdout
		if f.stream == onStderr {
			o = j.stderr
		}
		if i := int(f.first-o.lines) + len(o.tail) - 1 + f.First; i >= 0 && i < len(o.tail) {
			return &fault{hit: o.at(i), why: "tests of the project failed"}
		}
		return &fault{why: "tests of the project failed"}
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
	return first(j.said, blamed)
}

// blamed finds a diagnostic of any compiler, interpreter or checker: a place in a file of the project with an error,
// none of which is about the environment or about a part that is missing.
func blamed(o *output) *fault {
	var found *fault
	for i := max(0, len(o.tail)-200); i < len(o.tail); i++ {
		at := diagnosed().FindStringSubmatchIndex(o.tail[i])
		if at == nil {
			continue
		}
		l := o.tail[i]
		file := ""
		for g := 2; g < len(at) && file == ""; g += 2 {
			if at[g] >= 0 {
				file = l[at[g]:at[g+1]]
			}
		}
		if foreign(file) || !codeName().MatchString(file) {
			continue
		}
		message := l[:at[0]] + l[at[1]:]
		if strings.HasPrefix(l, "The error appears ") { // the error itself stands before it
			message = strings.Join(o.tail[max(0, i-4):i], "\n")
		}
		for k := i + 1; k < min(len(o.tail), i+7) && !diagnosed().MatchString(o.tail[k]); k++ {
			if t := strings.TrimSpace(o.tail[k]); t != "" && !quotes(o.tail[k]) && !strings.HasPrefix(t, "^") {
				message += "\n" + t
			}
		}
		if message = literal().ReplaceAllString(message, ""); outside().MatchString(message) || lacks().MatchString(message) {
			return nil
		}
		if found == nil && (faulty().MatchString(message) || faulty().MatchString(strings.Replace(l[at[0]:at[1]], file, "", 1))) {
			found = &fault{hit: o.at(i), why: "a tool names an error at a place in the code"}
		}
	}
	return found
}

// differs finds a unified difference at the end of the output. With it a script of the project shows that two things
// that should be the same differ.
func (j *judgement) differs(o *output) *fault {
	if !j.calls.own && !j.calls.script && !j.calls.opaque {
		return nil
	}
	for i := len(o.tail) - 1; i >= 0; i-- {
		l := o.tail[i]
		switch {
		case l != "" && (l[0] >= '0' && l[0] <= '9' || strings.Contains(l, "\t")) && plainHunk().MatchString(l) && i+1 < len(o.tail) && plainDiff().MatchString(o.tail[i+1]):
			return &fault{hit: o.at(i), why: "two things that should be the same differ"}
		case i > 0 && strings.HasPrefix(o.tail[i-1], "+++ ") && hunk().MatchString(l):
			return &fault{hit: o.at(i - 1), why: "two things that should be the same differ"}
		case l == "", l[0] == ' ', l[0] == '+', l[0] == '-', l[0] == '\\', l[0] == '@', framing().MatchString(l), plainDiff().MatchString(l):
		default:
			return nil
		}
	}
	return nil
}

// crashed finds the line of make or of a shell that says that a program of the project has ended by a fault of its own.
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

// at returns line i of an output's tail as a hit, with the place in the code that the lines around it name.
func (o *output) at(i int) hit {
	n := o.lines - int64(len(o.tail)-1-i)
	h := hit{stream: o.name, line: n, origin: o.src.Line(n), text: o.tail[i]}
	h.file, h.fileLine = codePlace(o.tail[i], o.tail[max(0, i-4):i], o.tail[i+1:])
	return h
}

// thrown finds an uncaught exception whose trace leads into the project's own files. It returns nil if the exception is
// about the environment.
func thrown(o *output) *fault {
	last := -1 // the line that says that the exception was not caught
	for i := len(o.tail) - 1; i >= 0 && last < 0; i-- {
		if hasAny(o.tail[i], uncaughtParts...) && uncaught().MatchString(o.tail[i]) {
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

// uncaughtParts holds texts one of which stands in each line that uncaught matches: a cheap check before the expression.
var uncaughtParts = []string{"Traceback", "Node.js v", "Bun v", "xception", "Fatal error", ".rb:", " line ", "Uncaught", "** (", "LoadError", "Execution halted", "rake aborted"}

// ownFile reports whether a line says that a file of the project is missing. Such a file has a relative path and is in
// no directory that an installation or a build makes.
func ownFile(line string) bool {
	m := noFile().FindStringSubmatch(line)
	if m == nil {
		return false
	}
	path := m[1] + m[2] + m[3]
	return strings.ContainsAny(path, "/.") && !strings.HasPrefix(path, "/") && !strings.HasPrefix(path, "~") && !made().MatchString(path)
}

// said finds a message with which a program of the project blames the code. It takes a message that names a place in
// the code, a usage message, the verdict of a check, and any message on stderr of a program that the command has just
// built.
func (j *judgement) said(o *output) *fault {
	built := j.builds()
	if !built && !j.judges() && !j.calls.own {
		return nil
	}
	last, seen, decided := -1, 0, false
	for i := len(o.tail) - 1; i >= 0 && i >= len(o.tail)-40; i-- {
		l := withoutTopic(strings.TrimSpace(o.tail[i]))
		if l == "" || framing().MatchString(l) {
			continue
		}
		if outside().MatchString(l) || died().MatchString(l) || last < 0 && j.interpreter(l) {
			return nil
		}
		seen++
		switch {
		case frame().MatchString(o.tail[i]):
		case (j.calls.own || built) && ownUsage().MatchString(l):
			return &fault{hit: o.at(i), why: "a program of the project says how it wants to be called", message: foreignUsage(o.tail[max(0, i-8) : i+1])}
		case ownPlace().MatchString(l), j.calls.own && seen <= 3:
			if f, _ := placeIn(l); f != "" {
				return &fault{hit: o.at(i), why: "a program of the project names a place in the code"}
			}
		}
		wrong := verdictWord().MatchString(nothingWrong().ReplaceAllString(l, ""))
		if last < 0 || !decided && seen <= 8 && wrong {
			last, decided = i, wrong
		}
	}
	if last >= 0 && j.calls.script && seen <= maxMessage && len(strings.Fields(o.tail[last])) >= minWords && !anywhere().MatchString(o.tail[last]) {
		return &fault{hit: o.at(last), why: "a program of the project ended with this message", message: true}
	}
	if decided && (j.calls.script || j.judges()) && !anywhere().MatchString(o.tail[last]) {
		return &fault{hit: o.at(last), why: "a program of the project says what is wrong", message: true}
	}
	if built && last >= 0 && o.name == onStderr {
		return &fault{hit: o.at(last), why: "the program that was built says so itself", message: true}
	}
	return nil
}

// interpreter reports whether a line is from the interpreter that runs a script of the project, which names itself, and
// not from the script.
func (j *judgement) interpreter(line string) bool {
	name, _, ok := strings.Cut(line, ": ")
	return ok && slices.ContainsFunc(j.calls.words, func(call []string) bool {
		return call[0] == programName(name) && len(call) > 1 && ownScript(call[0], call)
	})
}

// builds reports whether the command builds a program of the project and runs it.
func (j *judgement) builds() bool {
	yes, _ := j.calls.matches([]string{"cargo run", "go run", "dotnet run"})
	return yes
}

const (
	maxMessage = 12 // said takes the last line of an output of at most this many lines for a message
	minWords   = 3  // such a message has at least this many words
)

// foreignUsage reports whether the lines around the refusal of an argument name a program of the machine.
func foreignUsage(lines []string) bool {
	return slices.ContainsFunc(lines, func(l string) bool {
		return foreign(l) || refuses().MatchString(l)
	})
}

// refuses matches a refusal before which a program without an ending of a script names itself.
var refuses = pattern.Lazy(`^[a-z][\w+-]*: (?:-|unknown|unrecogni[sz]ed|invalid|illegal|option)`)

// judges reports whether the command calls a program that checks code.
func (j *judgement) judges() bool {
	yes, _ := j.calls.matches(judges)
	return yes
}

// judges lists the programs that check code and report errors in it.
var judges = []string{
	"go build", "go test", "go vet", "go run", "go install", "go generate", "gofmt", "golangci-lint", "staticcheck", "cargo", "rustc",
	"gcc", "g++", "cc", "c++", "clang", "clang++", "clang-tidy", "clang-format", "cmake", "ninja", "meson", "javac", "kotlinc", "scalac", "mvn", "mvnw", "gradle", "gradlew",
	"tsc", "eslint", "biome", "oxlint", "stylelint", "prettier", "vue-tsc", "svelte-check", "astro", "ng", "esbuild", "rollup", "vite", "webpack",
	"mypy", "pyright", "ruff", "flake8", "pylint", "black", "isort", "bandit", "shellcheck", "hadolint", "yamllint", "markdownlint", "actionlint", "luacheck", "luac",
	"rubocop", "phpstan", "psalm", "phpcs", "swiftc", "swift build", "ghc", "hlint", "terraform", "tofu", "tflint", "sqlfluff", "buf", "protoc", "zig", "dart", "flutter", "elixirc", "mix",
	"commitlint", "gitlint", "markdownlint-cli2", "remark", "textlint", "vale", "codespell", "cspell", "typos", "lychee", "knip", "ts-prune", "depcruise", "madge",
	"size-limit", "bundlesize", "xo", "standard", "tslint", "jshint", "htmlhint", "html-validate", "djlint", "spectral", "redocly", "ajv", "taplo", "dprint", "shfmt",
	"pydocstyle", "pycodestyle", "vulture", "deptry", "lint-imports", "interrogate", "pytype", "pyre", "cppcheck", "cpplint", "checkstyle", "ktlint", "detekt",
	"scalafmt", "scalafix", "swiftlint", "swiftformat", "credo", "standardrb", "reek", "brakeman", "erblint", "haml-lint", "perlcritic", "perltidy", "ansible-lint",
	"checkov", "tfsec", "terrascan", "semgrep", "sam validate", "cdk synth", "pulumi preview", "forge", "solhint", "slither", "elm", "crystal", "gleam", "rebar3", "dune", "stack build", "stack test", "cabal build", "cabal test", "dbt",
	"kubeconform", "kube-linter", "conftest", "cfn-lint", "statix", "nixfmt", "xmllint", "msgfmt",
}

// compares reports whether the last call of the command compares files and reports a difference by its exit code.
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
