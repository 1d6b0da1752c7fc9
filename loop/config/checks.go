package config

import (
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/superloop/superloop/schemas"
)

// checkKey is a key that a kind of environment check looks at: what it holds, or
// what it may be; an optional one may be absent.
type checkKey struct {
	name, what string
	optional   bool
	of         []string
}

// checkKinds are the kinds of environment checks, as failures.CheckKind has them,
// with their keys besides kind.
func checkKinds() map[string][]checkKey {
	path := checkKey{name: "path", what: "the path that it looks at"}
	anywhere := checkKey{name: "path", optional: true}
	return map[string][]checkKey{
		"path":            {path, {name: "want", optional: true, of: []string{"file", "dir"}}},
		"permission":      {path, {name: "want", of: []string{"read", "write", "execute"}}},
		"dependency_sync": {anywhere, {name: "manager", optional: true, of: lockManagers()}},
		"disk":            {anywhere, {name: "free_mb", what: "how much there must be, in MiB"}},
		"port":            {{name: "port", what: "a port, 1 to 65535"}, {name: "want", of: []string{"free", "open"}}},
		"tool":            {{name: "name", what: "the name of a program"}},
		"service":         {{name: "address", what: "an address of this machine"}},
		"auth":            {{name: "name", what: "the name of a runner"}},
		"limit":           {{name: "name", what: "the name of a provider"}},
	}
}

// lockManagers are those whose lock files can be compared with what is installed.
func lockManagers() []string {
	return []string{"npm", "pnpm", "yarn", "bun", "pip", "go", "cargo", "bundler"}
}

// environmentChecks checks each check as failures.Preventions.Add would, so that one
// that cannot be made is refused when the file is read and not when a role waits.
func (b *builder) environmentChecks(at string, checks []EnvironmentCheck) {
	for i, c := range checks {
		ptr := at + pointer("checks", i)
		b.environmentCheck(ptr, c)
		if keys := checkKinds()[c.Kind]; keys != nil {
			for _, key := range []string{"path", "want", "manager", "free_mb", "port", "name", "address"} {
				if !slices.ContainsFunc(keys, func(k checkKey) bool { return k.name == key }) && b.present(ptr+"/"+key) {
					b.warn(ptr+"/"+key, CodeNoEffect, fmt.Sprintf("a check of kind %s does not look at %s", c.Kind, key))
				}
			}
		}
	}
}

func (b *builder) environmentCheck(at string, c EnvironmentCheck) {
	values, printable := map[string]string{"path": c.Path, "want": c.Want, "manager": c.Manager, "name": c.Name, "address": c.Address}, true
	for key, text := range values {
		if len(text) > 4096 || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			printable = false
			b.wrong(at+"/"+key, Problem{Code: schemas.CodeBadFormat, Found: quoted(text), Allowed: "printable text of at most 4096 bytes",
				Message: key + " is too long, or not printable; allowed: printable text of at most 4096 bytes"})
		}
	}
	if !printable {
		return
	}
	if c.FreeMB > 0 {
		values["free_mb"] = "some"
	}
	if c.Port > 0 && c.Port <= 65535 {
		values["port"] = "one"
	}
	for _, k := range checkKinds()[c.Kind] {
		switch got := values[k.name]; {
		case got == "" && !k.optional:
			what := k.what
			if n := len(k.of) - 1; n > 0 {
				what = listed(k.of[:n]) + " or " + quoted(k.of[n])
			}
			b.wrong(at+"/"+k.name, emptyKey(k.name, fmt.Sprintf("a check of kind %s needs %s", c.Kind, what)))
		case got != "" && k.of != nil && !slices.Contains(k.of, got):
			p := Problem{Code: schemas.CodeNotAllowed, Found: quoted(got), Allowed: listed(k.of), Near: schemas.Nearest(got, k.of)}
			p.Message = fmt.Sprintf("found %s; allowed in a check of kind %s: %s", p.Found, c.Kind, p.Allowed) + didYouMean(p.Near)
			b.wrong(at+"/"+k.name, p)
		}
	}
	switch why := notLocal(c.Address); {
	case c.Kind == "tool" && strings.ContainsAny(c.Name, "/ "):
		b.wrong(at+"/name", Problem{Code: schemas.CodeBadFormat, Found: quoted(c.Name), Allowed: "the name of a program, without a path",
			Message: quoted(c.Name) + " is not the name of a program; write it without a path and without arguments, or use a check of kind path"})
	case c.Kind == "service" && c.Address != "" && why != "":
		const allowed = "a loopback address and a port, such as 127.0.0.1:5432, or the %spath of a socket"
		b.wrong(at+"/address", Problem{Code: schemas.CodeBadFormat, Found: quoted(c.Address), Allowed: fmt.Sprintf(allowed, ""),
			Message: fmt.Sprintf("the address %s %s; allowed: "+allowed, quoted(c.Address), why, "absolute ")})
	case c.Kind == "auth" && c.Name != "" && b.runners[c.Name].Name == "":
		b.warn(at+"/name", CodeNoEffect, fmt.Sprintf("there is no runner %s, so this check never finds anything; known: %s", quoted(c.Name), listed(b.runnerNames())))
	}
}

// notLocal says why a service's address cannot be asked in an instant: only one of
// this machine can, which gives "".
func notLocal(address string) string {
	host, port, err := net.SplitHostPort(address)
	n, noNumber := strconv.Atoi(port)
	switch {
	case filepath.IsAbs(address):
		return ""
	case err != nil:
		return "has no port, and is no absolute path"
	case noNumber != nil || n < 1 || n > 65535:
		return "has no port between 1 and 65535"
	case host != "localhost" && !loopback(host):
		return "is of another machine; only this one is asked"
	}
	return ""
}
