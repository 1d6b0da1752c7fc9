package sandbox

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/superloop/superloop/internal/redact"
)

// kept are the variables of the operator that every command gets.
var kept = [...]string{"HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ"}

// fallbackPath is what PATH is when the operator's has nothing that may stay.
const fallbackPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Environment builds what a command gets to see. base is the operator's environment, as os.Environ gives it; of that
// only kept, PATH without the entries that somebody else could fill (relative, inside the repository, missing), and
// what passthrough names: a name, or the beginning of names with a
// * after it. Variables that change how bash reads the command are never passed
// on, nor is a locale that does: then it would not be what was approved. tmp is the directory for temporary files, ""
// for none. It is sorted, each name once.
func Environment(base, passthrough []string, repo, tmp string) []string {
	all := map[string]string{}
	path := ""
	for _, e := range base {
		name, value, ok := strings.Cut(e, "=")
		switch {
		case !ok || name == "" || strings.IndexByte(e, 0) >= 0 || bends(name):
		case name == "PATH":
			path = value
		case (name == "LANG" || strings.HasPrefix(name, "LC_")) && !plainLocale(value):
		case slices.Contains(kept[:], name) || passes(name, passthrough):
			all[name] = value
		}
	}
	shell, err := findBash(shellPath)
	if err != nil {
		shell = "/bin/sh" // Run will say it
	}
	maps.Copy(all, map[string]string{"PATH": cleanPath(path, repo), "TERM": "dumb", "CI": "1", "SHELL": shell, "GIT_TERMINAL_PROMPT": "0"})
	if tmp != "" {
		all["TMPDIR"] = tmp
	}
	list := make([]string, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		list = append(list, name+"="+all[name])
	}
	return list
}

// plainLocale: in some older encodings a backslash or a quote is the second byte of a letter, and bash would read the
// command as something else.
func plainLocale(value string) bool {
	v := strings.ToLower(value)
	return v == "" || v == "c" || v == "posix" || strings.Contains(v, "utf-8") || strings.Contains(v, "utf8")
}

func passes(name string, passthrough []string) bool {
	return slices.ContainsFunc(passthrough, func(p string) bool {
		begin, wild := strings.CutSuffix(p, "*")
		return name == p || wild && begin != "" && strings.HasPrefix(name, begin) && !steers(name)
	})
}

// bends names the variables by which the same bytes mean something else to bash, or are executed differently.
func bends(name string) bool {
	switch name {
	case "BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "BASH_COMPAT", "POSIXLY_CORRECT", "PS4", "PROMPT_COMMAND", "IFS", "CDPATH", "GLOBIGNORE",
		"EXECIGNORE", "FIGNORE", "BASH_XTRACEFD", "BASH_LOADABLES_PATH", "BASH_ARGV0", "TIMEFORMAT", "INPUTRC":
		return true
	}
	return strings.HasPrefix(name, "BASH_FUNC_")
}

// steers names the variables by which programs load foreign code. An operator may pass one on, but by its whole name
// only.
func steers(name string) bool {
	switch name {
	case "NODE_OPTIONS", "NODE_PATH", "PYTHONSTARTUP", "PYTHONPATH", "PYTHONHOME", "PERL5OPT", "PERL5LIB", "RUBYOPT", "RUBYLIB", "JAVA_TOOL_OPTIONS",
		"_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "MAVEN_OPTS", "GRADLE_OPTS", "EDITOR", "VISUAL", "PAGER", "SSH_ASKPASS", "RUSTC_WRAPPER", "MAKEFLAGS":
		return true
	}
	return slices.ContainsFunc([]string{"LD_", "DYLD_", "GIT_", "GCONV_"}, func(begin string) bool { return strings.HasPrefix(name, begin) })
}

// cleanPath keeps the entries of PATH that are absolute, exist, and lie outside of the repository, however they are
// written.
func cleanPath(path, repo string) string {
	var clean []string
	top := ""
	if repo != "" {
		top = real(repo)
	}
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) || slices.Contains(clean, dir) {
			continue
		}
		at, err := filepath.EvalSymlinks(dir)
		if err == nil && (repo == "" || !under(at, top) && !under(filepath.Clean(dir), filepath.Clean(repo))) {
			clean = append(clean, dir)
		}
	}
	if len(clean) == 0 {
		return fallbackPath
	}
	return strings.Join(clean, string(os.PathListSeparator))
}

// Secrets takes out of a text what must not be printed: the values of the variables in base whose name says that they
// are a secret, and the passwords inside of URLs in any variable. A value that is a path is left alone.
func Secrets(base []string) *redact.Replacer {
	var secrets []string
	for _, e := range base {
		name, value, _ := strings.Cut(e, "=")
		if strings.Contains(value, "://") {
			secrets = append(secrets, passwords(value)...)
		}
		if speaksOfSecret(name) && !strings.HasPrefix(value, string(filepath.Separator)) {
			secrets = append(secrets, value)
		}
	}
	return redact.Values(secrets)
}

// passwords is the password inside of a URL, as it stands there and decoded.
func passwords(value string) []string {
	_, rest, _ := strings.Cut(value, "://")
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		rest = rest[:i]
	}
	if _, password, ok := strings.Cut(rest[:max(strings.LastIndexByte(rest, '@'), 0)], ":"); ok {
		return []string{password, decoded(password)}
	}
	return nil
}

// decoded undoes the escapes of a URL; what is none stays. net/url would do, and would make the shim start later (see
// becomeShim).
func decoded(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil {
				b.WriteByte(byte(n))
				i += 2
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func speaksOfSecret(name string) bool {
	name = strings.ToUpper(name)
	parts := []string{"TOKEN", "SECRET", "PASSW", "PASSPHRASE", "CREDENTIAL", "APIKEY", "WEBHOOK"}
	ends := []string{"KEY", "_PAT", "_PWD", "_PASS", "_AUTH", "_DSN"}
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(name, part) }) ||
		slices.ContainsFunc(ends, func(end string) bool { return strings.HasSuffix(name, end) })
}
