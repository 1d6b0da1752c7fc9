package notify

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/superloop/superloop/internal/redact"
)

// Notifier is one way to reach people. Send returns nil when the other side
// has taken the message, a *TemporaryError if the same message may work later,
// and a *PermanentError if it will not; any other error counts as temporary.
// Send ends when ctx does, and may be called again with a message that did
// arrive: it is given the same ID.
type Notifier interface {
	// Name is the channel's name in the configuration; it is no secret.
	Name() string
	Send(ctx context.Context, m Message) error
}

// TemporaryError says that a message was not taken now. It holds no cause:
// those of net/http print the URL, and a URL is a secret here.
type TemporaryError struct {
	Reason string
	// RetryAfter is how long the other side wants to be left alone; 0 if it did not say.
	RetryAfter time.Duration
}

func (e *TemporaryError) Error() string { return e.Reason }

// PermanentError says that a message will not be taken. Reason is for the
// person who has to put it right.
type PermanentError struct{ Reason string }

func (e *PermanentError) Error() string { return e.Reason }

const maxReason = 300 // characters

// send calls n, and turns whatever comes back into one of the two errors. A
// panic of a notifier ends its message, not the supervisor.
func send(ctx context.Context, n Notifier, m Message) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &PermanentError{OneLine(redact.Text(fmt.Sprintf("the notifier panicked: %v", p)), maxReason)}
		}
	}()
	err = n.Send(ctx, m)
	if err == nil {
		return nil
	}
	if p, ok := errors.AsType[*PermanentError](err); ok {
		return &PermanentError{OneLine(redact.Text(p.Reason), maxReason)}
	}
	if t, ok := errors.AsType[*TemporaryError](err); ok {
		return &TemporaryError{OneLine(redact.Text(t.Reason), maxReason), t.RetryAfter}
	}
	return &TemporaryError{Reason: OneLine(redact.Text(err.Error()), maxReason)}
}
