package effects

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/superloop/superloop/escalation"
	"github.com/superloop/superloop/internal/dirwatch"
	"github.com/superloop/superloop/internal/redact"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/recovery/action"
	"github.com/superloop/superloop/recovery/permit"
	"github.com/superloop/superloop/roles/agent"
)

// maxRefusals is the number of refusals of the same thing in one run of an agent, after which the run ends.
const maxRefusals = 3

// Permits answers what agents ask for while they work: by the policy, or by an operator. Questions to operators go through
// the loop's store of questions, one at a time, like every other question. While an agent works, the loop itself asks
// nothing, so the store is free.
type Permits struct {
	*Host
	Journal Journal
	Outbox  *Outbox
	Watches *dirwatch.Watches // tell of answers
}

// permits is the conversation with one agent.
type permits struct {
	*Permits
	state  loop.State
	role   config.Role
	mode   string
	limits permit.Settings
	facts  permit.Facts
	redact *redact.Replacer
	slot   chan struct{} // held by the one question that an operator is shown

	mu       sync.Mutex
	counts   requests
	policies map[*config.Config]*permit.Policy
	refused  map[string]int      // how often each thing was refused, by the digest of the request
	told     map[string]bool     // what the journal has, by digest: things that were observed or refused
	open     map[string]*pending // what waits for an operator, by digest
}

// requests counts what an agent asked for. nil counts nothing.
type requests struct {
	all   loop.Permissions
	tools map[string]loop.Permissions
}

// The names of tools that superloop does not know, and how many names a run has at most: an agent can make them up.
const (
	toolOther, toolMCP = "other", "mcp"
	maxTools           = 32
)

func (a *requests) add(r permit.Request, d action.Decision) {
	tool := r.Tool
	switch _, known := a.tools[tool]; {
	case r.Kind == permit.MCP:
		tool = toolMCP
	case r.Kind == permit.Other || r.Kind == "" || !known && len(a.tools) >= maxTools || len(tool) > 64 || text.Display(tool) != tool:
		tool = toolOther
	}
	if a.tools == nil {
		a.tools = map[string]loop.Permissions{}
	}
	of := a.tools[tool]
	for _, n := range []*loop.Permissions{&a.all, &of} {
		switch d {
		case action.Auto:
			n.Auto++
		case action.Human:
			n.Human++
		default:
			n.Deny++
		}
	}
	a.tools[tool] = of
}

// tell writes the counts into the fact of a run.
func (a *requests) tell(f *loop.RoleEnded) {
	if a != nil {
		f.Permissions, f.PermissionTools = &a.all, a.tools
	}
}

// pending is one thing that waits for an operator, and those who wait for it.
type pending struct {
	waiters []context.Context  // those of the requests
	cancel  context.CancelFunc // ends the wait when nobody waits any more
	done    chan struct{}
	answer  permit.Answer // valid when done is closed
}

// alive reports whether an agent still waits. The caller holds permits.mu.
func (q *pending) alive() bool {
	return slices.ContainsFunc(q.waiters, func(ctx context.Context) bool { return ctx.Err() == nil })
}

// begin prepares the answers for one run of an agent. A question of an agent that died with its supervisor is withdrawn.
func (p *Permits) begin(s loop.State, role config.Role, req agent.Request) (*permits, error) {
	cfg := p.Settings().Config
	x := &permits{Permits: p, state: s, role: role, mode: req.Asked, limits: cfg.Permissions, slot: make(chan struct{}, 1), redact: agent.Secrets(p.Env(), req.CLI.Env),
		policies: map[*config.Config]*permit.Policy{}, refused: map[string]int{}, told: map[string]bool{}, open: map[string]*pending{}}
	x.facts = permit.Facts{Root: RealPath(req.WorkDir), LoopDir: RealPath(req.LoopDir), Real: RealPath}
	for _, e := range p.Env() {
		if home, ok := strings.CutPrefix(e, "HOME="); ok {
			x.facts.Home = RealPath(home)
		}
	}
	if _, err := x.policy(cfg); err != nil {
		return nil, err
	}
	rec, err := p.store().Load()
	if err != nil || rec.Question.Tool == nil {
		return x, nil
	}
	id := rec.Question.ID
	switch {
	case rec.State == escalation.Executing:
		_, err = p.store().Interrupt(context.Background(), id)
	case rec.State.Open() && p.Clock().Before(rec.HeldUntil):
		err = x.withdraw(id, "the agent that asked is gone")
	}
	return x, p.Full(err)
}

func (p *Permits) store() escalation.Store {
	return escalation.Store{Disk: p.Disk, Dir: p.Paths.Questions(), Loop: p.LoopID, Now: p.Clock}
}

// hold is the longest time that ask takes: questions are shown one after the other.
func (x *permits) hold() time.Duration {
	return time.Duration(x.limits.MaxOpen)*x.limits.Wait + 30*time.Second
}

// RealPath returns an absolute path without symbolic links, as the kernel walks it, as far as it exists. What does not exist is
// taken as it is written.
func RealPath(path string) string {
	const most = 255 // links; the kernel follows 40
	at, todo := "/", strings.Split(path, "/")
	for links := 0; len(todo) > 0; {
		name := todo[0]
		todo = todo[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			at = filepath.Dir(at)
			continue
		}
		next := filepath.Join(at, name)
		to, err := os.Readlink(next)
		if err != nil || links == most {
			at = next
			continue
		}
		links++
		if filepath.IsAbs(to) {
			at = "/"
		}
		todo = append(strings.Split(to, "/"), todo...)
	}
	return at
}

// policy returns the compiled policy of a configuration.
func (x *permits) policy(c *config.Config) (*permit.Policy, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if p := x.policies[c]; p != nil {
		return p, nil
	}
	p, err := c.Permits(x.LoopID)
	if err == nil {
		x.policies[c] = p
	}
	return p, err
}

// judge judges a request by the policy in force, and by that of the next iteration, if there is another one. The stricter
// verdict counts.
func (x *permits) judge(r permit.Request) (permit.Verdict, *permit.Policy) {
	set := x.Settings()
	p, _ := x.policy(set.Config) // without a policy everything is a question
	v := permit.Judge(p, r, x.facts)
	if set.Next != nil && set.Next != set.Config && set.Next.Permissions.Mode == permit.Enforce {
		next, _ := x.policy(set.Next)
		if w := permit.Judge(next, r, x.facts); strictness(w.Decision) > strictness(v.Decision) {
			return w, next
		}
	}
	return v, p
}

func strictness(d action.Decision) int {
	return map[action.Decision]int{action.Auto: 0, action.Human: 1}[d] + map[bool]int{true: 2}[d == action.Deny]
}

// ask is the permit.Ask of the run.
func (x *permits) ask(ctx context.Context, r permit.Request) permit.Answer {
	v, p := x.judge(r)
	x.mu.Lock()
	x.counts.add(r, v.Decision)
	x.mu.Unlock()
	if x.mode == permit.Observe {
		if v.Decision != action.Auto {
			x.keep("", r, v)
		}
		return permit.Answer{Decision: permit.Leave}
	}
	switch v.Decision {
	case action.Auto:
		return permit.Answer{Decision: permit.Allow}
	case action.Human:
		return x.human(ctx, r, v, p)
	}
	x.keep("", r, v)
	return x.refuse(ctx, r, fmt.Sprintf("superloop: %s: %s. Do not try it another way; go on with what you can, or propose it in recovery.json", v.Rule, v.Reason))
}

// refuse returns a refusal, and ends the run if the agent was refused the same thing too often.
func (x *permits) refuse(ctx context.Context, r permit.Request, why string) permit.Answer {
	digest := r.Digest()
	x.mu.Lock()
	x.refused[digest]++
	n := x.refused[digest]
	x.mu.Unlock()
	if n >= maxRefusals {
		agent.EndRun(ctx, fmt.Sprintf("it asked %d times for the same thing that was refused: %s", n, x.clean(brief(r))))
	}
	return permit.Answer{Decision: permit.Deny, Message: text.Line(why, 2000)}
}

// brief names a request in a few words.
func brief(r permit.Request) string {
	what := r.Command
	if what == "" {
		what = strings.Join(append(r.Paths, r.Host), " ")
	}
	return strings.TrimSpace(r.Tool + " " + text.Cut(what, 200))
}

// human asks an operator. Equal requests at the same time are one question.
func (x *permits) human(ctx context.Context, r permit.Request, v permit.Verdict, p *permit.Policy) permit.Answer {
	digest := r.Digest()
	x.mu.Lock()
	q := x.open[digest]
	switch {
	case q != nil:
		q.waiters = append(q.waiters, ctx)
	case x.refused[digest] >= maxRefusals-1:
		x.mu.Unlock()
		return x.refuse(ctx, r, "superloop: you were refused this before. Do not ask again; go on with what you can")
	case len(x.open) >= x.limits.MaxOpen:
		x.mu.Unlock()
		x.keep("", r, v)
		return permit.Answer{Decision: permit.Deny, Message: fmt.Sprintf("superloop: %d other requests wait for an operator already, so this one was not asked. It is not refused for good: go on with something else, and ask later", x.limits.MaxOpen)}
	case len(r.Input) > escalation.MaxInput || len(text.Display(string(r.Input))) > escalation.MaxInput:
		x.mu.Unlock()
		x.keep("", r, v)
		return x.refuse(ctx, r, fmt.Sprintf("superloop: %s, and %d bytes are more than an operator can be shown (%d). Do it in smaller steps", v.Reason, len(r.Input), escalation.MaxInput))
	default:
		life, cancel := context.WithCancel(context.WithoutCancel(ctx))
		q = &pending{waiters: []context.Context{ctx}, cancel: cancel, done: make(chan struct{})}
		x.open[digest] = q
		go func() {
			answer := x.put(life, q, r, v, p)
			x.mu.Lock()
			delete(x.open, digest)
			q.answer = answer
			x.mu.Unlock()
			cancel()
			close(q.done)
		}()
	}
	x.mu.Unlock()
	select {
	case <-q.done:
		return q.answer
	case <-ctx.Done():
	}
	x.mu.Lock()
	left := !q.alive()
	x.mu.Unlock()
	if left {
		q.cancel()
		<-q.done // the question is withdrawn when the run ends
	}
	return permit.Answer{Decision: permit.Deny, Message: "superloop: nobody waits for this any more"}
}
