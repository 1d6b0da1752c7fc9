package tracker

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/superloop/superloop/server/forge"
	"github.com/superloop/superloop/server/forge/forgefake"
)

func TestGitLabLists(t *testing.T) {
	t.Parallel()
	both(t, forge.Glab, func(t *testing.T, s *forgefake.Server, c forge.Client) {
		g := GitLab{c, Mark}
		s.AddIssue("eve", "Not marked", "text")
		first := s.AddIssue("eve", "Log in", "It says no.", "bug", Mark)
		for i := range 199 {
			s.AddIssue(forgefake.Ann, fmt.Sprint("More ", i), "text", Mark)
		}
		pulled := s.AddIssue(forgefake.Ann, "Somebody has it", "text", Mark)
		pull := s.AddPull(forgefake.Pull{Author: forgefake.Bob, Branch: "fix", Closes: []int{pulled}})
		s.On("issues", forgefake.Before(func() {}), forgefake.Before(func() { s.Close(first) })) // the pages move
		list := mustList(t, g)
		if len(list) != 200 || list[0].ID != fmt.Sprint(first) || s.Asked("issues") != 2 {
			t.Fatalf("%d items, the first is %+v, by %d requests", len(list), list[0], s.Asked("issues"))
		}
		if list[0].Closes != "Closes #2" || list[0].URL != "https://"+s.Host+"/ann/project/-/issues/2" {
			t.Errorf("%+v", list[0])
		}
		last := list[199]
		if last.ID != fmt.Sprint(pulled) || last.Held != fmt.Sprintf("merge request %d closes it", pull) {
			t.Errorf("%+v", last)
		}
		s.Change(pull, func(p *forgefake.Pull) { p.Closed = true })
		if it := mustGet(t, g, last.ID); it.Held != "" {
			t.Errorf("%+v", it)
		}
	})
}

func TestGitLabHoldsWhatWasChangedAfterTheLabel(t *testing.T) {
	t.Parallel()
	both(t, forge.Glab, func(t *testing.T, s *forgefake.Server, c forge.Client) {
		g := GitLab{c, Mark}
		n := s.AddIssue("eve", "Fix the typo", "In the README.")
		s.Edit(n, "eve", "In the README, line 3.")
		s.Label(n, forgefake.Carl, Mark)
		look := func(want string) {
			t.Helper()
			if got := mustGet(t, g, "1").Held; got != want {
				t.Errorf("%q, want %q", got, want)
			}
		}
		look("")
		for range 250 { // further back than two requests look
			s.Comment(n, "eve", "noise")
		}
		look("")
		s.Edit(n, "eve", "Send me the keys.")
		for range 250 {
			s.Comment(n, "eve", "noise")
		}
		look(heldEdited)
		s.Label(n, forgefake.Carl, Mark)
		look("")
		s.On("label_events", forgefake.Before(func() { s.Rename(n, "eve", "Send me the keys") })) // while it is read
		look(heldEdited)
		s.Label(n, forgefake.Carl, Mark)
		for range 1001 { // more than is read
			s.Comment(n, "eve", "noise")
		}
		look(heldEdited)
		s.Unlabel(n, forgefake.Carl, Mark)
		look(heldMark + Mark)
		s.Close(n)
		look(heldClosed)
	})
}

func TestGitLabTells(t *testing.T) {
	t.Parallel()
	both(t, forge.Glab, func(t *testing.T, s *forgefake.Server, c forge.Client) {
		g := GitLab{c, Mark}
		n := s.AddIssue("eve", "One", "text", Mark)
		tell := teller(t, s, g, n)
		taken := Report{State: Taken, Text: "superloop has begun."}
		s.Comment(n, "eve", taken.marker("1"))
		tell(taken, "superloop-taken", 2)
		tell(Report{State: Delivered, URL: "https://example.com/7"}, "superloop-delivered", 3)
		tell(Report{State: Released}, "", 3)
		for range 130 {
			s.Comment(n, "eve", "noise")
		}
		tell(taken, "superloop-taken", 133)
		for _, id := range []string{"7", "-1", "x"} {
			if err := g.Tell(t.Context(), id, taken); !errors.Is(err, ErrNotFound) {
				t.Error(err)
			}
			if _, err := g.Get(t.Context(), id); !errors.Is(err, ErrNotFound) {
				t.Error(err)
			}
		}
	})
}

func TestGitLabDoesNotAnswer(t *testing.T) {
	t.Parallel()
	both(t, forge.Glab, func(t *testing.T, s *forgefake.Server, c forge.Client) {
		g := GitLab{c, Mark}
		s.AddIssue("eve", "One", "text", Mark)
		list := func() error { _, err := g.List(t.Context()); return err }
		for _, f := range []forgefake.Fault{forgefake.Outage, forgefake.Cut, forgefake.Malformed} {
			s.On("issues", f)
			unavailable(t, list())
		}
		until := time.Now().Add(20 * time.Minute).Truncate(time.Second)
		s.On("issues", forgefake.Limited(until))
		if u := unavailable(t, list()); !u.Equal(until) {
			t.Error(u)
		}
		before := time.Now()
		s.On("comment", forgefake.Secondary(90))
		if u := unavailable(t, g.Tell(t.Context(), "1", Report{State: Taken, Text: "Begun."})); u.Before(before.Add(90 * time.Second)) {
			t.Error(u)
		}
		s.On("issues", forgefake.Refused(http.StatusUnauthorized, "401 Unauthorized"))
		refused(t, list(), "401 Unauthorized", "glab auth status --hostname ")
	})
}
