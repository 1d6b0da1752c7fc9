package proc

import (
	"bytes"
	"os"
	"os/exec"
)

// Pager shows data on the terminal of this process by a command of sh, such as "less", and returns when the operator has
// left it. The command is the operator's own; it has env as its environment, and the terminal.
func Pager(command string, env []string, data []byte) error {
	cmd := exec.Command("/bin/sh", "-c", command)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = env, bytes.NewReader(data), os.Stdout, os.Stderr
	return cmd.Run()
}
