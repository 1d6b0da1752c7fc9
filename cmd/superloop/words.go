package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"github.com/superloop/superloop/loop"
)

func msec(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// count is "1 iteration", "2 iterations".
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func loopFile(repo, id, name string) string {
	return filepath.Join(repo, ".superloop", "loops", id, name)
}

// relTo is path as seen from the current folder when that is shorter to read.
func relTo(repo, path string) string {
	if wd, err := os.Getwd(); err == nil && wd == repo {
		if rel, err := filepath.Rel(wd, path); err == nil {
			return rel
		}
	}
	return path
}

// failedRole is the role whose log explains a failed loop.
func failedRole(s loop.State) string {
	if role, ok := strings.CutPrefix(s.At, "role:"); ok {
		return role
	}
	return "reviewer"
}

// columns is the width of a terminal, 80 when it does not say.
func columns(f *os.File) int {
	if ws, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ); err == nil && ws.Col > 0 {
		return int(ws.Col)
	}
	return 80
}

// typed is the verb as it is typed, with the program and the verb above it: "superloop config diff".
func typed(c *cli.Context) string {
	if c.Command != nil && strings.HasPrefix(c.Command.HelpName, "superloop ") {
		return c.Command.HelpName
	}
	if c.Command == nil || c.Command.Name == "" || c.Command.Name == "superloop" {
		return "superloop"
	}
	return "superloop " + c.Command.Name
}
