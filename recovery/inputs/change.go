package inputs

import (
	"fmt"
	"path"
	"regexp"
	"strings"
)

// Change kinds.
const (
	Appeared = "appeared" // it is not in the baseline
	Vanished = "vanished" // it is no longer there
	Changed  = "changed"
	Lost     = "unwatchable" // it exceeds a bound, or cannot be read reliably
)

// Change is an input that is not what it was.
type Change struct {
	Path string `json:"path"`
	Part string `json:"part,omitempty"` // see Input
	For  string `json:"for"`            // the program that reads it
	Kind string `json:"kind"`
	// Before and After are the input's text, secrets masked, at most 64 KiB of each; "" where there is none, or only a
	// digest. They hold what an agent wrote: show them by Diff.
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
	Why    string `json:"why,omitempty"` // says what keeps an unwatchable input from being compared
}

// maxShown bounds Change.Before and Change.After.
const maxShown = 64 << 10

// Compare lists what differs between the inputs of a command before and now, both as Inputs gives them, sorted by path
// and part.
func Compare(before, now []Input) []Change {
	var out []Change
	for len(before) > 0 || len(now) > 0 {
		switch {
		case len(now) == 0 || len(before) > 0 && less(before[0], now[0]):
			if b := before[0]; b.lost == "" { // what could not be watched then is judged by what is there now
				out = append(out, change(Vanished, b, b.Text, nil))
			}
			before = before[1:]
		case len(before) == 0 || less(now[0], before[0]):
			out = append(out, change(Appeared, now[0], nil, now[0].Text))
			now = now[1:]
		default:
			b, n := before[0], now[0]
			before, now = before[1:], now[1:]
			if n.lost += b.lost; n.lost != "" || !same(b, n) {
				out = append(out, change(Changed, n, b.Text, n.Text))
			}
		}
	}
	return out
}

func less(a, b Input) bool { return a.Path < b.Path || a.Path == b.Path && a.Part < b.Part }

// same compares by the strongest digest that both sides have.
func same(a, b Input) bool {
	if a.Sum != "" && b.Sum != "" {
		return a.Sum == b.Sum
	}
	return a.id != "" && a.id == b.id
}

func change(kind string, in Input, before, now []byte) Change {
	c := Change{Path: in.Path, Part: in.Part, For: in.For, Kind: kind}
	if in.lost != "" {
		c.Kind, c.Why = Lost, in.lost
		return c
	}
	c.Before, c.After = mask(c.Path, string(before), string(now))
	return c
}

// Name is what a change is about: "package.json scripts.postinstall".
func (c Change) Name() string { return strings.TrimSuffix(c.Path+" "+c.Part, " ") }

// Summary names the changes in one line for an operator, at most a few of them, escaped. It is "" if there are none.
func Summary(changes []Change) string {
	const most = 4
	var out []string
	for i, c := range changes {
		if i == most {
			out = append(out, fmt.Sprintf("and %d more", len(changes)-most))
			break
		}
		out = append(out, shorten(visible(c.Name()), 120)+" "+c.Kind)
	}
	return strings.Join(out, ", ")
}

// mask hides what is secret in the two texts of a change, and bounds them. Where only a secret differs the later one
// says so.
func mask(file, before, now string) (string, string) {
	b, n := maskText(file, before), maskText(file, now)
	if before != now && before != "" && now != "" && b == n {
		n += "(only what is hidden here is another)\n"
	}
	return bound(b), bound(n)
}

func maskText(file, text string) string {
	// The part of an address that logs in.
	text = regexp.MustCompile(`(://)[^/\s"'@]+@`).ReplaceAllString(text, "${1}<secret>@")
	switch path.Base(file) {
	case ".npmrc", ".yarnrc", ".yarnrc.yml", "bunfig.toml", "auth.json", "uv.toml", "poetry.toml", "pip.conf", "gradle.properties", "settings.xml", "config", "credentials", ".env":
	default:
		return text
	}
	secret := regexp.MustCompile(`(?i)(_auth|_authtoken|_password|password|passwd|token|secret|api-?key|username|http-basic|bearer|authorization)("?\s*[:=]\s*|\s+)(.+)`)
	var out strings.Builder
	for line := range strings.Lines(text) {
		bare := strings.TrimSuffix(line, "\n")
		out.WriteString(secret.ReplaceAllString(bare, "${1}${2}<secret>") + line[len(bare):])
	}
	return out.String()
}

func bound(s string) string {
	if len(s) > maxShown {
		return strings.ToValidUTF8(s[:maxShown], "") + "\n(cut here)\n"
	}
	return s
}
