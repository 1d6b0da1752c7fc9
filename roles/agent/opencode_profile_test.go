package agent

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestOpencodeLoginAndAccount(t *testing.T) {
	t.Parallel()
	home, data := t.TempDir(), t.TempDir()
	if got := loginOf("opencode", []string{"HOME=" + home}); got.State != LoginUnknown || !strings.Contains(got.How, home) {
		t.Errorf("%+v", got)
	}
	if got := loginOf("opencode", []string{"HOME=" + home, "GROQ_API_KEY=k"}); got != (Login{LoginYes, "GROQ_API_KEY"}) {
		t.Errorf("%+v", got)
	}
	path := filepath.Join(data, "opencode", "auth.json")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	logins := `{"openai":{"type":"api","key":"k1"},"anthropic":{"type":"oauth","access":"a","refresh":"r","expires":5}}`
	if err := os.WriteFile(path, []byte(logins), 0o600); err != nil {
		t.Fatal(err)
	}
	env := []string{"HOME=" + home, "XDG_DATA_HOME=" + data}
	if got := loginOf("opencode", env); got != (Login{LoginYes, path}) {
		t.Errorf("%+v", got)
	}

	account := func(model string, env ...string) Account {
		req := request(t, "p")
		req.CLI.Command, req.Model = []string{"opencode"}, model
		return AccountOf(req, env)
	}
	if a, b := account("openai/gpt-5", env...), account("openai/gpt-4", "HOME=/elsewhere", "OPENAI_API_KEY=k1"); a != b || a.Provider != "openai" || a.ID != AccountID("", "k1") {
		t.Errorf("one key: %+v, %+v", a, b)
	}
	if a, b := account("google/gemini-3", "HOME="+home, "GEMINI_API_KEY=k"), AccountOf(Request{CLI: CLI{Command: []string{"gemini"}}}, []string{"HOME=" + home, "GEMINI_API_KEY=k"}); a != b {
		t.Errorf("the key of another CLI: %+v, %+v", a, b)
	}
	if a, b := account("anthropic/x", env...), account("anthropic/x", "HOME="+home); a == b || a.Provider != "anthropic" || strings.Contains(a.ID, "r") && a.ID == "r" {
		t.Errorf("a login and none: %+v, %+v", a, b)
	}
	if a := account("", env...); a.Provider != "opencode" || a.ID == "" {
		t.Errorf("no model: %+v", a)
	}
	req := request(t, "p")
	req.CLI = CLI{Command: []string{"opencode"}, Args: []string{"run", "-m", "fancy-ai/m"}}
	if a := AccountOf(req, []string{"FANCY_AI_API_KEY=f"}); a.Provider != "fancy-ai" || a.ID != AccountID("", "f") {
		t.Errorf("the owner's model: %+v", a)
	}
}

// A key is one for a model and nothing else, or other agents would miss it.
func TestOpencodeKeys(t *testing.T) {
	t.Parallel()
	keys := opencodeKeys()
	for _, name := range []string{"ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY", "GEMINI_API_KEY", "OPENCODE_API_KEY"} {
		if !slices.Contains(keys, name) {
			t.Errorf("%s is missing", name)
		}
	}
	for _, name := range []string{"GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "HF_TOKEN", "CLOUDFLARE_API_TOKEN", "PATH"} {
		if slices.Contains(keys, name) {
			t.Errorf("%s is no key for a model alone", name)
		}
	}
	for _, name := range keys {
		if !validName(name) || name != strings.ToUpper(name) {
			t.Errorf("%q", name)
		}
	}
}

func TestProfilesOfGeminiAndOpencode(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		adapter Adapter
		args    []string
		help    []string
	}{
		{gemini{}, nil, nil}, {gemini{}, []string{"-m", "x"}, nil},
		{opencode{}, nil, []string{"run"}}, {opencode{}, []string{"run", "-m"}, []string{"run"}},
		{opencode{}, []string{"--pure", "run"}, []string{"run"}}, {opencode{}, []string{"serve"}, []string{"serve"}},
	} {
		p := c.adapter.Profile()
		if got := p.Help(c.args); !slices.Equal(got, c.help) {
			t.Errorf("%s %q: %q", c.adapter.Name(), c.args, got)
		}
		if len(p.Keys) == 0 || p.Login == "" || p.Credential == nil {
			t.Errorf("%s: %+v", c.adapter.Name(), p)
		}
	}
	for program, want := range map[string]string{"gemini": "gemini", "/usr/bin/gemini-cli": "gemini", "gemini-next": "generic", "opencode": "opencode", "opencode2": "generic"} {
		if got := For(CLI{Command: []string{program}}).Name(); got != want {
			t.Errorf("%s: %s", program, got)
		}
	}
}
