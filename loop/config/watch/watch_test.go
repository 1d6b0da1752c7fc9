package watch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superloop/superloop/loop/config"
)

// next waits for a send.
func next(t testing.TB, look <-chan struct{}) {
	t.Helper()
	select {
	case <-look:
	case <-time.After(patience):
		t.Fatal("nothing is told")
	}
}

// numbered is a configuration with a number in it.
func numbered(n int) []byte { return text(set(base(), "loops/0/max_iterations", n)) }

func number(c *config.Config) int {
	l, _ := c.Loop("one")
	return l.MaxIterations
}

// ways are how editors, tools and people replace a file.
var ways = map[string]func(path string, data []byte) error{
	"rename over": func(path string, data []byte) error {
		return errors.Join(os.WriteFile(path+".tmp", data, 0o644), os.Rename(path+".tmp", path))
	},
	"in place": func(path string, data []byte) error { return os.WriteFile(path, data, 0o644) },
	"in pieces": func(path string, data []byte) error {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC|os.O_CREATE, 0o644)
		if err != nil {
			return err
		}
		for len(data) > 0 && err == nil {
			n := min(7, len(data))
			_, err = f.Write(data[:n])
			data = data[n:]
		}
		return errors.Join(err, f.Close())
	},
	"delete and make": func(path string, data []byte) error {
		return errors.Join(os.Remove(path), os.WriteFile(path, data, 0o644))
	},
	"as vim": func(path string, data []byte) error {
		return errors.Join(os.Rename(path, path+"~"), os.WriteFile(path, data, 0o644), os.Remove(path+"~"))
	},
	"folder replaced": func(path string, data []byte) error {
		dir := filepath.Dir(path)
		return errors.Join(os.Rename(dir, dir+".old"), os.Mkdir(dir, 0o755), os.WriteFile(path, data, 0o644), os.RemoveAll(dir+".old"))
	},
	"folder deleted": func(path string, data []byte) error {
		dir := filepath.Dir(path)
		return errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o755), os.WriteFile(path, data, 0o644))
	},
}

// Every way is told of and taken, again and again.
func TestEveryWay(t *testing.T) {
	t.Parallel()
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			r, _ := w.start(w.options())
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			look := Watch(ctx, w.path)
			for n := 10; n < 14; n++ {
				w.ok(way(w.path, numbered(n)))
				w.until(r, look, n)
			}
		})
	}
}

// until looks whenever it is told to, until the configuration of that number is
// in force. Meanwhile none but whole ones may be.
func (w *world) until(r *Reloader, look <-chan struct{}, n int) {
	w.t.Helper()
	for number(r.Config()) != n {
		next(w.t, look)
		if out := r.Check(time.Now()); out.Kind == Held || number(out.Config) == 0 {
			w.t.Fatalf("%+v", out)
		}
	}
}

// Links are followed as they are at the time: the file itself, the way of
// Kubernetes, and a folder that is one.
func TestLinks(t *testing.T) {
	t.Parallel()
	link := func(to, path string) error {
		return errors.Join(os.Symlink(to, path+".new"), os.Rename(path+".new", path))
	}
	for name, c := range map[string]struct {
		prepare func(dir string) error
		change  func(dir string, n int) error
	}{
		"elsewhere": {
			func(dir string) error {
				return errors.Join(os.Mkdir(dir+"/far", 0o755), os.WriteFile(dir+"/far/c.json", numbered(9), 0o644), link("../far/c.json", dir+"/.superloop/config.json"))
			},
			func(dir string, n int) error { return ways["rename over"](dir+"/far/c.json", numbered(n)) },
		},
		"absolute, of links": {
			func(dir string) error {
				return errors.Join(os.MkdirAll(dir+"/a/b", 0o755), os.WriteFile(dir+"/a/b/c.json", numbered(9), 0o644),
					link("b/c.json", dir+"/a/l.json"), link(dir+"/a/l.json", dir+"/.superloop/config.json"))
			},
			func(dir string, n int) error { return ways["in place"](dir+"/a/b/c.json", numbered(n)) },
		},
		"kubernetes": {
			func(dir string) error {
				d := dir + "/.superloop/"
				return errors.Join(os.Mkdir(d+"v9", 0o755), os.WriteFile(d+"v9/config.json", numbered(9), 0o644), link("v9", d+"..data"), link("..data/config.json", d+"config.json"))
			},
			func(dir string, n int) error {
				d := dir + "/.superloop/"
				v := fmt.Sprint("v", n)
				return errors.Join(os.Mkdir(d+v, 0o755), os.WriteFile(d+v+"/config.json", numbered(n), 0o644), link(v, d+"..data"))
			},
		},
		"another link each time": {
			func(dir string) error { return nil },
			func(dir string, n int) error {
				v := fmt.Sprint(dir, "/v", n)
				return errors.Join(os.Mkdir(v, 0o755), os.WriteFile(v+"/c.json", numbered(n), 0o644), link(v+"/c.json", dir+"/.superloop/config.json"))
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.ok(c.prepare(w.repo))
			r, _ := w.start(w.options())
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			look := Watch(ctx, w.path)
			for n := 10; n < 13; n++ {
				w.ok(c.change(w.repo, n))
				w.until(r, look, n)
			}
		})
	}
}

// Without events the file is looked at all the same.
func TestWithoutEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r, _ := w.start(w.options())
	blind := newWatcher(w.path)
	blind.close()
	blind.fs, blind.relook = nil, 10*time.Millisecond
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go blind.run(ctx)
	for n := 10; n < 14; n++ {
		w.ok(ways["rename over"](w.path, numbered(n)))
		w.until(r, blind.out, n)
	}
}

// A whole file is told of at once, one that is not after a pause and then a few
// times, and one that is not there likewise.
func TestPauses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, harm := range map[string]func() error{
		"half": func() error { return os.Truncate(w.path, 30) },
		"gone": func() error { return os.Remove(w.path) },
	} {
		synctest.Test(t, func(t *testing.T) {
			w.ok(ways["rename over"](w.path, numbered(5)))
			q := &watcher{path: w.path, pause: pause, relook: time.Hour, out: make(chan struct{}, 1), dirs: map[string]stamp{}, news: make(chan struct{}, 1)}
			ctx, stop := context.WithCancel(t.Context())
			var ended sync.WaitGroup
			ended.Go(func() { q.run(ctx) })
			<-q.out // the first, for what happened before
			w.ok(ways["rename over"](w.path, numbered(6)))
			began := time.Now()
			poke(q.news)
			if <-q.out; time.Since(began) != 0 {
				t.Errorf("%s: a whole file waits for %s", name, time.Since(began))
			}
			w.ok(harm())
			poke(q.news)
			for i := range again {
				if <-q.out; time.Since(began) != time.Duration(i+1)*pause {
					t.Errorf("%s: told of the %dth time after %s", name, i+1, time.Since(began))
				}
			}
			if took := time.Since(began); took < settled {
				t.Errorf("%s: the last is after %s: too soon for it to be rejected", name, took)
			}
			time.Sleep(time.Minute) // of the bubble
			select {
			case <-q.out:
				t.Errorf("%s: told of once more", name)
			default:
			}
			stop()
			ended.Wait()
		})
	}
}

// What happens beside the file, or leaves it as it is, is not told of.
func TestNoise(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	q := newWatcher(w.path)
	defer q.close()
	q.timer = time.NewTimer(time.Hour)
	told := func() bool {
		select {
		case <-q.out:
			return true
		default:
			return false
		}
	}
	q.look()
	if !told() {
		t.Error("the first content is not told of")
	}
	for _, quiet := range []func() error{
		func() error { return os.WriteFile(filepath.Dir(w.path)+"/state.json", []byte("{"), 0o644) },
		func() error { return os.Chtimes(w.path, time.Now(), time.Now()) },
		func() error { return os.WriteFile(w.path, text(base()), 0o644) },
		func() error { return ways["rename over"](w.path, text(base())) },
	} {
		w.ok(quiet())
		q.look()
		if told() {
			t.Error("the same content is told of twice")
		}
	}
	w.ok(os.Truncate(w.path, 20))
	q.look()
	if told() || q.broken == "" {
		t.Error("half a file is told of at once")
	}
	w.ok(os.WriteFile(w.path, text(base()), 0o644))
	q.look()
	if !told() || q.broken != "" {
		t.Error("the file is whole again, and it is not told of")
	}
}

// The time from the rename of config.json to the configuration that is in force.
func BenchmarkRenameToReloaded(b *testing.B) {
	w := newWorld(b)
	r, _ := w.start(w.options())
	ctx, stop := context.WithCancel(b.Context())
	defer stop()
	look := Watch(ctx, w.path)
	next(b, look)
	var took []time.Duration
	for n := 10; b.Loop(); n++ {
		w.ok(os.WriteFile(w.path+".new", numbered(n), 0o644))
		began := time.Now()
		w.ok(os.Rename(w.path+".new", w.path))
		w.until(r, look, n)
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "us-median")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "us-p99")
}

// A look that finds nothing new.
func BenchmarkCheckUnchanged(b *testing.B) {
	w := newWorld(b)
	r, _ := w.start(w.options())
	for deadline := time.Now().Add(patience); r.file.ino == 0 || r.file.fresh || !r.pinned.proves(stampOf(w.store.Path)); {
		if r.Check(w.now); time.Now().After(deadline) {
			b.Fatal("the look never becomes quick")
		}
	}
	for b.Loop() {
		r.Check(w.now)
	}
}
