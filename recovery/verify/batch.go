package verify

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/batch"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/recovery/catalog"
)

// recorded is a run as it is told in a batch. Keys that are not known are the caller's own.
type recorded struct {
	Args     argList `json:"args"`
	ExitCode int     `json:"exit_code"`
	Signal   signal  `json:"signal"`
	TimedOut bool    `json:"timed_out"`
	Stdout   string  `json:"stdout"`
	Stderr   string  `json:"stderr"`
}

func (r *recorded) exit() ExitInfo {
	return ExitInfo{Code: r.ExitCode, Signal: string(r.Signal), TimedOut: r.TimedOut}
}

// signal is the name of a signal, or its number.
type signal string

// UnmarshalJSON takes both forms, and 0 for none.
func (s *signal) UnmarshalJSON(b []byte) error {
	var number int
	if json.Unmarshal(b, &number) == nil {
		if number != 0 {
			*s = signal(fmt.Sprintf("SIG%d", number))
		}
		return nil
	}
	return json.Unmarshal(b, (*string)(s))
}

// argList is a list of arguments, or one text that is split at blanks.
type argList []string

// UnmarshalJSON takes both forms.
func (a *argList) UnmarshalJSON(b []byte) error {
	var text string
	if json.Unmarshal(b, &text) == nil {
		*a = strings.Fields(text)
		return nil
	}
	return json.Unmarshal(b, (*[]string)(a))
}

type batchIn struct {
	ID      json.RawMessage `json:"id"`
	Tool    string          `json:"tool"`
	Command string          `json:"command"`
	recorded
	Fallbacks []recorded `json:"fallbacks"`
}

type batchOut struct {
	ID         json.RawMessage `json:"id"`
	Repairable bool            `json:"repairable"`
	Method     string          `json:"method"`
	Repaired   *batchSection   `json:"repaired"`
	Why        string          `json:"why"`
}

type batchSection struct {
	Command  string `json:"command"`
	Mode     string `json:"mode"`
	ExitCode int    `json:"exit_code"`
	Pattern  string `json:"pattern"`
}

// Batch judges one recorded verification a line and writes one answer a line, in order. A line that cannot be judged
// gives its id and an error, and the batch goes on. Nothing is run: the fallbacks are those that were recorded. The
// error is that of reading or writing.
func Batch(r io.Reader, w io.Writer) error { return batch.Objects(r, w, batchLine) }

func batchLine(in batchIn) any {
	if in.Tool == "" && in.Command == "" {
		return batch.Refuse(in.ID, "the line has neither tool nor command")
	}
	out, err := in.judge()
	if err != nil {
		return batch.Refuse(in.ID, err.Error())
	}
	return out
}

// judge goes the way of Repair over what was recorded.
func (in *batchIn) judge() (batchOut, error) {
	argv, err := split(cmp.Or(in.Command, text.Words([]string{in.Tool})+" --version"))
	if err != nil {
		return batchOut{}, err
	}
	tool := cmp.Or(in.Tool, argv[0])
	out := batchOut{ID: batch.ID(in.ID)}
	a := analyse(in.Stdout, in.Stderr, in.exit(), tool, argv[1:])
	out.Why = a.Why
	if a.Repairable {
		out.take(OutputDetection, argv, a, in.recorded)
		return out, nil
	}
	base, asks := asksOnly(argv)
	if a.Broken || in.ExitCode == 0 || !asks {
		return out, nil
	}
	fallbacks := slices.Clone(in.Fallbacks) // in the order in which Repair tries them: --help before -h
	slices.SortStableFunc(fallbacks, func(a, b recorded) int { return strings.Compare(methodOf(b.Args), methodOf(a.Args)) })
	for _, f := range fallbacks {
		next := append(base[:len(base):len(base)], f.Args...)
		a := analyseHelp(f.Stdout, f.Stderr, f.exit(), tool, next[1:])
		if a.Broken {
			out.Why = fmt.Sprintf("%s shows that it is broken: %s", text.Words(next), a.Why)
			return out, nil
		}
		if a.Repairable && out.take(methodOf(f.Args), next, a, f) {
			return out, nil
		}
	}
	return out, nil
}

// take answers with a section that passes on the very output that it was made from.
func (out *batchOut) take(method string, argv []string, a Analysis, r recorded) bool {
	v := repaired(catalog.Verify{}, argv, a, "")
	ok, why := Passes(v, r.Stdout, r.Stderr, r.exit())
	if !ok {
		out.Why = why
		return false
	}
	out.Repairable, out.Method, out.Why = true, method, a.Why
	out.Repaired = &batchSection{Command: v.Command, Mode: v.Mode, ExitCode: v.ExitCode, Pattern: v.Pattern}
	return true
}

func methodOf(args []string) string {
	if slices.Contains(args, "-h") {
		return FallbackH
	}
	return FallbackHelp
}
