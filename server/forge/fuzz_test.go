package forge

import (
	"context"
	"testing"

	"github.com/superloop/superloop/internal/testkit"
)

// FuzzParse: whatever gh or glab prints, an answer or a short error comes of it.
func FuzzParse(f *testing.F) {
	testkit.Seed(f, []byte("HTTP/2.0 200 OK\r\nLink: <https://x>; rel=\"next\"\r\n\r\n[]"), []byte("HTTP/1.1 403 Forbidden\nRetry-After: 60\n\n{}"), []byte("To get started with GitHub CLI, please run:  gh auth login\n"))
	d := testkit.Decoder[Response]{Decode: parse}
	f.Fuzz(func(t *testing.T, data []byte) { d.Check(t, data) })
}

type said Response

func (s said) Do(context.Context, Call) (Response, error) { return Response(s), nil }

// FuzzAnswer: whatever a server answers, a value or a short error comes of it.
func FuzzAnswer(f *testing.F) {
	for _, s := range []string{`{"data":{"repository":null},"errors":[{"type":"NOT_FOUND","message":"Could not resolve"}]}`, `[{"iid":3,"web_url":"https://gitlab.com/a/b/-/merge_requests/3"}]`, `{"message":{"base":["taken"]}}`, `<html>`} {
		f.Add(200, []byte(s))
		f.Add(403, []byte(s))
	}
	f.Fuzz(func(t *testing.T, status int, data []byte) {
		for _, program := range []string{GH, Glab} {
			c := Client{Forge{program, "h", "a/b"}, said{Status: status, Body: data}}
			var into struct{ Repository *struct{ Name string } }
			if err := c.Query(t.Context(), "query Q { repository { name } }", nil, &into); err != nil {
				testkit.Message(t, err)
			}
			if _, _, err := c.Open(t.Context(), Request{Branch: "b", Base: "main"}); err != nil {
				testkit.Message(t, err)
			}
		}
	})
}
