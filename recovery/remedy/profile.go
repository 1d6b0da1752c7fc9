package remedy

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// Families of distributions.
const (
	FamilyDebian  = "debian"
	FamilyRHEL    = "rhel"
	FamilyAlpine  = "alpine"
	FamilyArch    = "arch"
	FamilySUSE    = "suse"
	FamilyMacOS   = "macos"
	FamilyUnknown = "unknown"
)

// What an account may do by sudo.
const (
	SudoNone     = "none"
	SudoPassword = "password" // also where nobody can tell
	SudoNopasswd = "nopasswd"
)

// What is known about the network.
const (
	NetworkYes     = "yes"
	NetworkNo      = "no"
	NetworkUnknown = "unknown"
)

// Profile is a system as far as remedies depend on it. Detect makes that of this machine, Presets gives others.
type Profile struct {
	Name        string `json:"name,omitempty"` // of a preset
	OS          string `json:"os"`             // GOOS
	Distro      string `json:"distro,omitempty"`
	Family      string `json:"family"`
	Version     string `json:"version,omitempty"`
	Arch        string `json:"arch"`           // GOARCH
	Libc        string `json:"libc,omitempty"` // glibc, musl
	LibcVersion string `json:"libc_version,omitempty"`
	// Managers are the ids of the package managers that are there, the system's own first.
	Managers     []string `json:"managers"`
	Sudo         string   `json:"sudo"`
	Root         bool     `json:"root"`
	Container    bool     `json:"container"`
	ReadOnlyRoot bool     `json:"read_only_root"`
	Systemd      bool     `json:"systemd"`
	Network      string   `json:"network"`
	HomeWritable bool     `json:"home_writable"` // HomeWritable: tools can be installed below the home directory
	// StaleIndex: the system's package manager has no index of its packages, or an old one, and must fetch it before it
	// can install.
	StaleIndex bool `json:"stale_index"`
	// OwnPrefix are the programs that install into a directory of this account, so that a global install needs no sudo:
	// npm.
	OwnPrefix []string `json:"own_prefix,omitempty"`

	Tools map[string]bool `json:"tools,omitempty"` // the programs that are there, by name
	Path  []string        `json:"path,omitempty"`  // the directories in which others are looked for
}

// Has reports whether a program of that name can be called.
func (p Profile) Has(cli string) bool {
	if cli == "" {
		return false
	}
	if p.Tools[cli] {
		return true
	}
	if filepath.Base(cli) != cli {
		return len(p.Path) > 0 && filepath.IsAbs(cli) && executable(cli)
	}
	return slices.ContainsFunc(p.Path, func(dir string) bool { return executable(filepath.Join(dir, cli)) })
}

// With is the profile with these programs added.
func (p Profile) With(clis ...string) Profile {
	p.Tools = maps.Clone(p.Tools)
	if p.Tools == nil {
		p.Tools = map[string]bool{}
	}
	for _, c := range clis {
		p.Tools[c] = true
	}
	return p
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}

// meets says why a condition of the catalog does not hold here, "" if it does or if nobody can tell.
func (p Profile) meets(condition string) string {
	unmet, known := map[string]struct {
		is  bool
		why string
	}{
		"sudo":            {!p.Root && p.Sudo == SudoNone, "this account may not use sudo"},
		"root":            {!p.Root, "only the superuser can do it"},
		"not_root":        {p.Root, "it must not be done as the superuser"},
		"systemd":         {!p.Systemd, "systemd does not run here"},
		"writable_rootfs": {p.ReadOnlyRoot, "the root file system is read-only"},
		"network":         {p.Network == NetworkNo, "there is no network"},
		"container":       {!p.Container, "it is only for containers"},
		"not_container":   {p.Container, "it does not work inside a container"},
		"glibc":           {p.Libc == "musl", "it needs glibc, and this system has musl"},
		"musl":            {p.Libc == "glibc", "it needs musl, and this system has glibc"},
		"linux":           {p.OS != "linux", "it is only for linux"},
		"darwin":          {p.OS != "darwin", "it is only for darwin"},
	}[condition]
	switch {
	case !known:
		return fmt.Sprintf("nobody knows the condition %q", condition)
	case unmet.is:
		return unmet.why
	}
	return ""
}

// superuser gives the words that a command with the superuser's rights begins with, and false if there is no way to
// those rights.
func (p Profile) superuser() ([]string, bool) {
	switch {
	case p.Root:
		return nil, true
	case p.Sudo == SudoNopasswd:
		return []string{"sudo", "-n"}, true
	case p.Sudo == SudoPassword:
		return []string{"sudo"}, true
	}
	return nil, false
}
