//go:build linux

package proc

import (
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

func TestFilesAreInherited(t *testing.T) {
	t.Parallel()
	eachLevel(t, func(t *testing.T, s *Spawner) {
		in, feed, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		back, out, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		defer back.Close()
		go func() {
			_, _ = io.WriteString(feed, "through three\n")
			feed.Close()
		}()
		spec := script("cat <&3 >&4; ls /proc/self/fd | tr '\\n' ' '")
		spec.Files = []*os.File{in, out}
		res := mustRun(t, s, spec)
		out.Close()
		got, err := io.ReadAll(back)
		if err != nil || string(got) != "through three\n" || res.Code != 0 {
			t.Errorf("%v %q %+v", err, got, res)
		}
		// ls has the directory open as one more.
		if seen := strings.Fields(res.Stdout.Text()); len(seen) != 6 {
			t.Errorf("the command has the descriptors %q", seen)
		}
		// The spawner process keeps none of them.
		if res := mustRun(t, s, script("ls /proc/self/fd | tr '\\n' ' '")); len(strings.Fields(res.Stdout.Text())) != 4 {
			t.Errorf("the next command has the descriptors %q", res.Stdout.Text())
		}
	})
}

func TestTooManyFiles(t *testing.T) {
	t.Parallel()
	s := spawnerAt(t, Subreaper)
	spec := script("echo no")
	spec.Files = make([]*os.File, MaxFiles+1)
	if res := mustRun(t, s, spec); res.Ended != NotStarted || res.Err == nil || !strings.Contains(res.Err.Error(), "to inherit") {
		t.Errorf("%+v", res)
	}
}

func TestNamespaces(t *testing.T) {
	t.Parallel()
	eachLevel(t, func(t *testing.T, s *Spawner) {
		for _, n := range []Namespaces{{User: true, Mount: true, Network: true}, {Mount: true, Network: true}, {Mount: true}} {
			spec := script("readlink /proc/self/ns/mnt /proc/self/ns/net /proc/self/ns/user; id -u; tail -n +3 /proc/self/net/dev | wc -l")
			plain := strings.Fields(mustRun(t, s, spec).Stdout.Text())
			spec.Namespaces = n
			res := mustRun(t, s, spec)
			if res.Ended == NotStarted {
				t.Logf("%+v is not to be had here: %v", n, res.Err)
				continue
			}
			own := strings.Fields(res.Stdout.Text())
			if len(own) != 5 || len(plain) != 5 {
				t.Fatalf("%q and %q: %+v", plain, own, res)
			}
			if (own[0] != plain[0]) != n.Mount || (own[1] != plain[1]) != n.Network || (own[2] != plain[2]) != n.User || own[3] != plain[3] {
				t.Errorf("%+v: %q is now %q", n, plain, own)
			}
			if n.Network && own[4] != "1" {
				t.Errorf("%s network interfaces", own[4])
			}
		}
		// The tree is ended there as well.
		tap, ready := said("ready")
		spec := script("trap '' TERM; setsid sleep 1000 & echo ready; sleep 1000")
		spec.Namespaces = Namespaces{User: true, Mount: true}
		spec.Grace, spec.Stdout = time.Millisecond, tap
		res, err := s.Run(cancelWhen(t, ready), spec)
		nothingLeft(t, spec.Marker)
		if res.Ended == NotStarted {
			t.Skipf("not to be had here: %v", res.Err)
		}
		if err != nil || res.Ended != Killed || res.LeftBehind < 1 {
			t.Errorf("%v %+v", err, res)
		}
	})
}
