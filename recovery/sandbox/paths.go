package sandbox

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/proc"
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
