package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// typesNext types what status names next for a loop, with what stands before it ("read ..., then: ") left out. It wants
// that command to begin so, to be no wrong usage and not refused because nothing waits for it, and to change the journal
// or the private state, unless it only shows something. A run does not wait for an operator.
func typesNext(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) >= 2, "next LOOP COMMAND...")
	id, want := args[0], strings.Join(args[1:], " ")
	line := nextOf(ts, id)
	if _, then, ok := strings.Cut(line, "then: "); ok {
		line = then
	}
	line, _, _ = strings.Cut(line, "   (")
	if !strings.HasPrefix(line, want+" ") {
		ts.Fatalf("the next command is %q, want %s", line, want)
	}
	if want == "superloop run" {
		line += " --exit-on-escalation"
	}
	before := traces(ts, id)
	err := ts.Exec("sh", "-c", line)
	if code := exitCode(ts, err); code == exitUsage || code == exitNothing || code == exitNotFound || code == exitHeld {
		ts.Fatalf("%q gives exit code %d", line, code)
	}
	if want != "superloop diff" && traces(ts, id) == before {
		ts.Fatalf("%q changes nothing", line)
	}
}

func nextOf(ts *testscript.TestScript, id string) string {
	ts.Check(ts.Exec("superloop", "status", "--json", "--loop", id))
	var s struct {
		Next string `json:"next"`
	}
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &s))
	return s.Next
}

// traces is what a loop has recorded: its journal, and the records of its questions.
func traces(ts *testscript.TestScript, id string) string {
	found, err := filepath.Glob(filepath.Join(ts.Getenv("XDG_STATE_HOME"), "superloop", "*", "loops", id, "escalation", "record.json"))
	ts.Check(err)
	out := ""
	for _, file := range append(found, ts.MkAbs(filepath.Join(".superloop", "loops", id, "events.jsonl"))) {
		data, err := os.ReadFile(file)
		ts.Check(err)
		out += string(data)
	}
	return out
}
