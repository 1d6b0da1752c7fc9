package slack

import (
	"context"
	"slices"
	"sync"

	"github.com/slack-go/slack"

	"github.com/superloop/superloop/internal/redact"
)

// Hub gives each app token one connection of Socket Mode, however many Sockets use it. Slack delivers a click to one of
// the connections of an app, so a click at one repository's connection might be about another repository's question. The
// zero value is ready for use.
type Hub struct {
	mu    sync.Mutex
	lines map[redact.Secret]*line
}

// line is the connection of one token.
type line struct {
	hub     *Hub
	members []*Socket // guarded by hub.mu; in the order in which they came
	stop    context.CancelFunc
	ended   chan struct{} // closed when the connection has ended for good
	err     error         // set before ended is closed
}

// Run is Socket.Run over the connection of the token. A click goes to the Socket whose Clicks owns its escalation, or
// else to the first one. The options of the first one say how to connect.
func (h *Hub) Run(ctx context.Context, s *Socket) error {
	l := h.join(s)
	defer h.leave(l, s)
	select {
	case <-ctx.Done():
		return nil
	case <-l.ended:
		if ctx.Err() != nil {
			return nil
		}
		return l.err
	}
}

func (h *Hub) join(s *Socket) *line {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := h.lines[s.o.AppToken]
	if l != nil {
		l.members = append(l.members, s)
		return l
	}
	ctx, stop := context.WithCancel(context.Background())
	l = &line{hub: h, members: []*Socket{s}, stop: stop, ended: make(chan struct{})}
	if h.lines == nil {
		h.lines = map[redact.Secret]*line{}
	}
	h.lines[s.o.AppToken] = l
	shared := &Socket{s.o, l.take}
	shared.o.OnState = l.state
	go func() {
		l.err = shared.Run(ctx)
		h.mu.Lock()
		if h.lines[s.o.AppToken] == l {
			delete(h.lines, s.o.AppToken) // who comes later tries anew
		}
		h.mu.Unlock()
		close(l.ended)
	}()
	return l
}

// leave ends the connection behind the last one, and waits for that.
func (h *Hub) leave(l *line, s *Socket) {
	h.mu.Lock()
	l.members = slices.DeleteFunc(slices.Clone(l.members), func(m *Socket) bool { return m == s })
	last := len(l.members) == 0
	if last && h.lines[s.o.AppToken] == l {
		delete(h.lines, s.o.AppToken)
	}
	h.mu.Unlock()
	if last {
		l.stop()
		<-l.ended
	}
}

func (l *line) present() []*Socket {
	l.hub.mu.Lock()
	defer l.hub.mu.Unlock()
	return slices.Clone(l.members)
}

func (l *line) state(connected bool, reason string) {
	for _, m := range l.present() {
		m.o.OnState(connected, reason)
	}
}

func (l *line) take(cb slack.InteractionCallback) {
	members := l.present()
	if len(members) == 0 {
		return
	}
	to := members[0]
	for _, action := range cb.ActionCallback.BlockActions {
		v, err := readValue(action.Value)
		i := slices.IndexFunc(members, func(m *Socket) bool {
			owns := m.o.Clicks.o.Owns
			return err == nil && owns != nil && owns(v.ID)
		})
		if i >= 0 {
			to = members[i]
			break
		}
	}
	to.take(cb)
}
