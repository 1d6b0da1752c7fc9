package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/loop/journal"
	"github.com/superloop/superloop/loop/replay"
	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/recovery/undo"
	"github.com/superloop/superloop/schemas"
	"github.com/superloop/superloop/server/api"
)

// replay judges again what journals have recorded, by another policy or by the one in force. It executes nothing: what it
// judges with (loop/replay) links nothing that could.
func (a *app) replay(c *cli.Context) error {
	switch {
	case c.Bool("step") && !c.IsSet("journal"):
		return failf(exitUsage, "superloop replay --step --journal .superloop/loops/ID/events.jsonl", "--step wants a --journal")
	case c.IsSet("journal") && c.IsSet("loop"):
		return failf(exitUsage, "superloop replay --loop "+c.String("loop"), "--journal and --loop exclude each other")
	case c.Bool("step"):
		return a.replaySteps(c)
	}
	f, err := a.candidate(c)
	if err != nil {
		return err
	}
	out, tests, err := a.judgedAgain(c, f)
	if err != nil {
		return err
	}
	if file := c.String("write-tests"); file != "" {
		if err := a.writeTests(file, tests); err != nil {
			return err
		}
		n := 0
		for _, t := range tests {
			n += len(t.found)
		}
		fmt.Fprintf(a.stderr, "%s written to %s; copy what you want to keep into recovery.tests, then: superloop policy test\n", render.Number(n, "test"), text.Paste(file))
	}
	if err := a.write(c, out, func(w io.Writer) { printReplay(w, f.path, out) }); err != nil {
		return err
	}
	return failedUnless(len(out.Unread) == 0, nil)
}

// candidate reads the policies to judge by: those of --policy, or of the configuration. A file has a whole configuration,
// or a recovery section alone.
func (a *app) candidate(c *cli.Context) (*policyFile, error) {
	path := c.String("policy")
	var data []byte
	var err error
	switch path {
	case "":
		f, _, err := a.policies(c)
		return f, err
	case "-":
		path = "the policy on standard input"
		data, err = io.ReadAll(io.LimitReader(a.stdin, int64(schemas.Config.Limit())+1))
	default:
		if data, err = config.Read(path); errors.Is(err, fs.ErrNotExist) {
			err = failf(exitConfig, "cp .superloop/config.json "+text.Paste(path), "%s: there is no such file; a candidate begins as a copy of the configuration, or of its recovery section", path)
		}
	}
	if err != nil {
		return nil, err
	}
	f, err := candidateOf(path, data)
	if bad, is := errors.AsType[*config.Error](err); is {
		return nil, failf(exitConfig, "superloop replay --policy "+text.Paste(c.String("policy"))+"   (when it is corrected)", "%w", bad)
	}
	return f, err
}

// candidateOf reads the policies of a file.
func candidateOf(path string, data []byte) (*policyFile, error) {
	doc, problems := schemas.Parse(schemas.Config, data)
	if len(problems) > 0 {
		return nil, &config.Error{Path: path, Problems: problems}
	}
	var whole struct {
		Recovery json.RawMessage `json:"recovery"`
		Loops    []struct {
			ID       string          `json:"id"`
			Recovery json.RawMessage `json:"recovery"`
		} `json:"loops"`
		Runners json.RawMessage `json:"runners"`
	}
	raw := doc.Raw("", nil)
	if err := text.Decode(raw, &whole); err != nil {
		return nil, &config.Error{Path: path, Problems: []schemas.Problem{{Code: schemas.CodeWrongType, Message: err.Error()}}}
	}
	f := &policyFile{path: path, doc: doc}
	if whole.Recovery == nil && whole.Loops == nil && whole.Runners == nil {
		f.doc = nil // the pointers of problems begin at the section
		return f, f.add("", recovery.Section{Raw: raw, Pointer: ""})
	}
	top := recovery.Section{Raw: whole.Recovery, Pointer: "/recovery"}
	err := f.add("", top)
	for i, l := range whole.Loops {
		if err == nil && l.Recovery != nil {
			err = f.add(l.ID, top, recovery.Section{Raw: l.Recovery, Pointer: fmt.Sprintf("/loops/%d/recovery", i)})
		}
	}
	return f, err
}

// pastTests are the tests that past decisions give for a policy, in the form of recovery.tests.
type pastTests struct {
	loop  string // "" for the policy of the top level
	found []recovery.PolicyTest
}

// judgedAgain judges the journals of the chosen loops by the policies of f.
func (a *app) judgedAgain(c *cli.Context, f *policyFile) (out api.Replayed, tests []pastTests, err error) {
	out = api.Replayed{Decisions: []replay.Decision{}, Policies: []api.ReplayPolicy{}, Unread: []api.Unread{}}
	if c.IsSet("since") {
		out.Since = time.Now().Add(-c.Duration("since")).UTC().Truncate(time.Millisecond)
	}
	type source struct{ id, file, undo string }
	var sources []source
	if file := c.String("journal"); file != "" {
		sources = []source{{file: file}}
	} else {
		_, loops, err := a.chosenLoops(c, false)
		if err != nil {
			return out, nil, err
		}
		for _, p := range loops {
			sources = append(sources, source{p.id, p.Events(), p.Undo()})
		}
	}
	for _, s := range f.sections {
		out.Policies = append(out.Policies, a.replayPolicy(f, s))
		tests = append(tests, pastTests{loop: s.loop})
	}
	for _, s := range sources {
		at := max(0, slices.IndexFunc(f.sections, func(x policySection) bool { return x.loop == s.id }))
		fold := replay.New(replay.Options{Policy: f.sections[at].policy, Kept: keptBeside(s.file), Since: out.Since})
		err := journal.Read(s.file, 1, func(ev journal.Event) error {
			if err := c.Context.Err(); err != nil {
				return err
			}
			return fold.Add(ev)
		})
		switch {
		case c.Context.Err() != nil:
			return out, nil, orInterrupted(c.Context, err)
		case errors.Is(err, fs.ErrNotExist) && s.id != "":
			continue // the loop has not run yet
		case errors.Is(err, fs.ErrNotExist):
			return out, nil, failf(exitNotFound, "superloop list", "there is no journal %s", s.file)
		case err != nil:
			out.Unread = append(out.Unread, api.Unread{Loop: s.id, File: s.file, Error: err.Error()})
		}
		r := fold.Report()
		a.undone(s.undo, r.Decisions)
		out.Events, out.Judged, out.Differ, out.Unknown = out.Events+r.Events, out.Judged+r.Judged, out.Differ+r.Differ, out.Unknown+r.Unknown
		out.Policies[at].Add(s.id, r)
		tests[at].add(r.Decisions)
		for _, d := range r.Decisions {
			if c.Bool("all") || d.Differs || d.Now.Verdict == replay.Unknown {
				out.Decisions = append(out.Decisions, d)
			}
		}
	}
	slices.SortStableFunc(out.Decisions, func(x, y replay.Decision) int { return x.At.Compare(y.At) })
	if most := c.Int("limit"); most > 0 && len(out.Decisions) > most {
		out.LeftOff = len(out.Decisions) - most
		out.Decisions = out.Decisions[out.LeftOff:]
	}
	for i := range tests {
		tests[i].expect(f.sections[i].policy)
	}
	return out, tests, nil
}

// replayPolicy returns what is known of a policy before it has judged: its entries and what is odd in it.
func (a *app) replayPolicy(f *policyFile, s policySection) api.ReplayPolicy {
	out := api.ReplayPolicy{Loop: s.loop, Digest: s.policy.Digest, File: f.path, Enabled: s.policy.Settings.Enabled, OnUnknown: s.policy.Settings.OnUnknown,
		Loops: []string{}, Entries: []api.PolicyEntry{}, Findings: []api.Placed{}}
	_ = text.Decode(s.policy.JSON(), &out.Settings) // it is what superloop has just written
	delete(out.Settings, "enabled")                 // a section is enabled by being there
	for list, all := range map[string][]string{"auto_approve": s.policy.Settings.AutoApprove, "require_human": s.policy.Settings.RequireHuman} {
		for i, entry := range all {
			e := api.PolicyEntry{List: list, Text: entry, Pointer: s.policy.Pointer(list, i)}
			e.Line, _ = f.position(e.Pointer)
			out.Entries = append(out.Entries, e)
		}
	}
	slices.SortStableFunc(out.Entries, func(x, y api.PolicyEntry) int { return strings.Compare(x.List, y.List) })
	for _, found := range s.policy.Lint() {
		line, column := f.position(found.Pointer)
		out.Findings = append(out.Findings, api.Placed{Finding: found, Loop: s.loop, File: f.path, Line: line, Column: column})
	}
	return out
}

// undone notes which recoveries an operator has undone. No journal holds it: what was kept knows.
func (a *app) undone(dir string, all []replay.Decision) {
	if dir == "" {
		return
	}
	kept, _ := undo.Store{Disk: a.disk, Dir: dir}.List() // a set that cannot be read was not restored completely
	back := map[string]bool{}
	for _, k := range kept {
		back[k.ID] = k.Restored
	}
	for i := range all {
		all[i].Became.Undone = back[all[i].Became.Undo]
	}
}

// add takes the commands of decisions, each once.
func (t *pastTests) add(all []replay.Decision) {
	for _, d := range all {
		one := recovery.PolicyTest{Command: d.Command, WorkingDir: cmp.Or(d.WorkingDir, ".")}
		if one.WorkingDir == "." {
			one.WorkingDir = ""
		}
		if !slices.Contains(t.found, one) {
			t.found = append(t.found, one)
		}
	}
}

// expect sets what a policy says of the commands under the assumptions of policy tests.
func (t *pastTests) expect(p *recovery.Policy) {
	s := p.Settings
	s.Tests = slices.Clone(t.found)
	if q, problems := recovery.Compile(s); len(problems) == 0 {
		for i, r := range q.RunTests() {
			t.found[i].Expect = r.Verdict.Decision
		}
	}
}

// writeTests writes tests as they stand in a configuration. It never overwrites a file.
func (a *app) writeTests(file string, all []pastTests) error {
	type section struct {
		Tests []recovery.PolicyTest `json:"tests"`
	}
	type own struct {
		ID       string  `json:"id"`
		Recovery section `json:"recovery"`
	}
	var out struct {
		Recovery section `json:"recovery"`
		Loops    []own   `json:"loops,omitempty"`
	}
	out.Recovery.Tests = []recovery.PolicyTest{}
	for _, t := range all {
		switch {
		case t.loop == "":
			out.Recovery.Tests = orEmpty(t.found)
		case len(t.found) > 0:
			out.Loops = append(out.Loops, own{t.loop, section{t.found}})
		}
	}
	if _, err := os.Lstat(file); err == nil {
		return failf(exitFailed, "superloop replay --write-tests "+text.Paste(file+".new"), "%s exists already; nothing was written", file)
	}
	var b strings.Builder
	if err := render.JSON(&b, out); err != nil {
		return err
	}
	return a.disk.WriteFile("replay-tests", file, []byte(b.String()), 0o644)
}

// keptPolicy is the name that a policy beside a journal has: its digest. A journal may name anything.
var keptPolicy = regexp.MustCompile(`^[0-9a-f]{64}$`)

// keptBeside returns a function that reads the policies which are kept beside a journal.
func keptBeside(journal string) func(digest string) (*recovery.Policy, error) {
	return func(digest string) (*recovery.Policy, error) {
		if !keptPolicy.MatchString(digest) {
			return nil, fmt.Errorf("%.80q is no digest of a policy", digest)
		}
		data, err := door.Read(filepath.Join(filepath.Dir(journal), "policies", digest+".json"), int64(schemas.Config.Limit()))
		if err != nil {
			return nil, err
		}
		return recovery.Kept(digest, data)
	}
}

// printReplay prints what was judged again, for people. All text that comes from a command is escaped.
func printReplay(w io.Writer, path string, r api.Replayed) {
	for _, u := range r.Unread {
		fmt.Fprintf(w, "not read to its end: %s: %s\n", text.Display(u.File), text.Line(u.Error, 500))
	}
	for _, d := range r.Decisions {
		fmt.Fprintf(w, "%s %s #%d  %s\n", d.At.Local().Format("2006-01-02 15:04"), d.LoopID, d.Seq, text.Display(d.Command))
		fmt.Fprintf(w, "    was     %s\n    now     %s\n    became  %s\n", verdictLine(d.Was), verdictLine(d.Now), becameLine(d.Became))
		if len(d.Possible) > 0 {
			fmt.Fprintf(w, "    either  %s\n", strings.Join(loop.Map(d.Possible, func(v action.Decision) string { return string(v) }), " or "))
		}
	}
	if r.LeftOff > 0 {
		fmt.Fprintf(w, "(%d older ones left out: --limit 0 prints all)\n", r.LeftOff)
	}
	same := r.Judged - r.Differ - r.Unknown
	fmt.Fprintf(w, "%s judged by %s: %d the same, %d differ, %d not known\n", render.Number(r.Judged, "decision"), path, same, r.Differ, r.Unknown)
	if r.Differ > 0 {
		fmt.Fprintln(w, "each is judged as the run had come to it: what would have followed from another verdict is not known")
	}
}

func verdictLine(v replay.Verdict) string {
	return fmt.Sprintf("%s (%s): %s", text.Line(string(v.Verdict), 40), text.Line(v.Rule, 40), text.Line(v.Reason, 400))
}

// becameLine says in one line what really became of a command.
func becameLine(b replay.Became) string {
	var out []string
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	by := render.Clean(b.By)
	switch {
	case b.Answer != "":
		say("an operator was asked, and %s said %s", by, text.Line(b.Answer, 40))
	case b.Asked:
		say("an operator was asked")
	case b.Denied:
		say("denied")
	case b.Approved == "auto":
		say("approved by the policy")
	}
	if b.Instead != "" {
		say("instead of it: %s", text.Display(b.Instead))
	}
	switch {
	case b.ExitCode != nil && b.Ended == "exited":
		say("ran, exit code %d", *b.ExitCode)
	case b.Ended != "":
		say("ran, ended: %s", text.Line(b.Ended, 40))
	case b.Runs > 0:
		say("was begun")
	}
	if b.Result != "" {
		say("the tests say: %s", text.Line(b.Result, 40))
	}
	if b.Undone {
		say("undone later")
	}
	if b.Again > 0 {
		say("judged again in event %d", b.Again)
	}
	if len(out) == 0 {
		return "nothing: it did not run"
	}
	return strings.Join(out, "; ")
}
