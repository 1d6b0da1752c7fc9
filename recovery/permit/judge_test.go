package permit

import (
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/action"
)

// where is a work tree with a loop, and a link out of it.
var where = Facts{Root: "/w", LoopDir: "/w/.superloop/loops/x", Home: "/home/u", Real: func(p string) string {
	p = strings.Replace(p, "/w/link/..", "/x", 1) // as the kernel walks it
	p = filepath.Clean(p)
	return strings.Replace(strings.Replace(p, "/w/link", "/outside", 1), "/w/keys", "/home/u/.ssh", 1)
}}

func compiled(t testing.TB, s Settings, of *recovery.Policy) *Policy {
	t.Helper()
	p, problems := Compile(s, of)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return p
}

// usual is a policy as an operator would write it, with the recovery policy of its loop.
func usual(t testing.TB) *Policy {
	t.Helper()
	rs := recovery.Defaults()
	rs.AutoApprove, rs.RequireHuman = []string{"npm ci"}, []string{"*", "rm -rf *", "go run *"}
	of, problems := recovery.Compile(rs)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	s := Defaults()
	s.Mode, s.AutoApprove = Enforce, []string{"make check 2>&1 | tail -5", "rm -rf build"}
	s.Programs = []string{"go", "git status", "rg", "ls", "cat", "timeout", "cd", "bash", "echo", "find", "sudo"}
	s.Deny, s.RequireHuman = []string{"git push *", "sudo *"}, []string{"go install *"}
	s.Paths = Paths{Deny: []string{"deploy/", "*.lock"}, Secret: []string{"vault", "~/tokens"}}
	s.Hosts, s.Tools = []string{"pkg.go.dev", "*.example.com"}, []string{"mcp__docs__search"}
	return compiled(t, s, of)
}

func command(text string) Request {
	return Request{Kind: Command, Tool: "Bash", Command: text, Input: []byte(text), Dir: "/w", Exact: true}
}

func TestCommands(t *testing.T) {
	t.Parallel()
	p := usual(t)
	for text, want := range map[string]string{
		// The very bytes of a list.
		"npm ci": "auto auto_approve", "npm ci ": "human on_unknown", "make check 2>&1 | tail -5": "auto auto_approve", "make check": "human on_unknown",
		// What the recovery policy names is never loosened by a grant; a listed command is what the operator has listed.
		"go run ./x": "human require_human", "rm -rf /": "human require_human", "rm -rf build": "auto auto_approve", "echo a && rm -fr b": "human require_human",
		"go install x@latest": "human require_human",
		// deny wins over everything.
		"git push": "deny deny", "go test ./... && git push origin": "deny deny", "sudo ls": "deny deny", "timeout 5 git -C /w push": "deny deny", "bash -c 'git push'": "deny deny",
		// Programs.
		"go test ./...": "auto auto_approve_programs", "go test ./... | rg -v ok": "auto auto_approve_programs", "ls": "auto auto_approve_programs",
		"timeout 5 go vet ./...": "auto auto_approve_programs", "timeout 5 make": "human on_unknown", "git status --short": "auto auto_approve_programs",
		"git -c core.pager=x status": "human on_unknown", "git log": "human on_unknown", "/w/go test": "human on_unknown", "./go test": "human on_unknown", "gofmt -l .": "human on_unknown",
		"cd sub && go test .": "auto auto_approve_programs", "cd / && ls": "human on_unknown", "cd": "human on_unknown", "cd link && ls": "human on_unknown",
		"ls *.go": "auto auto_approve_programs", "bash -c 'ls; go vet .'": "auto auto_approve_programs", "bash -c 'make'": "human on_unknown",
		"find . -exec rm {} ;": "human require_human", "find . -exec touch {} +": "human on_unknown", "find . -name x": "auto auto_approve_programs", "ls; make": "human on_unknown", "ls & make": "human on_unknown", "ls &": "human on_unknown",
		"ls $(make)": "human on_unknown", "ls `make`": "human on_unknown", "ls $X": "human on_unknown", "$X": "human on_unknown", "ls <(make)": "human on_unknown",
		"PATH=/tmp go test": "human on_unknown", "GOFLAGS=-toolexec=/tmp/x go test": "human on_unknown", "export PATH=/tmp; go test": "human on_unknown",
		"if true; then ls; fi": "human on_unknown", "go() { make; }; go": "human on_unknown", "(ls)": "human on_unknown", "for i in a; do ls; done": "human on_unknown",
		"echo $((a[1]))": "human on_unknown", "ls \u200b": "human on_unknown",
		// Redirects.
		"go test ./... > out.txt 2>&1": "auto auto_approve_programs", "ls > /dev/null": "auto auto_approve_programs", "echo x > ../y": "human on_unknown", "echo x >> /etc/passwd": "human on_unknown",
		"echo x > link/y": "human on_unknown", "echo x > .git/hooks/post-commit": "human on_unknown", "echo x > .superloop/config.json": "human on_unknown", "echo x > $Y": "human on_unknown",
		"cd sub && echo x > y": "human on_unknown", "echo x > deploy/y": "human on_unknown", "cat < .env": "human on_unknown", "cat <<E\n$(make)\nE": "human on_unknown",
		"echo x >& y": "human on_unknown", "echo x > a.lock": "human on_unknown",
		// Places with secrets.
		"cat ~/.ssh/id_rsa": "human on_unknown", "cat .env": "human on_unknown", "cat /home/u/.ssh/config": "human on_unknown", "cat keys/x": "human on_unknown", "cat go.mod": "auto auto_approve_programs",
		// No command at all.
		"": "deny blank", "ls\x00": "deny nul", "ls \xff": "deny encoding", strings.Repeat("a", recovery.MaxEntry+1): "deny too_long",
		strings.Repeat("( ", 4000): "human on_unknown",
	} {
		v := Judge(p, command(text), where)
		if got := string(v.Decision) + " " + v.Rule; got != want || v.Reason == "" {
			t.Errorf("%.60q: %s, not %s (%s)", text, got, want, v.Reason)
		}
	}
	for dir, want := range map[string]action.Decision{"/w/sub": action.Auto, "/": action.Human, "": action.Human, "/w/link": action.Human, "/wide": action.Human, "rel": action.Human} {
		for _, text := range []string{"npm ci", "ls"} {
			r := command(text)
			r.Dir = dir
			if v := Judge(p, r, where); v.Decision != want {
				t.Errorf("%s in %q: %+v, not %s", text, dir, v, want)
			}
		}
	}
}

func TestOtherTools(t *testing.T) {
	t.Parallel()
	p := usual(t)
	one := func(k Kind, path string) Request {
		return Request{Kind: k, Tool: "T", Paths: []string{path}, Dir: "/w/sub", Exact: true}
	}
	for name, c := range map[string]struct {
		r    Request
		want string
	}{
		"write":                 {one(Write, "a.go"), "auto paths"},
		"write absolute":        {one(Write, "/w/a.go"), "auto paths"},
		"write the report":      {one(Write, "/w/.superloop/loops/x/plan.md"), "auto paths"},
		"write the journal":     {one(Write, "/w/.superloop/loops/x/Events.jsonl"), "deny protected"},
		"write the config":      {one(Write, "../.superloop/config.json"), "deny protected"},
		"another loop":          {one(Write, "/w/.superloop/loops/xy/plan.md"), "deny protected"},
		"write a hook":          {one(Write, "/w/.git/hooks/pre-commit"), "deny protected"},
		"a submodule's git":     {one(Write, "/w/m/.git"), "deny protected"},
		"the settings of a CLI": {one(Write, "/w/opencode.json"), "deny protected"},
		"write settings":        {one(Write, "/w/sub/.claude/settings.json"), "deny protected"},
		"paths.deny":            {one(Write, "/w/deploy/x"), "deny protected"},
		"paths.deny by name":    {one(Write, "npm.lock"), "deny protected"},
		"write outside":         {one(Write, "../../etc/passwd"), "human outside"},
		"write by a link":       {one(Write, "/w/link/x"), "human outside"},
		"write a secret":        {one(Write, "~/.ssh/authorized_keys"), "deny protected"},
		"write behind a link":   {one(Write, "/w/link/../y"), "deny protected"},
		"read behind a link":    {one(Read, "/w/link/../y"), "deny paths.secret"},
		"write nothing":         {Request{Kind: Write, Tool: "T", Dir: "/w", Exact: true}, "human on_unknown"},
		"write somewhere":       {Request{Kind: Write, Tool: "T", Paths: []string{"a"}, Exact: true}, "deny protected"},
		"write two":             {Request{Kind: Write, Tool: "T", Dir: "/w", Paths: []string{"a", "/x", "b"}, Exact: true}, "human outside"},
		"write two and held":    {Request{Kind: Write, Tool: "T", Dir: "/w", Paths: []string{"/x", ".git/config"}, Exact: true}, "deny protected"},
		"a NUL":                 {one(Write, "a\x00b"), "deny protected"},
		"read":                  {one(Read, "a.go"), "auto paths"},
		"read outside":          {one(Read, "/usr/include/x.h"), "auto paths"},
		"read the config":       {one(Read, "/w/.superloop/config.json"), "auto paths"},
		"read nothing":          {Request{Kind: Read, Tool: "T", Dir: "/w", Exact: true}, "auto paths"},
		"read a key":            {one(Read, "/home/u/.ssh/id_x"), "deny paths.secret"},
		"read .env":             {one(Read, "/w/a/.env"), "deny paths.secret"},
		"read by a link":        {one(Read, "../keys/id"), "deny paths.secret"},
		"read the home":         {one(Read, "/home/u"), "human paths.secret"},
		"read everything":       {one(Read, "/"), "human paths.secret"},
		"read vault":            {one(Read, "/w/vault/x"), "deny paths.secret"},
		"read tokens":           {one(Read, "~/tokens"), "deny paths.secret"},
		"fetch":                 {Request{Kind: Fetch, Tool: "T", Host: "PKG.go.dev.", Exact: true}, "auto hosts"},
		"fetch below":           {Request{Kind: Fetch, Tool: "T", Host: "a.b.example.com", Exact: true}, "auto hosts"},
		"fetch the domain":      {Request{Kind: Fetch, Tool: "T", Host: "example.com", Exact: true}, "human on_unknown"},
		"fetch alike":           {Request{Kind: Fetch, Tool: "T", Host: "badexample.com", Exact: true}, "human on_unknown"},
		"fetch from nowhere":    {Request{Kind: Fetch, Tool: "T", Exact: true}, "human on_unknown"},
		"mcp":                   {Request{Kind: MCP, Tool: "mcp__docs__search", Exact: true}, "auto tools"},
		"mcp another":           {Request{Kind: MCP, Tool: "mcp__docs__search2", Exact: true}, "human on_unknown"},
		"internal":              {Request{Kind: Internal, Tool: "TodoWrite", Exact: true}, "auto internal"},
		"a question":            {Request{Kind: Question, Tool: "AskUserQuestion", Exact: true}, "deny question"},
		"another":               {Request{Kind: Other, Tool: "CronCreate", Exact: true}, "human on_unknown"},
		"no kind":               {Request{Tool: "x", Exact: true}, "human on_unknown"},
		"a title":               {Request{Kind: Command, Command: "ls", Dir: "/w"}, "human display"},
		"a title of a file":     {Request{Kind: Write, Paths: []string{"a"}, Dir: "/w"}, "human display"},
	} {
		v := Judge(p, c.r, where)
		if got := string(v.Decision) + " " + v.Rule; got != c.want || v.Reason == "" {
			t.Errorf("%s: %s, not %s (%s)", name, got, c.want, v.Reason)
		}
	}
	if v := Judge(nil, command("ls"), where); v.Decision != action.Human || v.Rule != RuleFailed {
		t.Errorf("without a policy: %+v", v)
	}
	broken := where
	broken.Real = func(string) string { panic("x") }
	if v := Judge(p, command("ls"), broken); v.Decision != action.Human || v.Rule != RuleFailed {
		t.Errorf("with a broken world: %+v", v)
	}
}

// somewhat draws a request of any kind, near to what the policy grants.
func somewhat(rt *rapid.T) Request {
	words := rapid.SampledFrom([]string{"go", "ls", "git", "status", "push", "rm", "-rf", "make", "sudo", "cat", "~/.ssh/x", ".env", "a", ">", ">>", "<", "|", "&&", ";", "&", "$X", "$(", ")", "`", "'", "\"",
		"cd", "..", "/", "bash -c", "timeout 5", "npm ci", "PATH=/x", "\n", "#", "{", "}", "\\", "!", "<<E", "\x00"})
	r := Request{Kind: rapid.SampledFrom([]Kind{Command, Write, Read, Fetch, MCP, Question, Internal, Other, ""}).Draw(rt, "kind"),
		Command: strings.Join(rapid.SliceOfN(words, 0, 8).Draw(rt, "words"), rapid.SampledFrom([]string{" ", ""}).Draw(rt, "glue")),
		Dir:     rapid.SampledFrom([]string{"/w", "/w/a", "/", "", "x"}).Draw(rt, "dir"), Tool: rapid.SampledFrom([]string{"Bash", "mcp__docs__search"}).Draw(rt, "tool"),
		Paths: rapid.SliceOfN(rapid.SampledFrom([]string{"a", "../x", "/w/.git/config", ".env", "/etc/x", "~/.ssh", "link/x"}), 0, 3).Draw(rt, "paths"),
		Host:  rapid.SampledFrom([]string{"", "pkg.go.dev", "x"}).Draw(rt, "host"), Exact: rapid.Bool().Draw(rt, "exact")}
	return r
}

func TestJudgeHolds(t *testing.T) {
	t.Parallel()
	p, bare := usual(t), compiled(t, Defaults(), nil)
	strict := p.Settings
	strict.OnUnknown = UnknownDeny
	deny := compiled(t, strict, nil)
	none := p.Settings
	none.Programs = nil
	listed := compiled(t, none, nil)
	rapid.Check(t, func(rt *rapid.T) {
		r := somewhat(rt)
		v := Judge(p, r, where)
		if v2 := Judge(p, r, where); v2 != v {
			rt.Fatalf("two verdicts: %+v, %+v", v, v2)
		}
		if v.Decision != action.Auto && v.Decision != action.Human && v.Decision != action.Deny || v.Rule == "" || v.Reason == "" {
			rt.Fatalf("no verdict: %+v", v)
		}
		if v.Rule == RuleFailed {
			rt.Fatalf("the judge failed: %+v", v)
		}
		if v.Decision == action.Auto && (!r.Exact || r.Kind == Other || r.Kind == "" || r.Kind == Question) {
			rt.Fatalf("%+v is automatic: %+v", r, v)
		}
		if w := Judge(bare, r, where); w.Decision == action.Auto && r.Kind != Read && r.Kind != Write && r.Kind != Internal {
			rt.Fatalf("an empty section grants %+v: %+v", r, w)
		}
		if w := Judge(deny, r, where); w.Rule == RuleUnknown && w.Decision == action.Human && r.Kind != MCP {
			rt.Fatalf("on_unknown is deny, and a person is asked: %+v", w)
		}
		// Without the grants of programs, only the very bytes of a list run.
		if w := Judge(listed, r, where); r.Kind == Command && w.Decision == action.Auto && !strings.Contains("\n"+strings.Join(p.listed.Settings.AutoApprove, "\n")+"\n", "\n"+r.Command+"\n") {
			rt.Fatalf("%q runs: %+v", r.Command, w)
		}
		// What a grant lets run has no part that the patterns name.
		if r.Kind == Command && v.Rule == RulePrograms {
			for _, pattern := range []string{"git push", "sudo", "rm -rf"} {
				if strings.Contains(" "+strings.Join(strings.Fields(strings.NewReplacer("'", "", `"`, "", `\`, "", ";", " ", "|", " ", "&", " ").Replace(r.Command)), " ")+" ", " "+pattern+" ") &&
					strings.HasPrefix(r.Command, pattern) {
					rt.Fatalf("%q runs: %+v", r.Command, v)
				}
			}
			if strings.ContainsAny(r.Command, "$`\x00") {
				rt.Fatalf("%q has a substitution and runs", r.Command)
			}
		}
	})
}

func TestDigestIsOfTheBytes(t *testing.T) {
	t.Parallel()
	r := command("ls")
	same := r
	same.Session, same.ToolUse, same.Agent = "s", "t", "a"
	if r.Digest() != same.Digest() {
		t.Error("another sub-agent's request is another one")
	}
	for name, change := range map[string]func(*Request){"input": func(r *Request) { r.Input = []byte("ls ") }, "dir": func(r *Request) { r.Dir = "/w/a" },
		"tool": func(r *Request) { r.Tool = "Bas"; r.Dir = "h/w" }, "kind": func(r *Request) { r.Kind = Other }} {
		other := command("ls")
		if change(&other); other.Digest() == r.Digest() {
			t.Errorf("another %s has the same digest", name)
		}
	}
}

func TestCompileRefuses(t *testing.T) {
	t.Parallel()
	rs := recovery.Defaults()
	rs.AutoApprove = []string{"x"}
	of, _ := recovery.Compile(rs)
	for name, c := range map[string]struct {
		change func(*Settings)
		want   string
	}{
		"mode":          {func(s *Settings) { s.Mode = "on" }, "/mode"},
		"on_unknown":    {func(s *Settings) { s.OnUnknown = "allow" }, "/on_unknown"},
		"blank program": {func(s *Settings) { s.Programs = []string{"go", " "} }, "/auto_approve_programs/1"},
		"glob":          {func(s *Settings) { s.Programs = []string{"g*"} }, "/auto_approve_programs/0"},
		"assignment":    {func(s *Settings) { s.Programs = []string{"A=b go"} }, "/auto_approve_programs/0"},
		"option":        {func(s *Settings) { s.Programs = []string{"-x"} }, "/auto_approve_programs/0"},
		"deny":          {func(s *Settings) { s.Deny = []string{" "} }, "/deny/0"},
		"require_human": {func(s *Settings) { s.RequireHuman = []string{""} }, "/require_human/0"},
		"auto_approve":  {func(s *Settings) { s.AutoApprove = []string{""} }, "/auto_approve/0"},
		"place":         {func(s *Settings) { s.Paths.Secret = []string{"a["} }, "/paths/secret/0"},
	} {
		s := Defaults()
		c.change(&s)
		p, problems := Compile(s, of)
		if p != nil || len(problems) != 1 || problems[0].Pointer != c.want || problems[0].Message == "" {
			t.Errorf("%s: %v, %+v; want one problem at %s", name, p, problems, c.want)
		}
	}
	a, b := compiled(t, Defaults(), nil), compiled(t, Defaults(), of)
	if a.Digest == b.Digest || a.Digest == "" {
		t.Error("the digest does not cover the recovery policy")
	}
}

func BenchmarkJudge(b *testing.B) {
	p := usual(b)
	for _, text := range []string{"npm ci", "go test ./... 2>&1 | rg -v ok", "cd sub && go vet ./... && ls > out.txt", "bash -c 'git push'"} {
		b.Run(strings.ReplaceAll(text, "/", "_"), func(b *testing.B) {
			for b.Loop() {
				Judge(p, command(text), where)
			}
		})
	}
}
