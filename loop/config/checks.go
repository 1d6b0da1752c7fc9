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

// Kinds of environment checks, as failures.CheckKind has them.
const (
	groundPath       = "path"
	groundPermission = "permission"
	groundDeps       = "dependency_sync"
	groundDisk       = "disk"
	groundPort       = "port"
	groundTool       = "tool"
	groundService    = "service"
	groundAuth       = "auth"
	groundLimit      = "limit"
)

// groundManagers are those whose lock files can be compared with what is
// installed.
func groundManagers() []string {
	return []string{"npm", "pnpm", "yarn", "bun", "pip", "go", "cargo", "bundler"}
}

// groundKeys are the keys that a kind looks at, besides kind.
func groundKeys(kind string) []string {
	return map[string][]string{
		groundPath: {"path", "want"}, groundPermission: {"path", "want"}, groundDeps: {"path", "manager"}, groundDisk: {"path", "free_mb"},
		groundPort: {"port", "want"}, groundTool: {"name"}, groundService: {"address"}, groundAuth: {"name"}, groundLimit: {"name"},
	}[kind]
}

// ground checks each check as failures.Preventions.Add would, so that one that
// cannot be made is refused when the file is read and not when a role waits.
func (b *builder) ground(at string, checks []EnvironmentCheck) {
	for i, c := range checks {
		ptr := at + pointer("checks", i)
		b.groundCheck(ptr, c)
		if known := groundKeys(c.Kind); known != nil {
			for _, key := range []string{"path", "want", "manager", "free_mb", "port", "name", "address"} {
				if !slices.Contains(known, key) && b.present(ptr+"/"+key) {
					b.warn(ptr+"/"+key, CodeNoEffect, fmt.Sprintf("a check of kind %s does not look at %s", c.Kind, key))
				}
			}
		}
	}
}

func (b *builder) groundCheck(at string, c EnvironmentCheck) {
	printable := true
	for _, t := range []struct{ key, text string }{{"path", c.Path}, {"want", c.Want}, {"manager", c.Manager}, {"name", c.Name}, {"address", c.Address}} {
		if len(t.text) > 4096 || strings.ContainsFunc(t.text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			printable = false
			b.wrong(at+"/"+t.key, Problem{Code: schemas.CodeBadFormat, Found: quoted(t.text), Allowed: "printable text of at most 4096 bytes",
				Message: t.key + " is too long, or not printable; allowed: printable text of at most 4096 bytes"})
		}
	}
	if !printable {
		return
	}
	needs := func(missing bool, key, what string) {
		if missing {
			b.wrong(at+"/"+key, emptyKey(key, fmt.Sprintf("a check of kind %s needs %s", c.Kind, what)))
		}
	}
	oneOf := func(key, got string, of ...string) {
		if slices.Contains(of, got) {
			return
		}
		p := Problem{Code: schemas.CodeNotAllowed, Found: quoted(got), Allowed: listed(of), Near: schemas.Nearest(got, of)}
		p.Message = fmt.Sprintf("found %s; allowed in a check of kind %s: %s", p.Found, c.Kind, p.Allowed) + didYouMean(p.Near)
		b.wrong(at+"/"+key, p)
	}
	want := func(of ...string) {
		if c.Want != "" {
			oneOf("want", c.Want, of...)
			return
		}
		needs(true, "want", listed(of[:len(of)-1])+" or "+quoted(of[len(of)-1]))
	}
	switch c.Kind {
	case groundPath, groundPermission:
		needs(c.Path == "", "path", "the path that it looks at")
		if c.Kind == groundPermission {
			want("read", "write", "execute")
		} else if c.Want != "" {
			want("file", "dir")
		}
	case groundDeps:
		if c.Manager != "" {
			oneOf("manager", c.Manager, groundManagers()...)
		}
	case groundDisk:
		needs(c.FreeMB <= 0, "free_mb", "how much there must be, in MiB")
	case groundPort:
		needs(c.Port < 1 || c.Port > 65535, "port", "a port, 1 to 65535")
		want("free", "open")
	case groundTool:
		needs(c.Name == "", "name", "the name of a program")
		if strings.ContainsAny(c.Name, "/ ") {
			b.wrong(at+"/name", Problem{Code: schemas.CodeBadFormat, Found: quoted(c.Name), Allowed: "the name of a program, without a path",
				Message: fmt.Sprintf("%s is not the name of a program; write it without a path and without arguments, or use a check of kind %s", quoted(c.Name), groundPath)})
		}
	case groundService:
		needs(c.Address == "", "address", "an address of this machine")
		if why := notLocal(c.Address); c.Address != "" && why != "" {
			const allowed = "a loopback address and a port, such as 127.0.0.1:5432, or the %spath of a socket"
			b.wrong(at+"/address", Problem{Code: schemas.CodeBadFormat, Found: quoted(c.Address), Allowed: fmt.Sprintf(allowed, ""),
				Message: fmt.Sprintf("the address %s %s; allowed: "+allowed, quoted(c.Address), why, "absolute ")})
		}
	case groundAuth:
		needs(c.Name == "", "name", "the name of a runner")
		if _, ok := b.runners[c.Name]; !ok && c.Name != "" {
			b.warn(at+"/name", CodeNoEffect, fmt.Sprintf("there is no runner %s, so this check never finds anything; known: %s", quoted(c.Name), listed(b.runnerNames())))
		}
	case groundLimit:
		needs(c.Name == "", "name", "the name of a provider")
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
