package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/proc"
)

const (
	keep         = 11 << 10        // bytes of the beginning and of the end of a stream, each
	setupTimeout = 4 * time.Minute // bounds a preparation
)

// record prepares one case in a new directory, runs its command and gives its line without labels.
func record(ctx context.Context, sp *proc.Spawner, p place, c testCase) (*line, error) {
	top := filepath.Join(p.work, c.id)
	env := []string{"HOME=" + p.home, "PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8", "USER=dev", "LOGNAME=dev", "TERM=dumb", "SHELL=/bin/bash",
		"TOOLS=" + p.tools, "TOP=" + top, "CASES=" + p.cases, "NO_UPDATE_NOTIFIER=1", "GOTELEMETRY=off"}
	if _, err := sp.Run(ctx, proc.Spec{Argv: []string{"rm", "-rf", top}, Env: env, Timeout: setupTimeout}); err != nil {
		return nil, fmt.Errorf("clearing its directory: %w", err)
	}
	repo := filepath.Join(top, "repo")
	if err := durable.OS().MkdirAll("case", repo, 0o755); err != nil {
		return nil, fmt.Errorf("making its directory: %w", err)
	}
	script := ". " + filepath.Join(p.cases, "lib.sh") + "\n" + c.setup + "\n/usr/bin/env -0 > " + filepath.Join(top, "env")
	r, err := sp.Run(ctx, proc.Spec{Argv: []string{"bash", "-c", script}, Dir: repo, Env: env, Timeout: setupTimeout})
	if err != nil {
		return nil, fmt.Errorf("preparing it: %w", err)
	}
	if r.Ended != proc.Exited || r.Code != 0 {
		return nil, fmt.Errorf("its preparation ended with %d (%s): %s", r.Code, r.Ended, r.Stderr.Text())
	}
	after, err := os.ReadFile(filepath.Join(top, "env"))
	if err != nil {
		return nil, fmt.Errorf("reading the environment that it prepared: %w", err)
	}
	env = strings.Split(strings.TrimSuffix(string(after), "\x00"), "\x00")
	argv := []string{"/bin/sh", "-c", c.command}
	if c.via != "" {
		argv = []string{"/bin/bash", "-c", c.via}
		env = append(env, "CMD="+c.command)
	}
	r, err = sp.Run(ctx, proc.Spec{Argv: argv, Dir: repo, Env: env, Timeout: c.timeout, Grace: 2 * time.Second, HeadTail: keep})
	if err != nil {
		return nil, fmt.Errorf("running it: %w", err)
	}
	l := &line{
		ID: c.id, Tool: p.toolName(ctx, sp, env, repo, c.tool), Command: p.scrub(c.command, top),
		ExitCode: exitCode(r), Signal: r.Signal, TimedOut: r.Ended == proc.TimedOut,
		Stdout: p.scrub(r.Stdout.Text(), top), Stderr: p.scrub(r.Stderr.Text(), top),
	}
	switch {
	case r.Ended == proc.NotStarted || r.Ended == proc.Lost:
		return nil, fmt.Errorf("it was not run: %v", r.Err)
	case l.TimedOut && c.timeout == defaultTimeout:
		return nil, errors.New("it ran out of time")
	case r.Code == 0 && !l.TimedOut && !c.zeroIsFine:
		return nil, errors.New("it did not fail")
	}
	return l, nil
}

// exitCode is what a shell would say: 128 and the signal's number for a death by a signal.
func exitCode(r proc.Result) int {
	switch {
	case r.Code >= 0:
		return r.Code
	case r.Signal != "":
		return 128 + int(unix.SignalNum(r.Signal))
	}
	return 1
}

// toolName completes a tool's name by its version: of "go !go version" by the number that the command prints.
func (p place) toolName(ctx context.Context, sp *proc.Spawner, env []string, dir, text string) string {
	name, command, ok := strings.Cut(text, " !")
	if !ok {
		return text
	}
	r, err := sp.Run(ctx, proc.Spec{Argv: []string{"/bin/sh", "-c", command + " 2>&1"}, Dir: dir, Env: env, Timeout: time.Minute})
	if err != nil || r.Ended != proc.Exited {
		return name
	}
	return strings.TrimSpace(name + " " + regexp.MustCompile(`\d+(?:\.\d+)+`).FindString(r.Stdout.Text()))
}

// scrub takes this machine's paths and names out of a text.
func (p place) scrub(text, top string) string {
	if at, err := filepath.EvalSymlinks(top); err == nil {
		text = strings.ReplaceAll(text, at, top)
	}
	var pairs []string
	entries, _ := os.ReadDir(p.tools) // without them the text stays as it is
	for _, e := range slices.Backward(entries) {
		if at, err := filepath.EvalSymlinks(filepath.Join(p.tools, e.Name())); err == nil {
			pairs = append(pairs, at, "/home/dev/tools/"+e.Name())
		}
	}
	if p.tools != "" {
		pairs = append(pairs, p.tools, "/home/dev/tools")
	}
	pairs = append(pairs, filepath.Join(top, "repo"), "/repo", top, "/home/dev/case", p.work, "/home/dev/work",
		p.home+"/", "/home/dev/", p.home+`"`, `/home/dev"`, p.home+"'", "/home/dev'")
	for up := filepath.Dir(p.work); filepath.Dir(up) != "/" && up != "/"; up = filepath.Dir(up) {
		pairs = append(pairs, up, "/home/dev")
	}
	text = strings.NewReplacer(pairs...).Replace(text)
	text = strings.ReplaceAll(text, p.host, "devhost")
	text = regexp.MustCompile(`on [0-9.]+:53: `).ReplaceAllString(text, "on 127.0.0.53:53: ") // Go's words for its nameserver
	kept := slices.DeleteFunc(strings.Split(text, "\n"), regexp.MustCompile(`Unknown (user|env) config`).MatchString)
	return strings.ToValidUTF8(strings.Join(kept, "\n"), "\uFFFD")
}
