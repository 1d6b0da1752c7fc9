package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/loop/effects"
	"github.com/superloop/superloop/loop/layout"
	"github.com/superloop/superloop/loop/local"
	"github.com/superloop/superloop/roles"
)

type diffIn struct {
	LoopPath
	Stat bool `query:"stat" doc:"only the table of the files"`
}

// plain is an answer that is text.
type plain struct {
	Type string `header:"Content-Type"`
	Body []byte
}

// isPlain describes the answer of a route that is text.
func isPlain(op *huma.Operation) {
	op.Responses = map[string]*huma.Response{"200": {Description: "text", Content: map[string]*huma.MediaType{"text/plain": {Schema: &huma.Schema{Type: huma.TypeString}}}}}
}

func (a *api) diff(ctx context.Context, in *diffIn) (*plain, error) {
	e, _, err := a.find(in.ID)
	if err != nil {
		return nil, err
	}
	out, err := a.o.Verb(ctx, VerbCall{Args: []string{"diff", "--repo=" + e.Repo, "--loop=" + e.Loop, fmt.Sprintf("--stat=%v", in.Stat)}})
	if err != nil {
		return nil, refused(err)
	}
	return &plain{"text/plain; charset=utf-8", out}, nil
}

// LogPath is the log in a path.
type LogPath struct {
	LoopPath
	Role string `path:"role" maxLength:"100" doc:"a role, tests, or recovery-N"`
	N    int    `path:"n" minimum:"1" doc:"the iteration"`
}

type logIn struct {
	LogPath
	Follow bool   `query:"follow" doc:"go on while the role runs"`
	Range  string `header:"Range" doc:"only this part, as bytes=FROM-TO; not with follow"`
}

// followEvery is the time between two looks at a log that grows.
const followEvery = 250 * time.Millisecond

// logFile returns the log that superloop logs reads.
func (a *api) logFile(ctx context.Context, in LogPath) (file string, p layout.Paths, err error) {
	e, p, err := a.find(in.ID)
	if err != nil {
		return "", p, err
	}
	args := []string{"logs", "--repo=" + e.Repo, "--loop=" + e.Loop, "--role=" + in.Role, "--path"}
	if v, verr := local.ReadView(p); in.Role != "tests" || verr != nil || v.Iteration != in.N {
		args = append(args, fmt.Sprintf("--iteration=%d", in.N)) // of the tests only the last output is kept
	}
	out, err := a.o.Verb(ctx, VerbCall{Args: args})
	if err != nil {
		return "", p, refused(err)
	}
	return strings.TrimSuffix(string(out), "\n"), p, nil
}

// Turn is what an agent was told in its last attempt of an iteration, and what it left.
type Turn struct {
	File    string  `json:"file" doc:"the name of the prompt's file"`
	Prompt  string  `json:"prompt" doc:"as the agent got it"`
	Message *string `json:"message" doc:"its last words; null: it left none so far"`
	Report  *Report `json:"report,omitempty" doc:"missing: the role owes none, has not ended, or ran before the last run"`
}

// Report is what became of the report that a role owes.
type Report struct {
	File   string  `json:"file" doc:"its name in the loop's directory"`
	Status string  `json:"status" doc:"when the role ended: fresh, stale, missing or empty"`
	Text   *string `json:"text" doc:"null: it left none, or the file holds another one by now"`
}

// turn tells the prompt of the attempt whose log superloop logs reads. Of a longer text the middle is left out, and a line says
// how much.
func (a *api) turn(ctx context.Context, in *LogPath) (*body[Turn], error) {
	log, p, err := a.logFile(ctx, *in)
	if err != nil {
		return nil, err
	}
	read := func(file string) (*string, error) {
		text, _, err := door.Ends(file, door.MaxReport/2, door.MaxReport/2)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		if err != nil {
			return nil, problem(http.StatusConflict, "unusable", "%v", err)
		}
		return &text, nil
	}
	base := strings.TrimSuffix(log, ".log")
	out := Turn{File: filepath.Base(base) + ".prompt.md"}
	prompt, err := read(base + ".prompt.md")
	if err != nil {
		return nil, err
	}
	if prompt == nil {
		return nil, problem(http.StatusConflict, "nothing", "%s has no prompt: it is no agent's work", in.Role)
	}
	out.Prompt = *prompt
	if out.Message, err = read(base + ".last-message.md"); err != nil {
		return nil, err
	}
	r, _, err := resultOf(p)
	if err != nil {
		return nil, err
	}
	for _, i := range r.Iterations {
		for _, x := range i.Roles {
			if i.N == in.N && x.Role == in.Role {
				if out.Report = nil; x.Report != "" {
					out.Report = &Report{File: x.Report, Status: x.ReportStatus}
				}
				if file, ok := roles.Deliverable(x.Role); ok && out.Report != nil && x.ReportDigest != "" && x.ReportDigest == effects.ReportDigest(p.File(file)) {
					if out.Report.Text, err = read(p.File(file)); err != nil {
						return nil, err
					}
				}
			}
		}
	}
	return &body[Turn]{out}, nil
}

func (a *api) roleLog(ctx context.Context, in *logIn) (*huma.StreamResponse, error) {
	file, p, err := a.logFile(ctx, in.LogPath)
	if err != nil {
		return nil, err
	}
	f, info, err := door.Open(file)
	if err != nil {
		return nil, problem(http.StatusConflict, "unusable", "%v", err)
	}
	return &huma.StreamResponse{Body: func(c huma.Context) {
		defer f.Close()
		r, w := humago.Unwrap(c)
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff") // what an agent writes is no page
		w.Header().Set("Content-Disposition", mime.FormatMediaType("inline", map[string]string{"filename": filepath.Base(file)}))
		if !in.Follow {
			// What is added meanwhile is not part of the answer, whose length is said first.
			http.ServeContent(w, r, "", info.ModTime(), io.NewSectionReader(f, 0, info.Size()))
			return
		}
		runs := func() bool {
			v, err := local.ReadView(p)
			_, alive := local.Supervisor(p)
			return err == nil && alive && v.Role == in.Role && v.Iteration == in.N
		}
		follow(r.Context(), w, f, runs)
	}}, nil
}

// follow copies a log while it grows, until runs returns false.
func follow(ctx context.Context, w http.ResponseWriter, f fs.File, runs func() bool) {
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	flush := http.NewResponseController(w)
	for {
		goesOn := runs() // looked at first, so that what it wrote last is copied
		if _, err := io.Copy(w, f); err != nil || flush.Flush() != nil || !goesOn {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
