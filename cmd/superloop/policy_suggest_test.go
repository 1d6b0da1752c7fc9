package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/loop/journal"
	"github.com/superloop/superloop/recovery/permit"
)

// From what agents asked for and people answered, policy suggest --live makes a section that a configuration takes as it is.
func TestPolicySuggestLive(t *testing.T) {
	t.Parallel()
	n := newTestEnv(t, false)
	file := n.path("repo/.superloop/config.json")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var config map[string]json.RawMessage
	if err := json.Unmarshal(data, &config); err != nil {
		t.Fatal(err)
	}
	paste := func(section string) {
		config["permissions"] = json.RawMessage(section)
		data, err := json.Marshal(config)
		if err != nil {
			t.Fatal(err)
		}
		n.write("repo/.superloop/config.json", string(data))
	}
	paste(`{"mode": "observe", "auto_approve": ["echo '<&>'"], "deny": ["git push *"]}`)
	if code, out := n.superloop(nil, "policy", "suggest", "--live"); code != 0 || !strings.Contains(out, "no agent has asked") {
		t.Errorf("%d %s", code, out)
	}
	var raw []byte
	prev := ""
	for i, line := range []string{
		`loop_start {}`,
		`permission_asked {"id":"1","tool":"Bash","kind":"command","command":"npm ci","dir":"DIR","exact":true,"digest":"a","verdict":"human","rule":"on_unknown"}`,
		`permission_answered {"id":"1","decision":"approved","by":"cli:ada","waited_ms":5}`,
		`permission_asked {"id":"2","tool":"Bash","kind":"command","command":"go test ./... | tail -3","dir":"DIR","exact":true,"digest":"b"}`,
		`permission_asked {"id":"3","tool":"Bash","kind":"command","command":"go test ./... | tail -3","dir":"DIR","exact":true,"digest":"b"}`,
		`permission_answered {"id":"3","decision":"wait_over","waited_ms":5}`,
		`permission_asked {"id":"4","tool":"Bash","kind":"command","command":"npm run x","dir":"DIR","exact":true,"digest":"c"}`,
		`permission_answered {"id":"4","decision":"rejected","by":"cli:ada","waited_ms":5}`,
		`permission_asked {"id":"5","tool":"WebFetch","kind":"fetch","host":"go.dev","dir":"DIR","exact":true,"digest":"d"}`,
		`permission_asked {"id":"6","tool":"WebFetch","kind":"fetch","host":"go.dev","dir":"DIR","exact":true,"digest":"d"}`,
		`permission_asked {"id":"7","tool":"Bash","kind":"command","command":"curl -H '<secret>' x","dir":"DIR","exact":true,"digest":"e"}`,
		`permission_answered {"id":"unknown","decision":"approved"}`,
		`permission_asked {"kind":7}`,
	} {
		name, fields, _ := strings.Cut(strings.ReplaceAll(line, "DIR", filepath.ToSlash(n.path("repo"))), " ")
		raw, err = journal.AppendLine(raw, journal.Event{Seq: int64(i + 1), Timestamp: time.Now().UTC().Add(time.Duration(i-20) * time.Hour), Event: name, LoopID: "l", RunID: "r", Iteration: 1, Fields: json.RawMessage(fields), Prev: prev})
		if err != nil {
			t.Fatal(err)
		}
		end := len(raw) - len("\"}\n")
		prev = string(raw[end-64 : end])
	}
	n.mkdir("repo/.superloop/loops/" + "l")
	n.write("repo/.superloop/loops/"+"l"+"/events.jsonl", string(raw))
	var out struct {
		Suggestions []permit.Suggestion `json:"suggestions"`
		LeftOut     []permit.LeftOut    `json:"left_out"`
		Permissions permit.Settings     `json:"permissions"`
	}
	code, text := n.superloop(nil, "policy", "suggest", "--live", "--json")
	if err := json.Unmarshal([]byte(text), &out); code != 0 || err != nil {
		t.Fatalf("%d %v %s", code, err, text)
	}
	got, _ := json.Marshal(out)
	want := `{"suggestions":[{"list":"auto_approve","entry":"npm ci","asked":1,"approved":1,"unanswered":0,"example":"npm ci"},` +
		`{"list":"auto_approve_programs","entry":"go test","asked":2,"approved":0,"unanswered":1,"example":"go test ./... | tail -3"},` +
		`{"list":"auto_approve_programs","entry":"tail","asked":2,"approved":0,"unanswered":1,"example":"go test ./... | tail -3"},` +
		`{"list":"hosts","entry":"go.dev","asked":2,"approved":0,"unanswered":0,"example":"WebFetch go.dev"}],` +
		`"left_out":[{"what":"npm run x","asked":1,"refused":1,"why":"a person refused it"},` +
		`{"what":"curl -H '\u003csecret\u003e' x","asked":1,"refused":0,"why":"the journal does not have all of it, because it is long or holds a secret"}],` +
		`"permissions":{"mode":"observe","auto_approve":["echo '\u003c\u0026\u003e'","npm ci"],"auto_approve_programs":["go test","tail"],"deny":["git push *"],"paths":{},"hosts":["go.dev"],"wait":0,"max_open":0}}`
	if strings.Replace(string(got), `"paths":{},`, "", 1) != strings.Replace(want, `"paths":{},`, "", 1) {
		t.Errorf("%s", got)
	}
	code, text = n.superloop(nil, "policy", "suggest", "--live")
	_, section, ok := strings.Cut(text, `"permissions": `)
	section, _, _ = strings.Cut(section, "\nnext: ")
	if code != 0 || !ok || !strings.Contains(text, "npm ci   asked 1 time, approved 1\n") {
		t.Fatalf("%d %s", code, text)
	}
	paste(section)
	if code, text := n.superloop(nil, "validate"); code != 0 {
		t.Errorf("%d %s", code, text)
	}
	if code, text := n.superloop(nil, "policy", "suggest", "--live"); code != 0 || !strings.Contains(text, "nothing to suggest") || !strings.Contains(text, "npm run x   asked 1 time: a person refused it") {
		t.Errorf("%d %s", code, text)
	}
	paste(`{"mode": "observe"}`)
	if code, text := n.superloop(nil, "policy", "suggest", "--live", "--since", "1h"); code != 0 || !strings.Contains(text, "no agent has asked") {
		t.Errorf("%d %s", code, text)
	}
	for _, bad := range [][]string{{"--live", "--all"}, {"--live", "--reset"}, {"--loop", "l"}, {"--since", "1h"}} {
		if code, text := n.superloop(nil, append([]string{"policy", "suggest"}, bad...)...); code != exitUsage {
			t.Errorf("%v: %d %s", bad, code, text)
		}
	}
}
