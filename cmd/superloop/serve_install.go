package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"text/template"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/server"
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
RestartPreventExitStatus=7
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

// serviceOf describes the daemon with these limits, and with more flags, as a service.
func (a *app) serviceOf(self string, l slots.Limits, drain time.Duration, more ...string) service {
	args := []string{self, "serve", fmt.Sprintf("--max-parallel-loops=%d", l.Loops), fmt.Sprintf("--max-parallel-roles=%d", l.Roles),
		fmt.Sprintf("--max-roles-per-account=%d", l.PerAccount), fmt.Sprintf("--drain=%s", drain)}
	args = append(args, more...)
	quoted := make([]string, len(args))
	for i, arg := range args {
		quoted[i] = systemdQuote(arg)
	}
	path := a.env("PATH")
	return service{Args: args, Command: strings.Join(quoted, " "), Path: strings.ReplaceAll(systemdQuote("PATH="+path), "$$", "$"), PathValue: path}
}

// systemdQuote quotes a word of a command in a unit file: in double quotes, with % and $ doubled. In Environment= a $ is
// no special character.
func systemdQuote(word string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "%", "%%", "$", "$$", "\n", `\n`).Replace(word) + `"`
}

// installDaemon writes the service of the daemon and starts it, by systemd or by launchd.
func (a *app) installDaemon(c *cli.Context, state string, limits slots.Limits) error {
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
	// A service of an earlier --install is stopped first, so that what holds the lock then is a daemon of another kind.
	steps := [][]string{{"systemctl", "--user", "daemon-reload"}, {"systemctl", "--user", "stop", "superloop.service"}, {"systemctl", "--user", "enable", "--now", "superloop.service"}}
	if runtime.GOOS == "darwin" {
		file, text = filepath.Join(home, "Library", "LaunchAgents", "superloop.plist"), plist
		steps = [][]string{{"launchctl", "load", "-w", file}}
	}
	var b strings.Builder
	more := []string{fmt.Sprintf("--keep-days=%d", c.Int("keep-days")), fmt.Sprintf("--keep-gib=%d", c.Int("keep-gib"))}
	if at := c.String("listen"); at != "" {
		more = append(more, "--listen="+at)
	}
	if err := template.Must(template.New("service").Parse(text)).Execute(&b, a.serviceOf(self, limits, c.Duration("drain"), more...)); err != nil {
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
	for i, step := range steps {
		if by, alive := server.Daemon(state); alive && i == len(steps)-1 {
			return failf(exitHeld, "superloop serve --stop, then: superloop serve --install", "the service is written (%s), but %w", file, &server.HeldError{Holder: by})
		}
		if _, err := a.session(c.Context, step...); err != nil {
			return failf(exitFailed, "superloop serve --detach   (without a service manager)", "the service is written (%s), but does not run: %w", file, err)
		}
	}
	fmt.Fprintf(a.stdout, "the daemon is installed and runs: %s\n", file)
	if runtime.GOOS != "darwin" {
		fmt.Fprint(a.stdout, "agents get its environment: a key that only your shell has belongs into ~/.config/environment.d/superloop.conf; then install again\n")
		if !a.lingers(c) {
			fmt.Fprint(a.stdout, "it ends when you log out; to keep it: loginctl enable-linger\n")
		}
	}
	return nil
}

// lingers reports whether systemd keeps the services of this user without a session.
func (a *app) lingers(c *cli.Context) bool {
	out, err := a.session(c.Context, "loginctl", "show-user", fmt.Sprint(os.Getuid()), "--property=Linger")
	return err == nil && strings.TrimSpace(string(out)) == "Linger=yes"
}

// session runs a program of the system that speaks with the services of this user's session.
func (a *app) session(ctx context.Context, argv ...string) ([]byte, error) {
	path, err := proc.Trusted(argv[0])
	if err != nil {
		return nil, err
	}
	var env []string
	for _, key := range []string{"HOME", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "DBUS_SESSION_BUS_ADDRESS"} {
		if value := a.env(key); value != "" {
			env = append(env, key+"="+value)
		}
	}
	return proc.Tool{Dir: "/", Env: env}.Run(ctx, append([]string{path}, argv[1:]...)...)
}
