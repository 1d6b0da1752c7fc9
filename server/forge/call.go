package forge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/text"
)

// Bounds of one call.
const (
	callTime  = time.Minute
	callBytes = 32 << 20
)

// Call is one request to a forge.
type Call struct {
	Method string
	Path   string // below the root of the interface, "graphql" for GraphQL; everything foreign in it is escaped
	Body   any    // becomes JSON; nil sends none
}

func (c Call) String() string {
	path, _, _ := strings.Cut(c.Path, "?")
	return c.Method + " " + path
}

// Response is what a forge has answered.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
}

// Doer carries out calls. The error of Do says that there is no answer: an *Unavailable, an *Error, or that of the
// context. An answer that refuses is no error of Do.
type Doer interface {
	Do(ctx context.Context, c Call) (Response, error)
}

// Tool carries out calls by gh api and glab api. Each takes a minute and 32 MiB at most.
type Tool struct {
	Forge Forge
	Env   []string // of the operator
	Dir   string   // outside of every repository
}

// Argv returns the command line of a call. A body goes to its stdin.
func (t Tool) Argv(c Call) []string {
	argv := []string{t.Forge.Program, "api", "--include", "--method", c.Method}
	if !strings.Contains(t.Forge.Host, ":") { // gh takes a port only from GH_HOST
		argv = append(argv, "--hostname", t.Forge.Host)
	}
	if c.Body != nil {
		argv = append(argv, "--header", "Content-Type: application/json", "--input", "-")
	}
	return append(argv, c.Path)
}

// Do implements Doer.
func (t Tool) Do(ctx context.Context, c Call) (Response, error) {
	var stdin []byte
	if c.Body != nil {
		var err error
		if stdin, err = json.Marshal(c.Body); err != nil {
			return Response{}, fmt.Errorf("%s: %w", c, err)
		}
	}
	bounded, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	env := append(t.Env[:len(t.Env):len(t.Env)], "GH_HOST="+t.Forge.Host, "GITLAB_HOST="+t.Forge.Host, "GH_PROMPT_DISABLED=1", "NO_PROMPT=1", "NO_COLOR=1",
		"CLICOLOR_FORCE=0", "GH_FORCE_TTY=", "GH_NO_UPDATE_NOTIFIER=1", "GLAB_CHECK_UPDATE=0")
	out, err := proc.Tool{Dir: t.Dir, Env: env, Stdin: stdin, Limit: callBytes}.Run(bounded, t.Argv(c)...)
	if err == nil {
		r, err := parse(out)
		if err != nil {
			err = &Unavailable{Err: fmt.Errorf("%s %s: %w", t.Forge.Program, c, err)}
		}
		return r, err
	}
	return t.failed(ctx, c, out, err)
}

// failed says what an error of the program means. It also ends with one when the forge has refused.
func (t Tool) failed(ctx context.Context, c Call, out []byte, err error) (Response, error) {
	said := fmt.Errorf("%s %s: %w", t.Forge.Program, c, Said(err))
	r, bad := parse(out)
	switch {
	case ctx.Err() != nil:
		return Response{}, context.Cause(ctx)
	case errors.Is(err, fs.ErrNotExist):
		return Response{}, &Error{Err: said, Next: t.Forge.Install()}
	case errors.Is(err, proc.ErrTooMuchOutput):
		return Response{}, &Error{Err: said, Next: t.Forge.look()}
	case bad == nil && (r.Status >= 400 || c.Path == "graphql" && json.Valid(r.Body)):
		return r, nil
	}
	return Response{}, &Unavailable{Err: said}
}

// Said shortens the error of a program to what it said. The arguments and the input can hold a whole body.
func Said(err error) error {
	failed, ok := errors.AsType[*proc.ToolError](err)
	if !ok {
		return err
	}
	return errors.New(text.Line(strings.TrimSpace(failed.Err.Error()+": "+failed.Stderr), 400))
}

var errNoAnswer = errors.New("printed no answer of a server")

// parse reads what gh api --include and glab api --include print: a status line, the headers, an empty line, the body.
func parse(out []byte) (r Response, err error) {
	line, rest, ok := bytes.Cut(out, []byte("\n"))
	words := strings.Fields(text.Head(string(line), 100))
	if !ok || len(words) < 2 || !strings.HasPrefix(words[0], "HTTP/") {
		return r, errNoAnswer
	}
	if r.Status, err = strconv.Atoi(words[1]); err != nil || r.Status < 100 || r.Status > 999 {
		return Response{}, errNoAnswer
	}
	r.Header = http.Header{}
	for {
		line, rest, ok = bytes.Cut(rest, []byte("\n"))
		line = bytes.TrimSuffix(line, []byte("\r"))
		if !ok || len(line) == 0 {
			break
		}
		if name, value, ok := strings.Cut(string(line), ":"); ok {
			r.Header.Add(name, strings.TrimSpace(value))
		}
	}
	if !ok {
		return Response{}, errNoAnswer
	}
	r.Body = rest
	return r, nil
}
