package verify

import "fmt"

// ExitInfo is how a command ended. Signal and Code are apart because a program
// may exit with 129 by itself: git does, to say that it was called wrongly.
type ExitInfo struct {
	Code       int
	Signal     string // the name of the signal that ended it, else ""
	TimedOut   bool   // ended by our time limit
	NotStarted bool   // no such file, not executable, not for this machine
}

// dead says why a process that ended so can never prove that its tool works.
func (e ExitInfo) dead() string {
	switch {
	case e.NotStarted:
		return "it could not be started"
	case e.TimedOut:
		return "it did not end within its time limit"
	case e.Signal != "":
		return "it was ended by the signal " + e.Signal
	case e.Code == 126:
		return "exit code 126: there is a file, and the system cannot run it"
	}
	if name := shellSignal(e.Code); name != "" {
		return fmt.Sprintf("exit code %d is how a shell tells of the signal %s", e.Code, name)
	}
	return ""
}

// shellSignal names the signal that a shell in between has turned into an exit
// code. Codes that programs give by themselves are left alone: 129 (git), 128,
// 255.
func shellSignal(code int) string {
	switch code {
	case 130:
		return "SIGINT"
	case 131:
		return "SIGQUIT"
	case 132:
		return "SIGILL"
	case 133:
		return "SIGTRAP"
	case 134:
		return "SIGABRT"
	case 135:
		return "SIGBUS"
	case 136:
		return "SIGFPE"
	case 137:
		return "SIGKILL"
	case 139:
		return "SIGSEGV"
	case 141:
		return "SIGPIPE"
	case 143:
		return "SIGTERM"
	}
	return ""
}
