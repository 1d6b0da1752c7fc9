package desk

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"testing"

	"go.uber.org/zap"

	"github.com/superloop/superloop/internal/testkit"
	"github.com/superloop/superloop/loop/host"
	"github.com/superloop/superloop/loop/local"
)

// FuzzRequests: whatever an engine asks, each answer is one line of JSON, and the desk ends with what it reads.
func FuzzRequests(f *testing.F) {
	testkit.Seed(f, []byte(`{"id":1,"turn":{"repo":"/r","loop":"l","effect":"e","since":3}}`+"\n"+`{"id":2,"stop":1}`+"\n"), []byte(`{"id":3,"verb":{"args":["status"],"by":{"user":"a","method":"m"}}}`+"\n"),
		[]byte(`{"id":-1,"turn":{"since":-9}}`+"\n"), []byte(`{`+"\n"+`{"id":"x"}`+"\n"), []byte(`{"grant":"s"}`+"\n"+`{"id":4,"grant":"s","turn":{}}`+"\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var out bytes.Buffer
		err := Serve(context.Background(), bytes.NewReader(data), &out, Options{Log: zap.NewNop(),
			Prepare: func(host.Place, string) (local.Options, func(), error) {
				return local.Options{}, nil, errors.New("no such loop")
			},
			Verb: func(context.Context, host.Verb) ([]byte, error) { return []byte("said"), nil }})
		if err != nil {
			testkit.Message(t, err)
		}
		for line := range bytes.Lines(out.Bytes()) {
			var a host.Answer
			if err := json.Unmarshal(line, &a); err != nil || a.Error == nil && string(a.Said) != "said" {
				t.Fatalf("%s: %v", line, err)
			}
		}
	})
}
