package main

import (
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/cmd/superloop/internal/render"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/server/api"
)

// passkeyList prints the passkeys with which people confirm requests on the page.
func (a *app) passkeyList(c *cli.Context) error {
	var out api.Passkeys
	if err := a.askDaemon(c.Context, http.MethodGet, "/api/v1/passkeys", nil, &out); err != nil {
		return err
	}
	if c.Bool("json") {
		return render.JSON(a.stdout, out)
	}
	if len(out.Passkeys) == 0 {
		_, err := fmt.Fprintln(a.stdout, "there is none; superloop ui, Settings: make a passkey")
		return err
	}
	return table(a.stdout, "NAME\tPAGE\tSYNCED\tBY\tMADE\tUSED", out.Passkeys, func(o api.Passkey) string {
		used, synced := "-", "no"
		if !o.Used.IsZero() {
			used = o.Used.Local().Format(time.DateTime)
		}
		if o.Synced {
			synced = "yes"
		}
		return fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s", o.Name, o.Host, synced, text.Display(o.By), o.Created.Local().Format(time.DateTime), used)
	})
}

func (a *app) passkeyRevoke(c *cli.Context) error {
	name := c.Args().First()
	if c.NArg() != 1 || name == "" {
		return failf(exitUsage, "superloop passkey list", "passkey revoke wants one NAME, behind the flags")
	}
	if err := a.askDaemon(c.Context, http.MethodDelete, "/api/v1/passkeys/"+url.PathEscape(name), nil, nil); err != nil {
		return err
	}
	return a.told(c, map[string]string{"revoked": name}, "%s is revoked, and confirms nothing any more\n", text.Display(name))
}
