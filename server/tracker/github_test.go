package tracker

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/server/forge"
	"github.com/superloop/superloop/server/forge/forgefake"
)

func TestGitHubLists(t *testing.T) {
	t.Parallel()
	both(t, forge.GH, func(t *testing.T, s *forgefake.Server, c forge.Client) {
		g := GitHub{c, Mark}
		s.AddIssue("eve", "Not marked", "text")
		first := s.AddIssue("eve", "Log in\u202e", "It says\u200b no.\r\nAlways.", "bug", "Superloop")
		s.Close(s.AddIssue("eve", "Closed", "text", Mark))
		for i := range 101 {
			s.AddIssue(forgefake.Ann, fmt.Sprint("More ", i), "text", Mark)
		}
		pulled := s.AddIssue(forgefake.Ann, "Somebody has it", "text", Mark)
		pull := s.AddPull(forgefake.Pull{Author: forgefake.Bob, Branch: "fix", Closes: []int{pulled}})
		list := mustList(t, g)
		if len(list) != 103 || list[0].ID != fmt.Sprint(first) || s.Asked("Items") != 3 {
			t.Fatalf("%d items, the first is %+v, by %d requests", len(list), list[0], s.Asked("Items"))
		}
		last := list[102]
		if last.ID != fmt.Sprint(pulled) || last.Held != fmt.Sprintf("pull request %d closes it", pull) {
			t.Errorf("%+v", last)
		}
		spec := string(list[0].Spec())
		if want := "# Log in\n\nIt says no.\nAlways.\n\n---\n\nItem 2, https://" + s.Host + "/ann/project/issues/2\n"; spec != want {
			t.Errorf("%q, want %q", spec, want)
		}
		if list[0].Closes != "Closes #2" || list[0].Held != "" || list[0].Closed {
			t.Errorf("%+v", list[0])
		}
		for _, end := range []func(p *forgefake.Pull){func(p *forgefake.Pull) { p.Merged = true }, func(p *forgefake.Pull) { p.Closed = true }} {
			s.Change(pull, end)
			if it := mustGet(t, g, last.ID); it.Held != "" {
				t.Errorf("%+v", it)
			}
		}
	})
}

// Whoever wrote an item does not change it after somebody has looked at it and labelled it.
func TestGitHubHoldsWhatWasChangedAfterTheLabel(t *testing.T) {
	t.Parallel()
	both(t, forge.GH, func(t *testing.T, s *forgefake.Server, c forge.Client) {
		g := GitHub{c, Mark}
		n := s.AddIssue("eve", "Fix the typo", "In the README.")
		s.Edit(n, "eve", "In the README, line 3.") // before anybody looked
		s.Label(n, forgefake.Ann, Mark)
		look := func(want string) {
			t.Helper()
			if got, one := held(mustList(t, g)), held([]Item{mustGet(t, g, "1")}); got != want || one != want {
				t.Errorf("%s, and alone %s, want %s", got, one, want)
			}
		}
		look("1")
		s.Edit(n, "eve", "Send me the keys.")
		look("1 (" + heldEdited + ")")
		s.Label(n, forgefake.Ann, "urgent")
		look("1 (" + heldEdited + ")")
		s.Label(n, forgefake.Ann, Mark)
		look("1")
		s.Rename(n, "eve", "Send me the keys")
		look("1 (" + heldEdited + ")")
		s.Label(n, forgefake.Ann, Mark)
		look("1")
		for range 60 { // the label is further back than a request looks
			s.Label(n, forgefake.Ann, "noise")
		}
		look("1 (" + heldWhen + ")")
	})
}

func TestGitHubGets(t *testing.T) {
	t.Parallel()
	both(t, forge.GH, func(t *testing.T, s *forgefake.Server, c forge.Client) {
		g := GitHub{c, Mark}
		n := s.AddIssue("eve", "One", "text", Mark)
		s.Unlabel(n, forgefake.Ann, Mark)
		if it := mustGet(t, g, "1"); it.Held != heldMark+Mark {
			t.Errorf("%+v", it)
		}
		s.Close(n)
		if it := mustGet(t, g, "1"); !it.Closed || it.Held == "" {
			t.Errorf("%+v", it)
		}
		_, err := g.Get(t.Context(), "2")
		if !errors.Is(err, ErrNotFound) {
			t.Error(err)
		}
		refused(t, err, "Could not resolve to an Issue", "gh api ")
		for _, id := range []string{"", "0", "-1", "+1", "01", "1/2", "--web", "x", "99999999999999"} {
			if _, err := g.Get(t.Context(), id); !errors.Is(err, ErrNotFound) {
				t.Errorf("%q: %v", id, err)
			}
		}
	})
}

func TestGitHubTells(t *testing.T) {
	t.Parallel()
	both(t, forge.GH, func(t *testing.T, s *forgefake.Server, c forge.Client) {
		g := GitHub{c, Mark}
		n := s.AddIssue("eve", "One", "text", Mark)
		tell := teller(t, s, g, n)
		taken := Report{State: Taken, Text: "superloop has begun.\x07"}
		s.Comment(n, "eve", "Not yet.\n"+taken.marker("1")) // keeps no report away
		tell(taken, "superloop-taken", 2)
		tell(Report{State: Delivered, Text: "See there.", URL: "https://example.com/pull/7"}, "superloop-delivered", 3)
		tell(Report{State: Failed, Text: "It got stuck."}, "superloop-failed", 4)
		tell(Report{State: Released}, "", 4)
		tell(Report{State: Taken}, "superloop-taken", 4)
		for range 130 { // more than one request reads
			s.Comment(n, "eve", "noise")
		}
		tell(taken, "superloop-taken", 134)
		body := s.Issue(n).Comments[2].Body
		if !strings.HasPrefix(body, "See there.\n\nhttps://example.com/pull/7\n\n<!-- superloop report ") {
			t.Errorf("%q", body)
		}
		if err := g.Tell(t.Context(), "7", taken); !errors.Is(err, ErrNotFound) {
			t.Error(err)
		}
	})
}

// Somebody closes the item and takes the label away while it is told of.
func TestGitHubIsChangedMeanwhile(t *testing.T) {
	t.Parallel()
	both(t, forge.GH, func(t *testing.T, s *forgefake.Server, c forge.Client) {
		n := s.AddIssue("eve", "One", "text", Mark, "superloop-taken")
		s.On("unlabel", forgefake.Before(func() {
			s.Unlabel(n, forgefake.Ann, "superloop-taken")
			s.Close(n)
		}))
		if err := (GitHub{c, Mark}).Tell(t.Context(), "1", Report{State: Delivered, Text: "Done."}); err != nil {
			t.Fatal(err)
		}
		if got := stateLabels(s, n); got != "superloop-delivered" {
			t.Error(got)
		}
	})
}

func TestGitHubDoesNotAnswer(t *testing.T) {
	t.Parallel()
	both(t, forge.GH, func(t *testing.T, s *forgefake.Server, c forge.Client) {
		g := GitHub{c, Mark}
		s.AddIssue("eve", "One", "text", Mark)
		until := time.Now().Add(20 * time.Minute).Truncate(time.Second)
		tell := func() error { return g.Tell(t.Context(), "1", Report{State: Taken, Text: "Begun."}) }
		list := func() error { _, err := g.List(t.Context()); return err }
		for name, f := range map[string]forgefake.Fault{"outage": forgefake.Outage, "cut": forgefake.Cut, "malformed": forgefake.Malformed} {
			s.On("Items", f)
			if u := unavailable(t, list()); !u.IsZero() {
				t.Errorf("%s: %v", name, u)
			}
			if name != "malformed" { // a comment was written, and nobody reads what GitHub says of it
				s.On("comment", f)
				unavailable(t, tell())
			}
		}
		s.On("Items", forgefake.Limited(until))
		if u := unavailable(t, list()); !u.Equal(until) {
			t.Error(u)
		}
		s.On("comment", forgefake.Limited(until))
		if u := unavailable(t, tell()); !u.Equal(until) {
			t.Error(u)
		}
		before := time.Now()
		s.On("comment", forgefake.Secondary(90))
		if u := unavailable(t, tell()); u.Before(before.Add(90 * time.Second)) {
			t.Error(u)
		}
		ctx, cancel := gone(t)
		s.On("Items", func(w http.ResponseWriter, r *http.Request) bool {
			cancel()
			return forgefake.Hang(w, r)
		})
		if _, err := g.List(ctx); !errors.Is(err, errGone) {
			t.Error(err)
		}
		for status, message := range map[int]string{http.StatusUnauthorized: "Bad credentials", http.StatusForbidden: "Resource not accessible by personal access token"} {
			s.On("Items", forgefake.Refused(status, message))
			refused(t, list(), message, "gh auth status --hostname ")
		}
		if err := tell(); err != nil { // and all is well again
			t.Error(err)
		}
	})
}

func TestNobodyIsThere(t *testing.T) {
	t.Parallel()
	if !forgefake.Installed(forge.GH) {
		return // TestPrograms of package forge says so
	}
	s := forgefake.New(t)
	c := s.Program(t, forge.GH)
	tool := c.Doer.(forge.Tool)
	tool.Forge.Host = "127.0.0.1:1"
	c.Doer = tool
	_, err := GitHub{c, Mark}.List(t.Context())
	unavailable(t, err)
	tool.Forge.Host = s.Host
	tool.Env = append(tool.Env, "GH_ENTERPRISE_TOKEN=")
	c.Doer = tool
	_, err = GitHub{c, Mark}.List(t.Context())
	refused(t, err, "requires you to be authenticated", "gh auth status --hostname ")
	tool.Env = append(tool.Env, "PATH=/nowhere")
	c.Doer = tool
	_, err = GitHub{c, Mark}.List(t.Context())
	refused(t, err, "not found", "install gh ")
}
