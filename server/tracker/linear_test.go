package tracker

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/server/forge/forgefake"
)

func newLinear(t *testing.T) (*forgefake.Linear, Linear) {
	s := forgefake.NewLinear(t)
	return s, Linear{Key: forgefake.LinearSecret, Team: "ENG", Label: Mark, Client: s.HTTP(), Address: s.Address}
}

func TestLinearLists(t *testing.T) {
	t.Parallel()
	s, l := newLinear(t)
	s.AddIssue("Not marked", "text")
	for i := range 103 {
		s.AddIssue(fmt.Sprint("Build ", i), "text", "Bug", Mark)
	}
	s.Change("ENG-4", func(is *forgefake.LinearIssue) { is.BlockedBy = []string{"ENG-2", "ENG-3"} })
	s.Change("ENG-3", func(is *forgefake.LinearIssue) { is.State = "completed" })
	list := mustList(t, l)
	if len(list) != 102 || held(list[:2]) != "ENG-2, ENG-4 (blocked by ENG-2)" || strings.Join(list[1].After, " ") != "ENG-2" || s.Asked("Items") != 3 {
		t.Fatalf("%d items by %d requests: %s", len(list), s.Asked("Items"), held(list))
	}
	if it := mustGet(t, l, "ENG-3"); !it.Closed || it.Closes != "Fixes ENG-3" || it.Title != "Build 1" {
		t.Errorf("%+v", it)
	}
	if it := mustGet(t, l, "ENG-1"); it.Held != heldMark+Mark {
		t.Errorf("%+v", it)
	}
	for _, id := range []string{"ENG-999", "ENG", "ENG-0", "-1", "E/1-1", "uuid-of-ENG-1"} {
		if _, err := l.Get(t.Context(), id); !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: %v", id, err)
		}
		if err := l.Tell(t.Context(), id, Report{State: Taken}); !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: %v", id, err)
		}
	}
}

func TestLinearTells(t *testing.T) {
	t.Parallel()
	s, l := newLinear(t)
	id := s.AddIssue("One", "text", Mark)
	tell := func(r Report, labels string, comments int) {
		t.Helper()
		for range 2 {
			if err := l.Tell(t.Context(), id, r); err != nil {
				t.Fatal(err)
			}
			if is := s.Issue(id); strings.Join(is.Labels, " ") != labels || len(is.Comments) != comments {
				t.Fatalf("%+v: %v and %d comments, want %q and %d", r, is.Labels, len(is.Comments), labels, comments)
			}
		}
	}
	taken := Report{State: Taken, Text: "superloop has begun."}
	tell(taken, "superloop superloop-taken", 1)
	tell(Report{State: Delivered, Text: "See there.", URL: "https://example.com/pull/7"}, "superloop superloop-delivered", 2)
	tell(Report{State: Released}, "superloop", 2)
	tell(taken, "superloop superloop-taken", 2)
	if got := slices.Sorted(maps.Values(s.Issue(id).Comments)); strings.Join(got, "|") != "See there.\n\nhttps://example.com/pull/7|superloop has begun." {
		t.Errorf("%q", got)
	}
	if s.Asked("NewLabel") != 2 {
		t.Errorf("%d labels were made", s.Asked("NewLabel"))
	}
}

func TestLinearDoesNotAnswer(t *testing.T) {
	t.Parallel()
	s, l := newLinear(t)
	list := func() error { _, err := l.List(t.Context()); return err }
	for _, f := range []forgefake.Fault{forgefake.Outage, forgefake.Cut, forgefake.Malformed} {
		s.On("Items", f)
		unavailable(t, list())
	}
	until := time.Now().Add(20 * time.Minute).Truncate(time.Millisecond)
	s.On("Items", forgefake.LinearLimited(until))
	if u := unavailable(t, list()); !u.Equal(until) {
		t.Error(u)
	}
	ctx, cancel := gone(t)
	s.On("Items", func(w http.ResponseWriter, r *http.Request) bool {
		cancel()
		return forgefake.Hang(w, r)
	})
	if _, err := l.List(ctx); !errors.Is(err, errGone) {
		t.Error(err)
	}
	s.On("Items", func(w http.ResponseWriter, r *http.Request) bool {
		http.Redirect(w, r, "https://127.0.0.1:1/", http.StatusTemporaryRedirect)
		return true
	})
	refused(t, list(), "HTTP 307", "curl ")
	wrong := l
	wrong.Key = "lin_api_wrong"
	_, err := wrong.List(t.Context())
	refused(t, err, "AUTHENTICATION_ERROR", "curl ")
	if strings.Contains(err.Error(), "lin_api") || strings.Contains(fmt.Sprintf("%v %+v", wrong, wrong), "lin_api") {
		t.Errorf("%v shows the key: %+v", err, wrong)
	}
	wrong.Key = ""
	_, err = wrong.List(t.Context())
	refused(t, err, LinearKey, "curl ")
}
