package escalation

import (
	"path/filepath"
	"strings"

	"github.com/superloop/superloop/internal/text"
)

// quoteDir quotes a directory. The slash at its end saves a name that ends with a
// newline.
func quoteDir(dir string) string {
	if q := text.Paste(dir); !strings.HasPrefix(q, `"$(`) {
		return q
	}
	return text.Paste(strings.TrimRight(dir, "/") + "/")
}

// byHand is the line that does by hand what superloop would do: the command in its
// directory.
func byHand(repo, workingDir, command string) string {
	dir := workingDir
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(repo, dir)
	}
	if pastable(command) {
		return "cd " + quoteDir(dir) + " && " + command
	}
	bash := " && bash --noprofile --norc -o pipefail -c "
	if command != "" && (command[0] == '-' || command[0] == '+') {
		bash += "-- " // else bash takes it for options
	}
	return "cd " + quoteDir(dir) + bash + text.Paste(command)
}

// pastable reports whether a command can stand as it is behind "cd DIR &&": simple
// commands joined by &&, of plain words, none of which would change the shell that
// it is pasted into. Anything else goes through bash -c.
func pastable(command string) bool {
	const plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-./:@%+,= "
	for part := range strings.SplitSeq(command, "&&") {
		words := strings.Fields(part)
		if len(words) == 0 || strings.Trim(part, plain) != "" || strings.Contains(words[0], "=") {
			return false
		}
		switch words[0] {
		case ".", "alias", "bind", "break", "builtin", "case", "cd", "command", "continue", "coproc", "declare", "do", "done", "elif", "else",
			"enable", "esac", "eval", "exec", "exit", "export", "fi", "for", "function", "hash", "if", "kill", "let", "local", "logout",
			"popd", "pushd", "read", "readonly", "return", "select", "set", "shift", "shopt", "source", "suspend", "then", "time",
			"times", "trap", "typeset", "ulimit", "umask", "unalias", "unset", "until", "while":
			return false
		}
	}
	return true
}

// verb is a command line that answers the question, and no other: it names the
// digest. Sixteen of its digits are enough, since nobody but superloop chooses
// what it is made of.
func verb(r Record, name string, more ...string) string {
	words := []string{"superloop", name, "--repo", text.Paste(r.Question.Repo), "--loop", r.Question.Loop}
	if strings.HasPrefix(r.Question.Loop, "-") {
		words = append(words[:4], "--loop="+r.Question.Loop)
	}
	return strings.Join(append(append(words, "--digest", r.Digest[:16]), more...), " ")
}

// Actions are complete command lines that can be pasted into a shell.
type Actions struct {
	Approve string `json:"approve"`
	Reject  string `json:"reject"`
	// Resolve says that it is mended by hand; Manual is the line that does that, ""
	// where none is known.
	Resolve string `json:"resolve"`
	Manual  string `json:"manual,omitempty"`
}

// Actions are the ways to answer r.
func (r Record) Actions() Actions {
	a := Actions{
		Approve: verb(r, "approve-recovery"),
		Reject:  verb(r, "reject-recovery"),
		Resolve: verb(r, "resolve-recovery", "--note", "'done by hand'"),
		Manual:  r.Question.Manual,
	}
	if c := r.Question.Command; c != nil {
		a.Manual = byHand(r.Question.Repo, c.WorkingDir, string(c.Text))
	}
	return a
}
