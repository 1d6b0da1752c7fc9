package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop/layout"
	"github.com/superloop/superloop/server"
	"github.com/superloop/superloop/server/api"
)

// askDaemon asks the daemon over its socket. It waits for one that has just begun.
func (a *app) askDaemon(ctx context.Context, method, path string, in, out any) error {
	state, err := layout.StateRoot(a.env("XDG_STATE_HOME"))
	if err != nil {
		return err
	}
	life, stop := context.WithTimeout(ctx, beginPatience)
	defer stop()
	werr := every(life, func() (bool, error) {
		err = api.Call(ctx, state, method, path, in, out)
		_, alive := server.Daemon(state)
		return !errors.Is(err, api.ErrNoDaemon) || !alive, nil
	})
	if werr != nil && ctx.Err() != nil {
		return interrupted(ctx)
	}
	p, is := errors.AsType[*api.Problem](err)
	switch {
	case errors.Is(err, api.ErrNoDaemon):
		return failf(exitNothing, "superloop serve --detach --listen localhost:"+strconv.Itoa(layout.DaemonPort), "%w; it keeps the tokens", err)
	case is:
		why := p.Detail
		for _, e := range p.Errors {
			why += "; " + e.Message
		}
		return failf(p.ExitCode, "", "%s", why)
	}
	return err
}

func (a *app) tokenCreate(c *cli.Context) error {
	life, err := lifeOf(c.String("expires"))
	if err != nil {
		return failf(exitUsage, "superloop token create --help", "--expires: %w", err)
	}
	if c.String("name") == "" || c.String("scope") == "" {
		return failf(exitUsage, "superloop token create --name NAME --scope read", "a token has a name and scopes (read, control, approve)")
	}
	in := map[string]any{"name": c.String("name"), "scopes": strings.Split(strings.ReplaceAll(c.String("scope"), " ", ""), ","), "expires_in": int64(life / time.Second)}
	var out api.Secret
	if err := a.askDaemon(c.Context, http.MethodPost, "/api/v1/tokens", in, &out); err != nil {
		return err
	}
	return a.write(c, out, func(w io.Writer) {
		fmt.Fprintln(w, out.Token)
		fmt.Fprintf(a.stderr, "it is shown once; it may %s until %s\nnext: superloop token revoke %s   (ends it)\n", scopesOf(out.Credential), out.Expires.Local().Format(time.DateTime), text.Word(out.Name))
	})
}

// lifeOf reads a time such as 12h, 30d or 4w.
func lifeOf(s string) (time.Duration, error) {
	for unit, length := range map[string]time.Duration{"d": 24 * time.Hour, "w": 7 * 24 * time.Hour} {
		if n, ok := strings.CutSuffix(s, unit); ok {
			count, err := strconv.ParseUint(n, 10, 16)
			if err != nil {
				return 0, fmt.Errorf("%q is no time such as 12h, 30d or 4w", s)
			}
			return time.Duration(count) * length, nil
		}
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < time.Second {
		return 0, fmt.Errorf("%q is no time such as 12h, 30d or 4w", s)
	}
	return d, nil
}

func scopesOf(c api.Credential) string {
	words := make([]string, len(c.Scopes))
	for i, s := range c.Scopes {
		words[i] = string(s)
	}
	return strings.Join(words, ", ")
}

// tokenList prints the tokens, or with --sessions the sessions of people.
func (a *app) tokenList(c *cli.Context) error {
	var out api.Credentials
	if err := a.askDaemon(c.Context, http.MethodGet, credentialsOf(c), nil, &out); err != nil {
		return err
	}
	if c.Bool("json") {
		return render.JSON(a.stdout, out)
	}
	if len(out.Credentials) == 0 {
		_, err := fmt.Fprintln(a.stdout, "there is none")
		return err
	}
	return table(a.stdout, "NAME\tSCOPES\tBY\tEXPIRES\tUSED", out.Credentials, func(o api.Credential) string {
		used := "-"
		if !o.Used.IsZero() {
			used = o.Used.Local().Format(time.DateTime)
		}
		return fmt.Sprintf("%s\t%s\t%s\t%s\t%s", o.Name, scopesOf(o), text.Display(o.By), o.Expires.Local().Format(time.DateTime), used)
	})
}

func credentialsOf(c *cli.Context) string {
	if c.Bool("sessions") || c.Bool("session") {
		return "/api/v1/sessions"
	}
	return "/api/v1/tokens"
}

func (a *app) tokenRevoke(c *cli.Context) error {
	name := c.Args().First()
	if c.NArg() != 1 || name == "" {
		return failf(exitUsage, "superloop token list", "token revoke wants one NAME, behind the flags")
	}
	if err := a.askDaemon(c.Context, http.MethodDelete, credentialsOf(c)+"/"+url.PathEscape(name), nil, nil); err != nil {
		return err
	}
	return a.told(c, map[string]string{"revoked": name}, "%s is revoked, and what used it has ended\n", text.Display(name))
}

// tokenCode prints a code that opens a session over TCP.
func (a *app) tokenCode(c *cli.Context) error {
	var out api.Code
	if err := a.askDaemon(c.Context, http.MethodPost, "/api/v1/codes", nil, &out); err != nil {
		return err
	}
	return a.write(c, out, func(w io.Writer) {
		fmt.Fprintln(w, out.Code)
		fmt.Fprintln(a.stderr, "it opens one session within a minute: POST /api/v1/sessions {\"code\": \"...\"}")
	})
}
