package main

import (
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/server/api"
)

// confirmRequests shows what has been asked for over TCP and needs a person, and prints a code for each that the person wants.
func (a *app) confirmRequests(c *cli.Context) error {
	in := ttyOf(a.stdin)
	if in == nil || ttyOf(a.stdout) == nil {
		return failf(exitUsage, "superloop confirm   (in a terminal of your own)", "confirm shows what would be done, and a code, on a terminal only")
	}
	var out api.Confirmations
	if err := a.askDaemon(c.Context, http.MethodGet, "/api/v1/confirmations", nil, &out); err != nil {
		return err
	}
	if len(out.Confirmations) == 0 {
		return failf(exitNothing, "", "nothing waits for a confirmation; what does is kept for five minutes")
	}
	for _, o := range out.Confirmations {
		fmt.Fprintf(a.stdout, "\n%s asks to: %s\nrequest: %s\n", text.Display(o.By), text.Display(o.What), text.Display(o.Request))
		if o.Given {
			fmt.Fprintln(a.stdout, "a code was given for it already; another one makes that void")
		}
		yes, err := a.ask(c.Context, in, "is that your wish")
		if err != nil {
			return err
		}
		if !yes {
			fmt.Fprintln(a.stdout, "no code is given; it is forgotten within five minutes")
			continue
		}
		var code api.Code
		if err := a.askDaemon(c.Context, http.MethodPost, "/api/v1/confirmations/"+url.PathEscape(o.ID), nil, &code); err != nil {
			return err
		}
		fmt.Fprintf(a.stdout, "%s   (counts once, for this request, until %s)\n", code.Code, code.Expires.Local().Format(time.TimeOnly))
	}
	return nil
}
