package access

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/superloop/superloop/internal/door"
	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/internal/text"
)

// KeyLife is how long an answer is kept for its key.
const KeyLife = 24 * time.Hour

// Bounds of what is kept for keys.
const (
	maxKeys   = 10000
	pruneStep = 256       // so many new keys lie between two looks for old ones
	maxAnswer = 256 << 10 // bytes of a body
	maxKept   = 1 << 20   // bytes of a file
)

// Answer is what a request was answered.
type Answer struct {
	Status int    `json:"status"`
	Type   string `json:"content_type,omitempty"`
	Body   []byte `json:"body,omitempty"`
	// Withheld says that the body is not kept: it shows a secret, which is shown once, or is too long.
	Withheld bool `json:"withheld,omitempty"`
}

// kept is the file of a key. It is written before the request is carried out, and again with the answer.
type kept struct {
	At      time.Time `json:"at"`
	Request string    `json:"request"` // the hash of method, path and body
	Answer  *Answer   `json:"answer,omitempty"`
}

// The reasons for which a key is refused.
var (
	ErrKeyForm     = errors.New("an Idempotency-Key has 1 to 255 printable ASCII characters, without a blank")
	ErrOtherWish   = errors.New("this Idempotency-Key was sent with another request; use a new one")
	ErrInterrupted = errors.New("the daemon ended while it carried out the request with this Idempotency-Key; look what came of it, then use a new key")
)

// GoodKey reports whether a header is a key.
func GoodKey(key string) bool {
	return key != "" && len(key) <= 255 && !strings.ContainsFunc(key, func(c rune) bool { return c <= ' ' || c > '~' })
}

// Keys keeps the answers of requests that have an Idempotency-Key, each in a file of its own. Its methods may be called at
// the same time.
type Keys struct {
	disk durable.Disk
	dir  string

	mu    sync.Mutex
	runs  map[string]chan struct{} // requests that are carried out now, by file; closed at their end
	added int
}

// OpenKeys removes what is too old.
func OpenKeys(disk durable.Disk, state string) (*Keys, error) {
	k := &Keys{disk: disk, dir: filepath.Join(state, "daemon", "idempotency"), runs: map[string]chan struct{}{}}
	if err := disk.MkdirAll("idempotency", k.dir, 0o700); err != nil {
		return nil, err
	}
	if _, err := disk.RemoveTemps("idempotency", k.dir); err != nil {
		return nil, err
	}
	return k, k.prune(time.Now())
}

// Begin takes a key of somebody for a request. It returns the answer of the first request with that key, or end, which the
// caller calls with the answer when it has carried the request out; nil frees the key, because nothing was done. While
// another request with this key is carried out, Begin waits for its end, or for that of ctx. An error is one of
// ErrOtherWish and ErrInterrupted, or says what failed on the disk; nothing may be done then.
func (k *Keys) Begin(ctx context.Context, who, key, request string) (old *Answer, end func(*Answer) error, err error) {
	file := filepath.Join(k.dir, hashOf(who+"\n"+key)+".json")
	for {
		k.mu.Lock()
		busy := k.runs[file]
		if busy == nil {
			break
		}
		k.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
	defer k.mu.Unlock()
	now := time.Now().UTC()
	switch was, err := readKept(file); {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, nil, err
	case err != nil || now.Sub(was.At) >= KeyLife:
	case was.Request != hashOf(request):
		return nil, nil, ErrOtherWish
	case was.Answer == nil:
		return nil, nil, ErrInterrupted
	default:
		return was.Answer, nil, nil
	}
	if k.added++; k.added%pruneStep == 0 {
		_ = k.prune(now) // what is left over goes the next time
	}
	mine := kept{At: now, Request: hashOf(request)}
	if err := k.write(file, mine); err != nil {
		return nil, nil, err
	}
	done := make(chan struct{})
	k.runs[file] = done
	return nil, func(a *Answer) error {
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.runs, file)
		defer close(done)
		if a == nil {
			return k.disk.Remove("idempotency", file)
		}
		if len(a.Body) > maxAnswer {
			a = &Answer{Status: a.Status, Withheld: true}
		}
		mine.Answer = a
		return k.write(file, mine)
	}, nil
}

func (k *Keys) write(file string, v kept) error {
	data, err := json.Marshal(v)
	if err == nil {
		err = k.disk.WriteFile("idempotency", file, append(data, '\n'), 0o600)
	}
	return err
}

func readKept(file string) (v kept, err error) {
	data, err := door.Read(file, maxKept)
	if err == nil {
		v, err = decodeKept(data)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		err = &door.StateError{What: "what a request with this Idempotency-Key was answered", Path: file, Err: err, Without: "a request with the key is carried out as a new one"}
	}
	return v, err
}

func decodeKept(data []byte) (v kept, err error) {
	if err = text.Decode(data, &v); err != nil {
		return v, err
	}
	if v.At.IsZero() || !goodHash.MatchString(v.Request) || v.Answer != nil && (v.Answer.Status < 200 || v.Answer.Status > 599 || strings.ContainsAny(v.Answer.Type, "\r\n")) {
		return v, fmt.Errorf("it is not as superloop writes it")
	}
	return v, nil
}

// prune removes what is older than KeyLife, and the oldest beyond maxKeys. What is carried out now stays.
func (k *Keys) prune(now time.Time) error {
	files, err := os.ReadDir(k.dir)
	if err != nil {
		return err
	}
	type aged struct {
		file string
		at   time.Time
	}
	var all []aged
	for _, f := range files {
		if info, err := f.Info(); err == nil && !durable.IsTemp(f.Name()) && k.runs[filepath.Join(k.dir, f.Name())] == nil {
			all = append(all, aged{filepath.Join(k.dir, f.Name()), info.ModTime()})
		}
	}
	slices.SortFunc(all, func(a, b aged) int { return cmp.Or(b.at.Compare(a.at), cmp.Compare(a.file, b.file)) })
	for i, f := range all {
		if i < maxKeys && now.Sub(f.at) < KeyLife {
			continue
		}
		if rerr := k.disk.Unlink("idempotency", f.file); rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
			err = errors.Join(err, rerr)
		}
	}
	return err
}
