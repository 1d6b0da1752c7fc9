package remedy

import (
	"bytes"
	"cmp"
	"context"
	"debug/elf"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/pattern"
	"github.com/superloop/superloop/recovery/provides"
)

const (
	maxSystemFile = 64 << 10           // bytes read of a file that describes the system
	maxLibc       = 4 << 20            // bytes read of the C library
	staleAfter    = 7 * 24 * time.Hour // the age at which a package manager's index counts as old
)

// Detect returns the profile of this machine for this account. It reads files and searches PATH. It runs no program, so
// it never waits for one or asks for a password. If it cannot find out a property, it takes the stricter value: sudo
// wants a password, the network is unknown. dir is the directory of the project, whose programs do not count; "" means
// that there is no project. When ctx ends, Detect returns the properties that it has found so far.
func Detect(ctx context.Context, dir string) Profile {
	p := Profile{
		OS: runtime.GOOS, Arch: runtime.GOARCH, Family: FamilyUnknown, Root: os.Geteuid() == 0,
		Sudo: SudoNone, Network: NetworkUnknown, Path: searchPath(dir),
	}
	for _, look := range []func(*Profile){
		(*Profile).lookDistro, (*Profile).lookManagers, (*Profile).lookSudo, (*Profile).lookContainer,
		(*Profile).lookMounts, (*Profile).lookNetwork, (*Profile).lookHome, (*Profile).lookLibc, (*Profile).lookLocale,
	} {
		if ctx.Err() != nil {
			break
		}
		look(&p)
	}
	p.Index = provides.New(p.Managers)
	return p
}

// searchPath returns the absolute directories of PATH outside of the project. An agent can write to those inside.
func searchPath(project string) []string {
	var out []string
	for _, d := range filepath.SplitList(os.Getenv("PATH")) {
		if filepath.IsAbs(d) && !slices.Contains(out, d) && (project == "" || !within(project, d)) {
			out = append(out, d)
		}
	}
	return out
}

func readSystem(path string) string {
	f, _, err := door.OpenOwn(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxSystemFile))
	if err != nil {
		return ""
	}
	return string(data)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func (p *Profile) lookDistro() {
	if p.OS == "darwin" {
		p.Distro, p.Family = "macos", FamilyMacOS
		return
	}
	p.Distro, p.Version, p.Family = osRelease(cmp.Or(readSystem("/etc/os-release"), readSystem("/usr/lib/os-release")))
}

// osRelease parses the text of an os-release file and returns the distribution, its version and its family.
func osRelease(text string) (distro, version, family string) {
	values := map[string]string{}
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			values[key] = strings.Trim(value, `"'`)
		}
	}
	distro, version, family = values["ID"], values["VERSION_ID"], FamilyUnknown
	for _, id := range append([]string{distro}, strings.Fields(values["ID_LIKE"])...) {
		for f, ids := range map[string][]string{
			FamilyDebian: {"debian", "ubuntu", "raspbian", "linuxmint", "pop", "kali", "devuan"},
			FamilyRHEL:   {"rhel", "fedora", "centos", "rocky", "almalinux", "amzn", "ol"},
			FamilyAlpine: {"alpine", "postmarketos", "wolfi"},
			FamilyArch:   {"arch", "archlinux", "manjaro", "endeavouros"},
			FamilySUSE:   {"suse", "opensuse", "opensuse-leap", "opensuse-tumbleweed", "sles", "sle"},
		} {
			if slices.Contains(ids, id) {
				return distro, version, f
			}
		}
	}
	return distro, version, family
}

func (p *Profile) lookManagers() {
	for _, m := range [][2]string{
		{"apt", "apt-get"}, {"dnf", "dnf"}, {"yum", "yum"}, {"apk", "apk"}, {"pacman", "pacman"}, {"zypper", "zypper"},
		{"brew", "brew"}, {"port", "port"}, {"snap", "snap"},
	} {
		if p.Has(m[1]) {
			p.Managers = append(p.Managers, m[0])
		}
	}
	switch {
	case slices.Contains(p.Managers, "apt"):
		p.StaleIndex = !fresh("/var/lib/apt/lists", "*_Packages*")
	case slices.Contains(p.Managers, "apk"):
		p.StaleIndex = !fresh("/var/cache/apk", "APKINDEX*")
	}
}

// fresh reports whether a directory has a file that matches the glob pattern and is younger than staleAfter.
func fresh(dir, pattern string) bool {
	hits, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil {
		return false
	}
	return slices.ContainsFunc(hits, func(path string) bool {
		info, err := os.Stat(path)
		return err == nil && time.Since(info.ModTime()) < staleAfter
	})
}

func (p *Profile) lookSudo() {
	if p.Root || !p.Has("sudo") {
		return
	}
	if strings.Contains(readSystem("/proc/self/status"), "NoNewPrivs:\t1") {
		return // with no_new_privs, sudo cannot get other rights
	}
	p.Sudo = SudoPassword
	who, err := user.Current()
	if err != nil {
		return
	}
	names := []string{who.Username}
	if ids, err := who.GroupIds(); err == nil {
		for _, id := range ids {
			if g, err := user.LookupGroupId(id); err == nil {
				names = append(names, "%"+g.Name)
			}
		}
	}
	files, _ := filepath.Glob("/etc/sudoers.d/*") // Glob fails only for an invalid pattern
	for _, path := range append([]string{"/etc/sudoers"}, files...) {
		if nopasswd(readSystem(path), names) {
			p.Sudo = SudoNopasswd
		}
	}
}

// nopasswd reports whether a sudoers file lets one of the names run every command without a password. Most accounts
// cannot read that file; its text is then empty.
func nopasswd(text string, names []string) bool {
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) > 1 && slices.Contains(names, words[0]) && strings.HasSuffix(strings.ReplaceAll(strings.TrimSpace(line), " ", ""), "NOPASSWD:ALL") {
			return true
		}
	}
	return false
}

func (p *Profile) lookContainer() {
	if p.OS != "linux" {
		return
	}
	group := readSystem("/proc/1/cgroup")
	p.Container = exists("/.dockerenv") || exists("/run/.containerenv") || os.Getenv("KUBERNETES_SERVICE_HOST") != "" ||
		strings.Contains(group, "docker") || strings.Contains(group, "kubepods") || strings.Contains(group, "lxc") || strings.Contains(group, "containerd")
	p.Systemd = exists("/run/systemd/system")
}

func (p *Profile) lookMounts() {
	for line := range strings.Lines(readSystem("/proc/mounts")) {
		if f := strings.Fields(line); len(f) > 3 && f[1] == "/" { // the last mount on / counts
			p.ReadOnlyRoot = slices.Contains(strings.Split(f[3], ","), "ro")
		}
	}
}

// lookNetwork sets Network to no if only the loopback interface is up. Otherwise Network is unknown, because another
// interface need not lead to the internet.
func (p *Profile) lookNetwork() {
	entries, err := os.ReadDir("/sys/class/net")
	if err != nil {
		return
	}
	p.Network = NetworkNo
	for _, e := range entries {
		if state := strings.TrimSpace(readSystem("/sys/class/net/" + e.Name() + "/operstate")); e.Name() != "lo" && state != "down" {
			p.Network = NetworkUnknown
		}
	}
}

func (p *Profile) lookHome() {
	if home, err := os.UserHomeDir(); err == nil {
		p.HomeWritable = unix.Access(home, unix.W_OK) == nil
	}
	for _, program := range []string{"npm", "gem"} {
		for _, dir := range p.Path {
			if executable(filepath.Join(dir, program)) {
				if unix.Access(dir, unix.W_OK) == nil {
					p.OwnPrefix = append(p.OwnPrefix, program)
				}
				break
			}
		}
	}
}

var glibcVersion = pattern.Lazy(`^GNU C Library [^\n]{0,100}version ([0-9]+\.[0-9]+)`)

// lookLocale reads which language the messages of programs have, as setlocale does.
func (p *Profile) lookLocale() {
	name := cmp.Or(os.Getenv("LC_ALL"), os.Getenv("LC_MESSAGES"), os.Getenv("LANG"))
	language, _, _ := strings.Cut(name, ".")
	language, _, _ = strings.Cut(language, "_")
	p.Localized = !slices.Contains([]string{"", "C", "POSIX", "en"}, language)
}

func (p *Profile) lookLibc() {
	if p.OS != "linux" {
		return
	}
	machine := cmp.Or(map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[p.Arch], p.Arch)
	if exists("/lib/ld-musl-" + machine + ".so.1") {
		p.Libc = "musl"
		return
	}
	for _, path := range []string{"/lib/" + machine + "-linux-gnu/libc.so.6", "/lib64/libc.so.6", "/usr/lib/libc.so.6", "/lib/libc.so.6"} {
		if !exists(path) {
			continue
		}
		p.Libc = "glibc"
		f, err := elf.Open(path)
		if err != nil {
			return
		}
		defer func() { _ = f.Close() }() // the file was only read
		section := f.Section(".rodata")  // only this section, a fifth of the file, has the version
		if section == nil || section.Size > maxLibc {
			return
		}
		data, err := section.Data()
		if i := bytes.Index(data, []byte("GNU C Library ")); err == nil && i >= 0 {
			if m := glibcVersion().FindSubmatch(data[i:min(len(data), i+200)]); m != nil {
				p.LibcVersion = string(m[1])
			}
		}
		return
	}
}
