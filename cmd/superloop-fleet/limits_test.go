package main

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/loop/temporal"
	"github.com/superloop/superloop/roles/agent"
	"github.com/superloop/superloop/roles/agent/class"
	"github.com/superloop/superloop/roles/agent/cooldown"
)

// pair is two machines; what one tells the other is told at once, as the fleet does.
type pair struct {
	t    *testing.T
	a, b *limits
	said []temporal.Limit
	down error
}

func newPair(t *testing.T) *pair {
	p := &pair{t: t}
	for id, at := range map[string]**limits{"a": &p.a, "b": &p.b} {
		l := &limits{store: cooldown.New(durable.OS(), filepath.Join(t.TempDir(), "cooldowns")), id: id, log: zap.NewNop(), known: map[agent.Account]cooldown.Cooldown{}}
		l.send = func(_ context.Context, _ string, arg any) error {
			if p.down == nil {
				p.said = append(p.said, arg.(temporal.Limit))
			}
			return p.down
		}
		*at = l
	}
	return p
}

// settle lets both tell each other what they know until neither has news.
func (p *pair) settle() (told int) {
	p.t.Helper()
	for range 10 {
		for _, l := range []*limits{p.a, p.b} {
			if err := l.compare(p.t.Context()); err != nil {
				p.t.Fatal(err)
			}
		}
		if len(p.said) == 0 {
			return told
		}
		told += len(p.said)
		for _, v := range p.said {
			to := map[string]*limits{"a": p.b, "b": p.a}[v.Machine]
			if err := to.take(p.t.Context(), []temporal.Limit{v}); err != nil {
				p.t.Fatal(err)
			}
		}
		p.said = nil
	}
	p.t.Fatal("they do not stop")
	return 0
}

func (p *pair) limited(id string, on *limits) bool {
	p.t.Helper()
	_, is, err := on.store.Get(agent.Account{Provider: "anthropic", ID: id})
	if err != nil {
		p.t.Fatal(err)
	}
	return is
}

func (p *pair) set(on *limits, id string, d time.Duration) {
	p.t.Helper()
	err := on.store.Set(cooldown.Cooldown{Account: agent.Account{Provider: "anthropic", ID: id}, Class: class.Limit, Until: time.Now().Add(d), Told: true})
	if err != nil {
		p.t.Fatal(err)
	}
}

// TestLimitsGoToTheOtherMachine: a limit that one machine meets the other has; both have the later end when both have met
// one; what is lifted on one is lifted on both; an account that only its machine can tell apart stays there.
func TestLimitsGoToTheOtherMachine(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.set(p.a, "one", time.Hour)
	p.set(p.a, "here-1234", time.Hour)
	p.set(p.b, "both", time.Hour)
	p.set(p.a, "both", 2*time.Hour)
	if told := p.settle(); told != 3 {
		t.Errorf("%d were told", told)
	}
	a, _, _ := p.a.store.Get(agent.Account{Provider: "anthropic", ID: "both"})
	b, _, _ := p.b.store.Get(agent.Account{Provider: "anthropic", ID: "both"})
	if !p.limited("one", p.b) || p.limited("here-1234", p.b) || !a.Until.Equal(b.Until) || time.Until(b.Until) < 90*time.Minute {
		t.Errorf("a has %+v, b has %+v", a, b)
	}
	if err := p.b.store.Clear(agent.Account{Provider: "anthropic", ID: "one"}); err != nil {
		t.Fatal(err)
	}
	if told := p.settle(); told != 1 || p.limited("one", p.a) || !p.limited("both", p.a) {
		t.Errorf("%d were told", told)
	}
	p.set(p.a, "one", time.Hour)
	if told := p.settle(); told != 1 || !p.limited("one", p.b) {
		t.Errorf("%d were told of a new limit", told)
	}
}

// TestLimitsAreToldWhenTheFleetIsThereAgain: nothing is lost while the fleet does not answer, and a late "lifted" does not
// lift a limit that was met after it.
func TestLimitsAreToldWhenTheFleetIsThereAgain(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.down = errors.New("no server")
	p.set(p.a, "one", time.Hour)
	if err := p.a.compare(t.Context()); !errors.Is(err, p.down) {
		t.Fatal(err)
	}
	p.down = nil
	if told := p.settle(); told != 1 || !p.limited("one", p.b) {
		t.Errorf("%d were told", told)
	}
	was, _, _ := p.a.store.Get(agent.Account{Provider: "anthropic", ID: "one"})
	p.set(p.b, "one", 3*time.Hour)
	if err := p.b.take(t.Context(), []temporal.Limit{{Cooldown: was, Lifted: true, Machine: "a"}}); err != nil {
		t.Fatal(err)
	}
	if p.settle(); !p.limited("one", p.a) || !p.limited("one", p.b) {
		t.Error("a later limit was lifted by what was said of an earlier one")
	}
}
