package journal

import (
	"io/fs"
	"sync"
	"time"

	"github.com/superloop/superloop/internal/durable"
)

// Projection keeps a file up to date with the newest of many versions. A caller with a new version does not wait:
// Projection writes in the background, at most once in an interval, and skips versions that are out of date by then. It
// replaces the whole file, which survives a kill of the process. It does not flush the file, because superloop can make
// it again from the journal.
//
// While there is nothing to write it has no goroutine and no timer.
type Projection struct {
	d        durable.Disk
	op, path string
	perm     fs.FileMode
	interval time.Duration

	mu     sync.Mutex
	next   func() ([]byte, error) // makes the newest version; nil if the file has that version
	timer  *time.Timer            // not nil while it is armed or its goroutine has not yet taken next
	wrote  time.Time              // when the last write began
	closed bool

	armed   sync.WaitGroup // counts the timer until it is stopped or its goroutine is done
	writing sync.Mutex     // held while a version is written; never taken while mu is held
}

// NewProjection returns a projection to path. It writes under the operation op, at most once in minInterval.
func NewProjection(d durable.Disk, op, path string, perm fs.FileMode, minInterval time.Duration) *Projection {
	return &Projection{d: d, op: op, path: path, perm: perm, interval: minInterval}
}

// Put sets the function that makes the newest version, and returns at once. Projection calls make in the background
// when it writes the version. It does not call make if a newer version comes before. After Close, Put does nothing.
func (p *Projection) Put(make func() ([]byte, error)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.next = make
	if p.timer == nil {
		p.armed.Add(1)
		p.timer = time.AfterFunc(max(0, p.interval-time.Since(p.wrote)), func() {
			defer p.armed.Done()
			_ = p.write(true) // Flush tries again and returns the error
		})
	}
}

// write writes the newest version if the file lacks it. One goroutine at a time writes, so an older version never
// replaces a newer one.
func (p *Projection) write(byTimer bool) error {
	p.writing.Lock()
	defer p.writing.Unlock()
	p.mu.Lock()
	if byTimer {
		p.timer = nil
	}
	next := p.next
	if next == nil {
		p.mu.Unlock()
		return nil
	}
	p.next, p.wrote = nil, time.Now()
	p.mu.Unlock()
	data, err := next()
	if err == nil {
		err = p.d.WriteProjection(p.op, p.path, data, p.perm)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil && p.next == nil {
		p.next = next // Flush or the next Put tries it again
	}
	return err
}

// Flush writes the newest version now, whatever the interval, and returns when the file has it. It also tries a version
// again that could not be written in the background. nil means that the file is up to date.
func (p *Projection) Flush() error {
	p.disarm()
	return p.write(false)
}

// disarm stops the timer if its function has not begun.
func (p *Projection) disarm() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil && p.timer.Stop() {
		p.timer = nil
		p.armed.Done()
	}
}

// Close flushes and ends the background writing. A second Close does nothing.
func (p *Projection) Close() error {
	p.mu.Lock()
	closed := p.closed
	p.closed = true
	p.mu.Unlock()
	if closed {
		return nil
	}
	p.disarm()
	p.armed.Wait()
	return p.write(false)
}
