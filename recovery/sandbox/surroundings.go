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

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/redact"
)

// NewTmp makes a private directory for temporary files in parent. The function remove removes it with its content.
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

// caches lists the directories below HOME in which programs keep their downloads. A command may make them if they are
// missing. None of them contains files that other programs execute or read as configuration: ~/.cargo/registry is in
// the list, ~/.cargo is not.
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

// existing lists paths that are writable only if they exist. They belong to libraries, or they are files, which
// superloop cannot make in advance.
const existing = ".cache/ms-playwright .cache/Cypress .cache/puppeteer .cache/electron .cache/prisma .cache/typescript " +
	".cargo/.package-cache .cargo/.package-cache-mutate .cargo/.global-cache"

// Caches returns the caches of package managers below home that exist, or that belong to a program found on path. A
// command that installs packages needs them. Other projects of the same user read what a malicious package writes
// there.
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

// Protected returns the paths of a repository through which a command could approve the next command, or could be
// executed later outside of the sandbox: the directory .superloop, and the files that steer git. For a linked work tree,
// git's files are in the repository that it belongs to. Some of the files are usually missing; a command that makes one
// is named in Result.Appeared.
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
		return append(list, gitDir(absolute(common, own))...)
	}
	return append(list, gitDir(own)...)
}

// gitSteering are the files of a git directory that git executes, that name programs which git executes or select files for
// these programs, and that lead git to another directory.
const gitSteering = "hooks config commondir info/attributes info/exclude info/grafts objects/info/alternates"

// maxModules is how many linked work trees, and how many entries below modules, gitDir looks at.
const maxModules = 2000

// gitDir returns the files of a git directory that steer git, with those of its linked work trees and submodules.
func gitDir(dir string) (list []string) {
	for name := range strings.FieldsSeq(gitSteering) {
		list = append(list, filepath.Join(dir, name))
	}
	list = append(list, worktreeConfig(dir)...)
	linked, _ := os.ReadDir(filepath.Join(dir, "worktrees"))
	for _, e := range linked[:min(len(linked), maxModules)] {
		own := filepath.Join(dir, "worktrees", e.Name())
		list = append(list, filepath.Join(own, "commondir"), filepath.Join(own, "gitdir"))
		list = append(list, worktreeConfig(own)...)
	}
	n := 0
	modules := filepath.Join(dir, "modules")
	_ = filepath.WalkDir(modules, func(path string, e fs.DirEntry, err error) error {
		switch n++; {
		case e == nil || n > maxModules:
			return fs.SkipAll
		case err != nil:
			return fs.SkipDir
		}
		if !e.IsDir() || path == modules || !exists(filepath.Join(path, "HEAD")) {
			return nil
		}
		list = append(list, gitDir(path)...) // with the submodules of the submodule
		return fs.SkipDir
	})
	return list
}

// worktreeConfig returns the file config.worktree if it exists. git reads this file only if config asks for it, so a
// missing file needs no protection.
func worktreeConfig(dir string) []string {
	if path := filepath.Join(dir, "config.worktree"); exists(path) {
		return []string{path}
	}
	return nil
}

// firstLine reads the first line of a file that an agent may have made. It follows no link and opens no FIFO. It
// returns "" if there is no regular file.
func firstLine(path string) string {
	f, _, err := door.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
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

// exists reports whether path exists. It returns true if this cannot be determined.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR)
}

// kept lists the variables of the operator's environment that every command gets.
var kept = [...]string{"HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ"}

// fallbackPath is the PATH of the command if no entry of the operator's PATH may stay.
const fallbackPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Environment builds the environment of a command from base, the operator's environment in the form of os.Environ. It
// keeps the variables in kept, and those that passthrough names: full names, or prefixes with a * at the end. It keeps
// PATH without the entries that somebody else could fill (relative, inside the repository, missing). It never keeps
// variables or locales that change how bash reads the command, because the command would then differ from the approved
// one. tmp becomes TMPDIR, if it is not "". The result is sorted by name, each name once.
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
		shell = "/bin/sh" // Run reports the missing bash
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

// plainLocale reports whether bash reads the command correctly in a locale. In some older encodings the second byte of
// a letter can be a backslash or a quote, so bash would read another command.
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

// bends reports whether a variable changes how bash interprets or executes a command.
func bends(name string) bool {
	switch name {
	case "BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "BASH_COMPAT", "POSIXLY_CORRECT", "PS4", "PROMPT_COMMAND", "IFS", "CDPATH", "GLOBIGNORE",
		"EXECIGNORE", "FIGNORE", "BASH_XTRACEFD", "BASH_LOADABLES_PATH", "BASH_ARGV0", "TIMEFORMAT", "INPUTRC":
		return true
	}
	return strings.HasPrefix(name, "BASH_FUNC_")
}

// steers reports whether a variable makes programs load foreign code. An operator can pass such a variable on only by
// its full name.
func steers(name string) bool {
	switch name {
	case "NODE_OPTIONS", "NODE_PATH", "PYTHONSTARTUP", "PYTHONPATH", "PYTHONHOME", "PERL5OPT", "PERL5LIB", "RUBYOPT", "RUBYLIB", "JAVA_TOOL_OPTIONS",
		"_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "MAVEN_OPTS", "GRADLE_OPTS", "EDITOR", "VISUAL", "PAGER", "SSH_ASKPASS", "RUSTC_WRAPPER", "MAKEFLAGS":
		return true
	}
	return slices.ContainsFunc([]string{"LD_", "DYLD_", "GIT_", "GCONV_"}, func(begin string) bool { return strings.HasPrefix(name, begin) })
}

// cleanPath keeps the entries of PATH that are absolute, exist, and lie outside of the repository, also after links are
// resolved.
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

// Secrets returns a Replacer for the secrets in base: the values of variables whose names say that they are secrets,
// and the passwords in URLs in any variable. A value that is an absolute path is not a secret.
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

// passwords returns the password of a URL, as written and decoded.
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

// decoded decodes the percent escapes of a URL and leaves invalid escapes as they are. net/url is not used here,
// because its import would make the shim start later (see becomeShim).
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
