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

// Kinds of checks of the ground, as respond.CheckKind has them.
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

// groundKeys are the keys that a kind looks at, besides kind.
func groundKeys(kind string) []string {
	switch kind {
	case groundPath, groundPermission:
		return []string{"path", "want"}
	case groundDeps:
		return []string{"path", "manager"}
	case groundDisk:
		return []string{"path", "free_mb"}
	case groundPort:
		return []string{"port", "want"}
	case groundTool, groundAuth, groundLimit:
		return []string{"name"}
	case groundService:
		return []string{"address"}
	}
	return nil
}

// groundManagers are those whose lock files can be compared with what is
// installed.
func groundManagers() []string {
	return []string{"npm", "pnpm", "yarn", "bun", "pip", "go", "cargo", "bundler"}
}

// ground checks each check as respond.Preventions.Add would, so that one that
// cannot be made is refused when the file is read and not when a role waits.
func (b *builder) environment(at string, checks []fileEnvironmentCheck) {
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

func (b *builder) groundCheck(at string, c fileEnvironmentCheck) {
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
	needs := func(key, what string) {
		b.wrong(at+"/"+key, Problem{Code: schemas.CodeMissingKey, Found: "nothing", Allowed: quoted(key),
			Message: fmt.Sprintf("a check of kind %s needs %s: the key %s is missing or empty", c.Kind, what, quoted(key))})
	}
	oneOf := func(key, got string, empty bool, of ...string) {
		switch {
		case slices.Contains(of, got) || empty && got == "":
		case got == "":
			needs(key, listed(of[:len(of)-1])+" or "+quoted(of[len(of)-1]))
		default:
			p := Problem{Code: schemas.CodeNotAllowed, Found: quoted(got), Allowed: listed(of), Near: schemas.Nearest(got, of)}
			p.Message = fmt.Sprintf("found %s; allowed in a check of kind %s: %s", p.Found, c.Kind, p.Allowed)
			if p.Near != "" {
				p.Message += fmt.Sprintf("; did you mean %q?", p.Near)
			}
			b.wrong(at+"/"+key, p)
		}
	}
	switch c.Kind {
	case groundPath, groundPermission:
		if c.Path == "" {
			needs("path", "the path that it looks at")
		}
		if c.Kind == groundPath {
			oneOf("want", c.Want, true, "file", "dir")
		} else {
			oneOf("want", c.Want, false, "read", "write", "execute")
		}
	case groundDeps:
		oneOf("manager", c.Manager, true, groundManagers()...)
	case groundDisk:
		if c.FreeMB <= 0 {
			needs("free_mb", "how much there must be, in MiB")
		}
	case groundPort:
		if c.Port < 1 || c.Port > 65535 {
			needs("port", "a port, 1 to 65535")
		}
		oneOf("want", c.Want, false, "free", "open")
	case groundTool:
		if c.Name == "" {
			needs("name", "the name of a program")
		} else if strings.ContainsAny(c.Name, "/ ") {
			b.wrong(at+"/name", Problem{Code: schemas.CodeBadFormat, Found: quoted(c.Name), Allowed: "the name of a program, without a path",
				Message: fmt.Sprintf("%s is not the name of a program; write it without a path and without arguments, or use a check of kind %s", quoted(c.Name), groundPath)})
		}
	case groundService:
		b.groundAddress(at, c.Address, needs)
	case groundAuth:
		if c.Name == "" {
			needs("name", "the name of a runner")
		} else if _, ok := b.runners[c.Name]; !ok {
			b.warn(at+"/name", CodeNoEffect, fmt.Sprintf("there is no runner %s, so this check never finds anything; known: %s", quoted(c.Name), listed(b.runnerNames())))
		}
	case groundLimit:
		if c.Name == "" {
			needs("name", "the name of a provider")
		}
	}
}

// groundAddress accepts what can be asked in an instant: this machine.
func (b *builder) groundAddress(at, address string, needs func(key, what string)) {
	wrong := func(why string) {
		b.wrong(at+"/address", Problem{Code: schemas.CodeBadFormat, Found: quoted(address), Allowed: "a loopback address and a port, such as 127.0.0.1:5432, or the path of a socket",
			Message: fmt.Sprintf("the address %s %s; allowed: a loopback address and a port, such as 127.0.0.1:5432, or the absolute path of a socket", quoted(address), why)})
	}
	if address == "" {
		needs("address", "an address of this machine")
		return
	}
	if filepath.IsAbs(address) {
		return
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		wrong("has no port, and is no absolute path")
		return
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		wrong("has no port between 1 and 65535")
		return
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		wrong("is of another machine; only this one is asked")
	}
}
