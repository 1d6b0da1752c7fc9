package verify

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/pattern"
)

// subject is what a check asks. A program that another one started in its place writes a usage text, too: the shell or
// the interpreter of a wrapper, docker without the plugin that the check is about, a shim. Such a text proves nothing.
type subject struct {
	tool  string   // the name of the program, without its directory
	real  string   // the name of the file that a link of this name leads to, or ""
	given []string // the arguments of the check
	took  bool     // the program took the arguments: it refused none
}

// asked returns the subject of a command that asks the tool.
func (t Tool) asked(argv []string) subject {
	return subject{tool: baseName(t.CLI), real: baseName(t.Real), given: argv[1:]}
}

// part returns the word for which the check asks the tool: "compose" in docker compose version, "pytest" in python3 -m
// pytest --version. It is "" if the check asks about the tool itself.
func (of subject) part() string {
	name := ""
	for _, w := range of.given {
		if question().MatchString(w) {
			return name
		}
		if !strings.HasPrefix(w, "-") && !number().MatchString(w) {
			name = baseName(w)
		}
	}
	return "" // the check asks something else than the version or the help
}

// asked returns the arguments that the tool may refuse and work all the same: the question. It may not refuse the part
// that the check is about.
func (of subject) asked() []string {
	if of.took {
		return nil
	}
	at := slices.IndexFunc(of.given, question().MatchString)
	if at > 0 && of.part() != "" {
		return of.given[at:]
	}
	return of.given
}

// named reports whether a text names the part that the check asks for, if there is one.
func (of subject) named(text string) bool {
	part := of.part()
	if part == "" {
		return true
	}
	stem := strings.TrimSuffix(part, filepath.Ext(part))
	return findWord(text, part) >= 0 || findWord(text, stem) >= 0 || strings.Contains(text, "__main__.py") || akin(firstProgram(text), stem)
}

// speaks reports whether a message can be one of the tool. A message that begins with the name of another program is
// that program's. Of a check that asks a part, such as docker compose, the message has to name the part, unless an
// interpreter runs it.
func (of subject) speaks(line string) bool {
	part := of.part()
	if part != "" && !slices.Contains(launchers(), versionTail().ReplaceAllString(of.tool, "")) && !of.named(line) {
		return false
	}
	m := speaker().FindStringSubmatch(strings.TrimSpace(line))
	if m == nil {
		return true
	}
	name := strings.ToLower(baseName(m[1]))
	if part != "" && akin(name, of.tool) && !of.named(line) {
		return false // the interpreter itself says it
	}
	return !programName().MatchString(name) || slices.Contains(nouns, name) || of.akin(name) || part != "" && akin(name, part)
}

// hints reports whether a line hints at the help of another program.
func (of subject) hints(line string) bool {
	for _, m := range helpOf().FindAllStringSubmatch(line, 4) {
		if name := baseName(m[1]); programName().MatchString(name) && !slices.Contains(nouns, name) && !of.akin(name) && !akin(name, of.part()) {
			return findWord(line, of.tool) < 0
		}
	}
	return false
}

// another reports whether a line is the usage line of another program.
func (of subject) another(line string) bool {
	head, _, rest, ok := usageParts(line)
	return ok && !indented(line) && (foreign(head+" "+rest, of.tool) || of.other(head, rest))
}

// other reports whether a usage text names another program than the tool. text is what stands behind the word.
func (of subject) other(head, text string) bool {
	if findWord(head+" "+text, of.tool) >= 0 || of.real != "" && findWord(head+" "+text, of.real) >= 0 {
		return false
	}
	words := strings.Fields(text)
	if _, name, ok := strings.Cut(head, " of "); ok {
		words = append([]string{strings.TrimRight(name, ": ")}, "[")
	}
	for len(words) > 0 && (assigned().MatchString(words[0]) || slices.Contains([]string{"sudo", "env", "$", "%"}, words[0])) {
		words = words[1:]
	}
	if len(words) == 0 {
		return false
	}
	name := baseName(strings.Trim(words[0], "`'\",:"))
	if !programName().MatchString(name) || slices.Contains(nouns, name) {
		return false
	}
	if len(words) > 1 && !callForm().MatchString(words[1]) && !slices.Contains(foundEverywhere, name) {
		return false // a sentence
	}
	if part := of.part(); part != "" && akin(name, strings.TrimSuffix(part, filepath.Ext(part))) {
		return false
	}
	return !of.akin(name)
}

func (of subject) akin(name string) bool {
	return akin(name, of.tool) || of.real != "" && akin(name, of.real)
}

// akin reports whether two names can be those of one program: gcc and x86_64-linux-gnu-gcc-12, pip and pip3.10, awk and
// gawk, pdflatex and pdftex. docker is not docker-compose.
func akin(name, tool string) bool {
	name, tool = stem(name), stem(tool)
	if name == "" || tool == "" {
		return false
	}
	common := 0
	for common < min(len(name), len(tool)) && name[common] == tool[common] {
		common++
	}
	long, short := name, tool
	if len(long) < len(short) {
		long, short = short, long
	}
	if at := strings.Index(long, short); at >= 0 && len(short) > 1 {
		rest := strings.TrimLeft(long[at+len(short):], ".0123456789")
		return rest == "" || at > 0 && rest[0] == '-' || at == 0 && (!strings.ContainsAny(rest[:1], "-_:") || strings.ContainsAny(rest, "0123456789") ||
			slices.Contains(launchers(), rest[1:]))
	}
	if whole := strings.ReplaceAll(long, "-", ""); whole != long && len(short) > 3 && strings.HasPrefix(whole, short) {
		return true // pkgconf and pkg-config
	}
	return common >= 3 && common*2 >= len(short)
}

// stem is a name in lower case without its version and its ending.
func stem(name string) string {
	name = strings.ToLower(name)
	for _, end := range []string{".py", ".sh", ".pl", ".rb", ".js", ".jar", ".bin", ".exe"} {
		name = strings.TrimSuffix(name, end)
	}
	if short := versionTail().ReplaceAllString(name, ""); len(short) > 1 {
		return short
	}
	return name
}

func firstProgram(text string) string {
	for _, w := range strings.Fields(text) {
		if programName().MatchString(w) && !slices.Contains(nouns, w) {
			return w
		}
	}
	return ""
}

var (
	number      = pattern.Lazy(`^[\d.]+[smhd]?$`)
	assigned    = pattern.Lazy(`^[A-Z_][A-Z0-9_]*=`)
	programName = pattern.Lazy(`^[a-z][\w.+-]*$`)
	// callForm matches the word behind the name of a program in the form of a call.
	callForm = pattern.Lazy(`^(?:[-\[<{(|.…]|[A-Z]{2}|[a-z-]+(?:\.\.\.|\|)|[A-Z]$|\W)`)
	// helpOf matches the name of a program before the option or the command for its help.
	helpOf = pattern.Lazy("([\\w./+-]*\\w) (?:--?help|-h|-\\?|help)(?:$|[\\s'\"`’”.,;)])")
	// speaker matches the name of a program before its message.
	speaker     = pattern.Lazy(`^((?:\.{0,2}/)?[\w./+-]*[a-z][\w.+-]*)(?: [Ee]rror| [Ww]arning)?: `)
	versionTail = pattern.Lazy(`[\d.-]+$`)
)

// nouns are words for a program in a usage line that names none.
var nouns = []string{"program", "prog", "command", "cmd", "tool", "app", "application", "script", "binary", "executable", "options", "option", "this", "the", "to", "for", "see",
	"run", "type", "use", "with", "one", "is", "and", "or", "in", "main", "index", "cli", "usage", "information",
	"message", "text", "help", "error", "fatal", "warning", "err", "fail", "failed", "failure", "note", "hint", "info",
	"invalid", "unknown", "unrecognized", "unrecognised", "unexpected", "illegal", "bad", "argument", "arguments",
	"flag", "switch", "parameter", "operand", "exception", "abort", "sorry", "panic", "try", "also", "by", "of", "on",
	"from", "exe", "a", "an", "it"}

// foundEverywhere are programs that wrappers and shims call.
var foundEverywhere = []string{"git", "npm", "npx", "yarn", "pnpm", "corepack", "pip", "pip3", "pipx", "uv", "cargo", "rustup", "go", "gem", "bundle", "mvn", "gradle", "make", "tar", "grep", "sed", "awk",
	"find", "cat", "ls", "cp", "mv", "rm", "mkdir", "dirname", "basename", "readlink", "realpath", "curl", "wget",
	"ssh", "docker", "podman", "kubectl", "busybox", "test", "expr", "kill",
	"pyenv", "rbenv", "nodenv", "nvm", "asdf", "mise", "volta", "direnv", "flatpak", "snap", "tr", "cut", "sort",
	"head", "tail", "date", "uname", "id", "chmod", "chown", "sleep", "stat", "which"}

func launchers() []string {
	return []string{"java", "javaw", "node", "python", "perl", "ruby", "php", "bash", "sh", "dash", "zsh", "env", "tclsh", "lua",
		"mono", "dotnet", "deno", "bun", "qemu", "wine", "docker", "exec", "sudo", "timeout", "nice", "xargs"}
}

// foreign reports whether a usage line is that of an interpreter and not of the tool.
func foreign(text, tool string) bool {
	words := strings.Fields(text)
	if len(words) < 2 || findWord(text, tool) >= 0 {
		return false
	}
	for _, w := range words[1:min(len(words), 4)] { // "Usage: tool", "Usage of tool:"
		name := versionTail().ReplaceAllString(baseName(strings.TrimRight(w, ":")), "")
		if !slices.Contains(launchers(), name) {
			continue
		}
		return name != versionTail().ReplaceAllString(tool, "") && tool != name+"js"
	}
	return false
}

// mentionsLauncher reports whether a line names an interpreter. A hint at the help of an interpreter comes from the
// interpreter, not from the tool.
func mentionsLauncher(line string) bool {
	return slices.ContainsFunc(strings.Fields(line), func(w string) bool {
		return slices.Contains(launchers(), versionTail().ReplaceAllString(baseName(strings.Trim(w, "`'\".,:;()")), ""))
	})
}
