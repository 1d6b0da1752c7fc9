package notify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/superloop/superloop/internal/redact"
)

// Notifier is one way to reach operators. Send returns nil when the receiver has taken the message. It returns a
// *TemporaryError if the same message may succeed later, and a *PermanentError if it cannot. The Outbox treats any
// other error as temporary. Send ends when ctx does. The Outbox may call it again with a message that has arrived; the
// message then has the same ID.
type Notifier interface {
	Name() string // the name of the channel in the configuration; not a secret
	Send(ctx context.Context, m Message) error
}

// Recaller is a Notifier that can find, change and answer what it has sent. The Outbox calls Deliver in place of Send.
// The rules for Send hold for Deliver.
type Recaller interface {
	Notifier
	Deliver(ctx context.Context, m Message, d Delivery) error
}

// Delivery is what the Outbox remembers for a Recaller. The zero value is a message without a past.
type Delivery struct {
	Again   bool      // whether an earlier try may have arrived
	Since   time.Time // when the message was enqueued, by the clock of this machine
	Receipt string    // what Keep got at an earlier try, or ""
	// Earlier holds the other messages about the same escalation on this channel that may have arrived, the oldest first.
	Earlier []Sent
	// Keep stores the receipt of this message: what the notifier needs to find it. It may be called again as more becomes
	// known. nil means that nothing is stored.
	Keep func(receipt string)
}

// Sent is a message that has been sent, or that perhaps has.
type Sent struct {
	ID      string
	Kind    Kind
	Receipt string // "" if it is not known whether the message has arrived
	Since   time.Time
}

// delivery returns what the Outbox remembers for the next try of e. The caller holds mu.
func (b *Outbox) delivery(e *entry) Delivery {
	d := Delivery{Again: e.Tried, Since: e.Enqueued, Receipt: e.Receipt, Keep: func(receipt string) {
		b.mu.Lock()
		defer b.mu.Unlock()
		e.Receipt = receipt
		_ = b.save("notify-receipt", e) // after an error, the record of the end holds it
	}}
	if e.Escalation == "" {
		return d
	}
	var earlier []*entry
	for _, o := range b.entries {
		if o != e && o.Channel == e.Channel && o.Escalation == e.Escalation && o.Tried && o.Seq < e.Seq {
			earlier = append(earlier, o)
		}
	}
	slices.SortFunc(earlier, func(x, y *entry) int { return cmp.Compare(x.Seq, y.Seq) })
	for _, o := range earlier {
		d.Earlier = append(d.Earlier, Sent{o.ID, o.Kind, o.Receipt, o.Enqueued})
	}
	return d
}

// TemporaryError says that the receiver did not take a message this time. It wraps no cause, because the errors of
// net/http print the URL, which is a secret.
type TemporaryError struct {
	Reason     string
	RetryAfter time.Duration // the pause that the receiver asks for; 0 if none
	// Repair says that an operator has to repair something outside of superloop first. The Outbox tries again and again,
	// and reports such a Reason once in a row.
	Repair bool
}

func (e *TemporaryError) Error() string { return e.Reason }

// PermanentError says that the receiver will never take a message. Reason is for the operator, who has to repair the
// channel.
type PermanentError struct{ Reason string }

func (e *PermanentError) Error() string { return e.Reason }

const maxReason = 300 // characters

// send delivers m through n and converts the error to one of the two error types. After a panic of the notifier, only
// this message has failed.
func send(ctx context.Context, n Notifier, m Message, d Delivery) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &PermanentError{OneLine(redact.Text(fmt.Sprintf("the notifier panicked: %v", p)), maxReason)}
		}
	}()
	if r, ok := n.(Recaller); ok {
		err = r.Deliver(ctx, m, d)
	} else {
		err = n.Send(ctx, m)
	}
	if err == nil {
		return nil
	}
	if p, ok := errors.AsType[*PermanentError](err); ok {
		return &PermanentError{OneLine(redact.Text(p.Reason), maxReason)}
	}
	if t, ok := errors.AsType[*TemporaryError](err); ok {
		return &TemporaryError{OneLine(redact.Text(t.Reason), maxReason), t.RetryAfter, t.Repair}
	}
	return &TemporaryError{Reason: OneLine(redact.Text(err.Error()), maxReason)}
}
