package recovery

import (
	"strings"

	"github.com/superloop/superloop/internal/text"
)

// stateDir is where superloop keeps what agents may not change.
const stateDir = ".superloop"

// variable remarks on setting a variable that makes other programs run things.
func (r *reader) variable(name, part string) {
	if loaded(name) {
		r.opaque("setting "+text.Display(clip(name))+" changes what other commands run", part)
	}
	if strings.HasPrefix(name, "SUPERLOOP_") {
		r.state(part)
	}
}

// loaded reports whether other programs take from a variable what they run.
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
	upper := strings.ToUpper(name) // npm_config_* in either case
	for _, prefix := range []string{"LD_", "DYLD_", "BASH_FUNC_", "SSH_", "NPM_CONFIG_"} {
		if strings.HasPrefix(upper, prefix) {
			return true
		}
	}
	for _, tame := range []string{"GIT_AUTHOR_", "GIT_COMMITTER_", "GIT_TERMINAL_PROMPT", "GIT_TRACE", "GIT_OPTIONAL_LOCKS", "GIT_MERGE_AUTOEDIT"} {
		if strings.HasPrefix(name, tame) {
			return false
		}
	}
	return strings.HasPrefix(name, "GIT_") || strings.HasPrefix(name, "CARGO_TARGET_") && strings.HasSuffix(name, "_RUNNER")
}

// touches remarks on words that lead to superloop's own files, or may do so: a
// glob or a list in braces that begins as they do.
func (r *reader) touches(w word, part string) {
	if leadsToState(w) {
		r.state(part)
	}
}

func leadsToState(w word) bool {
	text := strings.ToLower(w.text)
	if strings.Contains(text, stateDir) {
		return true
	}
	if w.known {
		return false
	}
	for segment := range strings.SplitSeq(text, "/") {
		if at := strings.IndexByte(segment, unknown); at > 0 && segment[0] == '.' && strings.HasPrefix(stateDir, segment[:at]) {
			return true // .s*, .*, .{superloop,x}; a glob finds no dot file without a dot
		}
	}
	return false
}
