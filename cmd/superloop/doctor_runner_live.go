package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/roles/agent"
	"github.com/superloop/superloop/roles/agent/preflight"
)

const (
	// livePrompt asks for as little as can be recognised.
	livePrompt = "Reply with the single word READY. Use no tools and change no files.\n"
	// liveTimeout bounds a try: opencode takes over a minute to start on a busy
	// machine.
	liveTimeout = 2 * time.Minute
	liveGrace   = 15 * time.Second
)

// live is how a real run went.
type live struct {
	OK bool `json:"ok"`
	// Class and Error say what went wrong; "" when nothing did.
	Class   string `json:"class,omitempty"`
	Error   string `json:"error,omitempty"`
	Message string `json:"message"`
	// Ready: the message holds the word that was asked for.
	Ready      bool        `json:"ready"`
	Model      string      `json:"model,omitempty"`
	Usage      *loop.Usage `json:"usage,omitempty"`
	CostUSD    *float64    `json:"cost_usd"`
	DurationMS int64       `json:"duration_ms"`
	// Dir is where it ran; its log is there.
	Dir string `json:"dir"`
}

// try sends one short prompt to a runner as the first of its roles would, but
// in a scratch repository.
func (a *app) try(ctx context.Context, r preflight.Request, path string) (*live, error) {
	session := agent.NewSessionID()
	run, _, _ := strings.Cut(session, "-")
	dir := filepath.Join(os.TempDir(), "superloop-smoke-"+run)
	work, prompt, logFile := filepath.Join(dir, "work"), filepath.Join(dir, "prompt.md"), filepath.Join(dir, "agent.log")
	if err := a.disk.MkdirAll("smoke", work, 0o700); err != nil {
		return nil, err
	}
	if err := a.disk.WriteFile("smoke", prompt, []byte(livePrompt), 0o600); err != nil {
		return nil, err
	}
	if _, err := (proc.Tool{Dir: work}).Run(ctx, "git", "init", "-q"); err != nil {
		return nil, fmt.Errorf("making the scratch repository: %w", err)
	}
	turn := preflight.Turn{Role: "implementer"}
	if len(r.Turns) > 0 {
		turn = r.Turns[0]
	}
	req := agent.Request{CLI: r.CLI, PromptPath: prompt, LastMessageFile: filepath.Join(dir, "last-message.md"),
		WorkDir: work, Repo: work, LoopDir: dir, Loop: "runner-smoke", RunID: "smoke-" + run,
		Role: turn.Role, Iteration: 1, Attempt: 1, Model: turn.Model, Thinking: turn.Thinking, Permissions: turn.Permissions}
	if strings.Contains(req.CLI.Command[0], "/") {
		req.CLI.Command = append([]string{path}, req.CLI.Command[1:]...) // it is not in the scratch repository
	}
	if agent.For(req.CLI).Profile().ChoosesSession {
		req.SessionID = session
	}
	log, err := a.disk.Create("smoke", logFile, 0o600)
	if err != nil {
		return nil, err
	}
	spawner, err := proc.Start(proc.Options{})
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	res, runErr := agent.Run(ctx, spawner, req, agent.Options{Environ: r.Environ, Timeout: liveTimeout, Grace: liveGrace,
		Hurry: a.hurry, Log: log,
		WriteFile: func(path, text string) error { return a.disk.WriteFile("smoke", path, []byte(text), 0o600) },
		Redact:    agent.Secrets(r.Environ, r.CLI.Env)})
	if err := errors.Join(spawner.Close(), log.Close()); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return judgeLive(res, runErr, dir), nil
}

func judgeLive(res agent.Result, runErr error, dir string) *live {
	l := &live{OK: runErr == nil && res.OK(), Message: render.Cut(render.Clean(strings.TrimSpace(res.FinalMessage)), 200),
		Ready: strings.Contains(strings.ToUpper(res.FinalMessage), "READY"), Model: res.Model, CostUSD: res.CostUSD,
		DurationMS: res.Proc.Duration.Milliseconds(), Dir: dir}
	if u := loop.Usage(res.Usage); u != (loop.Usage{}) {
		l.Usage = &u
	}
	if l.OK {
		return l
	}
	l.Class, l.Error = string(res.Class), res.ErrorText
	switch {
	case l.Error != "":
	case runErr != nil:
		l.Error = runErr.Error()
	case res.Proc.Err != nil:
		l.Error = res.Proc.Err.Error()
	case res.Proc.Ended == proc.TimedOut:
		l.Error = "no end within " + liveTimeout.String()
	case res.LastLine != "":
		l.Error = res.LastLine
	default:
		l.Error = fmt.Sprintf("ended with exit code %d and said nothing", res.Proc.Code)
	}
	return l
}

// text is the try on one line.
func (l *live) text() string {
	took := render.Duration(msec(l.DurationMS))
	if !l.OK {
		class := l.Class
		if class != "" {
			class += ": "
		}
		return fmt.Sprintf("failed in %s: %s%s   (%s)", took, class, l.Error, l.Dir)
	}
	parts := []string{fmt.Sprintf("answered %q in %s", l.Message, took)}
	if !l.Ready {
		parts[0] += ", which is not what it was asked for"
	}
	if l.Model != "" {
		parts = append(parts, l.Model)
	}
	if n, ok := l.Usage.Total(); ok {
		parts = append(parts, count(int(n), "token"))
	}
	cost := "cost not told"
	if l.CostUSD != nil {
		cost = fmt.Sprintf("$%.4f", *l.CostUSD)
	}
	return strings.Join(append(parts, cost), ", ") + "   (" + l.Dir + ")"
}
