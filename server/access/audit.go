package access

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/text"
)

// maxLog is the length in bytes beyond which the record of requests is set aside, as audit.1.jsonl; the one before it goes.
const maxLog = 8 << 20

// Line is one request that has changed something, or was refused.
type Line struct {
	Seq     int64     `json:"seq"`
	At      time.Time `json:"at"`
	Channel string    `json:"channel"` // socket or tcp
	UID     *int      `json:"uid,omitempty"`
	User    string    `json:"user,omitempty"`
	PIDs    []int     `json:"pids,omitempty"` // of the processes that hold the connection
	Exe     string    `json:"exe,omitempty"`  // of the first of them
	Token   string    `json:"token,omitempty"`
	Address string    `json:"address,omitempty"`
	Method  string    `json:"method"`
	Path    string    `json:"path"`
	Status  int       `json:"status"`
	Verdict string    `json:"verdict"`          // done, refused or failed
	Reason  string    `json:"reason,omitempty"` // the type of the problem
	Detail  string    `json:"detail,omitempty"`
	Count   int       `json:"count,omitempty"` // for how many refused requests that are alike the line stands; missing: one
	// Confirmed is what a person has confirmed it with: terminal, or passkey NAME.
	Confirmed string `json:"confirmed,omitempty"`
	Replay    bool   `json:"replay,omitempty"` // answered by what an Idempotency-Key stands for: nothing was done again
}

// The verdicts.
const (
	Done    = "done"
	Refused = "refused"
	Failed  = "failed" // by the daemon
)

// AuditFile is where the record of requests lies.
func AuditFile(state string) string { return filepath.Join(state, "daemon", "audit.jsonl") }

// Log is the record of requests. Its methods may be called at the same time.
type Log struct {
	disk durable.Disk
	file string

	mu  sync.Mutex
	out *durable.Appender // nil: not open
	seq int64
	// bursts are the refused requests of the last minute, by kind.
	bursts map[kind]*burst
}

// OpenLog opens the record, and moves aside what cannot be one. The caller holds the lock of the daemon.
func OpenLog(disk durable.Disk, state string) (*Log, error) {
	l := &Log{disk: disk, file: AuditFile(state)}
	for _, file := range []string{l.file, l.old()} {
		if _, err := door.Read(file, 2*maxLog); err != nil && !errors.Is(err, fs.ErrNotExist) {
			if _, err := disk.MoveFree("audit", file, file+".foreign"); err != nil {
				return nil, err
			}
		}
	}
	lines, err := l.tail(0, 1)
	if err != nil {
		return nil, err
	}
	if len(lines) > 0 {
		l.seq = lines[0].Seq
	}
	return l, l.open()
}

func (l *Log) open() (err error) {
	if err = l.disk.MkdirAll("audit", filepath.Dir(l.file), 0o700); err != nil {
		return err
	}
	data, err := door.Read(l.file, 2*maxLog)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if l.out, err = l.disk.OpenAppend("audit", l.file, 0o600); err == nil && len(data) > 0 && data[len(data)-1] != '\n' {
		err = l.out.Append([]byte{'\n'}) // a kill or a full disk has cut the last line
	}
	return err
}

func (l *Log) old() string { return filepath.Join(filepath.Dir(l.file), "audit.1.jsonl") }

// Add appends a line. It survives a kill; one of something that was done survives a power cut. Texts are cut and made
// harmless, and lose what has the form of a secret. Of many refused requests that are alike some lines stand for several.
func (l *Log) Add(line Line) error {
	for _, s := range []*string{&line.User, &line.Exe, &line.Token, &line.Address, &line.Method, &line.Path, &line.Reason, &line.Detail, &line.Confirmed} {
		*s = text.Cut(text.Display(WithoutSecrets(*s)), 300)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if line.Verdict == Refused && l.flooded(&line) {
		return nil
	}
	return l.twice(line)
}

func (l *Log) twice(line Line) error {
	err := l.add(line)
	if err != nil { // somebody else has changed the file, or it was gone: once more, to what is there now
		err = l.add(line)
	}
	return err
}

func (l *Log) add(line Line) (err error) {
	defer func() {
		if err != nil && l.out != nil { // a poisoned appender stays so
			_ = l.out.Close()
			l.out = nil
		}
	}()
	if l.out == nil {
		if err := l.open(); err != nil {
			return err
		}
	}
	if l.out.Size() > maxLog {
		old := l.out
		l.out = nil
		if err := errors.Join(old.Close(), l.disk.Rename("audit", l.file, l.old()), l.open()); err != nil {
			return err
		}
	}
	line.Seq, line.At = l.seq+1, time.Now().UTC()
	data, err := json.Marshal(line)
	if err != nil {
		return err
	}
	if err := l.out.Append(append(data, '\n')); err != nil {
		return err
	}
	l.seq++
	if line.Verdict == Done {
		_ = l.out.Sync() // after a failure the line survives a kill, and the appender is poisoned: the next line opens another
	}
	return nil
}

// Page returns at most n lines with a smaller number than before (0: all), the newest first.
func (l *Log) Page(before int64, n int) ([]Line, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tail(before, n)
}

func (l *Log) tail(before int64, n int) (lines []Line, err error) {
	for _, file := range []string{l.file, l.old()} {
		data, err := door.Read(file, 2*maxLog)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if lines = slices.Concat(lines, tailOf(data, before, n-len(lines))); len(lines) >= n {
			break
		}
	}
	return lines, nil
}

// tailOf returns the last n lines with a number below before, the last first. It leaves out what is no line.
func tailOf(data []byte, before int64, n int) (lines []Line) {
	for len(data) > 0 && len(lines) < n {
		data = bytes.TrimSuffix(data, []byte{'\n'})
		from := bytes.LastIndexByte(data, '\n') + 1
		var line Line
		if err := text.Decode(data[from:], &line); err == nil && line.Seq > 0 && (before == 0 || line.Seq < before) {
			lines = append(lines, line)
		}
		data = data[:from]
	}
	return lines
}
