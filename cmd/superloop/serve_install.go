package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"text/template"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/server/slots"
)

// unit is the systemd unit of the daemon. The agents are children of the daemon and get its resources; systemd ends what
// is left of them after the daemon itself.
const unit = `[Unit]
Description=superloop: keeps loops of coding agents alive
Documentation=https://github.com/superloop/superloop

[Service]
Type=notify
NotifyAccess=main
ExecStart={{.Command}}
Environment={{.Path}}
Restart=on-failure
RestartSec=2
KillMode=mixed
TimeoutStopSec=30
WatchdogSec=60
Delegate=yes

[Install]
WantedBy=default.target
`

// plist is the launchd agent of the daemon.
const plist = `<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
  <key>Label</key><string>superloop</string>
  <key>ProgramArguments</key><array>{{range .Args}}<string>{{html .}}</string>{{end}}</array>
  <key>EnvironmentVariables</key><dict><key>PATH</key><string>{{html .PathValue}}</string></dict>
  <key>RunAtLoad</key><true/>
  <key>KeepAlive</key><dict><key>SuccessfulExit</key><false/></dict>
</dict>
</plist>
`

// service is what the two templates need.
type service struct {
	Args                     []string
	Command, Path, PathValue string
}

// serviceOf describes the daemon with these limits as a service.
func (a *app) serviceOf(self string, l slots.Limits, drain time.Duration) service {
	args := []string{self, "serve", fmt.Sprintf("--max-parallel-loops=%d", l.Loops), fmt.Sprintf("--max-parallel-roles=%d", l.Roles),
		fmt.Sprintf("--max-roles-per-account=%d", l.PerAccount), fmt.Sprintf("--drain=%s", drain)}
	quoted := make([]string, len(args))
	for i, arg := range args {
		quoted[i] = systemdQuote(arg)
	}
	path := a.env("PATH")
	return service{Args: args, Command: strings.Join(quoted, " "), Path: systemdQuote("PATH=" + path), PathValue: path}
}

// systemdQuote quotes a word for a unit file: in double quotes, with % and $ doubled.
func systemdQuote(word string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "%", "%%", "$", "$$", "\n", `\n`).Replace(word) + `"`
}

// installDaemon writes the service of the daemon and starts it, by systemd or by launchd.
func (a *app) installDaemon(c *cli.Context, limits slots.Limits) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return err
	}
	file, text := filepath.Join(home, ".config", "systemd", "user", "superloop.service"), unit
	if dir := a.env("XDG_CONFIG_HOME"); dir != "" {
		file = filepath.Join(dir, "systemd", "user", "superloop.service")
	}
	steps := [][]string{{"systemctl", "--user", "daemon-reload"}, {"systemctl", "--user", "enable", "superloop.service"}, {"systemctl", "--user", "restart", "superloop.service"}}
	if runtime.GOOS == "darwin" {
		file, text = filepath.Join(home, "Library", "LaunchAgents", "superloop.plist"), plist
		steps = [][]string{{"launchctl", "load", "-w", file}}
	}
	var b strings.Builder
	if err := template.Must(template.New("service").Parse(text)).Execute(&b, a.serviceOf(self, limits, c.Duration("drain"))); err != nil {
		return err
	}
	if c.Bool("dry-run") {
		fmt.Fprintf(a.stdout, "%s:\n%s", file, b.String())
		return nil
	}
	if err := a.disk.MkdirAll("service", filepath.Dir(file), 0o755); err != nil {
		return err
	}
	if err := a.disk.WriteFile("service", file, []byte(b.String()), 0o644); err != nil {
		return err
	}
	for _, step := range steps {
		if out, err := proc.System(c.Context, home, step...); err != nil {
			return failf(exitFailed, "superloop serve --detach   (without a service manager)", "the service is written (%s), but %s failed: %w: %s", file, strings.Join(step, " "), err, strings.TrimSpace(string(out)))
		}
	}
	fmt.Fprintf(a.stdout, "the daemon is installed: %s\nkeys of agents that are only in your shell: put them into ~/.config/environment.d/superloop.conf\n", file)
	if runtime.GOOS != "darwin" && !a.lingers(c) {
		fmt.Fprint(a.stdout, "it ends when you log out; to keep it: loginctl enable-linger\n")
	}
	return nil
}

// lingers reports whether systemd keeps the services of this user without a session.
func (a *app) lingers(c *cli.Context) bool {
	out, err := proc.System(c.Context, "/", "loginctl", "show-user", a.who(c), "--property=Linger")
	return err == nil && strings.TrimSpace(string(out)) == "Linger=yes"
}
