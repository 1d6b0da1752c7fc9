package proc

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"
)

func TestInputByAPipe(t *testing.T) {
	t.Parallel()
	eachLevel(t, func(t *testing.T, s *Spawner) {
		long := strings.Repeat("0123456789abcdef", 1<<16) // more than a pipe holds
		spec := script("wc -c")
		spec.Input = io.MultiReader(strings.NewReader("one"), strings.NewReader(long))
		if res := mustRun(t, s, spec); strings.Fields(res.Stdout.Text())[0] != "1048579" {
			t.Errorf("%q, %+v", res.Stdout.Text(), res)
		}
		// A command that does not read, and one whose input never ends, end all the same.
		never, end := io.Pipe()
		defer end.Close()
		for name, in := range map[string]io.Reader{"not read": strings.NewReader(long), "without end": never} {
			spec = script("exit 4")
			if spec.Input = in; mustRun(t, s, spec).Code != 4 {
				t.Errorf("%s: it did not exit with 4", name)
			}
		}
	})
}

// While it is held, a run reaches no limit; when it is let go, the limits count on.
func TestPauseStopsTheClocks(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(*Spec){"timeout": func(s *Spec) { s.Timeout = 200 * time.Millisecond }, "inactivity": func(s *Spec) { s.Inactivity = 200 * time.Millisecond }} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := spawnerAt(t, "")
			pause := &Pause{}
			release, second := pause.Hold(), pause.Hold()
			time.AfterFunc(700*time.Millisecond, func() { release(); release() })
			time.AfterFunc(time.Second, second)
			spec := script("sleep 1000")
			spec.Pause = pause
			set(&spec)
			res, err := s.Run(context.Background(), spec)
			if err != nil || res.Ended != TimedOut && res.Ended != Inactive || res.Duration < time.Second {
				t.Errorf("%v, %+v; the clocks stood still for a second", err, res)
			}
			if held := pause.Held(); held < time.Second {
				t.Errorf("held for %s", held)
			}
		})
	}
	if (*Pause)(nil).Held() != 0 {
		t.Error("nobody holds a nil Pause")
	}
}
