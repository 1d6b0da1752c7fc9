package render

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/loop/journal"
)

// maxPaths is how many changed settings a line names.
const maxPaths = 4

// problem is what is wrong with a proposal or a configuration.
type problem struct {
	Pointer string `json:"pointer"`
	Message string `json:"message"`
}

// firstOf is the first problem behind a colon, and how many more there are.
func firstOf(what string, list []problem) string {
	if len(list) == 0 {
		return ""
	}
	s := list[0].Message
	if p := list[0].Pointer; p != "" {
		s = p + ": " + s
	}
	s = what + ": " + Cut(text.Display(s), 2*maxCommand)
	if n := len(list) - 1; n > 0 {
		s += fmt.Sprintf(" (and %d more)", n)
	}
	return s
}

type changed struct {
	Path string `json:"path"`
}

// describeConfig says what became of a config.json that changed while a loop
// ran. The values are left to the event.
func describeConfig(ev journal.Event) string {
	var f struct {
		Changes []changed `json:"changes"`
		Digest  string    `json:"digest"`
		During  string    `json:"during"`
		Diff    struct {
			Loosening []changed `json:"loosening"`
		} `json:"diff"`
		Problems   []problem `json:"problems"`
		Warnings   []problem `json:"warnings"`
		File       string    `json:"file"`
		Protection string    `json:"protection"`
	}
	// A field of another type than ours leaves the rest readable.
	_ = json.Unmarshal(ev.Fields, &f)
	during := ""
	if f.During != "" {
		during = ", while the " + f.During + " ran"
	}
	switch ev.Event {
	case "config_loaded":
		return "configuration " + text.Display(f.File) + protection("it", f.Protection) + warnings(len(f.Warnings))
	case "config_warning":
		return "the configuration" + firstOf("", f.Problems)
	case "config_reloaded":
		return "the configuration was read again" + during + paths(f.Changes) + warnings(len(f.Warnings))
	case "config_rejected":
		return "the changed configuration is not taken" + during + ", what was in force stays" + firstOf("", f.Problems)
	}
	s := "a change of the configuration is held" + during + ", since it allows more than is trusted" + paths(f.Diff.Loosening)
	if len(f.Digest) >= 8 {
		s += "; if it is yours: superloop config trust --digest " + text.Display(f.Digest[:8])
	}
	return s
}

// protection says what keeps the agents from the configuration, if that is told.
func protection(what, level string) string {
	switch level {
	case "":
		return ""
	case "none":
		return "; nothing keeps the agents from " + what
	}
	return "; " + what + " is kept from the agents by " + level
}

// warnings says how many there are: superloop validate and policy lint tell them.
func warnings(n int) string {
	switch n {
	case 0:
		return ""
	case 1:
		return "; 1 warning"
	}
	return fmt.Sprintf("; %d warnings", n)
}

func paths(changes []changed) string {
	if len(changes) == 0 {
		return ""
	}
	var names []string
	for _, c := range changes[:min(len(changes), maxPaths)] {
		names = append(names, Cut(text.Display(c.Path), maxCommand))
	}
	s := ": " + strings.Join(names, ", ")
	if over := len(changes) - maxPaths; over > 0 {
		s += fmt.Sprintf(" and %d more", over)
	}
	return s
}
