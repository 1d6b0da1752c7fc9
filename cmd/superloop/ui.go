package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/loop/layout"
	"github.com/superloop/superloop/server/api"
)

// pageHost is the name of the page. Browsers take it for this machine, and keep what they store for it apart from what they
// store for the servers of agents at localhost.
const pageHost = "superloop.localhost"

// Link is what ui prints with --json.
type Link struct {
	URL string `json:"url"`
	api.Code
	Opened bool `json:"opened"`
}

// ui prints the address of the page with a code that opens it once, and opens it in a browser.
func (a *app) ui(c *cli.Context) error {
	var here api.Machines
	if err := a.askDaemon(c.Context, http.MethodGet, "/api/v1/machines", nil, &here); err != nil {
		return err
	}
	port := 0
	for _, m := range here.Machines {
		port = m.Port
	}
	if port == 0 {
		return failf(exitNothing, fmt.Sprintf("superloop serve --replace --detach --listen localhost:%d", layout.DaemonPort), "the daemon answers over its socket only, and a browser needs a port")
	}
	var link Link
	if err := a.askDaemon(c.Context, http.MethodPost, "/api/v1/codes", nil, &link.Code); err != nil {
		return err
	}
	link.URL = fmt.Sprintf("http://%s:%d/#code=%s", pageHost, port, link.Code.Code)
	if !c.Bool("no-open") {
		link.Opened = a.openInBrowser(link.URL)
	}
	return a.write(c, link, func(w io.Writer) {
		fmt.Fprintln(w, link.URL)
		fmt.Fprintln(a.stderr, "it opens one session within a minute; after that: superloop ui")
	})
}

// openInBrowser asks the desktop to show an address. It reports whether the desktop was asked.
func (a *app) openInBrowser(url string) bool {
	argv := []string{"xdg-open", url}
	if runtime.GOOS == "darwin" {
		argv = []string{"/usr/bin/open", url}
	}
	if runtime.GOOS == "linux" && os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" && os.Getenv("WSL_DISTRO_NAME") == "" {
		return false // nobody would see it; a browser in this terminal would take it
	}
	nowhere, err := a.disk.OpenLog(os.DevNull)
	if err != nil {
		return false
	}
	defer nowhere.Close()
	_, _, err = proc.Detach(argv, os.Environ(), nowhere)
	return err == nil
}
