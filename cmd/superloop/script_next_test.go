package main

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop"
)

// typesNext wants the command that status names next for a loop to begin so, and types it.
func typesNext(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) >= 2, "next LOOP COMMAND...")
	id, want := args[0], strings.Join(args[1:], " ")
	dir := ts.MkAbs(".")
	line := statusOf(ts, dir, id).Next
	if got := command(line); !strings.HasPrefix(got, want+" ") {
		ts.Fatalf("the next command is %q, want %s", got, want)
	}
	types(ts, dir, dir, id, line)
}

// typesEveryNext types what status and then what inbox name next for each loop that a script has left anywhere.
func typesEveryNext(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) == 0, "everynext")
	work := ts.Getenv("WORK")
	var journals []string
	ts.Check(filepath.WalkDir(work, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // nobody may enter it
		}
		if ok, _ := filepath.Match("/.superloop/loops/*/events.jsonl", strings.TrimPrefix(path, filepath.Join(path, "../../../.."))); ok {
			journals = append(journals, path)
		}
		return nil
	}))
	for _, journal := range journals {
		repo, id := filepath.Join(journal, "../../../.."), filepath.Base(filepath.Dir(journal))
		s := statusOf(ts, repo, id)
		if s.Next == "" || s.Supervisor != nil {
			continue // it goes on by itself, or its status cannot be read, and says why
		}
		types(ts, repo, repo, id, s.Next)
		if line := inboxOf(ts, repo, id); line != "" {
			types(ts, work, repo, id, line)
		}
	}
}

// command is the last command line of what is named next, without what else there is to know.
func command(line string) string {
	line, _, _ = strings.Cut(line, "   (")
	for _, before := range []string{"then: ", "type: "} {
		if i := strings.LastIndex(line, before); i >= 0 {
			line = line[i+len(before):]
		}
	}
	return line
}

var readsFirst = regexp.MustCompile(`^read (\S+), then: `)

// types types a command about a loop in a directory. It must begin, be no wrong usage and not be refused because nothing
// waits for it. It must change the journal or the private state, unless it only shows something, or is a run that is
// refused by a configuration or a journal that a script has broken, and says what to type instead. A run does not wait for
// an operator. What a run names next must be what status names.
func types(ts *testscript.TestScript, dir, repo, id, next string) {
	if m := readsFirst.FindStringSubmatch(next); m != nil && !filepath.IsAbs(m[1]) {
		if _, err := os.Stat(filepath.Join(repo, m[1])); err != nil {
			ts.Fatalf("%q: %v", next, err)
		}
	}
	line := command(next)
	runs := strings.HasPrefix(line, "superloop run")
	if runs {
		line += " --exit-on-escalation"
		if _, err := exec.LookPath("timeout"); err == nil {
			line = "timeout -s INT -k 20 10 " + line // for agents that wait for what the script does
		}
	}
	before := traces(ts, repo, id)
	err := ts.Exec("sh", "-c", "cd "+text.Word(dir)+" && "+line)
	out := ts.ReadFile("stdout")
	if code := exitCode(ts, err); slices.Contains([]int{exitUsage, exitNothing, exitNotFound, exitHeld}, code) {
		ts.Fatalf("%q gives exit code %d", line, code)
	}
	hinted := runs && strings.Contains(ts.ReadFile("stderr"), "\nhint: superloop ")
	shows := strings.HasPrefix(line, "superloop diff") || strings.HasPrefix(line, "superloop merge")
	if !shows && !hinted && traces(ts, repo, id) == before {
		ts.Fatalf("%q changes nothing", line)
	}
	if i := strings.LastIndex("\n"+out, "\nnext: "); runs && i >= 0 {
		said, _, _ := strings.Cut(out[i+len("next: "):], "\n")
		here := strings.NewReplacer(" --repo "+text.Paste(repo), "", repo+"/", "")
		if now := statusOf(ts, repo, id).Next; here.Replace(strings.TrimSpace(said)) != now && now != "" {
			ts.Fatalf("run says %q, and status %q", said, now)
		}
	}
}

type scriptStatus struct {
	Status     loop.Status     `json:"status"`
	Next       string          `json:"next"`
	Supervisor json.RawMessage `json:"supervisor"`
}

// statusOf is what status says of a loop; nothing if it cannot.
func statusOf(ts *testscript.TestScript, repo, id string) (s scriptStatus) {
	if err := ts.Exec("sh", "-c", "cd "+text.Word(repo)+" && superloop status --json --loop="+id); exitCode(ts, err) == 0 {
		ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &s))
	}
	if string(s.Supervisor) == "null" {
		s.Supervisor = nil
	}
	return s
}

// inboxOf is what inbox names next for a loop: the best way to answer its question, or what follows its end.
func inboxOf(ts *testscript.TestScript, repo, id string) string {
	var in struct {
		Waiting []inboxItem `json:"waiting"`
		Ended   []endedItem `json:"ended"`
	}
	if err := ts.Exec("superloop", "inbox", "--json"); exitCode(ts, err) != 0 {
		return ""
	}
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &in))
	for _, x := range in.Waiting {
		if x.Loop == id && x.Repo == repo && !x.Lapsed {
			return x.Ways[0].Line
		}
	}
	for _, x := range in.Ended {
		if x.Loop == id && x.Repo == repo {
			return x.Next
		}
	}
	return ""
}

// traces is what a loop has recorded: its journal, and the records of its questions.
func traces(ts *testscript.TestScript, repo, id string) string {
	found, err := filepath.Glob(filepath.Join(ts.Getenv("XDG_STATE_HOME"), "superloop", "*", "loops", id, "escalation", "record.json"))
	ts.Check(err)
	out := ""
	for _, file := range append(found, filepath.Join(repo, ".superloop", "loops", id, "events.jsonl")) {
		data, err := os.ReadFile(file)
		ts.Check(err)
		out += string(data)
	}
	return out
}

// withNext writes copies of scripts which also type what comes next, at their ends.
func withNext(t *testing.T, files []string) (out []string) {
	dir := t.TempDir()
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		copied := filepath.Join(dir, filepath.Base(file))
		archive := txtar.Parse(data)
		archive.Comment = slices.Concat(archive.Comment, []byte("\n# what comes next\neverynext\n")) // the files stand behind it
		if err := os.WriteFile(copied, txtar.Format(archive), 0o600); err != nil {
			t.Fatal(err)
		}
		out = append(out, copied)
	}
	return out
}
