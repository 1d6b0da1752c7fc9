package journal

import (
	"io/fs"
	"sync"
	"time"

	"github.com/superloop/superloop/internal/durable"
)

// Projection keeps a file up to date with the newest of many versions, without making whoever has a new version wait:
// it writes in the background, no more often than once in an interval, and leaves out versions that are out of date by
// then. The file is replaced whole and survives a kill; it is not flushed, since it can be made again from the journal.
//
// While there is nothing to write it has no goroutine and no timer.
type Projection struct {
	d        durable.Disk
	op, path string
	perm     fs.FileMode
	interval time.Duration

	mu     sync.Mutex
	next   func() ([]byte, error) // makes the newest version; nil if it is in the file
	timer  *time.Timer            // armed, or its goroutine has not yet taken next
	wrote  time.Time              // when the last write began
	closed bool

	armed   sync.WaitGroup // a timer, until it is stopped or its goroutine is done
	writing sync.Mutex     // held while a version is written; taken without mu
}

// NewProjection is a projection to path, written under the operation op at most once in minInterval.
func NewProjection(d durable.Disk, op, path string, perm fs.FileMode, minInterval time.Duration) *Projection {
	return &Projection{d: d, op: op, path: path, perm: perm, interval: minInterval}
}

// Put says what makes the newest version and returns at once. make is called when the version is written, in the
// background, and not at all if a newer one comes before. After Close Put does nothing.
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
			_ = p.write(true) // Flush tries again, and says it
		})
	}
}

// write writes the newest version if the file lacks it, in one goroutine at a time: no older one replaces a newer one.
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
		p.next = next // for Flush, or the next Put
	}
	return err
}

// Flush writes the newest version now, whatever the interval, and returns when the file has it. A version that could
// not be written in the background is tried again; nil means that the file is up to date.
func (p *Projection) Flush() error {
	p.disarm()
	return p.write(false)
}

func (p *Projection) disarm() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil && p.timer.Stop() {
		p.timer = nil
		p.armed.Done()
	}
}

// Close flushes, and ends the background writing. A second Close does nothing.
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
