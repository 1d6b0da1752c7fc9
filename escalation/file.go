package escalation

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/superloop/superloop/internal/durable"
)

const version = 1

// file is a record on the disk: its version, and a digest over all of it, so that
// what a bad disk or an editor did is not taken for an answer.
type file struct {
	Version int             `json:"version"`
	Sum     string          `json:"sum"`
	Record  json.RawMessage `json:"record"`
}

// encode writes a record, always in the same way.
func encode(r Record) ([]byte, error) {
	inner, err := marshal(r)
	if err == nil {
		inner, err = marshal(file{version, sum(inner), inner})
	}
	if err != nil {
		return nil, fmt.Errorf("writing the question down: %w", err)
	}
	return append(inner, '\n'), nil
}

// decode reads a record strictly: superloop alone writes it, in one way. So what
// is not byte for byte what encode gives is damage, or somebody else's.
func decode(data []byte) (r Record, err error) {
	var f file
	if err := json.Unmarshal(data, &f); err != nil {
		return r, fmt.Errorf("it is not whole: %w", err)
	}
	if f.Version != version {
		return r, fmt.Errorf("it is of version %d, this superloop knows version %d", f.Version, version)
	}
	if err := json.Unmarshal(f.Record, &r); err != nil {
		return Record{}, err
	}
	again, err := encode(r)
	if err == nil && !bytes.Equal(again, data) {
		err = errors.New("it is not as superloop writes it")
	}
	if err != nil {
		return Record{}, err
	}
	return r, r.check()
}

// read reads the record at path. The error is fs.ErrNotExist if there is none; any
// other is about what is there.
func read(path string) (Record, error) {
	f, err := durable.Open(path)
	if err != nil {
		return Record{}, err
	}
	defer f.Close()
	if err := own(f, path); err != nil {
		return Record{}, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxRecord+1))
	if err == nil && len(data) > maxRecord {
		err = fmt.Errorf("it has more than %d MiB", maxRecord>>20)
	}
	if err != nil {
		return Record{}, err
	}
	return decode(data)
}

// own wants a file that only this user can have written.
func own(f *os.File, path string) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	dir, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return err
	}
	if mode := info.Mode().Perm(); mode != 0o600 {
		return fmt.Errorf("its mode is %#o, not 0600", mode)
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		if int(st.Uid) != os.Geteuid() {
			return fmt.Errorf("it belongs to user %d, this is user %d; answer as the user who runs the loop", st.Uid, os.Geteuid())
		}
		if st.Nlink > 1 {
			return fmt.Errorf("it has %d names (hard links)", st.Nlink)
		}
	}
	if mode := dir.Mode().Perm(); mode&0o022 != 0 {
		return fmt.Errorf("others can write its directory %s (mode %#o)", filepath.Dir(path), mode)
	}
	return nil
}
