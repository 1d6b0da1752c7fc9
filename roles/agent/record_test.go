package agent

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/testkit/mockapi"
	"github.com/superloop/superloop/recovery/permit"
	"github.com/superloop/superloop/roles/agent/class"
)

// realCLI finds a CLI in the folders of SUPERLOOP_TEST_CLIS, a list like PATH.
func realCLI(t *testing.T, cli string) string {
	t.Helper()
	dirs := os.Getenv("SUPERLOOP_TEST_CLIS")
	if dirs == "" {
		t.Skip("SUPERLOOP_TEST_CLIS names no folders with CLIs")
	}
	program, err := proc.LookPath(cli, []string{"PATH=" + dirs})
	if err != nil {
		t.Skipf("%s is not there", cli)
	}
	return program
}

// stage is where plays of one CLI happen: a home, a repository and the loop's
// directory outside of it.
type stage struct {
	cli, program, root string
	runner             Runner
}

func newStage(t *testing.T, cli string) *stage {
	t.Helper()
	program := realCLI(t, cli)
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	st := &stage{cli: cli, program: program, root: root, runner: spawner(t)}
	for _, dir := range []string{"home/tmp", "repo", "loop"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := (proc.Tool{Dir: st.path("repo"), Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + root}}).Run(t.Context(), "git", "init", "-q"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return st
}

func (st *stage) path(names ...string) string {
	return filepath.Join(append([]string{st.root}, names...)...)
}

// perform plays p and gives what came of it, and what the server told.
func (st *stage) perform(t *testing.T, p play) (Result, *mockapi.Server) {
	t.Helper()
	if p.script == nil {
		p.script = sequence(mockapi.Reply{Text: "Hello."})
	}
	server, err := mockapi.Start(p.script(st.path("repo", "hello.txt")))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	env, files, err := mockapi.Environment(st.cli, server.URL(), st.path("home"))
	if err != nil {
		t.Fatal(err)
	}
	files["../loop/prompt.md"] = "Please do the work.\n"
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(st.path("home", name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(st.path("home", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	req := Request{
		CLI:        CLI{Command: []string{st.program}},
		PromptPath: st.path("loop", "prompt.md"), LastMessageFile: st.path("loop", "last.txt"),
		WorkDir: st.path("repo"), Repo: st.path("repo"), LoopDir: st.path("loop"),
		Loop: "demo", RunID: "run-" + p.name, Role: "implementer", Iteration: 1, Attempt: 1,
		Model: map[string]string{"gemini": "gemini-2.5-flash", "opencode": "anthropic/claude-sonnet-4-5", "pi": "anthropic/claude-sonnet-4-5"}[st.cli],
	}
	if p.model != "" {
		req.Model = p.model
	}
	if p.ask != nil {
		p.ask(&req)
	}
	env = slices.DeleteFunc(env, func(e string) bool { return p.without != "" && strings.HasPrefix(e, p.without+"=") })
	kill, stop := context.WithCancel(t.Context())
	defer stop()
	// opencode does not hear SIGTERM while it installs something in the background.
	o := Options{Environ: append(env, "PATH="+os.Getenv("PATH"), "TMPDIR="+st.path("home/tmp"), "TERM=xterm-256color"), Timeout: 90 * time.Second, Grace: 3 * time.Second}
	o.WriteFile = func(path, text string) error { return os.WriteFile(path, []byte(text), 0o600) }
	o.Progress = func(line string) {
		if p.cut != "" && strings.Contains(line, p.cut) {
			stop()
		}
	}
	if o.Ask, o.Hold = p.answer, time.Minute; o.Ask == nil {
		o.Ask = func(context.Context, permit.Request) permit.Answer { return permit.Answer{Decision: permit.Allow} }
	}
	res, err := Run(kill, st.runner, req, o)
	if err != nil {
		t.Fatal(err)
	}
	return res, server
}

// TestRealPlays plays everything with the CLIs themselves. With
// SUPERLOOP_TEST_RECORD set, to a part of the plays' names or "all", it also
// writes what they said to testdata/streams.
func TestRealPlays(t *testing.T) {
	for _, cli := range []string{"gemini", "opencode", "pi"} {
		t.Run(cli, func(t *testing.T) {
			st := newStage(t, cli)
			for _, p := range plays()[cli] {
				t.Run(p.name, func(t *testing.T) {
					res, server := st.perform(t, p)
					again := adapterFor(t, cli).Stream(p.request())
					p.feed(again, []byte(res.Proc.Stdout.Text()), []byte(res.Proc.Stderr.Text()), 0)
					settled := again.Settled()
					want := p.want
					want.usage, want.cost = usageWord(res.Usage), 0 // the recording has the exact ones
					if res.CostUSD != nil {
						want.cost = *res.CostUSD
					}
					got := res.Learned
					if res.From == "stdout" {
						got.FinalMessage = ""
					}
					if wrong := want.wrong(got, settled, res.LastLine); wrong != "" {
						t.Errorf("%s%s ended with %d%s after %v\n%s", wrong, res.Proc.Ended, res.Proc.Code, res.Proc.Signal, res.Proc.Duration, res.Proc.Stdout.Text())
					}
					if total, n := mockapi.Total(server.Calls()); p.want.class == class.None && !p.again { // a provider that is cut off has not told all
						if n == 0 || usageWord(res.Usage) != usageOf(cli, total) {
							t.Errorf("usage %s, but the model told %s in %d answers", usageWord(res.Usage), usageOf(cli, total), n)
						}
						for _, c := range server.Calls() {
							if c.Side && p.name != "compacted" {
								t.Errorf("a request on the side: %+v", c)
							}
						}
					}
					st.write(t, p, res)
				})
			}
		})
	}
}

func usageOf(cli string, u mockapi.Usage) string {
	w := &u.CacheWrite
	if cli == "gemini" {
		w = nil
	}
	reasoning := &u.Reasoning
	if cli == "pi" {
		reasoning = nil
	}
	return usageWord(Usage{Input: &u.Input, CacheRead: &u.CacheRead, CacheWrite: w, Output: &u.Output, Reasoning: reasoning})
}

var port = regexp.MustCompile(`127\.0\.0\.1:\d+`)

// write records what a CLI said, without the paths of this machine.
func (st *stage) write(t *testing.T, p play, res Result) {
	t.Helper()
	if which := os.Getenv("SUPERLOOP_TEST_RECORD"); which == "" || which != "all" && !strings.Contains(p.name, which) {
		return
	}
	real, err := filepath.EvalSymlinks(st.program)
	if err != nil {
		t.Fatal(err)
	}
	scrub := func(text string) []byte {
		for _, pair := range [][2]string{
			{filepath.Dir(real), "/opt/" + st.cli}, {filepath.Dir(filepath.Dir(real)), "/opt/" + st.cli}, {filepath.Dir(st.program), "/opt/bin"},
			{st.path("home"), "/home/user"}, {st.root, "/work"},
		} {
			text = strings.ReplaceAll(text, pair[0], pair[1])
		}
		return []byte(port.ReplaceAllString(text, "127.0.0.1:8080"))
	}
	end, err := json.Marshal(recorded{Code: res.Proc.Code, Signal: res.Proc.Signal, Ended: res.Proc.Ended})
	if err != nil {
		t.Fatal(err)
	}
	for kind, text := range map[string][]byte{
		"out": scrub(res.Proc.Stdout.Text()), "err": scrub(res.Proc.Stderr.Text()), "end": append(end, '\n'),
	} {
		if err := os.WriteFile(streamFile(st.cli, p.name, kind), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRealSessions: a new session has the id that was asked for, where the CLI
// takes one, and the next run goes on with it and counts only itself.
func TestRealSessions(t *testing.T) {
	for _, cli := range []string{"gemini", "opencode", "pi"} {
		t.Run(cli, func(t *testing.T) {
			st := newStage(t, cli)
			const id = "11111111-2222-4333-8444-555555555555"
			first, _ := st.perform(t, play{name: "first", ask: func(r *Request) { r.SessionID = id }})
			if !first.Done || cli == "gemini" && first.SessionID != id {
				t.Fatalf("%+v\n%s", first.Learned, first.Proc.Stderr.Text())
			}
			var prompt string
			script := func(string) mockapi.Script {
				return func(c mockapi.Call) mockapi.Reply {
					prompt = string(c.Body)
					return mockapi.Reply{Text: "Again."}
				}
			}
			second, server := st.perform(t, play{name: "second", script: script, ask: func(r *Request) { r.Resume = &Session{ID: first.SessionID} }})
			total, _ := mockapi.Total(server.Calls())
			if !second.Done || second.SessionID != first.SessionID || usageWord(second.Usage) != usageOf(cli, total) {
				t.Errorf("%+v, the model told %s", second.Learned, usageOf(cli, total))
			}
			if !strings.Contains(prompt, "Hello.") {
				t.Error("the second run does not know of the first")
			}
			if cli == "gemini" {
				again, _ := st.perform(t, play{name: "again", ask: func(r *Request) { r.SessionID = id }})
				if again.Class != class.Config || !strings.Contains(again.ErrorText, "already exists") {
					t.Errorf("%+v", again.Learned)
				}
			}
		})
	}
}

// TestRealReadOnly: opencode lets a repository's own settings grant its agents
// what the environment denies, gemini lets a model leave its plan mode, and pi
// loads programs of the repository; a read-only role must not profit.
func TestRealReadOnly(t *testing.T) {
	for cli, p := range map[string]play{"opencode": deniedPlay(), "gemini": escapePlay(), "pi": piReads()} {
		t.Run(cli, func(t *testing.T) {
			st := newStage(t, cli)
			grant := `{"default_agent": "free", "permission": {"*": "allow", "bash": "allow"}, "agent": {
"free": {"mode": "primary", "prompt": "x", "permission": {"edit": "allow", "bash": "allow"}}, "build": {"permission": {"edit": "allow", "bash": {"*": "allow"}}}}}`
			if err := os.WriteFile(st.path("repo", "opencode.json"), []byte(grant), 0o600); err != nil {
				t.Fatal(err)
			}
			extension := `import { writeFileSync } from "node:fs"; export default () => writeFileSync("hello.txt", "x");`
			if err := os.MkdirAll(st.path("repo", ".pi", "extensions"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(st.path("repo", ".pi", "extensions", "x.ts"), []byte(extension), 0o600); err != nil {
				t.Fatal(err)
			}
			res, server := st.perform(t, p)
			if _, err := os.Stat(st.path("repo", "hello.txt")); err == nil {
				t.Error("the file was written")
			}
			if res.Denied != p.want.denied || res.Class != p.want.class {
				t.Errorf("%+v", res.Learned)
			}
			for _, c := range server.Calls() {
				for _, name := range []string{"bash", "edit", "write", "patch", "apply_patch", "task"} {
					if cli != "gemini" && slices.Contains(c.Tools, name) {
						t.Errorf("%s is offered", name)
					}
				}
			}
		})
	}
}
