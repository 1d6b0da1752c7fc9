package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/internal/redact"
	"github.com/superloop/superloop/internal/testkit"
)

// 256 MB (in go test 72): the log is cut at its limit, the beginning and the end are kept, and
// the command that prints more than its limit is stopped.
func TestMuchOutput(t *testing.T) {
	t.Parallel()
	w := newWorld(t, os.Getuid(), "")
	var log countingWriter
	mb := testkit.Sample(72, 256, 256)
	spec := w.job(t, fmt.Sprintf("echo first; head -c %d000000 /dev/zero | tr '\\0' x; echo; echo last", mb)).spec()
	spec.Output, spec.OutputLimit, spec.Timeout = &log, 300<<20, 4*time.Minute // on a busy machine a minute is too short
	res, err := Run(context.Background(), w.spawner, spec)
	total := int64(mb)*1_000_000 + 12
	if err != nil || res.Code != 0 || res.Ended != proc.Exited || res.Output.Bytes != total || log.n != total || res.Dropped != 0 {
		t.Fatalf("%v, %d bytes logged, %d dropped: %.300s", err, log.n, res.Dropped, outcomeOf(res, nil))
	}
	if len(res.Output.Head) != DefaultKeep || len(res.Stdout.Tail) != DefaultKeep || !bytes.HasPrefix(res.Stdout.Head, []byte("first\nxx")) ||
		!bytes.HasSuffix(res.Output.Tail, []byte("x\nlast\n")) {
		t.Errorf("kept %d and %d bytes, %.20q ... %q", len(res.Output.Head), len(res.Stdout.Tail), res.Stdout.Head, res.Output.Tail[DefaultKeep-20:])
	}

	log.n = 0
	spec.OutputLimit = 0 // the default
	res, err = Run(context.Background(), w.spawner, spec)
	if err != nil || res.Ended != OutputLimit || log.n != DefaultOutputLimit || res.Dropped == 0 || !bytes.HasPrefix(res.Output.Head, []byte("first\n")) {
		t.Errorf("%v, %d bytes logged, %d dropped: %.300s", err, log.n, res.Dropped, outcomeOf(res, nil))
	}
}

type countingWriter struct{ n int64 }

func (c *countingWriter) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	return len(p), nil
}

func TestOutputIsRedacted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, os.Getuid(), "")
	const token = "tok-0123456789abcdef"
	j := w.job(t, `printf 'half %s' "${T:0:9}"; echo between >&2; printf '%s\n' "${T:9}"; echo "e $T" >&2; printf '%s' "$T" >&2; echo >&2; head -c 40000 /dev/zero | tr '\0' y; echo "$T"`)
	j.Env = append(j.Env, "T="+token)
	spec := j.spec()
	var log bytes.Buffer
	spec.Output, spec.Secrets, spec.Keep = &log, Secrets([]string{"A_TOKEN=" + token}), 100
	res, err := Run(context.Background(), w.spawner, spec)
	if err != nil || res.Code != 0 {
		t.Fatal(err, outcomeOf(res, nil))
	}
	for name, text := range map[string]string{"log": log.String(), "stdout": res.Stdout.Text(), "stderr": res.Stderr.Text(), "both": res.Output.Text()} {
		if strings.Contains(text, token[4:12]) || !strings.Contains(text, redact.Mark) {
			t.Errorf("%s: %.300q", name, text)
		}
	}
	if res.Stderr.Text() != "between\ne "+redact.Mark+"\n"+redact.Mark+"\n" || !strings.Contains(log.String(), "half "+redact.Mark+"\n") {
		t.Errorf("%q %.60q", res.Stderr.Text(), log.String())
	}
}

type fullDisk struct{ room int }

var errDisk = errors.New("no space left")

func (f *fullDisk) Write(p []byte) (int, error) {
	n := min(len(p), f.room)
	f.room -= n
	if n < len(p) {
		return n, errDisk
	}
	return n, nil
}

func TestAFullDiskDoesNotStopTheCommand(t *testing.T) {
	t.Parallel()
	w := newWorld(t, os.Getuid(), "")
	spec := w.job(t, "seq 1 20000; exit 4").spec()
	spec.Output = &fullDisk{room: 1000}
	res, err := Run(context.Background(), w.spawner, spec)
	if err != nil || res.Code != 4 || !errors.Is(res.OutputErr, errDisk) || res.Dropped != res.Output.Bytes-1000 {
		t.Errorf("%v %v, %d dropped of %d", err, res.OutputErr, res.Dropped, res.Output.Bytes)
	}
}

func TestSink(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		room  int64
		write []string
		want  string
		full  int
	}{
		{10, []string{"abc", "def"}, "abcdef", 0},
		{6, []string{"abc", "def"}, "abcdef", 0},
		{5, []string{"abc", "def", "ghi"}, "abcde", 1},
		{0, []string{"abc"}, "", 1},
	} {
		var out bytes.Buffer
		full, all := 0, 0
		s := &sink{w: &out, room: c.room, keep: proc.NewHeadTail(100), full: func() { full++ }}
		for _, p := range c.write {
			s.put([]byte(p))
			all += len(p)
		}
		if out.String() != c.want || full != c.full || s.dropped != int64(all-len(c.want)) || s.keep.Capture().Bytes != int64(all) {
			t.Errorf("%+v: %q, full %d, dropped %d", c, out.String(), full, s.dropped)
		}
	}
}
