package slack

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Two repositories that share a token share a connection: each click goes to the one that asks, also after the other has
// left, and the last one ends it.
func TestHubSharesAConnection(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	var hub Hub
	accept := func(context.Context, Click) Outcome { return Outcome{Status: Accepted} }
	desks, stops, ends := []*desk{}, []context.CancelFunc{}, make(chan error, 2)
	for _, id := range []string{"other", "e1"} {
		d := newDesk(t, accept)
		d.o.Owns = func(asked string) bool { return asked == id }
		s, err := NewSocket(SocketOptions{AppToken: "xapp-verysecret", Clicks: d.Clicks, APIURL: w.url + "/api/"})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		desks, stops = append(desks, d), append(stops, stop)
		go func() { ends <- hub.Run(ctx, s) }()
		for present := 0; present < len(desks); { // the first one is the first
			hub.mu.Lock()
			if l := hub.lines["xapp-verysecret"]; l != nil {
				present = len(l.members)
			}
			hub.mu.Unlock()
		}
	}
	c := w.conn(t)
	deliver(t, c, "1", desks[0].click("U1", Approve, good, 1)) // is about e1
	acknowledged(t, c, "1")
	if click, o := desks[1].wait(t); click.ID != "e1" || o.Status != Accepted {
		t.Errorf("%+v %+v", click, o)
	}
	deliver(t, c, "2", desks[0].click("U1", Approve, strings.Replace(good, "e1", "nobodys", 1), 2))
	acknowledged(t, c, "2")
	desks[0].wait(t)
	stops[0]()
	if err := <-ends; err != nil {
		t.Error(err)
	}
	deliver(t, c, "3", desks[0].click("U1", Details, good, 3))
	acknowledged(t, c, "3")
	desks[1].wait(t)
	stops[1]()
	if err := <-ends; err != nil || w.count != 1 || len(hub.lines) != 0 {
		t.Errorf("%v, %d connections, %v", err, w.count, hub.lines)
	}
}

// A token that Slack refuses ends all who wait, and the next one tries anew.
func TestHubRefused(t *testing.T) {
	t.Parallel()
	no := say(http.StatusOK, `{"ok":false,"error":"invalid_auth"}`)
	w := newWorkspace(t, no, no)
	var hub Hub
	for range 2 {
		d := newDesk(t, func(context.Context, Click) Outcome { return Outcome{} })
		s, err := NewSocket(SocketOptions{AppToken: "xapp-verysecret", Clicks: d.Clicks, APIURL: w.url + "/api/"})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
		if err := hub.Run(ctx, s); err == nil || !strings.Contains(err.Error(), "does not take the app token") {
			t.Errorf("%v", err)
		}
		stop()
	}
}
