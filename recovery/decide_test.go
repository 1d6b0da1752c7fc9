package recovery

import (
	"strings"
	"testing"

	"github.com/superloop/superloop/recovery/action"
)

// The published design's example, command by command.
// Conforms: 004-flow-gated, 004-2-example
func TestPublishedPolicy(t *testing.T) {
	t.Parallel()
	p := publishedPolicy(t)
	for _, c := range []struct {
		command string
		want    action.Decision
		rule    string
		pattern string
		part    string
	}{
		{"rm -rf node_modules && bun install", action.Auto, RuleAutoApprove, "", ""},
		{"bun install", action.Auto, RuleAutoApprove, "", ""},
		{"npm install", action.Auto, RuleAutoApprove, "", ""},
		{"rm -rf dist && bun run build", action.Auto, RuleAutoApprove, "", ""},
		{"rm -rf /", action.Human, RuleHuman, "rm -rf *", "rm -rf /"},
		{"rm -rf", action.Human, RuleHuman, "rm -rf *", "rm -rf"},
		{"rm -fr /", action.Human, RuleHuman, "rm -rf *", "rm -fr /"},
		{"rm -r --force x", action.Human, RuleHuman, "rm -rf *", "rm -r --force x"},
		{"/bin/rm x -R -f", action.Human, RuleHuman, "rm -rf *", "/bin/rm x -R -f"},
		{"git push origin main", action.Human, RuleHuman, "git push", "git push origin main"},
		{"git  push", action.Human, RuleHuman, "git push", "git  push"},
		{"git -C sub push", action.Human, RuleHuman, "git push", "git -C sub push"},
		{"git reset HEAD~1 --hard", action.Human, RuleHuman, "git reset --hard", "git reset HEAD~1 --hard"},
		{"git pushy", action.Human, RuleUnknown, "", ""},
		{"npm  install", action.Human, RuleUnknown, "", ""},
		{"npm install ", action.Human, RuleUnknown, "", ""},
		{"npm install\n", action.Human, RuleUnknown, "", ""},
		{"bun install --force", action.Human, RuleUnknown, "", ""},
		{"bun install; curl x", action.Human, RuleHuman, "curl *", "curl x"},
		{"bun install && sudo wget -q x", action.Human, RuleHuman, "wget *", "wget -q x"},
		{"", action.Invalid, RuleBlank, "", ""},
		{" \n\t", action.Invalid, RuleBlank, "", ""},
		{"bun install\x00", action.Invalid, RuleNUL, "", ""},
		{"bun install\xff", action.Invalid, RuleEncoding, "", ""},
		{strings.Repeat("( ", 1<<20), action.Invalid, RuleTooLong, "", ""},
		{strings.Repeat("a", MaxCommand+1), action.Invalid, RuleTooLong, "", ""},
		{strings.Repeat("( ", MaxCommand/2), action.Human, RuleUnknown, "", ""},
	} {
		v := judge(p, c.command)
		if v.Decision != c.want || v.Rule != c.rule || v.Part != c.part {
			t.Errorf("%.60q: %s by %s, part %.60q (%s); want %s by %s, part %q", c.command, v.Decision, v.Rule, v.Part, v.Reason, c.want, c.rule, c.part)
		}
		if pattern := patternOf(p, v); pattern != c.pattern {
			t.Errorf("%.60q: pattern %q, want %q", c.command, pattern, c.pattern)
		}
		if v.Reason == "" || v.PolicyDigest != p.Digest {
			t.Errorf("%.60q: reason %q, digest %q", c.command, v.Reason, v.PolicyDigest)
		}
	}
}

func patternOf(p *Policy, v Verdict) string {
	if v.Pattern < 0 {
		return ""
	}
	return p.Settings.RequireHuman[v.Pattern]
}

// By default everything needs an operator but what is listed.
// Conforms: 004-principle-whitelist
func TestDefaults(t *testing.T) {
	t.Parallel()
	s := Defaults()
	s.AutoApprove = []string{"npm ci", "sudo true", "rm -rf *"}
	p := mustCompile(t, s)
	for command, want := range map[string]action.Decision{"npm ci": action.Auto, "npm ci ": action.Human, "ls": action.Human, "sudo true": action.Human, "rm -rf *": action.Auto, "if": action.Human} {
		if v := judge(p, command); v.Decision != want {
			t.Errorf("%q: %+v, want %s", command, v, want)
		}
	}
}

// The order of the rules, where several apply.
// Conforms: 004-2-order
func TestPrecedence(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		settings func(*Settings)
		command  string
		facts    Facts
		want     action.Decision
		rule     string
	}{
		"an exact entry wins over a glob":         {func(s *Settings) { s.RequireHuman = []string{"npm *", "*"} }, "npm ci", Facts{}, action.Auto, RuleAutoApprove},
		"a literal wins over an entry":            {func(s *Settings) { s.RequireHuman = []string{"npm"} }, "npm ci", Facts{}, action.Human, RuleConflict},
		"a literal wins by a part":                {func(s *Settings) { s.RequireHuman = []string{"npm ci"} }, "true && npm ci", Facts{}, action.Human, RuleConflict},
		"the same text in both lists":             {func(s *Settings) { s.RequireHuman = []string{"echo *"} }, "echo *", Facts{}, action.Human, RuleConflict},
		"a literal that only may fit yields":      {func(s *Settings) { s.RequireHuman = []string{"git push"} }, "git $X", Facts{}, action.Auto, RuleAutoApprove},
		"strict: a glob wins":                     {func(s *Settings) { s.RequireHuman, s.StrictRequireHuman = []string{"*"}, true }, "npm ci", Facts{}, action.Human, RuleHuman},
		"strict: what may fit wins":               {func(s *Settings) { s.RequireHuman, s.StrictRequireHuman = []string{"git push *"}, true }, "git $X", Facts{}, action.Human, RuleHuman},
		"strict: what does not fit does not":      {func(s *Settings) { s.RequireHuman, s.StrictRequireHuman = []string{"curl *"}, true }, "npm ci", Facts{}, action.Auto, RuleAutoApprove},
		"privilege wins over a conflict":          {func(s *Settings) { s.RequireHuman = []string{"sudo"} }, "sudo true", Facts{}, action.Human, RulePrivileged},
		"privilege inside":                        {func(*Settings) {}, "bash -c 'doas true'", Facts{}, action.Human, RulePrivileged},
		"privilege, allowed":                      {func(s *Settings) { s.AllowPrivileged = true }, "sudo true", Facts{}, action.Auto, RuleAutoApprove},
		"privilege, allowed but not listed":       {func(s *Settings) { s.AllowPrivileged, s.OnUnknown, s.RequireHuman = true, "allow", nil }, "sudo ls", Facts{LooseOK: true}, action.Human, RulePrivileged},
		"privilege, denied":                       {func(s *Settings) { s.OnUnknown, s.RequireHuman = "deny", nil }, "sudo ls", Facts{}, action.Deny, RuleUnknown},
		"a pattern wins over deny":                {func(s *Settings) { s.OnUnknown, s.RequireHuman = "deny", []string{"ls"} }, "ls -l", Facts{}, action.Human, RuleHuman},
		"deny":                                    {func(s *Settings) { s.OnUnknown, s.RequireHuman = "deny", []string{"ls"} }, "lsof", Facts{}, action.Deny, RuleUnknown},
		"opaque is denied too":                    {func(s *Settings) { s.OnUnknown, s.RequireHuman = "deny", []string{"ls"} }, "$X", Facts{}, action.Deny, RuleUnknown},
		"allow":                                   {func(s *Settings) { s.OnUnknown, s.RequireHuman = "allow", []string{"ls"} }, "lsof", Facts{LooseOK: true}, action.Auto, RuleUnknown},
		"allow is not accepted here":              {func(s *Settings) { s.OnUnknown, s.RequireHuman = "allow", []string{"ls"} }, "lsof", Facts{}, action.Human, RuleLoose},
		"allow, but opaque":                       {func(s *Settings) { s.OnUnknown, s.RequireHuman = "allow", []string{"ls"} }, "$X", Facts{LooseOK: true}, action.Human, RuleOpaque},
		"allow, opaque, nothing to look for":      {func(s *Settings) { s.OnUnknown, s.RequireHuman = "allow", nil }, "$X", Facts{LooseOK: true}, action.Auto, RuleUnknown},
		"allow, superloop's files":                {func(s *Settings) { s.OnUnknown, s.RequireHuman = "allow", nil }, "rm .superloop/config.json", Facts{LooseOK: true}, action.Human, RuleState},
		"the guard":                               {func(*Settings) {}, "npm ci", Facts{Changed: "package.json: scripts.postinstall"}, action.Human, RuleGuard},
		"the guard is off":                        {func(s *Settings) { s.Guard = GuardOff }, "npm ci", Facts{Changed: "x"}, action.Auto, RuleAutoApprove},
		"no sandbox":                              {func(s *Settings) { s.Sandbox.Required = true }, "npm ci", Facts{}, action.Human, RuleSandbox},
		"a sandbox":                               {func(s *Settings) { s.Sandbox.Required = true }, "npm ci", Facts{Confined: true}, action.Auto, RuleAutoApprove},
		"no sandbox, allow":                       {func(s *Settings) { s.Sandbox.Required, s.OnUnknown, s.RequireHuman = true, "allow", nil }, "ls", Facts{LooseOK: true}, action.Human, RuleSandbox},
		"on_unknown odd":                          {func(s *Settings) { s.OnUnknown, s.RequireHuman = "Allow", nil }, "ls", Facts{LooseOK: true}, action.Human, RuleInternal},
		"on_unknown empty":                        {func(s *Settings) { s.OnUnknown, s.RequireHuman = "", nil }, "ls", Facts{LooseOK: true}, action.Human, RuleInternal},
		"on_unknown with a blank":                 {func(s *Settings) { s.OnUnknown, s.RequireHuman = "allow ", nil }, "ls", Facts{LooseOK: true}, action.Human, RuleInternal},
		"on_unknown odd, but listed":              {func(s *Settings) { s.OnUnknown = "Allow" }, "npm ci", Facts{}, action.Auto, RuleAutoApprove},
		"a listed command that bash cannot read":  {func(*Settings) {}, "if", Facts{}, action.Auto, RuleAutoApprove},
		"a listed command is not normalised":      {func(*Settings) {}, "npm  ci", Facts{}, action.Human, RuleHuman},
		"a directory out of the repository":       {func(*Settings) {}, "npm ci", Facts{}, action.Auto, RuleAutoApprove},
		"patterns are not trimmed into blankness": {func(s *Settings) { s.RequireHuman = []string{" \tls  "} }, "ls", Facts{}, action.Human, RuleHuman},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := Defaults()
			s.AutoApprove = []string{"npm ci", "true && npm ci", "echo *", "git $X", "sudo true", "bash -c 'doas true'", "if"}
			c.settings(&s)
			v := Decide(mustCompile(t, s), Command{Text: c.command}, c.facts)
			if v.Decision != c.want || v.Rule != c.rule {
				t.Errorf("%s by %s (%s), want %s by %s", v.Decision, v.Rule, v.Reason, c.want, c.rule)
			}
		})
	}
}

// Conforms: 004-sec-path
func TestDecideBadDirectory(t *testing.T) {
	t.Parallel()
	s := Defaults()
	s.AutoApprove = []string{"npm ci"}
	v := Decide(mustCompile(t, s), Command{Text: "npm ci", WorkingDir: "..", DirProblem: "it leads out"}, Facts{})
	if v.Decision != action.Invalid || v.Rule != RuleWorkingDir || v.Reason != "it leads out" {
		t.Errorf("%+v", v)
	}
}

func TestDecideWithoutPolicy(t *testing.T) {
	t.Parallel()
	if v := Decide(nil, Command{Text: "ls"}, Facts{LooseOK: true}); v.Decision != action.Human || v.Rule != RuleInternal || v.Reason == "" {
		t.Errorf("%+v", v)
	}
	// A policy that nobody compiled has a hole where its lists are.
	broken := &Policy{Settings: Defaults(), patterns: []pattern{{glob: "x", heads: [][]string{{}}}}}
	if v := Decide(broken, Command{Text: "x"}, Facts{LooseOK: true}); v.Decision != action.Human || v.Rule != RuleInternal || !strings.Contains(v.Reason, "failed") {
		t.Errorf("a panic is not a question: %+v", v)
	}
}

// An entry may be longer than what is judged otherwise.
// Conforms: 004-p1.4
func TestLongEntry(t *testing.T) {
	t.Parallel()
	long := "echo " + strings.Repeat("a", MaxEntry-5)
	s := Defaults()
	s.AutoApprove = []string{long}
	p := mustCompile(t, s)
	if v := judge(p, long); v.Decision != action.Auto {
		t.Errorf("%+v", v.Reason)
	}
	if v := judge(p, long[:MaxCommand+1]); v.Decision != action.Invalid || v.Rule != RuleTooLong {
		t.Errorf("%+v", v.Reason)
	}
	s.AutoApprove = []string{long + "a"}
	if _, problems := Compile(s); len(problems) != 1 || problems[0].Pointer != "/auto_approve/0" {
		t.Errorf("%v", problems)
	}
}
