package recovery

import (
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/superloop/superloop/internal/testkit"
	"github.com/superloop/superloop/recovery/action"
)

// drawText draws commands: plain ones, hostile ones, pieces of shell, any bytes.
func drawText(t *rapid.T, name string) string {
	return rapid.OneOf(
		rapid.SampledFrom(hostile),
		rapid.String(),
		rapid.Custom(func(t *rapid.T) string { return string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")) }),
		rapid.Custom(func(t *rapid.T) string {
			return strings.Join(rapid.SliceOfN(rapid.SampledFrom(soups[0]), 0, 12).Draw(t, "tokens"), rapid.SampledFrom([]string{"", " ", "\n"}).Draw(t, "between"))
		}),
	).Draw(t, name)
}

func drawSettings(t *rapid.T) Settings {
	s := Defaults()
	listed := rapid.Custom(func(t *rapid.T) string { return drawText(t, "entry") }).Filter(func(e string) bool {
		return strings.TrimSpace(e) != "" && utf8.ValidString(e) && !strings.ContainsRune(e, 0)
	})
	s.AutoApprove = rapid.SliceOfN(listed, 0, 3).Draw(t, "auto_approve")
	s.RequireHuman = rapid.SliceOfN(rapid.SampledFrom([]string{"*", "gated", "gated arg", "gated *", "rm -rf *", "*x*", "git push", "a b * c", "sudo", "-x", "* "}), 0, 4).Draw(t, "require_human")
	s.OnUnknown = rapid.SampledFrom([]string{"escalate", "deny", "allow", "Allow", "", "ALLOW", "alow", "true"}).Draw(t, "on_unknown")
	s.StrictRequireHuman = rapid.Bool().Draw(t, "strict")
	s.AllowPrivileged = rapid.Bool().Draw(t, "privileged")
	return s
}

// Decide is total and deterministic, and automatic only by the two rules that
// make it so.
// Conforms: 004-goal-safe
func TestDecideProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := mustCompileRapid(t, drawSettings(t))
		c := Command{Text: drawText(t, "command")}
		if rapid.Bool().Draw(t, "listed") && len(p.Settings.AutoApprove) > 0 {
			c.Text = rapid.SampledFrom(p.Settings.AutoApprove).Draw(t, "entry")
		}
		f := Facts{LooseOK: rapid.Bool().Draw(t, "loose"), Confined: rapid.Bool().Draw(t, "confined")}
		v := Decide(p, c, f)
		if again := Decide(p, c, f); !reflect.DeepEqual(v, again) {
			t.Fatalf("two verdicts: %+v, %+v", v, again)
		}
		if strings.Contains(v.Reason, "the decision failed") {
			t.Fatalf("a panic: %s", v.Reason)
		}
		for _, b := range []byte(v.Reason) {
			if b < ' ' || b > '~' {
				t.Fatalf("the reason cannot be printed: %q", v.Reason)
			}
		}
		_, listed := p.Listed(c.Text)
		switch {
		case v.Reason == "" || v.Rule == "":
			t.Fatalf("no reason: %+v", v)
		case v.Decision == action.Auto && !listed && (p.Settings.OnUnknown != UnknownAllow || !f.LooseOK):
			t.Fatalf("automatic without a listing: %+v", v)
		case v.Decision == action.Invalid && listed:
			t.Fatalf("a listed command is refused: %+v", v)
		case v.Decision == action.Deny && (listed || p.Settings.OnUnknown != UnknownDeny):
			t.Fatalf("denied: %+v", v)
		case listed && v.Decision == action.Human && v.Rule != RuleConflict && v.Rule != RulePrivileged && !(p.Settings.StrictRequireHuman && v.Rule == RuleHuman):
			t.Fatalf("a listed command needs an operator for no good reason: %+v", v)
		case (v.Entry >= 0) != (listed && v.Decision != action.Invalid):
			t.Fatalf("entry %d", v.Entry)
		}
	})
}

func mustCompileRapid(t *rapid.T, s Settings) *Policy {
	p, problems := Compile(s)
	if len(problems) > 0 {
		t.Fatalf("%v", problems)
	}
	return p
}

// Threat T1: a text that differs from every entry in a single byte is not
// granted.
// Conforms: 004-goal-safe, 004-principle-whitelist, 004-p1.4, 004-sec-injection
func TestOneByteEditIsNeverAutomatic(t *testing.T) {
	t.Parallel()
	for _, p := range []*Policy{publishedPolicy(t), mustCompile(t, func() Settings {
		s := Defaults()
		s.AutoApprove = []string{"npm ci", "npm  ci", "npm ci ", "a", "sh -c 'x'", "\u00e9"}
		s.OnUnknown = "deny"
		return s
	}())} {
		for _, entry := range p.Settings.AutoApprove {
			for at := range len(entry) + 1 {
				for b := 0; b < 256; b += testkit.Sample(5, 1, 1) {
					edits := []string{entry[:at] + string([]byte{byte(b)}) + entry[at:]}
					if at < len(entry) {
						edits = append(edits, entry[:at]+string([]byte{byte(b)})+entry[at+1:], entry[:at]+entry[at+1:])
					}
					for _, e := range edits {
						if _, listed := p.Listed(e); listed {
							continue
						}
						if v := judge(p, e); v.Decision == action.Auto {
							t.Fatalf("%q is automatic beside %q: %s", e, entry, v.Reason)
						}
					}
				}
			}
		}
	}
}

// Threat T2: a gated command, however it is wrapped, quoted and nested, is not
// automatic under "allow".
// Conforms: 004-sec-injection
func TestEmbeddedCommandIsNeverAutomatic(t *testing.T) {
	t.Parallel()
	p := mustCompile(t, allowing("gated"))
	shapes := []string{"true; %s", "( %s )", "{ %s\n}", "if :; then %s\nfi", "for i in 1; do %s\ndone", "case x in x) %s\n;; esac", "f() { %s\n}; f", "echo $(%s\n)", "cat <<E\n$(%s\n)\nE\n", "A=$(%s\n)", "%s >x &", "time { %s\n}", "echo \"${x:-$(%s\n)}\""}
	wrappers := []string{"", "env ", "env -i A=1 ", "command ", "exec ", "nohup ", "timeout -s KILL 5 ", "nice -n 5 ", "sudo -u x ", "xargs -n 1 ", "stdbuf -oL ", "env A=1 ", "\\", "busybox ", "find . -exec ", "flock l ", "/usr/bin/"}
	rapid.Check(t, func(t *rapid.T) {
		text := "gated"
		for range rapid.IntRange(0, 3).Draw(t, "wrappers") {
			if w := rapid.SampledFrom(wrappers).Draw(t, "wrapper"); text == "gated" || !strings.ContainsAny(w, "\\/") {
				text = w + text
			}
		}
		for range rapid.IntRange(0, 4).Draw(t, "depth") {
			switch rapid.IntRange(0, 3).Draw(t, "kind") {
			case 0:
				text = "bash -c '" + strings.ReplaceAll(text, "'", `'\''`) + "'"
			case 1:
				text = "eval \"" + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "$", `\$`, "`", "\\`").Replace(text) + "\""
			default:
				text = strings.Replace(rapid.SampledFrom(shapes).Draw(t, "shape"), "%s", text, 1)
			}
		}
		if v := judge(p, text); v.Decision == action.Auto {
			t.Fatalf("%q is automatic; parts %q", text, texts(v.Analysis))
		}
	})
}
