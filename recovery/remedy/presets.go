package remedy

import "slices"

// Presets are systems as they are met, for tests and for explaining what would happen elsewhere: by name, each a fresh
// copy. Their tools are those of a usual machine of that kind, not everything that is on it.
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
	bare := func(p Profile) Profile { // a container's image: the least that runs
		p.Container, p.Systemd, p.Root, p.Sudo, p.StaleIndex, p.Tools = true, false, true, SudoNone, true, nil
		return p.With(unix...)
	}
	list := []Profile{}
	add := func(p Profile, change func(*Profile)) {
		if change != nil {
			change(&p)
		}
		list = append(list, p)
	}
	debian := func(name string) Profile {
		p := linux(name, "debian", "12", FamilyDebian, "apt", "apt-get").With("dpkg", "apt-cache")
		p.LibcVersion = "2.36"
		return p
	}
	add(debian("debian12"), nil)
	for _, u := range [][3]string{{"ubuntu2204", "22.04", "2.35"}, {"ubuntu2404", "24.04", "2.39"}} {
		p := linux(u[0], "ubuntu", u[1], FamilyDebian, "apt", "apt-get").With("dpkg", "snap")
		p.Managers, p.LibcVersion, p.Sudo = append(p.Managers, "snap"), u[2], SudoNopasswd
		add(p, nil)
	}
	slim := bare(debian("debian_slim")).With("apt-get", "dpkg")
	add(slim, nil)
	add(linux("fedora", "fedora", "41", FamilyRHEL, "dnf", "dnf"), func(p *Profile) { p.LibcVersion = "2.40" })
	add(linux("rocky9", "rocky", "9.4", FamilyRHEL, "dnf", "dnf"), func(p *Profile) { p.LibcVersion = "2.34" })
	add(linux("centos7", "centos", "7", FamilyRHEL, "yum", "yum"), func(p *Profile) { p.LibcVersion = "2.17" })
	add(bare(linux("amazonlinux", "amzn", "2023", FamilyRHEL, "dnf", "dnf")).With("dnf"), func(p *Profile) { p.LibcVersion = "2.34" })
	alpine := bare(linux("alpine", "alpine", "3.20", FamilyAlpine, "apk", "apk")).With("apk")
	alpine.Libc = "musl"
	delete(alpine.Tools, "bash")
	add(alpine, nil)
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
	add(mac("macos"), nil)
	add(linux("raspbian", "raspbian", "12", FamilyDebian, "apt", "apt-get"), func(p *Profile) { p.Arch, p.LibcVersion, p.Sudo = "arm", "2.36", SudoNopasswd })
	add(linux("nixos", "nixos", "24.05", FamilyUnknown, "", ""), func(p *Profile) { p.ReadOnlyRoot, p.LibcVersion = true, "2.39" })
	add(Profile{Name: "distroless", OS: "linux", Distro: "debian", Version: "12", Family: FamilyDebian, Arch: "amd64", Libc: "glibc",
		LibcVersion: "2.36", Sudo: SudoNone, Container: true, Network: NetworkYes}, func(p *Profile) { *p = p.With("node") })
	add(debian("restricted"), func(p *Profile) { p.Sudo = SudoNone; delete(p.Tools, "sudo") })
	add(debian("offline"), func(p *Profile) { p.Network = NetworkNo })
	add(bare(debian("k8s_read_only")).With("apt-get", "node", "npm"), func(p *Profile) { p.Root, p.ReadOnlyRoot = false, true; p.HomeWritable = false })
	add(bare(debian("ci_container")).With(append(developer, "apt-get")...), func(p *Profile) { p.OwnPrefix = []string{"npm", "gem"} })
	out := make(map[string]Profile, len(list))
	for _, p := range list {
		out[p.Name] = p
	}
	return out
}
