package proc

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
)

// Detach starts a program that outlives this process: in a session of its own, with nothing to read, and with log as its
// stdout and stderr. It returns the pid and a channel that receives how the program ended, if it ends while this process
// lives.
func Detach(argv []string, env []string, log *os.File) (pid int, ended <-chan error, err error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr = env, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return 0, nil, err
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	return cmd.Process.Pid, done, nil
}

// Child is a program that this process talks with.
type Child struct {
	To    io.WriteCloser // what it reads; it is also closed when this process ends
	From  io.ReadCloser  // what it writes
	Ended <-chan error   // receives once, how it has ended
	cmd   *exec.Cmd
}

// Signal sends a signal to the child, unless it has ended.
func (c *Child) Signal(sig syscall.Signal) error { return c.cmd.Process.Signal(sig) }

// Converse starts a program with log as its stderr. Signals of a terminal do not reach it.
func Converse(argv []string, env []string, log *os.File) (*Child, error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env, cmd.Stderr = env, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	to, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	from, out, err := os.Pipe() // StdoutPipe would be closed before all is read
	if err != nil {
		return nil, err
	}
	cmd.Stdout = out
	err = cmd.Start()
	_ = out.Close()
	if err != nil {
		_ = from.Close()
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	return &Child{to, from, ended, cmd}, nil
}

// Signal sends a signal to the process with this identity. It sends nothing to another process that has its pid by now:
// then, and if the process is gone, the error is os.ErrProcessDone.
func Signal(id Identity, sig syscall.Signal) error {
	self := Self()
	if id.PID <= 0 || id.Namespace != self.Namespace || id.BootID != self.BootID {
		return fmt.Errorf("pid %d is a process of another system (%s)", id.PID, id.Host)
	}
	if s, ok := readStat(id.PID); id.StartTime != 0 && (!ok || s.start != id.StartTime) {
		return os.ErrProcessDone
	}
	if err := syscall.Kill(id.PID, sig); errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	} else if err != nil {
		return err
	}
	return nil
}
