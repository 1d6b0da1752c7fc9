package config

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/superloop/superloop/schemas"
)

const respondKey = "/respond"

func usually() Respond {
	return Respond{
		Enabled: true, SameFailure: 3, SameTests: 3, MaxRuns: 6, MaxTime: 6 * time.Hour, AnalysisTime: 10 * time.Minute, MaxWait: 8 * 24 * time.Hour,
		Breaker:   Breaker{Failures: 3, First: time.Minute, Most: 30 * time.Minute},
		Systemic:  Systemic{Window: time.Hour, MinRuns: 5, WarnRate: 0.2, CriticalRate: 0.5, SameCategory: 5, SilentRuns: 3},
		Preflight: Environment{Enabled: true},
	}
}

// defaultRespond checks the top-level section once, so that superloop reports a mistake in it once and not again for
// each loop.
func (b *builder) defaultRespond() {
	b.respondSection(respondKey, b.file.Respond, nil)
	b.respondTogether(respondKey, b.file.Respond, b.filled(b.file.Respond))
}

// respond lays a loop's own section over the top-level one. It reports problems of the loop's own keys only, and warns
// of a max_time that is shorter than the time bound of one of the loop's roles.
func (b *builder) respond(l *fileLoop, at string) Respond {
	b.respondSection(at+respondKey, l.Respond, b.file.Respond)
	r := b.filled(merge(b.file.Respond, ownModel(l.Respond, b.file.Respond)))
	b.respondTogether(at+respondKey, l.Respond, r)
	ptr := at + respondKey + "/max_time"
	if !b.present(ptr) {
		ptr = respondKey + "/max_time"
	}
	for _, role := range l.Loop.Roles {
		if b.present(ptr) && r.MaxTime > 0 && role.Timeout > r.MaxTime {
			b.warn(ptr, CodeSuspicious, fmt.Sprintf("max_time (%s) is shorter than one run of the %s of loop %s may take (%s), so after one that fails late an operator is asked at once",
				r.MaxTime, role.Name, quoted(l.ID), role.Timeout))
			break
		}
	}
	return r
}

// diagnosticianOf returns the diagnostician of a section and the name of its runner. The name is "" where the section
// names none.
func diagnosticianOf(section any) (d map[string]any, runner string) {
	m, _ := section.(map[string]any)
	d, _ = m["diagnostician"].(map[string]any)
	runner, _ = d["runner"].(string)
	return d, runner
}

// ownModel returns a loop's section, ready to be laid over the top-level one. If it names another runner without a
// model, it gets an empty model, so that the loop does not take over the model of the other runner.
func ownModel(own, top any) any {
	d, runner := diagnosticianOf(own)
	if _, other := diagnosticianOf(top); runner == "" || runner == other || d["model"] != nil {
		return own
	}
	with := maps.Clone(d)
	with["model"] = ""
	return merge(own, map[string]any{"diagnostician": with})
}

// filled decodes a section over the defaults.
func (b *builder) filled(section any) Respond {
	r := usually()
	m, _ := section.(map[string]any)
	if _, isSwitch := m["diagnostician"].(bool); isSwitch {
		m = maps.Clone(m)
		delete(m, "diagnostician")
	}
	b.into(m, &r)
	if d := r.Diagnostician; d != nil && d.Timeout == 0 {
		d.Timeout = r.AnalysisTime
	}
	if len(r.Preflight.Checks) == 0 {
		r.Preflight.Checks = nil
	}
	return r
}

// respondSection checks one section. top is the section under it, or nil.
func (b *builder) respondSection(at string, section, top any) {
	m, _ := section.(map[string]any)
	if said := m["diagnostician"]; said != nil {
		b.diagnostician(at+"/diagnostician", said, top)
	}
	r := b.filled(section)
	times := map[string]time.Duration{"max_time": r.MaxTime, "analysis_time": r.AnalysisTime, "max_wait": r.MaxWait,
		"breaker/first": r.Breaker.First, "breaker/most": r.Breaker.Most, "systemic/window": r.Systemic.Window}
	if d, _ := diagnosticianOf(section); d["timeout"] == json.Number("0") {
		times["diagnostician/timeout"] = 0
	}
	like := map[string]string{"max_time": "6h", "max_wait": "192h", "breaker/first": "1m", "breaker/most": "30m", "systemic/window": "1h"}
	for key, d := range times {
		if b.present(at+"/"+key) && d <= 0 {
			b.wrong(at+"/"+key, Problem{Code: schemas.CodeOutOfRange, Found: "0", Allowed: "more than 0",
				Message: fmt.Sprintf("found 0; allowed: more than 0 (what follows a failure is bounded; give it a time, such as %q)", cmp.Or(like[key], "10m"))})
		}
	}
	if r.SameTests == 1 {
		b.wrong(at+"/same_tests", Problem{Code: schemas.CodeOutOfRange, Found: "1", Allowed: "0, or 2 or more",
			Message: "found 1; allowed: 0, which never asks, or 2 or more: one failure is not the same again"})
	}
	b.environmentChecks(at+"/preflight", r.Preflight.Checks)
}

func (b *builder) diagnostician(at string, said, top any) {
	d, isObject := said.(map[string]any)
	runner, _ := d["runner"].(string)
	_, other := diagnosticianOf(top)
	switch {
	case said == true:
		b.wrong(at, Problem{Code: schemas.CodeNotAllowed, Found: "true", Allowed: "the name of a runner, an object, or false",
			Message: `true does not say who; write the name of a runner, such as "diagnostician": "claude"`})
	case runner != "":
		b.reference(b.nameAt(at), runner)
	case isObject && other == "" && !b.named(at):
		b.wrong(at+"/runner", missingKey("runner", "somebody must look for the cause"))
	}
}

// respondTogether warns of settings in r that contradict each other. r is the section own, which stands at the pointer,
// laid over the one under it.
func (b *builder) respondTogether(at string, own any, r Respond) {
	warn := func(first, second, message string) {
		for _, key := range []string{first, second} {
			if b.present(at + key) {
				b.warn(at+key, CodeSuspicious, message)
				return
			}
		}
	}
	if r.Breaker.First > r.Breaker.Most {
		warn("/breaker/first", "/breaker/most", fmt.Sprintf("first (%s) is longer than most (%s): a runner that is unfit is so for %s each time, and never longer",
			r.Breaker.First, r.Breaker.Most, r.Breaker.Most))
	}
	if s := r.Systemic; s.WarnRate >= s.CriticalRate && s.CriticalRate > 0 {
		warn("/systemic/warn_rate", "/systemic/critical_rate", fmt.Sprintf("warn_rate (%v) is not below critical_rate (%v), so nobody is warned before it is critical", s.WarnRate, s.CriticalRate))
	}
	if _, runner := diagnosticianOf(own); r.Diagnostician != nil && runner != "" && b.runners[runner].Permissions == "full" {
		b.warn(at+"/diagnostician", CodeSuspicious, fmt.Sprintf("the runner %s may do everything: a diagnostician is told to read only, but what keeps it from writing are the permissions of its runner; name one that is read-only", quoted(runner)))
	}
}

// checkKey is a key of one kind of environment check. what describes the value for a message. of lists the allowed
// values, if there is a list. An optional key may be absent.
type checkKey struct {
	name, what string
	optional   bool
	of         []string
}

// checkKinds returns the kinds of environment checks, which are those of failures.CheckKind, and the keys of each
// besides kind.
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

// lockManagers returns the package managers whose lock files superloop can compare with the installed packages.
func lockManagers() []string {
	return []string{"npm", "pnpm", "yarn", "bun", "pip", "go", "cargo", "bundler"}
}

// environmentChecks refuses, when superloop reads the file, the checks that failures.Preventions.Add would refuse
// later, when a role waits.
func (b *builder) environmentChecks(at string, checks []EnvironmentCheck) {
	for i, c := range checks {
		ptr := at + Pointer("checks", i)
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

// notLocal says why superloop cannot check a service's address at once. It returns "" for an address of this machine,
// which is the only kind that it can check.
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
