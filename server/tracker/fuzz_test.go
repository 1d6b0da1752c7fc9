package tracker

import (
	"context"
	"net/http"
	"testing"

	"github.com/superloop/superloop/internal/testkit"
	"github.com/superloop/superloop/server/forge"
)

// says is a forge that always answers the same.
type says []byte

func (s says) Do(context.Context, forge.Call) (forge.Response, error) {
	return forge.Response{Status: 200, Header: http.Header{}, Body: s}, nil
}

// FuzzAnswers: whatever a tracker answers, items with an ID that may be one come of it, or a short error.
func FuzzAnswers(f *testing.F) {
	testkit.Seed(f,
		[]byte(`{"data":{"repository":{"issues":{"pageInfo":{"hasNextPage":false},"nodes":[{"number":1,"title":"t","state":"OPEN","labels":{"nodes":[{"name":"superloop"}]},"timelineItems":{"nodes":[{"__typename":"LabeledEvent","createdAt":"2026-03-01T09:00:00Z","label":{"name":"superloop"}}]}}]},"issue":{"number":1,"title":"t"}}}}`),
		[]byte(`[{"iid":1,"title":"t","description":null,"state":"opened","labels":["superloop"],"merge_requests_count":1}]`),
		[]byte(`{"iid":1,"title":"t","state":"opened","labels":["superloop"]}`),
		[]byte(`{"data":{"issues":{"pageInfo":{},"nodes":[{"identifier":"ENG-1","state":{"type":"started"},"inverseRelations":{"nodes":[{"type":"blocks","issue":{"identifier":"--x","state":{}}}]}}]}}}`),
		[]byte(`{"errors":[{"message":"Rate limit exceeded","extensions":{"code":"RATELIMITED"}}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		gh := GitHub{forge.Client{Forge: forge.Forge{Program: forge.GH, Host: "h", Path: "a/b"}, Doer: says(data)}, Mark}
		gl := GitLab{forge.Client{Forge: forge.Forge{Program: forge.Glab, Host: "h", Path: "a/b"}, Doer: says(data)}, Mark}
		for _, tr := range []Tracker{gh, gl} {
			list, err := tr.List(t.Context())
			check(t, list, err)
			it, err := tr.Get(t.Context(), "1")
			if err == nil {
				check(t, []Item{it}, nil)
			} else {
				testkit.Message(t, err)
			}
			if err := tr.Tell(t.Context(), "1", Report{State: Taken, Text: "x"}); err != nil {
				testkit.Message(t, err)
			}
		}
		var linear struct{ Issues struct{ Nodes []linearNode } }
		err := linearAnswer(200, http.Header{}, data, &linear)
		var list []Item
		for _, n := range linear.Issues.Nodes {
			if ValidID(n.Identifier) {
				list = append(list, Linear{Label: Mark}.item(n))
			}
		}
		check(t, list, err)
	})
}

func check(t *testing.T, list []Item, err error) {
	t.Helper()
	if err != nil {
		testkit.Message(t, err)
	}
	for _, it := range list {
		if !ValidID(it.ID) {
			t.Fatalf("%q", it.ID)
		}
		for _, id := range it.After {
			if !ValidID(id) {
				t.Fatalf("%q", id)
			}
		}
	}
}
