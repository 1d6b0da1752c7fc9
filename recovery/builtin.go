package recovery

import (
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/text"
)

// shell reads the arguments of sh, bash and similar shells. The argument of -c is a script. Any other code that a shell
// runs is not in the command, so it is opaque.
func (c call) shell() {
	body := false
	for i := 0; i < len(c.args); i++ {
		a := c.args[i]
		switch {
		case !a.known && (a.many || a.mayBeOption()):
			c.unclear(c.name + " gets options that are not written out")
			return
		case a.text == "--norc", a.text == "--noprofile", a.text == "--posix", a.text == "--login", a.text == "--verbose", a.text == "--noediting", a.text == "--restricted":
		case a.text == "--version", a.text == "--help":
			return
		case a.text == "--" || a.text == "-":
			i++
			c.script0(body, c.args[min(i, len(c.args)):])
			return
		case strings.HasPrefix(a.text, "--"):
			c.unclear(c.name + " gets an option that can name a file of commands")
			return
		case len(a.text) > 1 && (a.text[0] == '-' || a.text[0] == '+'):
			letters := a.text[1:]
			body = body || a.text[0] == '-' && strings.Contains(letters, "c")
			switch {
			case strings.Trim(letters, "cefhkmnprtuvxBCEHPTabloO") != "":
				c.unclear(c.name + " reads commands from its input or from its own files")
				return
			case strings.ContainsAny(letters, "lk"):
				c.unclear(c.name + " reads commands from its own files, or takes words for variables")
			}
			i += strings.Count(letters, "o") + strings.Count(letters, "O") // the values of these options are names of shell options
		default:
			c.script0(body, c.args[i:])
			return
		}
	}
	c.script0(body, nil)
}

// script0 reads the operands of a shell: with -c the first operand is a script, without -c it is a file.
func (c call) script0(body bool, operands []word) {
	switch {
	case body && len(operands) > 0:
		if c.name != "bash" && c.name != "sh" && c.name != "dash" && c.name != "ash" && c.name != "rbash" {
			c.unclear(c.name + " reads scripts by rules of its own")
		}
		c.body(operands[0])
	case len(operands) > 0:
		c.unclear(c.name + " runs a file that is not read")
	default:
		c.unclear(c.name + " reads commands from its input")
	}
}

// builtin reads bash's own commands, and returns false for any other command.
func (c call) builtin() bool {
	switch c.name {
	case "eval", "trap":
		if len(c.args) > 0 && c.args[0].text == "--" {
			c.args = c.args[1:]
		}
		if c.name == "trap" {
			c.trap()
		} else if len(c.args) > 0 {
			c.body(joinedWord(c.args))
		}
	case ".", "source":
		c.unclear(c.name + " runs a file that is not read")
	case "alias", "hash", "enable", "shopt", "mapfile", "readarray", "complete", "compgen", "compopt", "bind", "fc", "history", "let":
		c.unclear(c.name + " can change what other commands run")
	case "read", "getopts", "unset", "export", "readonly", "declare", "typeset", "local", "nameref", "wait":
		c.names(c.args)
	case "printf":
		c.namesAfter("-v")
	case "test", "[":
		c.namesAfter("-v", "-R")
	case "set":
		c.set()
	case "cd", "pushd", "popd", "dirs", "pwd", "echo", "true", "false", ":", "exit", "return", "break", "continue", "shift", "umask",
		"ulimit", "type", "times", "jobs", "fg", "bg", "disown", "suspend", "logout", "caller", "help", "kill":
	default:
		return false
	}
	return true
}

func (c call) trap() {
	switch args := c.args; {
	case len(args) < 2, args[0].text == "-", args[0].text == "", args[0].text == "-l", args[0].text == "-p":
		if c.anyUnknown() {
			c.unclear("trap gets words that are not written out")
		}
	default:
		c.body(args[0])
	}
}

// names judges words that bash uses as names of variables. bash evaluates a subscript in such a word, and assigning
// some variables changes what other programs run.
func (c call) names(ws []word) {
	for _, w := range ws {
		name, _, valued := strings.Cut(w.text, "=")
		switch {
		case isOption(w.text) && w.known:
			if strings.ContainsAny(w.text, "in") && (c.name == "declare" || c.name == "typeset" || c.name == "local") {
				c.unclear(c.name + " " + text.Display(clip(w.text)) + " makes values run as arithmetic, or stand for other variables")
			}
		case strings.Contains(name, "["), strings.IndexByte(name, unknown) >= 0, w.split, !w.known && !valued:
			c.unclear("the name of a variable can run commands")
		default:
			c.variable(name, c.text)
		}
	}
}

func (c call) namesAfter(options ...string) {
	for i, a := range c.args {
		if a.split {
			c.unclear(c.name + " gets words that are not written out")
			return
		}
		for _, o := range options {
			if a.text == o && i+1 < len(c.args) {
				c.names(c.args[i+1 : i+2])
			} else if c.name == "printf" && strings.HasPrefix(a.text, o) && i == 0 {
				c.names([]word{{text: a.text[len(o):], known: a.known}})
			}
		}
	}
}

// set reads the arguments of set. The option keyword (-k) makes every later NAME=VALUE word a variable of its command.
func (c call) set() {
	for i, a := range c.args {
		switch {
		case a.text == "--" || a.text == "-":
			return
		case !a.known:
			c.unclear("set gets words that are not written out")
		case isOption(a.text) && strings.Contains(a.text, "k"), (a.text == "-o") && i+1 < len(c.args) && c.args[i+1].text == "keyword":
			c.unclear("set -k turns words into variables")
		}
	}
}

// stateDir is the directory in a repository that holds superloop's own files, which agents may not change.
const stateDir = ".superloop"

// variable records a variable that makes other programs run something, or that configures superloop.
func (r *reader) variable(name, part string) {
	if loaded(name) {
		r.opaque("setting "+text.Display(clip(name))+" changes what other commands run", part)
	}
	if strings.HasPrefix(name, "SUPERLOOP_") {
		r.state(part)
	}
}

// loaded reports whether the value of a variable decides what other programs run.
func loaded(name string) bool {
	switch name {
	case "BASH_ENV", "ENV", "PATH", "IFS", "SHELLOPTS", "BASHOPTS", "PROMPT_COMMAND", "CDPATH", "GLOBIGNORE", "BASH_LOADABLES_PATH", "BASH_CMDS", "BASH_ALIASES", "EXECIGNORE",
		"POSIXLY_CORRECT", "HOME", "SHELL", "EDITOR", "VISUAL", "PAGER", "MANPAGER", "BROWSER", "LESSOPEN", "LESSCLOSE",
		"MAKEFLAGS", "MAKEFILES", "MFLAGS", "GNUMAKEFLAGS", "NODE_OPTIONS", "BUN_OPTIONS", "TAR_OPTIONS", "PERL5OPT", "PERL5DB",
		"RUBYOPT", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "MAVEN_OPTS", "GRADLE_OPTS",
		"PYTHONSTARTUP", "PYTHONINSPECT", "PYTHONHOME", "PYTHONBREAKPOINT", "RUSTC", "RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER",
		"CC", "CXX", "LD", "AR", "GOFLAGS", "SUDO_ASKPASS", "RSYNC_RSH", "CVS_RSH", "GCONV_PATH", "XDG_CONFIG_HOME":
		return true
	}
	if len(name) == 3 && strings.HasPrefix(name, "PS") && name[2] >= '0' && name[2] <= '4' {
		return true
	}
	upper := strings.ToUpper(name) // npm reads npm_config_* in either case
	if begins(upper, "LD_", "DYLD_", "BASH_FUNC_", "SSH_", "NPM_CONFIG_") {
		return true
	}
	tame := begins(name, "GIT_AUTHOR_", "GIT_COMMITTER_", "GIT_TERMINAL_PROMPT", "GIT_TRACE", "GIT_OPTIONAL_LOCKS", "GIT_MERGE_AUTOEDIT")
	return strings.HasPrefix(name, "GIT_") && !tame || strings.HasPrefix(name, "CARGO_TARGET_") && strings.HasSuffix(name, "_RUNNER")
}

func begins(s string, prefixes ...string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(s, p) })
}

// touches records a word that leads, or may lead, to superloop's own files. A glob or braces count if the path segment
// begins like ".superloop".
func (r *reader) touches(w word, part string) {
	text := strings.ToLower(w.text)
	leads := strings.Contains(text, stateDir)
	for segment := range strings.SplitSeq(text, "/") { // .s*, .*, .{superloop,x}; a glob must begin with a dot to find a dot file
		at := strings.IndexByte(segment, unknown)
		leads = leads || !w.known && at > 0 && segment[0] == '.' && strings.HasPrefix(stateDir, segment[:at])
	}
	if leads {
		r.state(part)
	}
}
