//go:build generated

package routes

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/descope/virtualwebauthn"

	"github.com/superloop/superloop/server/clienttest/testdata/api/ogen"
)

var (
	text = ogen.NewOptString
	act  = &ogen.ActRequest{}
)

// Every route answers well and refuses, over the socket and over TCP, in the forms of the description: the generated client
// does not read what has another one.
func TestRoutes(t *testing.T) {
	playing = t
	w := newWorld(t)
	w.serve()
	socket := w.client("socket", "superloop", "", "")
	w.until("the daemon answers", func() bool {
		m, err := socket.ListMachines(t.Context())
		if err == nil && len(m.Machines) == 1 {
			w.at = fmt.Sprintf("localhost:%d", m.Machines[0].Port.Value)
		}
		return w.at != ""
	})
	everyRoute(t, w, socket, w.repo("over the socket ü"), w.repo("over tcp"))
}

// The gateway of a fleet answers as a daemon does. What its machine lacks, it says.
func TestGateway(t *testing.T) {
	playing = t
	w := newWorld(t)
	over, tcp := w.repo("over the socket ü"), w.repo("over tcp")
	for _, repo := range []string{over, tcp} {
		for _, id := range []string{"asks", "done", "undo", "hold"} { // the daemon knows them, and does not run them
			w.verb(repo, "start", "--loop", id)
			w.verb(repo, "stop", "--loop", id)
		}
	}
	w.serve()
	w.gateway()
	socket := w.client("socket", "superloop", "", "")
	w.until("the machine answers", func() bool {
		m, err := socket.ListMachines(t.Context())
		if err != nil || len(m.Machines) != 1 || m.Machines[0].AsOf.Set {
			return false
		}
		w.lacks = m.Machines[0].Lacks
		l, err := socket.ListLoops(t.Context(), ogen.ListLoopsParams{})
		return err == nil && len(l.Loops) == 8
	})
	if len(w.lacks) == 0 {
		t.Error("it lacks nothing")
	}
	everyRoute(t, w, socket, over, tcp)
}

// everyRoute plays every route over the socket with loops of one repository, and over TCP with those of another.
func everyRoute(t *testing.T, w *world, socket *client, over, tcp string) {
	at := w.at
	// A person lets a script in, and themself.
	ctx := t.Context()
	all := &ogen.TokenRequest{Name: "script", ExpiresIn: 3600, Scopes: []ogen.TokenRequestScopesItem{"read", "control", "approve"}}
	once := ogen.CreateTokenParams{IdempotencyKey: text("made-once")}
	made := good(socket.CreateToken(ctx, all, once))
	bad("idempotency-shown-once")(socket.CreateToken(ctx, all, once))
	nobody := w.client("tcp", at, "", "")
	bad("bad-code")(nobody.OpenSession(ctx, &ogen.OpenRequest{Code: "none"}, ogen.OpenSessionParams{}))
	session := good(nobody.OpenSession(ctx, &ogen.OpenRequest{Code: good(socket.CreateCode(ctx, ogen.CreateCodeParams{})).Code}, ogen.OpenSessionParams{}))
	script, person := w.client("tcp", at, made.Token, ""), w.client("tcp", at, session.Token, "")

	(&play{t, w, socket, socket, socket, over}).all()
	(&play{t, w, script, person, socket, tcp}).all()
	bad("scope")(script.ListTokens(ctx))

	// What nothing else makes refuse refuses a web page, and who has no token.
	page, stranger := w.client("socket", "superloop", "", "http://elsewhere.example"), w.client("tcp", at, "", "http://elsewhere.example")
	for _, c := range []*client{page, stranger} {
		refuseAll(ctx, c)
	}

	for path, ops := range w.paths {
		for method, op := range ops {
			for _, channel := range []string{"socket", "tcp"} {
				closed := slices.Contains(w.lacks, op.Name) || channel == "tcp" && strings.Contains(op.Summary, "over the socket only") || channel == "socket" && slices.Contains(op.Problems, "no-passkey-here")
				for _, well := range []bool{true, false} {
					if is := fmt.Sprintf("%s %s %s %v", channel, strings.ToUpper(method), path, well); !w.met[is] && (!closed || !well) {
						t.Errorf("not met: %s", is)
					}
				}
			}
		}
	}
}

// refuseAll asks what has no other reason to refuse.
func refuseAll(ctx context.Context, c *client) {
	playing.Helper()
	bad := bad("cross-origin")
	bad(c.GetHealth(ctx))
	refused("cross-origin", c.GetReady(ctx))
	bad(c.GetMetrics(ctx))
	bad(c.GetQueue(ctx))
	bad(c.ListMachines(ctx))
	bad(c.ListTokens(ctx))
	bad(c.ListSessions(ctx))
	bad(c.ListPasskeys(ctx))
	bad(c.PasskeyOptions(ctx, ogen.PasskeyOptionsParams{}))
	bad(c.ListConfirmations(ctx))
	bad(c.CreateCode(ctx, ogen.CreateCodeParams{}))
	bad(c.OpenSession(ctx, &ogen.OpenRequest{Code: "none"}, ogen.OpenSessionParams{}))
	bad(c.CreateToken(ctx, &ogen.TokenRequest{Name: "x", ExpiresIn: 1, Scopes: []ogen.TokenRequestScopesItem{"read"}}, ogen.CreateTokenParams{}))
	bad(c.StreamEvents(ctx, ogen.StreamEventsParams{ID: "x"}))
	bad(c.Confirm(ctx, ogen.ConfirmParams{ID: "x"}))
	bad(c.ListRepos(ctx, ogen.ListReposParams{}))
}

// play plays the routes over one channel.
type play struct {
	t      *testing.T
	w      *world
	c      *client // a script
	person *client
	socket *client // where a person confirms
	repo   string
}

func (p *play) all() {
	p.t.Helper()
	p.asks()
	p.done()
	p.undo()
	p.steer()
	p.ofAll()
	p.access()
	p.passkeys()
}

// run begins a loop.
func (p *play) run(id string) *ogen.Row {
	p.t.Helper()
	r := good(p.c.RunLoop(p.t.Context(), &ogen.StartRequest{Repo: p.repo, Loop: text(id), Labels: ogen.NewOptNilStringArray([]string{"test"})}, ogen.RunLoopParams{}))
	if r.Loop != id || r.Wanted != ogen.RowWantedRunning || r.ID == "" {
		p.t.Errorf("%+v", r)
	}
	return r
}

// question waits for the question of a loop.
func (p *play) question(l *ogen.Row) (q ogen.Question) {
	p.t.Helper()
	p.w.until(l.Loop+" asks", func() bool {
		if all := good(p.c.ListEscalations(p.t.Context(), ogen.ListEscalationsParams{Loop: text(l.ID)})).Escalations; len(all) == 1 {
			q = all[0]
		}
		return q.ID != ""
	})
	return q
}

func (p *play) completes(l *ogen.Row) {
	p.t.Helper()
	p.w.until(l.Loop+" is completed", func() bool {
		return good(p.c.GetLoop(p.t.Context(), ogen.GetLoopParams{ID: l.ID})).Status == "completed"
	})
}

// asks is a whole run: start, question, answer, completed, while its stream is read.
func (p *play) asks() {
	p.t.Helper()
	ctx, c := p.t.Context(), p.c
	bad("invalid")(c.StreamEverything(ctx, ogen.StreamEverythingParams{LastEventID: text(strings.Repeat("x", 60001))}))
	bad("bad-cursor")(c.StreamEverything(ctx, ogen.StreamEverythingParams{LastEventID: text("none")}))
	everything := good(c.StreamEverything(ctx, ogen.StreamEverythingParams{}))
	bad("bad-name")(c.RunLoop(ctx, &ogen.StartRequest{Repo: "relative"}, ogen.RunLoopParams{}))
	l := p.run("asks")
	q := p.question(l)
	if q.LoopID != l.ID || len(q.Options) != 1 || q.Options[0].ID != "refresh" || q.Options[0].Availability != "ready" || q.Failure.Value.FailureID != "stale_index" {
		p.t.Errorf("%+v", q)
	}
	if again := good(c.GetEscalation(ctx, ogen.GetEscalationParams{Eid: q.ID})); again.Digest != q.Digest {
		p.t.Errorf("%+v", again)
	}
	bad("not-found")(c.GetEscalation(ctx, ogen.GetEscalationParams{Eid: "none"}))
	bad("invalid")(c.ListEscalations(ctx, ogen.ListEscalationsParams{Limit: ogen.NewOptInt64(1001)}))
	good(c.GetPlan(ctx, ogen.GetPlanParams{ID: l.ID}))
	bad("no-such-loop")(c.GetPlan(ctx, ogen.GetPlanParams{ID: "none"}))
	answer := &ogen.Answer{Method: ogen.AnswerMethodChoose, Option: text("refresh"), Digest: strings.Repeat("0", 64)}
	if problem := bad("stale-digest")(c.AnswerEscalation(ctx, answer, ogen.AnswerEscalationParams{Eid: q.ID})); problem.ExitCode != 4 {
		p.t.Errorf("%+v", problem)
	}
	answer.Digest = q.Digest
	good(c.AnswerEscalation(ctx, answer, ogen.AnswerEscalationParams{Eid: q.ID}))
	bad("already-decided")(c.AnswerEscalation(ctx, answer, ogen.AnswerEscalationParams{Eid: q.ID}))
	p.completes(l)
	bad("no-such-loop")(c.GetLoop(ctx, ogen.GetLoopParams{ID: "none"}))
	p.streamed(everything, l, q)
	p.reads(l)
}

// streamed reads what was streamed since before the loop began: rows, the question, and all its events, each once.
func (p *play) streamed(s *ogen.StreamEverythingOK, l *ogen.Row, q ogen.Question) {
	p.t.Helper()
	defer s.Close()
	last := good(p.c.GetLoop(p.t.Context(), ogen.GetLoopParams{ID: l.ID})).Seq.Value
	ctx, stop := context.WithTimeout(p.t.Context(), patience)
	defer stop()
	defer context.AfterFunc(ctx, func() { _ = s.Close() })()
	seen, asked, status, ready := int64(0), false, "", false
	for m, err := range s.All(ctx) {
		if err != nil {
			p.t.Fatal(err)
		}
		switch m.Type {
		case ogen.StreamReadyStreamEverythingOKEvent:
			ready = true
		case ogen.StreamEventsStreamEverythingOKEvent:
			if e := m.StreamEvents.Data; e.LoopID == l.ID {
				for _, line := range e.Events {
					if seen++; string(line["seq"]) != fmt.Sprint(seen) {
						p.t.Fatalf("the event %s comes as number %d", line["seq"], seen)
					}
				}
			}
		case ogen.StreamQuestionStreamEverythingOKEvent:
			asked = asked || m.StreamQuestion.Data.Digest == q.Digest
		case ogen.StreamRowStreamEverythingOKEvent:
			if m.StreamRow.Data.ID == l.ID {
				status = m.StreamRow.Data.Status
			}
		}
		// A stream tells how things stand. So far behind as a gateway is, a question that is answered at once is over before it is told.
		if seen >= last && (asked || len(p.w.lacks) > 0) && ready && status == "completed" { // what is written behind the end may have come, too
			return
		}
	}
	p.t.Errorf("the stream has ended after %d of %d events, the status %q, asked %v", seen, last, status, asked)
}

// reads asks what is known of a loop that is completed.
func (p *play) reads(l *ogen.Row) {
	p.t.Helper()
	ctx, c, t := p.t.Context(), p.c, p.t
	if found := good(c.ListLoops(ctx, ogen.ListLoopsParams{Repo: text(p.repo), Label: text("test")})).Loops; len(found) != 1 || found[0].ID != l.ID {
		t.Errorf("%+v", found)
	}
	bad("invalid")(c.ListLoops(ctx, ogen.ListLoopsParams{Limit: ogen.NewOptInt64(-1)}))
	page := good(c.ListEvents(ctx, ogen.ListEventsParams{ID: l.ID, Limit: ogen.NewOptInt64(1000)}))
	bad("bad-pattern")(c.ListEvents(ctx, ogen.ListEventsParams{ID: l.ID, Event: text("[")}))
	stream, n := good(c.StreamEvents(ctx, ogen.StreamEventsParams{ID: l.ID, LastEventID: ogen.NewOptInt64(2)})), int64(2)
	for m, err := range stream.All(ctx) {
		if err != nil || m.Type != ogen.LoopStreamMessageStreamEventsOKEvent {
			t.Fatal(err, m.Type)
		}
		if n++; m.LoopStreamMessage.ID != fmt.Sprint(n) || string(m.LoopStreamMessage.Data["event"]) != string(page.Events[n-1]["event"]) {
			t.Fatalf("%d: %+v", n, m.LoopStreamMessage)
		}
		if n == page.After {
			break
		}
	}
	_ = stream.Close() // the loop has ended, the stream has not
	if said := good(c.ListSentences(ctx, ogen.ListSentencesParams{ID: l.ID})); len(said.Sentences) == 0 {
		t.Error("nothing is said")
	}
	bad("no-such-loop")(c.ListSentences(ctx, ogen.ListSentencesParams{ID: "none"}))
	if v := good(c.VerifyJournal(ctx, ogen.VerifyJournalParams{ID: l.ID})); !v.Whole || v.Events != page.After {
		t.Errorf("%+v", v)
	}
	bad("no-such-loop")(c.VerifyJournal(ctx, ogen.VerifyJournalParams{ID: "none"}))
	its := good(c.ListIterations(ctx, ogen.ListIterationsParams{ID: l.ID})).Iterations
	if len(its) == 0 || len(its[0].Roles) == 0 || !its[0].Roles[0].CostUsd.Null {
		t.Errorf("%+v", its)
	}
	bad("no-such-loop")(c.ListIterations(ctx, ogen.ListIterationsParams{ID: "none"}))
	log := ogen.GetLogParams{ID: l.ID, Role: "tester", N: 1}
	whole, ok := good(c.GetLog(ctx, log)).(*ogen.GetLogOK)
	if !ok {
		t.Fatal("a part")
	}
	all := good(io.ReadAll(whole))
	log.Range = text("bytes=2-5")
	part, ok := good(c.GetLog(ctx, log)).(*ogen.GetLogPartialContent)
	if !ok || string(good(io.ReadAll(part))) != string(all[2:6]) {
		t.Errorf("%q", all)
	}
	log.N, log.Range = 99, ogen.OptString{}
	bad("nothing")(c.GetLog(ctx, log))
	good(c.ListLogItems(ctx, ogen.ListLogItemsParams{ID: l.ID, Role: "tester", N: 1}))
	bad("nothing")(c.ListLogItems(ctx, ogen.ListLogItemsParams{ID: l.ID, Role: "tester", N: 99}))
	if told := good(c.GetPrompt(ctx, ogen.GetPromptParams{ID: l.ID, Role: "tester", N: 1})); !strings.Contains(told.Prompt, "spec.md") || !told.Report.Set {
		t.Errorf("%+v", told)
	}
	bad("nothing")(c.GetPrompt(ctx, ogen.GetPromptParams{ID: l.ID, Role: "tester", N: 99}))
	if diff := good(io.ReadAll(good(c.GetDiff(ctx, ogen.GetDiffParams{ID: l.ID})))); !strings.Contains(string(diff), "work.txt") {
		t.Errorf("%s", diff)
	}
	bad("no-such-loop")(c.GetDiff(ctx, ogen.GetDiffParams{ID: "none"}))
	if s := good(c.GetStats(ctx, ogen.GetStatsParams{ID: l.ID})); s.LoopID != l.Loop {
		t.Errorf("%+v", s)
	}
	bad("not-found")(c.GetStats(ctx, ogen.GetStatsParams{ID: l.ID, Run: text("all")}))
}

// done approves the completion of a loop.
func (p *play) done() {
	p.t.Helper()
	l := p.run("done")
	q := p.question(l)
	bad("stale-digest")(p.c.ApproveCompletion(p.t.Context(), &ogen.ApproveRequest{Digest: strings.Repeat("0", 64)}, ogen.ApproveCompletionParams{ID: l.ID}))
	good(p.c.ApproveCompletion(p.t.Context(), &ogen.ApproveRequest{Digest: q.Digest}, ogen.ApproveCompletionParams{ID: l.ID}))
	p.completes(l)
}

// undo puts back what a recovery has removed. Over TCP a person confirms it.
func (p *play) undo() {
	p.t.Helper()
	ctx, t := p.t.Context(), p.t
	l := p.run("undo")
	q := p.question(l)
	good(p.c.AnswerEscalation(ctx, &ogen.Answer{Method: ogen.AnswerMethodApprove, Digest: q.Digest}, ogen.AnswerEscalationParams{Eid: q.ID}))
	p.completes(l)
	all := good(p.c.ListRecoveries(ctx, ogen.ListRecoveriesParams{ID: l.ID})).Recoveries
	bad("no-such-loop")(p.c.ListRecoveries(ctx, ogen.ListRecoveriesParams{ID: "none"}))
	if len(all) != 1 || all[0].Outcome != "verified" || len(all[0].Kept) != 1 {
		t.Fatalf("%+v", all)
	}
	bad("no-such-loop")(p.c.UndoRecovery(ctx, &ogen.UndoRequest{}, ogen.UndoRecoveryParams{ID: "none", N: 1}))
	how := ogen.UndoRecoveryParams{ID: l.ID, N: all[0].N}
	how.SuperloopConfirm = p.confirmed(func() error { _, err := p.c.UndoRecovery(ctx, &ogen.UndoRequest{}, how); return err })
	if done := good(p.c.UndoRecovery(ctx, &ogen.UndoRequest{}, how)); !done.Complete {
		t.Errorf("%+v", done)
	}
	if _, err := os.Stat(filepath.Join(p.repo, "built/old")); err != nil {
		t.Error(err)
	}
}

// confirmed lets a person confirm a request over TCP, which is refused before, and returns the code. Over the socket nothing
// is to be confirmed.
func (p *play) confirmed(ask func() error) (code ogen.OptString) {
	p.t.Helper()
	if p.c.channel == "socket" {
		return code
	}
	challenge := refused("step-up-required", ask()).Challenge.Value
	if waits := good(p.socket.ListConfirmations(p.t.Context())).Confirmations; len(waits) == 0 || waits[len(waits)-1].ID != challenge {
		p.t.Errorf("%+v", waits)
	}
	bad("no-such-challenge")(p.socket.Confirm(p.t.Context(), ogen.ConfirmParams{ID: "none"}))
	return text(good(p.socket.Confirm(p.t.Context(), ogen.ConfirmParams{ID: challenge})).Code)
}

// steer plays what a person does with a loop.
func (p *play) steer() {
	p.t.Helper()
	ctx, c := p.t.Context(), p.c
	l := p.run("hold")
	p.question(l)
	held := func() bool { return good(c.GetLoop(ctx, ogen.GetLoopParams{ID: l.ID})).Supervised }
	good(c.NoteLoop(ctx, &ogen.ActRequest{Note: text("use X")}, ogen.NoteLoopParams{ID: l.ID}))
	bad("empty-note")(c.NoteLoop(ctx, act, ogen.NoteLoopParams{ID: l.ID}))
	good(c.RetryLoopNow(ctx, act, ogen.RetryLoopNowParams{ID: l.ID}))
	good(c.PauseLoop(ctx, act, ogen.PauseLoopParams{ID: l.ID}))
	p.w.until("it is paused", func() bool { return !held() })
	bad("not-running")(c.PauseLoop(ctx, act, ogen.PauseLoopParams{ID: l.ID}))
	good(c.StartLoop(ctx, act, ogen.StartLoopParams{ID: l.ID}))
	p.w.until("it runs", held)
	bad("running")(c.StartLoop(ctx, act, ogen.StartLoopParams{ID: l.ID}))
	if slices.Contains(p.w.lacks, "stop-loop") {
		bad("not-here")(c.StopLoop(ctx, act, ogen.StopLoopParams{ID: l.ID}))
	} else {
		good(c.StopLoop(ctx, act, ogen.StopLoopParams{ID: l.ID}))
		p.w.until("it is stopped", func() bool { return !held() })
		bad("no-such-loop")(c.StopLoop(ctx, act, ogen.StopLoopParams{ID: "none"}))
		good(c.StartLoop(ctx, act, ogen.StartLoopParams{ID: l.ID}))
		p.w.until("it runs", held)
	}
	bad("no-such-loop")(c.RetryLoopNow(ctx, act, ogen.RetryLoopNowParams{ID: "none"}))
	good(c.CancelLoop(ctx, act, ogen.CancelLoopParams{ID: l.ID}))
	p.w.until("it is let go", func() bool { return !held() })
	bad("no-such-loop")(c.CancelLoop(ctx, act, ogen.CancelLoopParams{ID: "none"}))
}

// ofAll plays the routes of all loops, of repositories and of the machine.
func (p *play) ofAll() {
	p.t.Helper()
	ctx, c, t := p.t.Context(), p.c, p.t
	good(c.GetHealth(ctx))
	good(0, c.GetReady(ctx))
	if slices.Contains(p.w.lacks, "get-queue") {
		bad("no-view")(c.GetQueue(ctx))
	} else {
		good(c.GetQueue(ctx))
	}
	good(c.ListMachines(ctx))
	if m := good(io.ReadAll(good(c.GetMetrics(ctx)))); !strings.Contains(string(m), "superloop_role_runs_total") {
		t.Errorf("%s", m)
	}
	if r := good(c.ListRepos(ctx, ogen.ListReposParams{})).Repos; len(r) == 0 || len(r[0].Loops) == 0 {
		t.Errorf("%+v", r)
	}
	if r := good(c.ListRunners(ctx, ogen.ListRunnersParams{})).Repos; len(r) == 0 || len(r[0].Known.Value.Runners) == 0 {
		t.Errorf("%+v", r)
	}
	bad("invalid")(c.ListRunners(ctx, ogen.ListRunnersParams{Limit: ogen.NewOptInt64(0)}))
	if s := good(c.ListSpace(ctx, ogen.ListSpaceParams{})).Repos; !slices.ContainsFunc(s, func(r ogen.RepoSpace) bool { return r.Repo == p.repo && r.Known.Value.Use.Journals > 0 }) {
		t.Errorf("%+v", s)
	}
	bad("invalid")(c.ListSpace(ctx, ogen.ListSpaceParams{Limit: ogen.NewOptInt64(0)}))
	if s := good(c.ListChannels(ctx, ogen.ListChannelsParams{})).Repos; len(s) == 0 || len(s[0].Known.Value.Channels) != 1 {
		t.Errorf("%+v", s)
	}
	bad("invalid")(c.ListChannels(ctx, ogen.ListChannelsParams{Limit: ogen.NewOptInt64(0)}))
	if tried := good(c.TestChannel(ctx, &ogen.TestChannelRequest{Repo: p.repo, Channel: "note"}, ogen.TestChannelParams{})); !tried.Ok {
		t.Errorf("%+v", tried)
	}
	bad("not-found")(c.TestChannel(ctx, &ogen.TestChannelRequest{Repo: p.repo, Channel: "none"}, ogen.TestChannelParams{}))
	if found := good(c.ExamineRepo(ctx, &ogen.InRepo{Repo: p.repo}, ogen.ExamineRepoParams{})); len(found.Checks) == 0 {
		t.Errorf("%+v", found)
	}
	bad("not-found")(c.ExamineRepo(ctx, &ogen.InRepo{Repo: "/etc"}, ogen.ExamineRepoParams{}))
	if cost := good(c.GetCost(ctx, ogen.GetCostParams{By: ogen.NewOptGetCostBy(ogen.GetCostByLoop)})); len(cost.Series) == 0 || !cost.Total.CostUsd.Known.Null {
		t.Errorf("%+v", cost)
	}
	bad("bad-time")(c.GetCost(ctx, ogen.GetCostParams{From: text("yesterday")}))
	if v := good(c.CheckPolicy(ctx, &ogen.CheckPolicyRequest{Repo: p.repo, Command: "true"})); v.Verdict != "auto" {
		t.Errorf("%+v", v)
	}
	bad("not-found")(c.CheckPolicy(ctx, &ogen.CheckPolicyRequest{Repo: "/etc", Command: "true"}))
	good(c.LintPolicy(ctx, &ogen.InRepo{Repo: p.repo}))
	bad("not-found")(c.LintPolicy(ctx, &ogen.InRepo{Repo: "/etc"}))
	if r := good(c.ReplayPolicy(ctx, &ogen.ReplayPolicyRequest{Repo: p.repo, Policy: text(`{"auto_approve": ["touch theirs"]}`)})); r.Differ == 0 || len(r.Decisions) == 0 {
		t.Errorf("%+v", r)
	}
	bad("not-found")(c.ReplayPolicy(ctx, &ogen.ReplayPolicyRequest{Repo: "/etc"}))
	said := p.w.verb(p.repo, "fix", "--yes", "--", "./check", "zz")
	var id string
	for _, r := range good(c.ListChains(ctx, ogen.ListChainsParams{})).Repos {
		var chains []struct {
			ID string `json:"chain_id"`
		}
		if err := json.Unmarshal(r.Known.Value["chains"], &chains); err == nil && r.Repo == p.repo && len(chains) > 0 {
			id = chains[0].ID
		}
	}
	if id == "" {
		t.Fatalf("there is no chain\n%s", said)
	}
	bad("invalid")(c.ListChains(ctx, ogen.ListChainsParams{Limit: ogen.NewOptInt64(0)}))
	if chain := good(c.GetChain(ctx, ogen.GetChainParams{Cid: id, Repo: p.repo})); len(chain["breadcrumbs"]) == 0 {
		t.Errorf("%s", chain)
	}
	bad("not-found")(c.GetChain(ctx, ogen.GetChainParams{Cid: "none", Repo: p.repo}))
}

// access plays tokens, sessions and the record of requests.
func (p *play) access() {
	p.t.Helper()
	ctx, t := p.t.Context(), p.t
	wish := &ogen.TokenRequest{Name: "made-" + p.c.channel, ExpiresIn: 60, Scopes: []ogen.TokenRequestScopesItem{ogen.TokenRequestScopesItemRead}}
	var how ogen.CreateTokenParams
	how.SuperloopConfirm = p.confirmed(func() error { _, err := p.person.CreateToken(ctx, wish, how); return err })
	made := good(p.person.CreateToken(ctx, wish, how))
	if made.ExpiresAt.Before(time.Now()) || made.Token == "" {
		t.Errorf("%+v", made)
	}
	if all := good(p.person.ListTokens(ctx)).Credentials; len(all) < 2 {
		t.Errorf("%+v", all)
	}
	if all := good(p.person.ListSessions(ctx)).Credentials; len(all) == 0 {
		t.Errorf("%+v", all)
	}
	good(0, p.person.RevokeToken(ctx, ogen.RevokeTokenParams{Name: wish.Name}))
	refused("no-such-name", p.person.RevokeToken(ctx, ogen.RevokeTokenParams{Name: wish.Name}))
	other := good(p.person.OpenSession(ctx, &ogen.OpenRequest{Code: good(p.socket.CreateCode(ctx, ogen.CreateCodeParams{})).Code}, ogen.OpenSessionParams{}))
	good(0, p.person.RevokeSession(ctx, ogen.RevokeSessionParams{Name: other.Name}))
	refused("no-such-name", p.person.RevokeSession(ctx, ogen.RevokeSessionParams{Name: other.Name}))
	if log := good(p.c.ListAudit(ctx, ogen.ListAuditParams{Limit: ogen.NewOptInt64(3)})); len(log.Lines) != 3 || log.NextCursor.Value == 0 {
		t.Errorf("%+v", log)
	}
	bad("invalid")(p.c.ListAudit(ctx, ogen.ListAuditParams{Limit: ogen.NewOptInt64(0)}))
}

// passkeys plays an authenticator that confirms a request. It counts at the page alone, which has a name and a port.
func (p *play) passkeys() {
	p.t.Helper()
	ctx, c, t := p.t.Context(), p.person, p.t
	if p.c.channel == "socket" {
		bad("no-passkey-here")(c.PasskeyOptions(ctx, ogen.PasskeyOptionsParams{}))
		bad("no-passkey-here")(c.AddPasskey(ctx, &ogen.AddPasskeyRequest{Name: "x", Answer: []byte("{}")}, ogen.AddPasskeyParams{}))
		bad("no-passkey-here")(c.ConfirmByPasskey(ctx, &ogen.ConfirmRequest{Answer: []byte("{}")}, ogen.ConfirmByPasskeyParams{ID: "x"}))
		good(c.ListPasskeys(ctx))
		refused("no-such-name", c.RevokePasskey(ctx, ogen.RevokePasskeyParams{Name: "x"}))
		return
	}
	page := virtualwebauthn.RelyingParty{ID: "localhost", Origin: "http://" + p.w.at}
	device, key := virtualwebauthn.NewAuthenticator(), virtualwebauthn.NewCredential(virtualwebauthn.KeyTypeEC2)
	bad("bad-passkey")(c.AddPasskey(ctx, &ogen.AddPasskeyRequest{Name: "mine", Answer: []byte("{}")}, ogen.AddPasskeyParams{}))
	for name, made := range map[string]virtualwebauthn.Credential{"mine": key, "other": virtualwebauthn.NewCredential(virtualwebauthn.KeyTypeEC2)} {
		creation := good(virtualwebauthn.ParseAttestationOptions(string(good(json.Marshal(good(c.PasskeyOptions(ctx, ogen.PasskeyOptionsParams{})))))))
		wish := &ogen.AddPasskeyRequest{Name: name, Answer: []byte(virtualwebauthn.CreateAttestationResponse(page, device, made, *creation))}
		var how ogen.AddPasskeyParams
		how.SuperloopConfirm = p.confirmed(func() error { _, err := c.AddPasskey(ctx, wish, how); return err })
		if k := good(c.AddPasskey(ctx, wish, how)); k.Name != name || k.Host != "localhost" {
			t.Errorf("%+v", k)
		}
	}
	if all := good(c.ListPasskeys(ctx)).Passkeys; len(all) != 2 {
		t.Errorf("%+v", all)
	}

	token, by := &ogen.TokenRequest{Name: "by-passkey", ExpiresIn: 60, Scopes: []ogen.TokenRequestScopesItem{ogen.TokenRequestScopesItemRead}}, ogen.CreateTokenParams{}
	_, err := c.CreateToken(ctx, token, by)
	problem := refused("step-up-required", err)
	ask := good(virtualwebauthn.ParseAssertionOptions(string(good(json.Marshal(&problem.Passkey.Value)))))
	key.Counter++
	answer := &ogen.ConfirmRequest{Answer: []byte(virtualwebauthn.CreateAssertionResponse(page, device, key, *ask))}
	code := good(c.ConfirmByPasskey(ctx, answer, ogen.ConfirmByPasskeyParams{ID: problem.Challenge.Value}))
	bad("no-such-challenge")(c.ConfirmByPasskey(ctx, answer, ogen.ConfirmByPasskeyParams{ID: problem.Challenge.Value}))
	by.SuperloopConfirm = text(code.Code)
	good(c.CreateToken(ctx, token, by))
	good(0, c.RevokePasskey(ctx, ogen.RevokePasskeyParams{Name: "mine"}))
	refused("no-such-name", c.RevokePasskey(ctx, ogen.RevokePasskeyParams{Name: "mine"}))
	good(0, p.socket.RevokePasskey(ctx, ogen.RevokePasskeyParams{Name: "other"}))
}
