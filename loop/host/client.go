package host

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/superloop/superloop/internal/text"
)

// ErrGone says that the process which carries out the loops has ended.
var ErrGone = errors.New("the process that carries out the loops of this machine has ended")

// Client asks the machine. Its methods may be called from any goroutine.
type Client struct {
	out     io.WriteCloser
	stirred func(Place)
	slot    func(Slot)
	wishes  chan Wish

	mu   sync.Mutex
	last int64
	open map[int64]chan Answer
	err  error // why nothing can be asked any more
	gone chan struct{}
}

// NewClient returns a Client that writes requests to out and reads answers from in, until in ends. stirred is called for
// each loop that has something to do, slot for each role that wants a slot and for each that leaves one; both must return at
// once. A nil slot grants each role its slot.
func NewClient(out io.WriteCloser, in io.Reader, stirred func(Place), slot func(Slot)) *Client {
	c := &Client{out: out, stirred: stirred, slot: slot, wishes: make(chan Wish, maxWishes), open: map[int64]chan Answer{}, gone: make(chan struct{})}
	go c.read(in)
	return c
}

// maxWishes bounds the wishes that nobody has taken. Others are left out.
const maxWishes = 1000

// Wishes returns what people want who have asked the machine.
func (c *Client) Wishes() <-chan Wish { return c.wishes }

// Gone returns a channel that is closed when nothing can be asked any more.
func (c *Client) Gone() <-chan struct{} { return c.gone }

// Close says that no request follows. The machine then pauses what it carries out, and ends.
func (c *Client) Close() error { return c.out.Close() }

func (c *Client) read(in io.Reader) {
	r := bufio.NewScanner(in)
	r.Buffer(nil, MaxLine)
	for r.Scan() {
		var a Answer
		if err := text.Decode(r.Bytes(), &a); err != nil {
			c.fail(fmt.Errorf("reading an answer of the machine: %w", err))
			return
		}
		if a.Stirred != nil {
			c.stirred(*a.Stirred)
			continue
		}
		if a.Wish != nil {
			select {
			case c.wishes <- *a.Wish:
			default:
			}
			continue
		}
		if a.Slot != nil {
			switch {
			case c.slot != nil:
				c.slot(*a.Slot)
			case !a.Slot.Left:
				go func() { _ = c.Grant(a.Slot.ID) }() // a machine that is gone begins no role
			}
			continue
		}
		c.mu.Lock()
		to := c.open[a.ID]
		delete(c.open, a.ID)
		c.mu.Unlock()
		if to != nil {
			to <- a
		}
	}
	c.fail(errors.Join(ErrGone, r.Err()))
}

// fail ends all requests.
func (c *Client) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
	close(c.gone)
}

// Turn asks for the outcome of an effect. When ctx ends, the effect is ended, and Turn still waits for the answer: what the
// machine has written down until then is in it.
func (c *Client) Turn(ctx context.Context, t Turn) (Turned, error) {
	a, err := c.ask(ctx, Request{Turn: &t})
	if err != nil {
		return Turned{}, err
	}
	if a.Turned == nil {
		return Turned{}, errors.New("the machine has answered a turn with something else")
	}
	return *a.Turned, nil
}

// Verb carries out a verb, and returns what it has printed.
func (c *Client) Verb(ctx context.Context, v Verb) ([]byte, error) {
	a, err := c.ask(ctx, Request{Verb: &v})
	return a.Said, err
}

// Grant lets the role begin that wants a slot of its account. A role that has left meanwhile is no error.
func (c *Client) Grant(id string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.write(Request{Grant: id})
}

func (c *Client) ask(ctx context.Context, q Request) (Answer, error) {
	to := make(chan Answer, 1)
	c.mu.Lock()
	c.last++
	q.ID = c.last
	c.open[q.ID] = to
	err := c.write(q)
	c.mu.Unlock()
	if err != nil {
		return Answer{}, err
	}
	done := ctx.Done()
	for {
		select {
		case a := <-to:
			if a.Error != nil {
				return a, a.Error
			}
			return a, nil
		case <-c.gone:
			return Answer{}, c.err
		case <-done:
			done = nil
			c.mu.Lock()
			err := c.write(Request{Stop: q.ID})
			c.mu.Unlock()
			if err != nil {
				return Answer{}, err
			}
		}
	}
}

// write writes one line. The caller holds c.mu.
func (c *Client) write(q Request) error {
	if c.err != nil {
		return c.err
	}
	line, err := json.Marshal(q)
	if err == nil {
		_, err = c.out.Write(append(line, '\n'))
	}
	if err != nil {
		return fmt.Errorf("asking the machine: %w", err)
	}
	return nil
}
