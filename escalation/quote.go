package escalation

import (
	"path/filepath"
	"strings"

	"github.com/superloop/superloop/internal/text"
)

// byHand is the line that does by hand what superloop would do: the command in its
// directory.
func byHand(repo, workingDir, command string) string {
	quoted := text.Paste(absolute(repo, workingDir))
	if strings.HasPrefix(quoted, `"$(`) { // the slash at its end saves a name that ends with a newline
		quoted = text.Paste(strings.TrimRight(absolute(repo, workingDir), "/") + "/")
	}
	cd := "cd " + quoted + " && "
	if pastable(command) {
		return cd + command
	}
	cd += "bash --noprofile --norc -o pipefail -c "
	if command != "" && (command[0] == '-' || command[0] == '+') {
		cd += "-- " // else bash takes it for options
	}
	return cd + text.Paste(command)
}

func absolute(repo, dir string) string {
	if filepath.IsAbs(dir) {
		return dir
	}
	return filepath.Join(repo, dir)
}

// shellWords are commands that would change the shell that they are pasted into, and
// words of its grammar.
const shellWords = " . alias bind break builtin case cd command continue coproc declare do done elif else enable esac eval exec exit " +
	"export fi for function hash if kill let local logout popd pushd read readonly return select set shift shopt source suspend then time " +
	"times trap typeset ulimit umask unalias unset until while "

// pastable reports whether a command can stand as it is behind "cd DIR &&": simple
// commands joined by &&, of plain words, and none of shellWords. Anything else goes
// through bash -c.
func pastable(command string) bool {
	const plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-./:@%+,= "
	for part := range strings.SplitSeq(command, "&&") {
		words := strings.Fields(part)
		if len(words) == 0 || strings.Trim(part, plain) != "" || strings.Contains(words[0], "=") || strings.Contains(shellWords, " "+words[0]+" ") {
			return false
		}
	}
	return true
}

// verb is a command line that answers the question, and no other: it names the
// digest. Sixteen of its digits are enough, since nobody but superloop chooses
// what it is made of.
func verb(r Record, name, more string) string {
	loop := " --loop "
	if strings.HasPrefix(r.Question.Loop, "-") {
		loop = " --loop="
	}
	return "superloop " + name + " --repo " + text.Paste(r.Question.Repo) + loop + r.Question.Loop + " --digest " + r.Digest[:16] + more
}

// Actions are complete command lines that can be pasted into a shell.
type Actions struct {
	Approve string `json:"approve"`
	Reject  string `json:"reject"`
	// Resolve says that it is done by hand; Manual is the line that does it, ""
	// where none is known.
	Resolve string `json:"resolve"`
	Manual  string `json:"manual,omitempty"`
}

// Actions are the ways to answer r.
func (r Record) Actions() Actions {
	a := Actions{
		Approve: verb(r, "approve-recovery", ""),
		Reject:  verb(r, "reject-recovery", ""),
		Resolve: verb(r, "resolve-recovery", " --note 'done by hand'"),
		Manual:  r.Question.Manual,
	}
	if c := r.Question.Command; c != nil {
		a.Manual = byHand(r.Question.Repo, c.WorkingDir, string(c.Text))
	}
	return a
}
