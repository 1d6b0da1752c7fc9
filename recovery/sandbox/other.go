//go:build unix && !linux

package sandbox

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/superloop/superloop/internal/proc"
)

func (s *Spec) ways() (ways []proc.Namespaces, notes []string) {
	if s.Network == NoNetwork {
		return nil, []string{"this system has no namespaces"}
	}
	return []proc.Namespaces{{}}, nil
}

func keepOpen(last int) {
	for fd := last + 1; fd < 256; fd++ {
		unix.CloseOnExec(fd)
	}
}

func (o *order) confine(rep *report) (kind string, err error) {
	rep.note("this system has neither Landlock nor mount namespaces: the command may write what its user may")
	if !o.Probe {
		fds, err := o.enter()
		if err != nil {
			return badPlace, err
		}
		fds.close()
	}
	if !rep.Level.Meets(o.Required) {
		return tooWeak, fmt.Errorf("the sandbox level %q is required, and only %q can be had", o.Required, rep.Level)
	}
	return "", nil
}

func protectionNamespaces() (ns proc.Namespaces, ok bool) { return ns, false }

// prepareAgents always fails here. Protect never asks for it, because this system has no mount namespaces.
func (o *order) prepareAgents(*report) (int, string, error) {
	return reportFD, broken, errors.New("agents are not protected on this system")
}

func canWall() error { return errors.New("only Linux can close a port to some processes") }

// knock always fails here: there is no wall on which to knock.
func knock([]string) int { return 2 }

func listen() (*gate, error) { return nil, canWall() }

func (*gate) close() {}
