package local

import "time"

// A chore is something that is noted down for later and that nothing waits for: how a
// role has ended well, the environment of that success. It is done beside what comes
// next, when that has gone on for a while, so that what follows from a role's end
// comes first. A chore may use nothing that changes while the loop goes on.

// choreDelay is that while.
const choreDelay = time.Second

// chores are those that were put aside, in their order.
type chores struct {
	list  []func()
	hurry chan struct{} // closed: now
	done  chan struct{} // of those that are on their way; nil: none are
}

// add puts a chore aside.
func (c *chores) add(f func()) { c.list = append(c.list, f) }

// begin has them done in a while, unless some are on their way already.
func (c *chores) begin() {
	if len(c.list) == 0 {
		return
	}
	if c.done != nil {
		select {
		case <-c.done:
		default:
			return
		}
	}
	list, hurry, done := c.list, make(chan struct{}), make(chan struct{})
	c.list, c.hurry, c.done = nil, hurry, done
	go func() {
		defer close(done)
		wait := time.NewTimer(choreDelay)
		defer wait.Stop()
		select {
		case <-wait.C:
		case <-hurry:
		}
		for _, f := range list {
			f()
		}
	}()
}

// settle does them all now: somebody is about to read what they write.
func (c *chores) settle() {
	if c.done != nil {
		close(c.hurry)
		<-c.done
		c.done = nil
	}
	for _, f := range c.list {
		f()
	}
	c.list = nil
}
