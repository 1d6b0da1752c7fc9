package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// sandbox runs programs in namespaces of their own. It was tried before.
type sandbox struct{ user bool }

// newSandbox tries which namespaces can be had.
func newSandbox(ctx context.Context) (*sandbox, error) {
	tmp, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	var tried []error
	for _, s := range []*sandbox{{user: false}, {user: true}} {
		if !s.user && os.Geteuid() != 0 {
			continue
		}
		if _, _, err := s.run(ctx, order{Dir: "/", Tmp: tmp}); err == nil {
			return s, nil
		} else if s.user {
			tried = append(tried, fmt.Errorf("with a user namespace: %w", err))
		} else {
			tried = append(tried, err)
		}
	}
	return nil, errors.Join(tried...)
}

// Descriptors of PID 1, besides the first three.
const (
	lifelineFD = 3 // ends when mutate is gone
	reportFD   = 4
)

// run carries the order out and reports whether it ended well. When ctx ends, or
// this process, everything that was started in the namespaces ends.
func (s *sandbox) run(ctx context.Context, o order) (ok bool, output []byte, err error) {
	o.User = s.user
	text, err := json.Marshal(o)
	if err != nil {
		return false, nil, err
	}
	lifeline, held, err := os.Pipe()
	if err != nil {
		return false, nil, err
	}
	defer held.Close()
	defer lifeline.Close()
	report, written, err := os.Pipe()
	if err != nil {
		return false, nil, err
	}
	defer report.Close()
	defer written.Close()
	// The link and not its target: go run removes its binary only when it ends.
	cmd := exec.CommandContext(ctx, "/proc/self/exe", insideArg, string(text))
	cmd.ExtraFiles = []*os.File{lifeline, written}
	var said tail
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.WaitDelay = 5 * time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWIPC,
		Setsid:     true, // the terminal's Ctrl-C is for mutate
	}
	if s.user {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}
		if os.Geteuid() != 0 { // else it would lose the right to mount with its exec
			cmd.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN}
		}
	}
	if err := cmd.Start(); err != nil {
		return false, nil, fmt.Errorf("making namespaces: %w", err)
	}
	written.Close()
	waited := cmd.Wait()
	var e ended
	if err := json.NewDecoder(report).Decode(&e); err != nil {
		if ctx.Err() != nil {
			return false, said.text, ctx.Err()
		}
		return false, said.text, fmt.Errorf("the process that holds the namespaces said nothing: %w\n%s", waited, said.text)
	}
	if e.Trouble != "" {
		return false, said.text, errors.New(e.Trouble)
	}
	return e.OK, said.text, nil
}
