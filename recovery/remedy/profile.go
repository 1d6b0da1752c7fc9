package remedy

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// The values of Profile.Family, Profile.Sudo and Profile.Network.
const (
	FamilyDebian  = "debian"
	FamilyRHEL    = "rhel"
	FamilyAlpine  = "alpine"
	FamilyArch    = "arch"
	FamilySUSE    = "suse"
	FamilyMacOS   = "macos"
	FamilyUnknown = "unknown"

	SudoNone     = "none"
	SudoPassword = "password" // also if Detect cannot find out whether sudo wants a password
	SudoNopasswd = "nopasswd"

	NetworkYes     = "yes"
	NetworkNo      = "no"
	NetworkUnknown = "unknown"
)

// Profile holds the properties of a system on which remedies depend. Detect returns the profile of this machine,
// Presets those of other systems.
type Profile struct {
	Name        string `json:"name,omitempty"` // the name of a preset
	OS          string `json:"os"`             // GOOS
	Distro      string `json:"distro,omitempty"`
	Family      string `json:"family"`
	Version     string `json:"version,omitempty"`
	Arch        string `json:"arch"`                // GOARCH
	Libc        string `json:"libc,omitempty"`      // glibc, musl
	Localized   bool   `json:"localized,omitempty"` // programs speak another language than English
	LibcVersion string `json:"libc_version,omitempty"`
	// Managers holds the ids of the installed package managers, the system's own first.
	Managers     []string `json:"managers"`
	Sudo         string   `json:"sudo"`
	Root         bool     `json:"root"`
	Container    bool     `json:"container"`
	ReadOnlyRoot bool     `json:"read_only_root"`
	Systemd      bool     `json:"systemd"`
	Network      string   `json:"network"`
	HomeWritable bool     `json:"home_writable"` // tools can be installed below the home directory
	// StaleIndex is true if the index of the package manager is missing or old. The manager must fetch the index before
	// it can install.
	StaleIndex bool `json:"stale_index"`
	// OwnPrefix lists programs, such as npm, that install into a directory that this account may write. They need no
	// sudo.
	OwnPrefix []string `json:"own_prefix,omitempty"`

	// Index knows the packages of the system; nil if nobody can be asked.
	Index Index `json:"-"`

	Tools map[string]bool `json:"tools,omitempty"` // the programs that are known to exist, by name
	Path  []string        `json:"path,omitempty"`  // the directories in which Has searches other programs
}

// Index answers from what the system's package managers know already. It uses no network.
type Index interface {
	// Providers returns the names of the packages that contain a program, the likeliest first; nil if that is unknown.
	Providers(program string) []string
	// Package reports whether there is a package of that name.
	Package(name string) bool
}

// Has reports whether a program exists: in Tools, in a directory of Path, or, given by its absolute path, on the disk.
func (p Profile) Has(cli string) bool {
	switch {
	case cli == "":
		return false
	case p.Tools[cli]:
		return true
	case filepath.Base(cli) != cli:
		return len(p.Path) > 0 && filepath.IsAbs(cli) && executable(cli)
	}
	return slices.ContainsFunc(p.Path, func(dir string) bool { return executable(filepath.Join(dir, cli)) })
}

// With returns a copy of the profile with these programs added to Tools.
func (p Profile) With(clis ...string) Profile {
	before := p.Tools
	p.Tools = map[string]bool{}
	maps.Copy(p.Tools, before)
	for _, c := range clis {
		p.Tools[c] = true
	}
	return p
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}

// meets returns the reason why a condition of the catalog does not hold on this system. It returns "" if the condition
// holds, or if the profile does not know.
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
		"localized":       {!p.Localized, "programs speak English here already"},
	}[condition]
	switch {
	case !known:
		return fmt.Sprintf("nobody knows the condition %q", condition)
	case unmet.is:
		return unmet.why
	}
	return ""
}

// superuser returns the words that must stand before a command with the superuser's rights. It returns false if this
// account cannot get these rights.
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

// Presets returns the profiles of common systems by name, each a fresh copy. They serve tests, and show which remedies
// superloop would find on other systems. Tools holds the programs that matter on a usual machine of that kind, not all.
func Presets() map[string]Profile {
	unix := []string{
		"awk", "bash", "cat", "chmod", "chown", "cp", "env", "find", "grep", "gzip", "head", "id", "install", "kill", "ln", "ls", "mkdir", "mv",
		"nohup", "printf", "rm", "rmdir", "sed", "sh", "sleep", "sort", "stat", "tail", "tar", "tee", "test", "touch", "true", "uname", "which", "xargs",
	}
	developer := []string{"curl", "wget", "git", "make", "gcc", "g++", "cc", "python3", "node", "npm", "npx", "perl", "unzip", "xz", "gpg"}
	linux := func(name, distro, version, family, manager, cli string) Profile {
		p := Profile{
			Name: name, OS: "linux", Distro: distro, Version: version, Family: family, Arch: "amd64", Libc: "glibc",
			Sudo: SudoPassword, Systemd: true, Network: NetworkYes, HomeWritable: true,
		}.With(slices.Concat(unix, developer, []string{"sudo", "systemctl"})...)
		if manager != "" {
			p.Managers = []string{manager}
			p.Tools[cli] = true
		}
		return p
	}
	bare := func(p Profile) Profile { // a minimal container image
		p.Container, p.Systemd, p.Root, p.Sudo, p.StaleIndex, p.Tools = true, false, true, SudoNone, true, nil
		return p.With(unix...)
	}
	out := map[string]Profile{}
	add := func(p Profile, change func(*Profile)) {
		change(&p)
		out[p.Name] = p
	}
	debian := func(name string) Profile {
		p := linux(name, "debian", "12", FamilyDebian, "apt", "apt-get").With("dpkg", "apt-cache")
		p.LibcVersion = "2.36"
		return p
	}
	out["debian12"], out["debian_slim"] = debian("debian12"), bare(debian("debian_slim")).With("apt-get", "dpkg")
	for _, u := range [][3]string{{"ubuntu2204", "22.04", "2.35"}, {"ubuntu2404", "24.04", "2.39"}} {
		add(linux(u[0], "ubuntu", u[1], FamilyDebian, "apt", "apt-get").With("dpkg", "snap"), func(p *Profile) {
			p.Managers, p.LibcVersion, p.Sudo = append(p.Managers, "snap"), u[2], SudoNopasswd
		})
	}
	add(linux("fedora", "fedora", "41", FamilyRHEL, "dnf", "dnf"), func(p *Profile) { p.LibcVersion = "2.40" })
	add(linux("rocky9", "rocky", "9.4", FamilyRHEL, "dnf", "dnf"), func(p *Profile) { p.LibcVersion = "2.34" })
	add(linux("centos7", "centos", "7", FamilyRHEL, "yum", "yum"), func(p *Profile) { p.LibcVersion = "2.17" })
	add(bare(linux("amazonlinux", "amzn", "2023", FamilyRHEL, "dnf", "dnf")).With("dnf"), func(p *Profile) { p.LibcVersion = "2.34" })
	add(bare(linux("alpine", "alpine", "3.20", FamilyAlpine, "apk", "apk")).With("apk"), func(p *Profile) { p.Libc = "musl"; delete(p.Tools, "bash") })
	add(linux("arch", "arch", "", FamilyArch, "pacman", "pacman"), func(p *Profile) { p.LibcVersion = "2.40" })
	add(linux("opensuse", "opensuse-leap", "15.6", FamilySUSE, "zypper", "zypper"), func(p *Profile) { p.LibcVersion = "2.38" })
	mac := func(name string) Profile {
		p := linux(name, "macos", "15.1", FamilyMacOS, "", "")
		p.OS, p.Arch, p.Libc, p.Systemd = "darwin", "arm64", "", false
		delete(p.Tools, "systemctl")
		delete(p.Tools, "wget")
		return p
	}
	add(mac("macos_brew").With("brew"), func(p *Profile) { p.Managers, p.OwnPrefix = []string{"brew"}, []string{"npm", "gem"} })
	out["macos"] = mac("macos")
	add(linux("raspbian", "raspbian", "12", FamilyDebian, "apt", "apt-get"), func(p *Profile) { p.Arch, p.LibcVersion, p.Sudo = "arm", "2.36", SudoNopasswd })
	add(linux("nixos", "nixos", "24.05", FamilyUnknown, "", ""), func(p *Profile) { p.ReadOnlyRoot, p.LibcVersion = true, "2.39" })
	out["distroless"] = Profile{Name: "distroless", OS: "linux", Distro: "debian", Version: "12", Family: FamilyDebian, Arch: "amd64", Libc: "glibc",
		LibcVersion: "2.36", Sudo: SudoNone, Container: true, Network: NetworkYes}.With("node")
	add(debian("restricted"), func(p *Profile) { p.Sudo = SudoNone; delete(p.Tools, "sudo") })
	add(debian("offline"), func(p *Profile) { p.Network = NetworkNo })
	add(bare(debian("k8s_read_only")).With("apt-get", "node", "npm"), func(p *Profile) { p.Root, p.ReadOnlyRoot = false, true; p.HomeWritable = false })
	add(bare(debian("ci_container")).With(append(developer, "apt-get")...), func(p *Profile) { p.OwnPrefix = []string{"npm", "gem"} })
	return out
}
