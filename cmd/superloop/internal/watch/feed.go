package watch

import (
	"context"
	"path/filepath"
	"sync"
	"time"

	"github.com/superloop/superloop/cmd/superloop/internal/logs"
	"github.com/superloop/superloop/internal/dirwatch"
	"github.com/superloop/superloop/loop/layout"
)

// Source is one loop to read.
type Source struct {
	ID    string
	Paths layout.Paths
	// Read returns the loop's state, and a key that is another one if something that is shown has changed. It is called
	// once a second at least, by one goroutine.
	Read func() (loop Loop, key string, err error)
}

// restTime is the least time between two looks at a loop, whose log may grow many times a second.
const restTime = 150 * time.Millisecond

// Feed reads the loops until ctx ends, and sends a Changed, an Added or a Failed when something has changed. It looks
// when the system says that a file of the loop or its newest log has changed, and once a second, for all else: an answer,
// a supervisor that has died, file systems that say nothing. send is never called by two goroutines at once.
func Feed(ctx context.Context, sources []Source, send func(any)) {
	var one sync.Mutex
	var all sync.WaitGroup
	watches := dirwatch.NewWatches(ctx)
	for _, s := range sources {
		all.Go(func() {
			r := &reading{Source: s, live: logs.Live{Paths: s.Paths}, send: func(msg any) {
				one.Lock()
				defer one.Unlock()
				if ctx.Err() == nil {
					send(msg)
				}
			}}
			r.run(ctx, watches)
		})
	}
	all.Wait()
}

type reading struct {
	Source
	send   func(any)
	live   logs.Live
	key    string
	failed string
}

func (r *reading) run(ctx context.Context, watches *dirwatch.Watches) {
	any := func(string) bool { return true }
	state := watches.Dir(ctx, r.Paths.Loop, any)
	logDir := func(dir string) (<-chan struct{}, context.CancelFunc) {
		in, stop := context.WithCancel(ctx)
		return watches.Dir(in, dir, any), stop
	}
	dir, log, stop := "", (<-chan struct{})(nil), context.CancelFunc(func() {})
	defer func() { stop() }()
	rest := time.NewTimer(restTime)
	defer rest.Stop()
	for {
		file := r.look()
		if file != "" && filepath.Dir(file) != dir {
			stop()
			dir = filepath.Dir(file)
			log, stop = logDir(dir)
		}
		select {
		case <-ctx.Done():
			return
		case <-rest.C:
		}
		select {
		case <-ctx.Done():
			return
		case <-state:
		case <-log:
		}
		rest.Reset(restTime)
	}
}

// look sends what has changed since the last look. It returns the log that is being read, "" if there is none.
func (r *reading) look() string {
	loop, key, err := r.Read()
	file, fresh, items, lerr := r.live.Look()
	if fresh || len(items) > 0 { // first: after the last Changed nobody may listen
		log := file
		if rel, err := filepath.Rel(r.Paths.Loop, file); err == nil {
			log = rel
		}
		r.send(Added{Loop: r.ID, Log: log, Fresh: fresh, Items: items})
	}
	switch err = firstOf(err, lerr); {
	case err != nil && err.Error() != r.failed:
		r.failed = err.Error()
		r.send(Failed{r.ID, err})
	case err == nil && key != r.key:
		r.key, r.failed = key, ""
		r.send(Changed{loop, time.Now()})
	}
	return file
}
