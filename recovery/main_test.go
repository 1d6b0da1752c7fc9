package recovery

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/superloop/superloop/schemas"
)

// open policies let every unlisted command run that no pattern names.
func allowing(patterns ...string) Settings {
	s := Defaults()
	s.RequireHuman, s.OnUnknown = patterns, UnknownAllow
	return s
}

func mustCompile(t testing.TB, s Settings) *Policy {
	t.Helper()
	p, problems := Compile(s)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return p
}

// judge decides as where commands are confined.
func judge(p *Policy, text string) Verdict {
	return Decide(p, Command{Text: text}, Facts{LooseOK: true, Confined: true})
}

// publishedPolicy is that of examples/config.json.
func publishedPolicy(t testing.TB) *Policy {
	t.Helper()
	data, err := os.ReadFile("../examples/config.json")
	if err != nil {
		t.Fatal(err)
	}
	doc, problems := schemas.Read(schemas.Config, data)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	p, problems := ReadPolicy(Section{doc.Raw("/recovery", nil), "/recovery"})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return p
}

func section(raw string, ptr string) Section { return Section{json.RawMessage(raw), ptr} }
