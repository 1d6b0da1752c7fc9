package recovery

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/superloop/superloop/internal/durable"
)

func mkdirs(t *testing.T, paths ...string) {
	t.Helper()
	for _, p := range paths {
		if err := os.MkdirAll(p, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

func link(t *testing.T, target, path string) {
	t.Helper()
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
}

func takeDirs(t *testing.T) (loopDir, private string) {
	t.Helper()
	top := t.TempDir()
	loopDir, private = filepath.Join(top, "loop"), filepath.Join(top, "private")
	mkdirs(t, loopDir, private)
	return loopDir, private
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestTake(t *testing.T) {
	t.Parallel()
	loopDir, private := takeDirs(t)
	if _, err := Take(durable.OS(), loopDir, private); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nothing was taken: %v", err)
	}
	if _, err := ReadProposal(loopDir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nothing was read: %v", err)
	}
	path := filepath.Join(loopDir, ProposalFile)
	write(t, path, published)
	writer, err := os.OpenFile(path, os.O_WRONLY, 0) // the agent keeps it open
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	if data, err := ReadProposal(loopDir); err != nil || string(data) != published {
		t.Errorf("%q, %v", data, err)
	}
	taken, err := Take(durable.OS(), loopDir, private)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(published))
	if string(taken.Data) != published || taken.Digest != hex.EncodeToString(sum[:]) || len(taken.Problems) > 0 {
		t.Errorf("%+v", taken)
	}
	if _, err := writer.WriteString("{}"); err != nil {
		t.Fatal(err)
	}
	kept, err := os.ReadFile(taken.Path)
	if err != nil || string(kept) != published || filepath.Dir(taken.Path) != private {
		t.Errorf("what is kept is not what was read: %v", err)
	}
	if info, err := os.Stat(taken.Path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	if left, _ := os.ReadDir(loopDir); len(left) > 0 {
		t.Errorf("left in the loop's folder: %v", left)
	}
	if all, _ := os.ReadDir(private); len(all) != 1 {
		t.Errorf("in the private folder: %v", all)
	}
}

// What is no plain file is out of the way, kept, and explained; nothing waits and
// nothing is followed.
func TestTakeUnsafe(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		make func(t *testing.T, path string)
		why  string
	}{
		"link":     {func(t *testing.T, path string) { write(t, path+".target", published); link(t, path+".target", path) }, "symbolic link"},
		"dangling": {func(t *testing.T, path string) { link(t, "nowhere", path) }, "symbolic link"},
		"hard link": {func(t *testing.T, path string) {
			write(t, path+".other", published)
			check(t, os.Link(path+".other", path))
		}, "2 names"},
		"fifo":      {func(t *testing.T, path string) { check(t, syscall.Mkfifo(path, 0o644)) }, "not a plain file"},
		"directory": {func(t *testing.T, path string) { mkdirs(t, filepath.Join(path, "x")) }, "not a plain file"},
		"too large": {func(t *testing.T, path string) { write(t, path, strings.Repeat(" ", 64<<10)+"x") }, "at most"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			loopDir, private := takeDirs(t)
			path := filepath.Join(loopDir, ProposalFile)
			c.make(t, path)
			if _, err := ReadProposal(loopDir); err == nil || !strings.Contains(err.Error(), c.why) {
				t.Errorf("reading: %v", err)
			}
			for n := range 2 { // twice: the place of the first is taken
				if n == 1 {
					check(t, syscall.Mkfifo(path, 0o644))
				}
				taken, err := Take(durable.OS(), loopDir, private)
				if err != nil || taken.Data != nil || len(taken.Problems) != 1 {
					t.Fatalf("%+v, %v", taken, err)
				}
				if n == 0 && !strings.Contains(taken.Problems[0].Message, c.why) {
					t.Errorf("%+v", taken.Problems)
				}
				if _, err := os.Lstat(taken.Path); err != nil || filepath.Dir(taken.Path) != private {
					t.Errorf("it is not kept: %v", err)
				}
				if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("it is still there: %v", err)
				}
			}
		})
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// The loop's folder itself is not followed through a link.
func TestTakeFromLink(t *testing.T) {
	t.Parallel()
	loopDir, private := takeDirs(t)
	write(t, filepath.Join(loopDir, ProposalFile), published)
	link(t, loopDir, loopDir+"-link")
	if _, err := Take(durable.OS(), loopDir+"-link", private); err == nil {
		t.Error("it was taken through a link")
	}
	if _, err := os.Stat(filepath.Join(loopDir, ProposalFile)); err != nil {
		t.Error(err)
	}
}

var errCrash = errors.New("crash")

// Whatever step is the last, the next Take finds the proposal, once, and a newer
// one after it.
func TestTakeAfterCrash(t *testing.T) {
	t.Parallel()
	for _, device := range []string{"same", "other"} {
		var steps []string
		record := func(loopDir, private string, fault durable.Fault) error {
			first := device == "other" // the first rename crosses to another file system
			_, err := Take(durable.OS().WithFault(func(op string) error {
				if first && op == "proposal:rename" {
					first = false
					return syscall.EXDEV
				}
				return fault(op)
			}), loopDir, private)
			return err
		}
		loopDir, private := takeDirs(t)
		write(t, filepath.Join(loopDir, ProposalFile), published)
		check(t, record(loopDir, private, func(op string) error { steps = append(steps, op); return nil }))
		if len(steps) < 5 {
			t.Fatalf("%v", steps)
		}
		for last := range steps {
			loopDir, private := takeDirs(t)
			write(t, filepath.Join(loopDir, ProposalFile), published)
			n := 0
			err := record(loopDir, private, func(string) error {
				if n++; n > last {
					return errCrash
				}
				return nil
			})
			if !errors.Is(err, errCrash) {
				t.Fatalf("%s, step %d: %v", device, last, err)
			}
			newer := strings.Replace(published, "bun install", "npm install", 1)
			write(t, filepath.Join(loopDir, ProposalFile), newer)
			var got []string
			for {
				taken, err := Take(durable.OS(), loopDir, private)
				if errors.Is(err, fs.ErrNotExist) {
					break
				}
				check(t, err)
				got = append(got, string(taken.Data))
			}
			// Before the first step is done the agent itself replaces it.
			if len(got) == 0 || got[len(got)-1] != newer || len(got) > 2 || len(got) == 2 && got[0] != published {
				t.Errorf("%s, after %d steps of %v: %d proposals", device, last, steps, len(got))
			}
			if last > 0 && len(got) != 2 {
				if kept, _ := filepath.Glob(filepath.Join(private, "recovery-*.json")); len(kept) != 2 {
					t.Errorf("%s, after %d steps of %v: the first proposal is lost", device, last, steps)
				}
			}
		}
	}
}

// The private folder may be on another file system.
func TestTakeAcrossFileSystems(t *testing.T) {
	t.Parallel()
	loopDir, _ := takeDirs(t)
	private, err := os.MkdirTemp("/dev/shm", "superloop-take-")
	if err != nil {
		t.Skip("there is no second file system: ", err)
	}
	t.Cleanup(func() { os.RemoveAll(private) })
	var a, b syscall.Stat_t
	check(t, syscall.Stat(loopDir, &a))
	check(t, syscall.Stat(private, &b))
	if a.Dev == b.Dev {
		t.Skip("/dev/shm is the same file system")
	}
	write(t, filepath.Join(loopDir, ProposalFile), published)
	taken, err := Take(durable.OS(), loopDir, private)
	if err != nil || string(taken.Data) != published {
		t.Fatalf("%+v, %v", taken, err)
	}
	if kept, err := os.ReadFile(taken.Path); err != nil || string(kept) != published || filepath.Dir(taken.Path) != private {
		t.Errorf("%s: %v", taken.Path, err)
	}
	link(t, "nowhere", filepath.Join(loopDir, ProposalFile))
	taken, err = Take(durable.OS(), loopDir, private)
	if err != nil || len(taken.Problems) != 1 || filepath.Dir(taken.Path) != loopDir {
		t.Errorf("%+v, %v", taken, err)
	}
	if left, _ := os.ReadDir(loopDir); len(left) != 1 {
		t.Errorf("in the loop's folder: %v", left)
	}
}
