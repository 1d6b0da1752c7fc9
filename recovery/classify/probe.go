package classify

import (
	"context"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/pattern"
)

// maxProbes bounds how many probes one verdict may make.
const maxProbes = 6

// probe asks the primary's probes and takes their answers into account.
func (j *judgement) probe(ctx context.Context, m *match) {
	for _, name := range m.rule.h.Probes[:min(len(m.rule.h.Probes), maxProbes)] {
		f := j.ask(ctx, name, m.captures)
		j.findings[name] = f
		switch name {
		case ProbeDeclared:
			switch {
			case f.Holds == Yes && f.Value == "installed" && m.hit != nil && nodeImport().MatchString(m.hit.text):
				// What Node.js says of a package that is not there, it says as well of a file that an intact package
				// does not have.
				j.undeclared = true
			case f.Holds == Yes:
				j.confirmed = true
			case f.Holds == No:
				j.undeclared = true
			default:
				j.weakened = true
			}
		case ProbeFreeSpace, ProbeWritable, ProbeExists, ProbeWhich, ProbeFirstLine:
			j.confirmed = j.confirmed || f.Holds == No
		case ProbeLockHolder, ProbeOOM:
			j.confirmed = j.confirmed || f.Holds == Yes
		case ProbePortOwner:
			j.confirmed = j.confirmed || f.Holds != Unknown
		}
	}
}

// nodeImport recognises Node.js, and its bundlers, when an import finds nothing.
var nodeImport = pattern.Lazy(`(?i)cannot find (?:module|package) |can't resolve |could not resolve |failed to (?:load url|resolve import) `)

// ownModule reports whether a dotted module belongs to the package in whose directory the importing file stands:
// app.models, imported by app/views.py.
func ownModule(pkg, file string) bool {
	top, _, dotted := strings.Cut(pkg, ".")
	return dotted && top != "" && file != "" && !foreign(file) && slices.Contains(strings.Split(path.Dir(filepath.ToSlash(file)), "/"), top)
}

// ask makes one probe. It answers at once when the probe would tell nothing new.
func (j *judgement) ask(ctx context.Context, name string, captures map[string]string) Finding {
	if name == ProbeDeclared && relative(captures["pkg"]) {
		return Finding{Name: name, Holds: No, Value: captures["pkg"], Detail: "it is a place in the project, not a package"}
	}
	if name == ProbeDeclared && ownModule(captures["pkg"], captures["file"]) {
		return Finding{Name: name, Holds: No, Value: captures["pkg"], Detail: "the file that imports it is of the same package"}
	}
	if j.in.Probes == nil {
		return Finding{Name: name, Holds: Unknown, Detail: "not looked at"}
	}
	f := j.in.Probes.Probe(ctx, name, captures, j.in)
	f.Name = name
	if f.Holds != Yes && f.Holds != No {
		f.Holds = Unknown
	}
	return f
}

// full reports whether a probe confirms a dominator that only a test speaks of.
func (j *judgement) full(ctx context.Context, m *match) bool {
	for _, name := range m.rule.h.Probes {
		if confirms := map[string]Answer{ProbeFreeSpace: No, ProbeOOM: Yes}[name]; confirms != "" {
			j.findings[name] = j.ask(ctx, name, m.captures)
			if j.findings[name].Holds == confirms {
				return true
			}
		}
	}
	return false
}
