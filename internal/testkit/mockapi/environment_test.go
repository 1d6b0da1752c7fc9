package mockapi

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/text"
)

func TestEnvironment(t *testing.T) {
	const url, home = "http://127.0.0.1:1234", "/some/home"
	for _, cli := range CLIs() {
		env, files, err := Environment(cli, url, home)
		if err != nil {
			t.Fatal(err)
		}
		all := strings.Join(env, "\n")
		for name, text := range files {
			if !filepath.IsLocal(name) {
				t.Errorf("%s: the file %s is not below home", cli, name)
			}
			if strings.Contains(text, Key) || strings.Contains(text, "@URL@") {
				t.Errorf("%s: %s holds the key or a hole", cli, name)
			}
			if strings.HasSuffix(name, ".json") && !json.Valid([]byte(text)) {
				t.Errorf("%s: %s is no JSON", cli, name)
			}
			all += text
		}
		for _, want := range []string{url, Key, "HOME=" + home} {
			if !strings.Contains(all, want) {
				t.Errorf("%s knows nothing of %s", cli, want)
			}
		}
	}
	if _, _, err := Environment("vi", url, home); err == nil {
		t.Error("an unknown CLI has an environment")
	}
	env, _, _ := Environment("claude", url, home)
	sub := Subscription(env)
	if !slices.Contains(sub, "CLAUDE_CODE_OAUTH_TOKEN="+Key) || slices.Contains(sub, "ANTHROPIC_API_KEY="+Key) || !slices.Contains(env, "ANTHROPIC_API_KEY="+Key) {
		t.Errorf("subscription %v from %v", sub, env)
	}
}

// TestRealCLIs runs each CLI that is found in the folders of
// SUPERLOOP_TEST_CLIS (a list like PATH) against the server: it must write the
// file that the model asks for, run its command, and bring back what that said.
func TestRealCLIs(t *testing.T) {
	dirs := os.Getenv("SUPERLOOP_TEST_CLIS")
	if dirs == "" {
		t.Skip("SUPERLOOP_TEST_CLIS names no folders with CLIs")
	}
	args := map[string][]string{
		"claude":   {"-p", "--output-format=stream-json", "--verbose", "--permission-mode=acceptEdits", "--allowedTools=Bash,Write"},
		"codex":    {"exec", "--json", "--sandbox=workspace-write", "-"},
		"gemini":   {"-o", "stream-json", "--approval-mode=yolo"},
		"opencode": {"run", "--format", "json"},
		"qwen":     {"-o", "stream-json", "--approval-mode=yolo"},
		"copilot":  {"--allow-all", "--output-format=json"},
		"pi":       {"--mode", "json"},
	}
	for _, cli := range CLIs() {
		program, err := proc.LookPath(cli, []string{"PATH=" + dirs})
		if err != nil {
			t.Logf("%s is not there", cli)
			continue
		}
		t.Run(cli, func(t *testing.T) {
			home, work := t.TempDir(), t.TempDir()
			file := filepath.Join(work, "note.txt")
			said := ""
			s := start(t, func(c Call) Reply {
				switch {
				case c.Side:
					return Reply{Text: c.SmallTalk()}
				case c.HasToolResult && strings.Contains(c.LastToolOutput, "two"):
					said = c.LastToolOutput
					return Reply{Text: "Written."}
				case c.HasToolResult:
					return Reply{Tools: []Tool{{Shell: "echo two >> " + text.Word(file) + "; cat " + text.Word(file)}}}
				}
				return Reply{Thinking: "First the file.", Text: "I write it.", Tools: []Tool{{Write: &File{file, "one\n"}}}}
			})
			env, files, err := Environment(cli, s.URL(), home)
			if err != nil {
				t.Fatal(err)
			}
			for name, text := range files {
				if err := os.MkdirAll(filepath.Dir(filepath.Join(home, name)), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(home, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			env = append(env, "PATH="+os.Getenv("PATH"))
			if _, err := (proc.Tool{Dir: work, Env: env}).Run(t.Context(), "git", "init", "-q"); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			out, err := proc.Tool{Dir: work, Env: env, Stdin: []byte("Please write the note.\n")}.Run(t.Context(), append([]string{program}, args[cli]...)...)
			if err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			got, _ := os.ReadFile(file)
			same(t, "the file", string(got), "one\ntwo\n")
			u, n := Total(s.Calls())
			t.Logf("%s: %d answers, %+v; %d probes; the tool said %q", time.Since(began).Round(time.Millisecond), n, u, len(s.Probes()), said)
			if !strings.Contains(string(out), "Written.") || n < 3 {
				t.Errorf("the last message is not in the output:\n%s", out)
			}
			for _, r := range slices.Concat(s.Calls(), s.Probes()) {
				if r.Outcome != Told {
					t.Errorf("%+v", r)
				}
			}
		})
	}
}
