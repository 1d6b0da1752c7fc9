package durable

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A log that grows keeps two files of 8 MiB beside it, loses no line of what is kept, and goes on to grow where it cannot
// be set aside.
func TestALogThatGrows(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path, []byte("of the last process\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	full, opened := false, 0
	l, err := OS().WithFault(func(op string) error {
		if full && strings.HasSuffix(op, ":rename") {
			return errors.New("full")
		}
		return nil
	}).GrowLog(path, func(*os.File) { opened++ })
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	line := bytes.Repeat([]byte("x"), 1<<20)
	line[len(line)-1] = '\n'
	write := func(n int) {
		for range n {
			if _, err := l.Write(line); err != nil {
				t.Fatal(err)
			}
		}
	}
	size := func(name string) int64 {
		info, err := os.Stat(path + name)
		if err != nil {
			return -1
		}
		return info.Size()
	}
	write(7)
	if size("") != 7<<20+20 || size(".1") != -1 {
		t.Errorf("%d, %d", size(""), size(".1"))
	}
	write(2) // the eighth passes the bound, and the ninth begins the next file
	if size("") != 1<<20 || size(".1") != 8<<20+20 || size(".2") != -1 {
		t.Errorf("%d, %d, %d", size(""), size(".1"), size(".2"))
	}
	full = true
	write(10)
	if size("") != 11<<20 || size(".1") != 8<<20+20 {
		t.Errorf("full: %d, %d", size(""), size(".1"))
	}
	full = false
	write(1)
	if size("") != 1<<20 || size(".1") != 11<<20 || size(".2") != 8<<20+20 || size(".3") != -1 || opened != 3 {
		t.Errorf("%d, %d, %d, opened %d times", size(""), size(".1"), size(".2"), opened)
	}
}
