package tracker

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/server/forge"
	"github.com/superloop/superloop/server/forge/forgefake"
)

// both runs a test without a program, and by it if it is installed: TestPrograms of package forge says so.
func both(t *testing.T, program string, f func(t *testing.T, s *forgefake.Server, c forge.Client)) {
	t.Run("direct", func(t *testing.T) {
		t.Parallel()
		s := forgefake.New(t)
		f(t, s, s.Client(program))
	})
	if forgefake.Installed(program) {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			s := forgefake.New(t)
			f(t, s, s.Program(t, program))
		})
	}
}

// held returns the items as text: "1, 2 (why)".
func held(list []Item) string {
	var all []string
	for _, it := range list {
		s := it.ID
		if it.Held != "" {
			s += " (" + it.Held + ")"
		}
		all = append(all, s)
	}
	return strings.Join(all, ", ")
}

func mustList(t *testing.T, tr Tracker) []Item {
	t.Helper()
	list, err := tr.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func mustGet(t *testing.T, tr Tracker, id string) Item {
	t.Helper()
	it, err := tr.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return it
}

// stateLabels returns the labels of superloop on an issue, but the mark.
func stateLabels(s *forgefake.Server, number int) string {
	is := s.Issue(number)
	return strings.Join(slices.DeleteFunc(is.Labels, func(l string) bool { return !strings.HasPrefix(l, "superloop-") }), " ")
}

// refused wants an error that is not Unavailable and names what to type.
func refused(t *testing.T, err error, said, next string) {
	t.Helper()
	var e *forge.Error
	if u := (*Unavailable)(nil); errors.As(err, &u) || !errors.As(err, &e) || !strings.Contains(err.Error(), said) || !strings.HasPrefix(e.Next, next) {
		t.Errorf("%v: want %q and to type %q", err, said, next)
	}
}

// unavailable wants an *Unavailable, and returns until when.
func unavailable(t *testing.T, err error) (until time.Time) {
	t.Helper()
	u, ok := errors.AsType[*Unavailable](err)
	if !ok {
		t.Fatalf("%v is not Unavailable", err)
	}
	return u.Until
}

var errGone = errors.New("the daemon ends")

// gone returns a context that ends when the function is called.
func gone(t *testing.T) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(t.Context())
	return ctx, func() { cancel(errGone) }
}

// teller returns a function that tells a report about issue n twice, which has to end with the labels of state and the number
// of comments.
func teller(t *testing.T, s *forgefake.Server, tr Tracker, n int) func(r Report, labels string, comments int) {
	return func(r Report, labels string, comments int) {
		t.Helper()
		for range 2 {
			if err := tr.Tell(t.Context(), strconv.Itoa(n), r); err != nil {
				t.Fatal(err)
			}
			if got, is := stateLabels(s, n), s.Issue(n); got != labels || len(is.Comments) != comments {
				t.Fatalf("%+v: %q and %d comments, want %q and %d", r, got, len(is.Comments), labels, comments)
			}
		}
	}
}
