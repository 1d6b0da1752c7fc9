package forge

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/text"
)

// Client asks a forge about one repository.
type Client struct {
	Forge Forge
	Doer  Doer
}

// New returns a Client that asks by the program of the forge. env is the environment of the operator, and dir a directory
// outside of every repository.
func New(f Forge, env []string, dir string) Client {
	return Client{f, Tool{Forge: f, Env: env, Dir: dir}}
}

func (c Client) what(call Call) string { return c.Forge.Program + " " + call.String() }

// Do carries out a call and decodes its answer into a value, or nowhere if into is nil.
func (c Client) Do(ctx context.Context, call Call, into any) (http.Header, error) {
	r, err := c.Doer.Do(ctx, call)
	if err != nil {
		return nil, err
	}
	if err := c.Forge.Judge(c.what(call), r); err != nil {
		return nil, err
	}
	if into == nil {
		return r.Header, nil
	}
	if err := text.Decode(r.Body, into); err != nil {
		return nil, &Unavailable{Err: fmt.Errorf("%s: the answer is not what the forge answers: %w", c.what(call), err)}
	}
	return r.Header, nil
}

// Get is Do of a path below the repository.
func (c Client) Get(ctx context.Context, path string, into any) (http.Header, error) {
	return c.Do(ctx, Call{Method: "GET", Path: c.Forge.Root() + path}, into)
}

// Send is Do of a path below the repository, with a body.
func (c Client) Send(ctx context.Context, method, path string, body, into any) error {
	_, err := c.Do(ctx, Call{Method: method, Path: c.Forge.Root() + path, Body: body}, into)
	return err
}

// Query asks by GraphQL. into gets the field data.
func (c Client) Query(ctx context.Context, query string, variables map[string]any, into any) error {
	call := Call{Method: "POST", Path: "graphql", Body: map[string]any{"query": query, "variables": variables}}
	r, err := c.Doer.Do(ctx, call)
	if err != nil {
		return err
	}
	if err := c.Forge.Judge(c.what(call), r); err != nil {
		return err
	}
	var answer struct {
		Errors []struct{ Type, Message string }
	}
	err = text.Decode(r.Body, &answer)
	if err == nil {
		err = text.Decode(r.Body, &struct{ Data any }{into})
	}
	if err != nil {
		return &Unavailable{Err: fmt.Errorf("%s: the answer is not what the forge answers: %w", c.what(call), err)}
	}
	if len(answer.Errors) == 0 {
		return nil
	}
	e := answer.Errors[0]
	err = fmt.Errorf("%s: %s", c.what(call), text.Line(e.Type+": "+e.Message, 300))
	switch {
	case strings.HasPrefix(e.Type, "RATE_LIMIT"):
		return &Unavailable{Err: err, Until: Reset(r.Header, true, time.Now())}
	case e.Type == "NOT_FOUND":
		return &Error{Err: fmt.Errorf("%w: %w", err, ErrNotFound), Next: c.Forge.look()}
	case e.Type == "":
		return &Unavailable{Err: err} // "Something went wrong while executing your query"
	}
	return &Error{Err: err, Next: c.Forge.Program + " auth status --hostname " + c.Forge.Host}
}
