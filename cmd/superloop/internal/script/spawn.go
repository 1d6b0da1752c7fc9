package script

import (
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/superloop/superloop/internal/proc"
)

// run starts a command and waits for it. A command that fails is told on
// standard error and the play goes on, as an agent does when a tool fails.
func (p *player) run(argv []string) error {
	child, err := p.start(argv, false)
	if err != nil {
		return err
	}
	state, err := child.Wait()
	if err != nil {
		return fmt.Errorf("waiting for %s: %w", argv[0], err)
	}
	switch ws, _ := state.Sys().(syscall.WaitStatus); {
	case ws.Signaled():
		return p.say(p.stderr, fmt.Sprintf("script: %s was ended by signal %d", argv[0], ws.Signal()))
	case !state.Success():
		return p.say(p.stderr, fmt.Sprintf("script: %s ended with exit code %d", argv[0], state.ExitCode()))
	}
	return nil
}

// spawn starts a command and leaves it running, as a careless agent does:
// `command &`, or `setsid command &` when detached. It can hold standard
// output and error open after the agent is gone.
func (p *player) spawn(argv []string, detach bool) error {
	child, err := p.start(argv, detach)
	if err != nil {
		return err
	}
	return child.Release()
}

// start gives a child this process's own standard output and error (/dev/null
// where Main was not given files), its environment and directory.
//
// os.StartProcess instead of internal/proc: that one's promise is to leave
// nothing behind, and an agent's tools write straight to the agent's output
// and may stay behind.
func (p *player) start(argv []string, ownSession bool) (*os.Process, error) {
	path, err := proc.LookPath(argv[0], []string{"PATH=" + p.env("PATH")})
	if err != nil {
		return nil, err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	child, err := os.StartProcess(path, argv, &os.ProcAttr{
		Files: []*os.File{null, inherited(p.stdout, null), inherited(p.stderr, null)},
		Sys:   &syscall.SysProcAttr{Setsid: ownSession},
	})
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", argv[0], err)
	}
	return child, nil
}

func inherited(w io.Writer, otherwise *os.File) *os.File {
	if f, ok := w.(*os.File); ok {
		return f
	}
	return otherwise
}
