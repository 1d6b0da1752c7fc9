package remedy

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"strings"

	"github.com/superloop/superloop/internal/text"
)

// commandText writes steps as the text that a shell would run the same: each argument quoted if it must be, the steps
// joined by " && ".
func commandText(steps []Step) string {
	texts := make([]string, len(steps))
	for i, s := range steps {
		texts[i] = stepText(s)
	}
	return strings.Join(texts, " && ")
}

func stepText(s Step) string {
	var words []string
	if len(s.Env) > 0 && !isSudo(s.Argv) {
		words = make([]string, 0, len(s.Env)+len(s.Argv))
		for _, e := range s.Env {
			name, value, _ := strings.Cut(e, "=")
			words = append(words, name+"="+text.Word(value))
		}
	}
	for _, a := range s.Argv {
		words = append(words, text.Word(a))
	}
	return strings.Join(words, " ")
}

func isSudo(argv []string) bool { return len(argv) > 0 && argv[0] == "sudo" }

// commandGoal is the goal of running something: the same words in the same directory have the same one.
func commandGoal(dir string, steps []Step) string {
	h := sha256.New()
	for _, s := range steps {
		for _, list := range [][]string{s.Env, s.Argv} {
			for _, w := range list {
				fmt.Fprintf(h, "%d:%s,", len(w), w)
			}
			h.Write([]byte(";"))
		}
		d := s.Dir
		if d == "" {
			d = dir
		}
		fmt.Fprintf(h, "@%s\n", path.Clean(d))
	}
	return "cmd/" + hex.EncodeToString(h.Sum(nil))[:16]
}

func toolGoal(recipe string) string { return "tool/" + recipe }
