package manifest

import "strings"

// Crate is a dependency of a Cargo.toml.
type Crate struct {
	Name      string // in the file and in the code
	Package   string // the crate's own name
	Workspace bool   // offered to the members of the workspace only
}

// Cargo reads the dependencies of a Cargo.toml, those for development, for the
// build and for one system included. ok is false for what TOML does not read.
func Cargo(text []byte) (crates []Crate, ok bool) {
	all, ok := TOML(text)
	at := map[string]int{}
	for _, s := range all {
		table, key, found := strings.Cut(s.Path, "dependencies.")
		if !found {
			continue
		}
		name, field, _ := strings.Cut(key, ".")
		id := table + name
		if _, known := at[id]; !known {
			at[id] = len(crates)
			crates = append(crates, Crate{Name: name, Package: name, Workspace: strings.HasPrefix(table, "workspace")})
		}
		switch {
		case field == "package":
			crates[at[id]].Package = s.Plain()
		case field == "" && s.Field("package") != "":
			crates[at[id]].Package = s.Field("package")
		}
	}
	return crates, ok
}

// CargoLock gives the names of the crates in a Cargo.lock.
func CargoLock(text []byte) map[string]bool {
	all, _ := TOML(text)
	names := map[string]bool{}
	for _, s := range all {
		if s.Path == "package.name" {
			names[s.Plain()] = true
		}
	}
	return names
}
