package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop/config"
)

// config looks whether the configuration is valid, and what it warns of.
func (p Target) config(context.Context) Result {
	if p.Config == nil {
		var bad *config.Error
		if !errors.As(p.ConfigErr, &bad) || len(bad.Problems) == 0 {
			return Result{Status: Fail, Detail: fmt.Sprint(p.ConfigErr), Fix: "superloop validate"}
		}
		if bad.Problems[0].Code == config.CodeNoFile {
			return Result{Status: Fail, Detail: "there is no " + p.ConfigPath, Fix: "superloop init"}
		}
		return Result{Status: Fail, Detail: p.ConfigPath + ": " + firstOf(bad.Problems), Fix: "superloop validate"}
	}
	detail := fmt.Sprintf("%s, %s, %s", p.ConfigPath, count(len(p.Config.Loops), "loop"), count(len(p.Config.Runners), "runner"))
	if w := p.Config.Warnings; len(w) > 0 {
		return Result{Status: Warn, Detail: detail + ", " + count(len(w), "warning") + ": " + firstOf(w), Fix: "superloop validate shows all"}
	}
	return Result{Status: OK, Detail: detail}
}

// permissions looks whether others may change what superloop is told to do.
func (p Target) permissions(context.Context) Result {
	for _, path := range []string{filepath.Dir(p.ConfigPath), p.ConfigPath} {
		info, err := os.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return Result{Status: Fail, Detail: "there is no " + path, Fix: "superloop init"}
		case err != nil:
			return Result{Status: Fail, Detail: err.Error(), Fix: "ls -ld " + text.Paste(path)}
		}
		perm := info.Mode().Perm()
		who := ""
		switch {
		case perm&0o002 != 0 && info.Mode()&fs.ModeSticky == 0:
			who = "everybody"
		case perm&0o020 != 0:
			who = "its group"
		}
		if who != "" {
			return Result{Status: Warn, Detail: fmt.Sprintf("%s may change %s (mode %04o), and so what superloop runs as you", who, path, perm),
				Fix: "chmod go-w " + text.Paste(path)}
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Uid != 0 && int(st.Uid) != os.Getuid() {
			return Result{Status: Warn, Detail: fmt.Sprintf("%s belongs to uid %d, who may change what superloop runs as you", path, st.Uid),
				Fix: fmt.Sprintf("chown %d %s", os.Getuid(), text.Paste(path))}
		}
	}
	return Result{Status: OK, Detail: "only you and root may change the configuration"}
}

// specs looks for the files that the loops and roles read.
func (p Target) specs(context.Context) Result {
	if p.Config == nil {
		return Result{Status: Fail, Detail: "not known without a valid configuration", Fix: "superloop validate"}
	}
	problems := p.Config.Check(p.Repo, p.lookPath)
	problems = slices.DeleteFunc(problems, func(q config.Problem) bool { // those are told by runner
		return strings.HasPrefix(q.Pointer, "/runner/") || strings.HasPrefix(q.Pointer, "/runners/")
	})
	if len(problems) > 0 {
		return Result{Status: Fail, Detail: firstOf(problems), Fix: "superloop validate"}
	}
	var files []string
	for _, l := range p.Config.Loops {
		if !slices.Contains(files, l.SpecFile) {
			files = append(files, l.SpecFile)
		}
	}
	return Result{Status: OK, Detail: strings.Join(files, ", ")}
}

// bash looks for the shell that runs the tests.
func (p Target) bash(ctx context.Context) Result {
	const fix = "install bash; test and validation commands run under bash -c"
	path, err := p.lookPath("bash")
	if err != nil {
		return Result{Status: Fail, Detail: err.Error(), Fix: fix}
	}
	out, err := p.tool(ctx, path, "--version")
	if err != nil {
		return Result{Status: Fail, Detail: err.Error(), Fix: fix}
	}
	return Result{Status: OK, Detail: fmt.Sprintf("%s at %s", firstLine(out), path)}
}
