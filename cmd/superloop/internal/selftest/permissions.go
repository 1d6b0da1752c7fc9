package selftest

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/superloop/superloop/internal/testkit/mockapi"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/recovery/permit"
	"github.com/superloop/superloop/roles/agent"
)

// holdMargin is the time that superloop has for an answer beside Options.Hold.
const holdMargin = 30 * time.Second

// onlyTitle follows a use of a tool of which the CLI does not show what would run.
const onlyTitle = " (only a title)"

// refusal is what the agent is told in the case "obeys".
const refusal = "superloop says no to this, as a test"

// inquiry is what a CLI asked in one case, and how superloop answered. Ask may be called from many goroutines.
type inquiry struct {
	answer permit.Answer
	hold   time.Duration // before the answer
	work   string

	mu    sync.Mutex
	asked []permit.Request
	early bool // a file of the case was there before the answer
}

// ask is a permit.Ask.
func (q *inquiry) ask(ctx context.Context, r permit.Request) permit.Answer {
	q.mu.Lock()
	q.asked = append(q.asked, r)
	q.mu.Unlock()
	if q.hold > 0 && r.Kind != permit.Internal {
		select {
		case <-time.After(q.hold):
		case <-ctx.Done():
			return permit.Answer{Decision: permit.Deny}
		}
	}
	done, _ := filepath.Glob(filepath.Join(q.work, "*.txt")) // the pattern is good
	q.mu.Lock()
	defer q.mu.Unlock()
	q.early = q.early || q.hold > 0 && len(done) > 0
	return q.answer
}

// unasked is the result for a CLI whose adapter is no agent.Asker.
func unasked(adapter string) Case {
	return Case{Name: "asks", Status: Differs, Checks: []Check{holds("asked", false, Differs, "asks before each use of a tool",
		fmt.Sprintf("the adapter %s cannot be asked, so permissions.mode enforce refuses this runner; those of %s can", adapter, strings.Join(agent.Askers(), ", ")))}}
}

// permissionCases returns the cases for a CLI that can be asked: it asks about each use of a tool, obeys a refusal, waits for
// an answer, and goes on as if nobody had looked when it is only observed.
func permissionCases(hold time.Duration) []scenario {
	allow := permit.Answer{Decision: permit.Allow}
	return []scenario{
		{name: "asks", script: useThree, asked: permit.Enforce, answer: allow, judge: func(s Seen, t Traits) []Check {
			return append(succeeded(s, done), s.askedAll(), expect("done", "one.txt three.txt two.txt", s.files(), Failed))
		}},
		{name: "obeys", script: useThree, asked: permit.Enforce, answer: permit.Answer{Decision: permit.Deny, Message: refusal}, judge: func(s Seen, t Traits) []Check {
			told := "the reason"
			if !strings.Contains(s.Told, refusal) {
				told = cmp.Or(s.ToolOutput, "nothing")
			}
			return append(succeeded(s, done), s.askedAll(), expect("done", "nothing", s.files(), Failed), expect("told", "the reason", told, Differs))
		}},
		{name: "waits", script: useOne, asked: permit.Enforce, answer: allow, hold: hold, judge: func(s Seen, t Traits) []Check {
			return append(succeeded(s, done), expect("done", "one.txt", s.files(), Failed),
				holds("held", !s.Early && s.Result.Held >= hold, Failed, "held for "+hold.String()+", and nothing done before the answer", s.waited()))
		}},
		{name: "observed", script: useThree, asked: permit.Observe, answer: permit.Answer{Decision: permit.Leave}, judge: func(s Seen, t Traits) []Check {
			return append(succeeded(s, done), s.askedAll(), expect("done", "one.txt three.txt two.txt", s.files(), Failed))
		}},
	}
}

// uses are the uses of tools of a case: a command that CLIs take for harmless, one that writes, a tool that writes, and a
// command beside it.
func uses(p place) []mockapi.Tool {
	return []mockapi.Tool{{Shell: "ls"}, {Shell: "echo 1 > one.txt"}, {Write: &mockapi.File{Path: filepath.Join(p.work, "two.txt"), Content: written}}, {Shell: "git status --short; echo 3 > three.txt"}}
}

func useThree(p place, _ Traits) mockapi.Script { return oneByOne(uses(p)) }

func useOne(p place, _ Traits) mockapi.Script { return oneByOne(uses(p)[1:2]) }

// oneByOne scripts a model that uses one tool in each turn, and then is done.
func oneByOne(list []mockapi.Tool) mockapi.Script {
	var replies []mockapi.Reply
	for _, t := range list {
		replies = append(replies, mockapi.Reply{Tools: []mockapi.Tool{t}})
	}
	return mockapi.Sequence(append(replies, mockapi.Reply{Text: done})...)
}

// askedAll checks that the CLI asked about each use of a tool, once, with what would run.
func (s Seen) askedAll() Check {
	want, got := []string{}, []string{}
	for _, t := range uses(place{work: s.Work}) {
		want = append(want, text.Line(t.Shell, 60))
		if t.Write != nil {
			want[len(want)-1] = "write " + filepath.Base(t.Write.Path)
		}
	}
	for _, r := range s.Asked {
		one := ""
		switch {
		case r.Kind == permit.Internal:
			continue
		case r.Kind == permit.Write && len(r.Paths) == 1:
			one = "write " + filepath.Base(r.Paths[0])
		default:
			one = text.Line(cmp.Or(r.Command, r.Tool), 60)
		}
		if !r.Exact {
			one += onlyTitle
		}
		got = append(got, one)
	}
	// A CLI without a tool for files writes them by a command.
	if i := slices.Index(want, "write two.txt"); len(got) == len(want) && i >= 0 && strings.Contains(got[i], "two.txt") && !strings.Contains(got[i], onlyTitle) {
		got[i] = want[i]
	}
	// Commands of which the CLI shows a title only are asked about all the same, and nothing grants them.
	titles := strings.Join(got, ", ")
	if strings.ReplaceAll(titles, onlyTitle, "") == strings.Join(want, ", ") {
		return expect("asked", strings.Join(want, ", "), titles, Differs)
	}
	return expect("asked", strings.Join(want, ", "), titles, Failed)
}

// files lists the text files of the case.
func (s Seen) files() string { return cmp.Or(strings.Join(s.Files, " "), "nothing") }

func (s Seen) waited() string {
	early := ""
	if s.Early {
		early = ", but it was done before the answer"
	}
	return "held for " + s.Result.Held.Round(100*time.Millisecond).String() + early
}

// look notes what an inquiry has found, and what is in the directory of the case.
func (s *Seen) look(q *inquiry) {
	q.mu.Lock()
	defer q.mu.Unlock()
	s.Asked, s.Early, s.Work = q.asked, q.early, q.work
	entries, _ := os.ReadDir(q.work) // none: nothing was done
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".txt") {
			s.Files = append(s.Files, e.Name())
		}
	}
}
