package verify

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/recovery/catalog"
)

// maxBatchLine bounds one line of a batch, 64 MiB.
const maxBatchLine = 64 << 20

// recorded is a run as it is told in a batch. Keys that are not known are the
// caller's own.
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

type batchError struct {
	ID    json.RawMessage `json:"id"`
	Error string          `json:"error"`
}

// Batch judges one recorded verification a line and writes one answer a line, in
// order. A line that cannot be judged gives its id and an error, and the batch
// goes on. Nothing is run: the fallbacks are those that were recorded. The error
// is that of reading or writing.
func Batch(r io.Reader, w io.Writer) error {
	br := bufio.NewReaderSize(r, 64<<10)
	bw := bufio.NewWriter(w)
	enc := json.NewEncoder(bw)
	enc.SetEscapeHTML(false)
	for {
		line, rerr := readLine(br)
		if len(bytes.TrimSpace(line)) > 0 || errors.Is(rerr, errLongLine) {
			if err := enc.Encode(batchLine(line, rerr)); err != nil {
				return fmt.Errorf("writing a line of the batch: %w", err)
			}
		}
		if br.Buffered() == 0 || rerr != nil { // whoever asks may wait for the answer
			if err := bw.Flush(); err != nil {
				return fmt.Errorf("writing the batch: %w", err)
			}
		}
		switch {
		case rerr == nil, errors.Is(rerr, errLongLine):
		case errors.Is(rerr, io.EOF):
			return nil
		default:
			return fmt.Errorf("reading the batch: %w", rerr)
		}
	}
}

func batchLine(line []byte, rerr error) any {
	if rerr != nil && !errors.Is(rerr, io.EOF) {
		return batchError{ID: orNull(nil), Error: fmt.Sprintf("the line is longer than %d bytes", maxBatchLine)}
	}
	var in batchIn
	if err := json.Unmarshal(line, &in); err != nil {
		var id struct {
			ID json.RawMessage `json:"id"`
		}
		_ = json.Unmarshal(line, &id) // an error elsewhere leaves the id readable
		return batchError{ID: orNull(id.ID), Error: fmt.Sprintf("reading the line: %v", err)}
	}
	if in.Tool == "" && in.Command == "" {
		return batchError{ID: orNull(in.ID), Error: "the line has neither tool nor command"}
	}
	out, err := in.judge()
	if err != nil {
		return batchError{ID: orNull(in.ID), Error: err.Error()}
	}
	return out
}

// judge goes the way of Repair over what was recorded.
func (in *batchIn) judge() (batchOut, error) {
	command := in.Command
	if command == "" {
		command = text.Words([]string{in.Tool}) + " --version"
	}
	argv, err := split(command)
	if err != nil {
		return batchOut{}, err
	}
	tool := in.Tool
	if tool == "" {
		tool = argv[0]
	}
	out := batchOut{ID: orNull(in.ID)}
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
	for _, f := range inOrder(in.Fallbacks) {
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

// take answers with a section that passes on the very output that it was made
// from.
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

// inOrder puts the fallbacks into the order in which Repair tries them.
func inOrder(list []recorded) []recorded {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b recorded) int {
		return strings.Compare(methodOf(b.Args), methodOf(a.Args)) // fallback_help before fallback_h
	})
	return list
}

func methodOf(args []string) string {
	if slices.Contains(args, "-h") {
		return FallbackH
	}
	return FallbackHelp
}

func orNull(id json.RawMessage) json.RawMessage {
	if len(id) == 0 {
		return json.RawMessage("null")
	}
	return id
}

var errLongLine = errors.New("line too long")

// readLine reads one line of any length up to the bound, and skips the rest of
// a longer one.
func readLine(br *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := br.ReadSlice('\n')
		if len(line)+len(part) > maxBatchLine {
			for errors.Is(err, bufio.ErrBufferFull) {
				_, err = br.ReadSlice('\n')
			}
			if err != nil {
				return nil, err
			}
			return nil, errLongLine
		}
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}
