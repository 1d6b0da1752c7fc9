package sandbox

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/redact"
)

// NewTmp makes a private directory for temporary files in parent, and returns how to remove it with all that is in it.
func NewTmp(parent string) (dir string, remove func() error, err error) {
	name := "superloop-" + strings.ToLower(rand.Text()[:12])
	dir = filepath.Join(parent, name)
	if err := durable.OS().Mkdir("sandbox", dir, 0o700); err != nil {
		return "", nil, err
	}
	remove = func() error {
		root, err := os.OpenRoot(parent)
		if err == nil {
			defer root.Close()
			err = root.RemoveAll(name)
		}
		if err != nil {
			return fmt.Errorf("removing the temporary directory %s: %w", dir, err)
		}
		return nil
	}
	return dir, remove, nil
}

// caches are the places below HOME where the programs keep what they download, and may make if they are missing.
// Nothing that is executed or read as configuration by others is among them: not ~/.cargo, but its registry.
var caches = [...]struct{ programs, places string }{
	{"npm npx", ".npm"},
	{"node corepack", ".cache/node .cache/node-gyp"},
	{"yarn", ".cache/yarn .yarn/berry"},
	{"pnpm", ".cache/pnpm .local/share/pnpm/store .local/state/pnpm"},
	{"bun", ".bun/install/cache"},
	{"deno", ".cache/deno"},
	{"pip pip3", ".cache/pip"},
	{"uv", ".cache/uv"},
	{"poetry", ".cache/pypoetry"},
	{"pipenv", ".cache/pipenv .local/share/virtualenvs"},
	{"pdm", ".cache/pdm"},
	{"conda mamba", ".conda/pkgs"},
	{"pre-commit", ".cache/pre-commit"},
	{"cargo", ".cargo/registry .cargo/git"},
	{"go", "go/pkg/mod go/pkg/sumdb .cache/go-build"},
	{"mvn", ".m2/repository .m2/wrapper"},
	{"gradle", ".gradle/caches .gradle/wrapper .gradle/daemon .gradle/native"},
	{"dotnet nuget", ".nuget/packages .local/share/NuGet"},
	{"bundle gem", ".bundle/cache .cache/bundler"},
	{"composer", ".cache/composer .composer/cache"},
	{"dart flutter", ".pub-cache"},
	{"mix", ".hex"},
	{"ccache", ".ccache .cache/ccache"},
	{"sccache", ".cache/sccache"},
	{"bazel bazelisk", ".cache/bazel .cache/bazelisk"},
}

// existing are places that are writable where they exist: they belong to libraries, or are files, which cannot be made
// in advance.
const existing = ".cache/ms-playwright .cache/Cypress .cache/puppeteer .cache/electron .cache/prisma .cache/typescript " +
	".cargo/.package-cache .cargo/.package-cache-mutate .cargo/.global-cache"

// Caches are the caches of package managers below home that exist, or belong to a program that is found on path. A
// command that installs something needs them; what a malicious package writes there, other projects of the same user
// read.
func Caches(home, path string) []string {
	if !filepath.IsAbs(home) {
		return nil
	}
	var list []string
	add := func(place string, made bool) {
		place = filepath.Join(home, filepath.FromSlash(place))
		if _, err := os.Stat(place); err == nil || made {
			list = append(list, place)
		}
	}
	env := []string{"PATH=" + path}
	for _, c := range caches {
		installed := slices.ContainsFunc(strings.Fields(c.programs), func(program string) bool {
			_, err := proc.LookPath(program, env)
			return err == nil
		})
		for _, place := range strings.Fields(c.places) {
			add(place, installed)
		}
	}
	for _, place := range strings.Fields(existing) {
		add(place, false)
	}
	return list
}

// Protected are the places in a repository through which a command could approve the next one, or be executed later
// outside of the sandbox: superloop's own directory, and what git executes. In a work tree these lie in the repository
// that it belongs to.
func Protected(repo string) []string {
	list := []string{filepath.Join(repo, ".superloop")}
	git := filepath.Join(repo, ".git")
	info, err := os.Lstat(git)
	switch {
	case err != nil:
		return list
	case info.IsDir():
		return append(list, gitDir(git)...)
	}
	list = append(list, git)
	dir, ok := strings.CutPrefix(firstLine(git), "gitdir:")
	if !ok {
		return list
	}
	own := absolute(strings.TrimSpace(dir), repo)
	if common := firstLine(filepath.Join(own, "commondir")); common != "" {
		list = append(list, gitDir(absolute(common, own))...)
		return append(list, worktreeConfig(own)...)
	}
	return append(list, gitDir(own)...)
}

// gitDir is what git executes, or reads to find what it executes.
func gitDir(dir string) []string {
	return append([]string{filepath.Join(dir, "hooks"), filepath.Join(dir, "config")}, worktreeConfig(dir)...)
}

// worktreeConfig is a file that git reads only where config asks for it, so a missing one needs no protection.
func worktreeConfig(dir string) []string {
	if path := filepath.Join(dir, "config.worktree"); exists(path) {
		return []string{path}
	}
	return nil
}

// firstLine reads a file that an agent may have made: not through a link, not a FIFO. "" is no such file.
func firstLine(path string) string {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	buf := make([]byte, 4096)
	n, _ := f.Read(buf)
	line, _, _ := strings.Cut(string(buf[:n]), "\n")
	return strings.TrimSpace(line)
}

func absolute(path, base string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(base, path)
}

// exists is true also where nobody can tell.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR)
}

// Sockets are the places of the services that would do for a command what it may not do itself: container engines, the
// message buses, systemd, the agents that hold keys.
func Sockets() []string {
	return []string{
		"/run/user/" + strconv.Itoa(os.Getuid()),
		"/run/docker.sock", "/run/containerd", "/run/podman", "/run/crio", "/run/dbus", "/run/systemd/private", "/run/snapd.socket", "/run/libvirt",
		"/var/run/docker.sock", "/var/lib/lxd/unix.socket", "/var/snap/lxd/common/lxd/unix.socket", "/tmp/.X11-unix",
	}
}

// kept are the variables of the operator that every command gets.
var kept = [...]string{"HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ"}

// fallbackPath is what PATH is when the operator's has nothing that may stay.
const fallbackPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Environment builds what a command gets to see. base is the operator's environment, as os.Environ gives it; of that
// only kept, PATH without the entries that somebody else could fill (relative, inside the repository, missing), and
// what passthrough names: a name, or the beginning of names with a * after it. Variables that change how bash reads the
// command are never passed on, nor is a locale that does: then it would not be what was approved. tmp is the directory
// for temporary files, "" for none. It is sorted, each name once.
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
