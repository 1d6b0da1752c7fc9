package durable

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// A scenario is one operation on a directory that prepare has filled. Whatever
// step of it fails or is the process's last, check must hold; and run, once
// more and undisturbed, must then succeed and leave what done describes.
type scenario struct {
	name    string
	steps   string // of a clean run, in order
	prepare func(t *testing.T, dir string)
	run     func(d Disk, dir string) error
	check   func(t *testing.T, dir string)
	done    func(t *testing.T, dir string)
	// forgives are the steps whose failure is no error of the operation.
	forgives []string
	// once: a run after a successful one fails, since there is nothing left to do.
	once bool
}

const oldText, newText = "old content\n", "the new content, which is longer\n"

var scenarios = []scenario{
	{
		name:    "write-file",
		steps:   "create write chmod sync close rename dirsync",
		prepare: put("f", oldText),
		run: func(d Disk, dir string) error {
			return d.WriteFile("op", filepath.Join(dir, "f"), []byte(newText), 0o640)
		},
		check: oneOf("f", oldText, newText),
		done:  oneOf("f", newText),
	},
	{
		name:    "write-file-new",
		steps:   "create write chmod sync close rename dirsync",
		prepare: func(*testing.T, string) {},
		run: func(d Disk, dir string) error {
			return d.WriteFile("op", filepath.Join(dir, "f"), []byte(newText), 0o640)
		},
		check: oneOf("f", missing, newText),
		done:  oneOf("f", newText),
	},
	{
		name:    "write-file-by",
		steps:   "create write write chmod sync close rename dirsync",
		prepare: put("f", oldText),
		run: func(d Disk, dir string) error {
			return d.WriteFileBy("op", filepath.Join(dir, "f"), 0o640, func(to io.Writer) error {
				_, err := io.WriteString(to, newText[:9])
				if err == nil {
					_, err = io.WriteString(to, newText[9:])
				}
				return err
			})
		},
		check: oneOf("f", oldText, newText),
		done:  oneOf("f", newText),
	},
	{
		name:    "write-projection",
		steps:   "create write chmod close rename",
		prepare: put("f", oldText),
		run: func(d Disk, dir string) error {
			return d.WriteProjection("op", filepath.Join(dir, "f"), []byte(newText), 0o640)
		},
		check: oneOf("f", oldText, newText),
		done:  oneOf("f", newText),
	},
	{
		name:    "append",
		steps:   "open append sync close",
		prepare: put("f", oldText),
		run:     runAppend,
		check:   prefixed("f", oldText, newText),
		done:    oneOf("f", oldText+newText),
	},
	{
		name:    "append-new",
		steps:   "open dirsync append sync close",
		prepare: func(*testing.T, string) {},
		run:     runAppend,
		check:   prefixed("f", "", newText),
		done:    oneOf("f", newText),
	},
	{
		name:    "mkdir",
		steps:   "mkdir dirsync mkdir dirsync",
		prepare: func(*testing.T, string) {},
		run:     func(d Disk, dir string) error { return d.MkdirAll("op", filepath.Join(dir, "a", "b"), 0o700) },
		check:   func(*testing.T, string) {},
		done: func(t *testing.T, dir string) {
			if info, err := os.Stat(filepath.Join(dir, "a", "b")); err != nil || !info.IsDir() {
				t.Errorf("a/b: %v", err)
			}
		},
	},
	{
		name:  "rename",
		steps: "rename dirsync dirsync",
		prepare: func(t *testing.T, dir string) {
			put("f", oldText)(t, dir)
			if err := os.Mkdir(filepath.Join(dir, "to"), 0o700); err != nil {
				t.Fatal(err)
			}
		},
		run: func(d Disk, dir string) error {
			return d.Rename("op", filepath.Join(dir, "f"), filepath.Join(dir, "to", "f"))
		},
		check: func(t *testing.T, dir string) {
			if content(t, dir, "f") == missing {
				oneOf("to/f", oldText)(t, dir)
			} else {
				oneOf("to/f", missing)(t, dir)
			}
		},
		done: oneOf("to/f", oldText),
		once: true,
	},
	{
		name:    "remove",
		steps:   "remove dirsync",
		prepare: put("f", oldText),
		run:     func(d Disk, dir string) error { return d.Remove("op", filepath.Join(dir, "f")) },
		check:   oneOf("f", oldText, missing),
		done:    oneOf("f", missing),
		once:    true,
	},
	{
		name:    "repair",
		steps:   "read aside aside-write aside-sync dirsync open truncate sync",
		prepare: put("f", oldText+"half a li"),
		run: func(d Disk, dir string) error {
			return cutTorn(d, "op", filepath.Join(dir, "f"))
		},
		check: func(t *testing.T, dir string) {
			oneOf("f", oldText, oldText+"half a li")(t, dir)
			if content(t, dir, "f") == oldText && !slices.Contains(asides(t, dir), "half a li") {
				t.Error("the torn tail is nowhere")
			}
		},
		done: func(t *testing.T, dir string) {
			oneOf("f", oldText)(t, dir)
			if !slices.Contains(asides(t, dir), "half a li") {
				t.Error("the torn tail is nowhere")
			}
		},
	},
	{
		name:    "slots",
		steps:   "open read dirsync write write write close",
		prepare: func(*testing.T, string) {},
		run:     runSlots,
		check: func(t *testing.T, dir string) {
			rec, ok, err := ReadSlots(filepath.Join(dir, "f"))
			if err != nil || ok && !slices.Contains([]string{"one", "two", "three"}, string(rec)) {
				t.Errorf("record %q, %v, %v", rec, ok, err)
			}
		},
		done: func(t *testing.T, dir string) {
			if rec, _, _ := ReadSlots(filepath.Join(dir, "f")); string(rec) != "three" {
				t.Errorf("record is %q", rec)
			}
		},
	},
	{
		name:     "lock",
		steps:    "open lock write",
		prepare:  func(*testing.T, string) {},
		forgives: []string{"write"},
		run: func(d Disk, dir string) error {
			l, err := d.Lock(filepath.Join(dir, "f"), []byte("me"))
			if err != nil {
				return err
			}
			return l.Unlock()
		},
		check: func(t *testing.T, dir string) {
			if _, locked, err := Holder(filepath.Join(dir, "f")); locked || err != nil {
				t.Errorf("locked %v, %v after its process or its taking ended", locked, err)
			}
		},
		done: oneOf("f", ""),
	},
}

// cutTorn cuts off what is behind the last newline, if anything is.
func cutTorn(d Disk, op, path string) error {
	s, err := os.ReadFile(path)
	if keep := bytes.LastIndexByte(s, '\n') + 1; err == nil && keep < len(s) {
		_, err = d.CutTail(op, path, int64(keep))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func runAppend(d Disk, dir string) error {
	if err := cutTorn(OS(), "repair", filepath.Join(dir, "f")); err != nil {
		return err
	}
	if s, _ := os.ReadFile(filepath.Join(dir, "f")); strings.HasSuffix(string(s), newText) {
		return nil // an earlier, disturbed run got that far
	}
	a, err := d.OpenAppend("op", filepath.Join(dir, "f"), 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(a.Append([]byte(newText)), a.Sync()); err != nil {
		a.Close()
		return err
	}
	return a.Close()
}

func runSlots(d Disk, dir string) error {
	s, err := d.OpenSlots("op", filepath.Join(dir, "f"), 0o600)
	if err != nil {
		return err
	}
	for _, rec := range []string{"one", "two", "three"} {
		if err := s.Store([]byte(rec)); err != nil {
			s.Close()
			return err
		}
	}
	return s.Close()
}

// TestCleanRun pins the order of the physical steps: it is what the promises
// rest on.
func TestCleanRun(t *testing.T) {
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			dir := t.TempDir()
			s.prepare(t, dir)
			var steps []string
			err := s.run(OS().WithFault(func(op string) error {
				steps = append(steps, op[strings.IndexByte(op, ':')+1:])
				return nil
			}), dir)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(steps, " "); got != s.steps {
				t.Errorf("steps are\n%s, want\n%s", got, s.steps)
			}
			s.done(t, dir)
			noTemps(t, dir)
		})
	}
}

// TestEveryStepFails fails each step of each scenario in each way.
func TestEveryStepFails(t *testing.T) {
	faults := []error{syscall.ENOSPC, syscall.EIO, &ShortWrite{N: 5, Err: syscall.ENOSPC}, &ShortWrite{N: 0, Err: syscall.EDQUOT}}
	for _, s := range scenarios {
		steps := strings.Fields(s.steps)
		for k, step := range steps {
			for _, fault := range faults {
				t.Run(fmt.Sprintf("%s/%d-%s/%v", s.name, k, step, fault), func(t *testing.T) {
					t.Parallel()
					dir := t.TempDir()
					s.prepare(t, dir)
					n := k
					err := s.run(OS().WithFault(func(string) error {
						if n--; n == -1 {
							return fault
						}
						return nil
					}), dir)
					switch {
					case slices.Contains(s.forgives, step):
						if err != nil {
							t.Fatalf("a failed %s is an error: %v", step, err)
						}
					case err == nil:
						t.Fatal("no error")
					case !errors.Is(err, errors.Unwrap(fault)) && !errors.Is(err, fault):
						t.Errorf("the cause is lost: %v", err)
					case !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), ":"+step+":"):
						t.Errorf("the error names no path or step: %v", err)
					case IsFull(err) != !errors.Is(err, syscall.EIO):
						t.Errorf("IsFull is wrong about: %v", err)
					}
					s.check(t, dir)
					noTemps(t, dir)
					s.again(t, dir)
				})
			}
		}
	}
}

// TestKilledAtEveryStep is the same with SIGKILL instead of an error.
func TestKilledAtEveryStep(t *testing.T) {
	for _, s := range scenarios {
		for k, step := range strings.Fields(s.steps) {
			t.Run(fmt.Sprintf("%s/%d-%s", s.name, k, step), func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				s.prepare(t, dir)
				if st := spawn(t, "kill", s.name, strconv.Itoa(k), dir).wait(t); st.Signal() != syscall.SIGKILL {
					t.Fatalf("the child was not killed: %v", st)
				}
				s.check(t, dir)
				if _, err := OS().RemoveTemps("op", dir); err != nil {
					t.Fatal(err)
				}
				noTemps(t, dir)
				s.again(t, dir)
			})
		}
	}
}

// again is the run after the disturbed one.
func (s scenario) again(t *testing.T, dir string) {
	t.Helper()
	if err := s.run(OS(), dir); err != nil && (!s.once || !errors.Is(err, fs.ErrNotExist)) {
		t.Fatalf("the next run: %v", err)
	}
	s.done(t, dir)
	noTemps(t, dir)
}
