//go:build linux

package proc

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestTool(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	dir := t.TempDir()
	got, err := Tool{Dir: dir, Stdin: []byte("in"), Env: append(os.Environ(), "LC_ALL=xx", "SOME=thing")}.Run(ctx, "sh", "-c", "cat; echo; pwd; env")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(got), "\n")
	if lines[0] != "in" || lines[1] != dir {
		t.Errorf("%q", lines[:2])
	}
	for _, want := range []string{"LC_ALL=C", "GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0", "SOME=thing"} {
		if !slices.Contains(lines, want) {
			t.Errorf("%s is not in its environment", want)
		}
	}
	if slices.Contains(lines, "LC_ALL=xx") {
		t.Error("LC_ALL is there twice")
	}
}

func TestToolErrors(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	got, err := Tool{}.Run(ctx, "sh", "-c", "echo out; echo why >&2; exit 3")
	var failed *ToolError
	if !errors.As(err, &failed) || failed.Code != 3 || failed.Stderr != "why\n" || string(got) != "out\n" ||
		!strings.Contains(err.Error(), "exit status 3: why") {
		t.Errorf("%q %v", got, err)
	}
	if _, err = (Tool{}).Run(ctx, "no-such-tool"); !errors.As(err, &failed) || failed.Code != -1 || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
	if _, err = (Tool{}).Run(ctx); !errors.As(err, &failed) {
		t.Errorf("%v", err)
	}
	if _, err = (Tool{Dir: "/no/such/dir"}).Run(ctx, "true"); !errors.As(err, &failed) || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
	got, err = Tool{Limit: 1000}.Run(ctx, "sh", "-c", "while :; do echo 123456789; done")
	if !errors.Is(err, ErrTooMuchOutput) || len(got) != 1000 {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if got, err = (Tool{Limit: 4}).Run(ctx, "printf", "1234"); err != nil || string(got) != "1234" {
		t.Errorf("exactly the limit: %q %v", got, err)
	}
}

func TestToolEndsWithItsContext(t *testing.T) {
	t.Parallel()
	mark := newMark()
	started := filepath.Join(t.TempDir(), "started")
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer cancel()
		for tick := time.NewTicker(5 * time.Millisecond); ; <-tick.C {
			if _, err := os.Stat(started); err == nil || len(withMark(mark)) == 0 && ctx.Err() != nil {
				return
			}
		}
	}()
	_, err := Tool{Env: append(os.Environ(), mark)}.Run(ctx, "sh", "-c", "sleep 1000 & touch "+quote(started)+"; wait")
	var failed *ToolError
	if !errors.Is(err, context.Canceled) || !errors.As(err, &failed) || failed.Code != -1 {
		t.Errorf("%v", err)
	}
	awaitNone(t, mark)
}

// What a program has written before it ended is read, though nobody has copied it in time and another process holds the
// pipe: on a machine that stands still for seconds the copying stops before it begins.
func TestOutputThatNobodyHasCopied(t *testing.T) {
	t.Parallel()
	out := &limited{room: 1 << 20}
	var to io.Writer
	o, err := pipeTo(&to, out)
	if err != nil {
		t.Fatal(err)
	}
	holder, err := syscall.Dup(int(o.write.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(holder)
	said := strings.Repeat("0123456789abcdef", 2000)
	if _, err := o.write.WriteString(said); err != nil {
		t.Fatal(err)
	}
	if err := o.read.SetReadDeadline(time.Unix(1, 0)); err != nil { // the copying stops at once
		t.Fatal(err)
	}
	o.begun()
	<-o.done
	o.done = make(chan struct{})
	time.AfterFunc(50*time.Millisecond, func() { close(o.done) })
	o.end(time.Millisecond)
	if out.buf.String() != said {
		t.Errorf("%d bytes of %d", out.buf.Len(), len(said))
	}
}

func TestToolWithABackgroundProcess(t *testing.T) {
	t.Parallel()
	mark := newMark()
	got, err := Tool{Env: append(os.Environ(), mark)}.Run(context.Background(), "sh", "-c", "sleep 1000 & echo out")
	if err != nil || string(got) != "out\n" {
		t.Errorf("%q %v", got, err)
	}
	awaitNone(t, mark)
}
