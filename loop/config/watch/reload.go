package watch

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/loop/config/trust"
)

const (
	settled = 500 * time.Millisecond // how long a file that is not whole must stay as it is before it is Rejected
	longest = 5 * time.Second        // how long one that keeps changing may take

	// Bounds of what an Outcome puts into the journal.
	maxShort      = 40      // entries of a list
	maxShortValue = 2 << 10 // bytes of one value

	// Codes of problems that only a running loop has.
	CodeRunning = "running_loop" // a loop that runs, and what it stands on, cannot change
	CodeTrust   = "trust"        // what is trusted cannot be read, kept or put in force
)

// Options are what a Reloader needs besides the configuration. Repo, LookPath, Store and Now are required.
type Options struct {
	Repo     string   // the repository's root
	Running  []string // the ids of the loops that run on the configuration
	LookPath config.LookPath
	Store    trust.Store
	// Loosen: agents cannot write the file, by what Level says, so a loosening is taken and pinned.
	Loosen bool
	Level  string
	Trust  bool // the operator By, who starts the loop, trusts the file as it is now
	By     string
	Now    func() time.Time // the time for pins
}

// Reloader holds the configuration in force. Any goroutine may call Config at any time, several may call Check.
type Reloader struct {
	o    Options
	path string
	live atomic.Pointer[config.Config]

	mu    sync.Mutex
	force inForce
	pin   trust.Pin
	// accepted is the file and the pin that force was made of, file and pinned their stamps; without file's a look is due.
	accepted     string
	file, pinned stamp
	broken       string // a file that is not whole: since when it is so, and since when it is this one
	since, this  time.Time
	// What was said last: of a file that was Rejected, of what is Held, and of the pin.
	rejected, held, warned string
}

// New makes the Reloader of a configuration that was read from its file and checked. The first run of a repository pins
// it; later ones compare it with the pin. The Outcome says how that came out: Unchanged, Held, or Reloaded when a
// loosening was taken. A pin that cannot be believed is a *trust.DamagedError unless o.Trust is set.
func New(cfg *config.Config, o Options) (*Reloader, Outcome, error) {
	section, err := trust.Of(cfg)
	if err != nil {
		return nil, Outcome{}, err
	}
	r := &Reloader{o: o, path: cfg.Path}
	pin := r.newPin(section, trust.Trusted)
	if o.Trust {
		r.pin, err = o.Store.Save(pin)
	} else {
		pin.How = trust.FirstRun
		r.pin, _, err = o.Store.SaveFirst(pin)
	}
	if err != nil {
		return nil, Outcome{}, err
	}
	r.live.Store(cfg)
	r.force = inForce{cfg, section, true}
	out := r.judge(cfg, section)
	if out.Kind == Rejected {
		return nil, Outcome{}, &config.Error{Path: cfg.Path, Problems: out.Problems}
	}
	r.accepted = r.key(cfg.Digest)
	out.Changes = nil // nothing was in force before
	if out.Kind != Held {
		out.Kind = Unchanged
		if len(out.Diff.Loosening) > 0 {
			out.Kind = Reloaded
		}
	}
	return r, out, nil
}

func (r *Reloader) newPin(s trust.Section, how trust.How) trust.Pin {
	return trust.Pin{Section: s, At: r.o.Now(), How: how, By: r.o.By, Config: r.path}
}

// Config is the configuration that is in force.
func (r *Reloader) Config() *config.Config { return r.live.Load() }

// Check looks at the file and takes what is new. now only moves on. It costs microseconds when nothing has changed.
func (r *Reloader) Check(now time.Time) Outcome {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file.proves(stampOf(r.path)) && r.pinned.proves(stampOf(r.o.Store.Path)) {
		return r.outcome(Unchanged)
	}
	r.file = stamp{}
	warnings := r.readPin()
	out := r.check(now)
	out.Warnings = warnings
	return out
}

func (r *Reloader) outcome(k Kind) Outcome { return Outcome{Kind: k, Config: r.live.Load()} }

func (r *Reloader) check(now time.Time) Outcome {
	unchanged := r.outcome(Unchanged)
	data, st, err := read(r.path)
	sum := fingerprint(data, err)
	if err == nil && whole(data) {
		r.broken = ""
	} else if unchanged.Again = r.wait(sum, now); unchanged.Again > 0 {
		return unchanged
	}
	if err != nil {
		return r.reject(sum, problemsOf(err))
	}
	if r.key(sum) == r.accepted {
		r.file, r.rejected = st, ""
		return unchanged
	}
	next, err := config.LoadBytes(r.path, data)
	problems := problemsOf(err)
	if len(problems) == 0 {
		problems = frozen(r.live.Load(), next, r.o.Running)
	}
	if len(problems) == 0 {
		problems = next.Check(r.o.Repo, r.o.LookPath)
	}
	if len(problems) > 0 {
		return r.reject(sum, problems)
	}
	section, err := trust.Of(next)
	if err != nil {
		return r.reject(sum, untrusted(err.Error()))
	}
	out := r.judge(next, section)
	if out.Kind == Rejected {
		return r.reject(sum, out.Problems)
	}
	r.accepted, r.rejected, r.file = r.key(sum), "", st
	return out
}

// key names a file and the pin that it was compared with.
func (r *Reloader) key(sum string) string { return sum + " " + r.pin.Digest }

func untrusted(why string) []config.Problem { return []config.Problem{{Code: CodeTrust, Message: why}} }

// problemsOf are the problems that an error of the configuration's reader holds.
func problemsOf(err error) []config.Problem {
	if bad, ok := errors.AsType[*config.Error](err); ok {
		return bad.Problems
	}
	if err != nil {
		return []config.Problem{{Code: config.CodeUnreadable, Message: err.Error()}}
	}
	return nil
}

// wait is how long a file that is not whole is left alone yet; 0: it has had its time.
func (r *Reloader) wait(sum string, now time.Time) time.Duration {
	if r.broken == "" {
		r.since = now
	}
	if r.broken != sum {
		r.broken, r.this = sum, now
	}
	left := min(settled-now.Sub(r.this), longest-now.Sub(r.since))
	if left <= 0 {
		r.since = now // it is reported now; what comes after it has its own time
	}
	return max(0, left)
}

// reject says what is wrong with a file, once for each content and its problems.
func (r *Reloader) reject(sum string, problems []config.Problem) Outcome {
	about := fmt.Sprint(sum, problems)
	if about == r.rejected {
		return r.outcome(Unchanged)
	}
	r.rejected = about
	out := r.outcome(Rejected)
	out.Problems = problems
	return out
}

// judge compares a valid configuration with the pin and puts in force what may be. What can fail comes before the swap.
func (r *Reloader) judge(next *config.Config, section trust.Section) Outcome {
	diff := trust.Compare(r.pin.Section, section)
	held := len(diff.Loosening) > 0 && !r.o.Loosen
	is := inForce{next, section, !held}
	pin := r.pin
	var err error
	if held {
		is.section = trust.Effective(r.pin.Section, section)
		is.config, err = trust.Apply(next, is.section)
	}
	if err == nil {
		err = r.runnable(is.config)
	}
	if err == nil && !held && len(diff.Loosening) > 0 {
		loosened := r.newPin(section, trust.Loosened)
		loosened.By, loosened.Level = "", r.o.Level
		pin, err = r.o.Store.Save(loosened)
	}
	if err != nil {
		return Outcome{Kind: Rejected, Problems: untrusted(err.Error())}
	}
	out := Outcome{Kind: Unchanged, Config: is.config, Changes: changes(r.force, is), Digest: section.Digest()}
	r.live.Store(is.config)
	r.force, r.pin = is, pin
	if len(out.Changes) > 0 {
		out.Kind = Reloaded
	}
	switch {
	case held && out.Digest != r.held:
		out.Kind, out.Diff, r.held = Held, diff, out.Digest
	case !held && len(diff.Loosening) > 0:
		out.Diff, r.held = diff, ""
	case !held:
		r.held = ""
	}
	return out
}

// runnable wants that the loops that run are in force.
func (r *Reloader) runnable(c *config.Config) error {
	for _, id := range r.o.Running {
		if _, ok := c.Loop(id); !ok {
			return fmt.Errorf("the loop %q is not among what is trusted; to see what is held type: superloop config diff, and to trust it: superloop config trust", id)
		}
	}
	return nil
}

// readPin takes a new pin of an operator. A removed one is written again, a damaged one left; both are said once.
func (r *Reloader) readPin() []config.Problem {
	st := stampOf(r.o.Store.Path)
	if r.pinned.proves(st) {
		return nil
	}
	pin, err := r.o.Store.Load()
	var said string
	switch {
	case err == nil:
		r.pin, r.pinned = pin, st
	case errors.Is(err, trust.ErrNoPin):
		said = fmt.Sprintf("the pin %s was removed while the loop ran; it was written again", r.o.Store.Path)
		if _, err := r.o.Store.Save(r.pin); err != nil {
			said = fmt.Sprintf("the pin %s was removed while the loop ran, and cannot be written again: %v", r.o.Store.Path, err)
		}
	default:
		said = err.Error() + "; to pin what the file says type: superloop config trust"
	}
	if said == r.warned {
		return nil
	}
	if r.warned = said; said == "" {
		return nil
	}
	return untrusted(said)
}

// Kind says what a look at the file came to.
type Kind string

// The kinds. Each is given once for what it is about, not at every look.
const (
	Unchanged Kind = "unchanged" // what is in force is as before, and there is nothing new to say of the file
	Reloaded  Kind = "reloaded"  // another configuration is in force
	Rejected  Kind = "rejected"  // the file is wrong; what was in force is in force
	// Held: the file loosens something that nobody has trusted. That is not in force; everything else of the file is.
	Held Kind = "held"
)

// Outcome is what a look at the file came to. Nothing in it shows a secret.
type Outcome struct {
	Kind    Kind
	Config  *config.Config  // what is in force from now on; never nil
	Changes []config.Change // those of what is in force, by Reloaded and Held, sorted by path
	// Diff is between pin and file: of Held, and of Reloaded when a loosening was taken that no agent can have made.
	Diff trust.Diff
	// Digest is that of the file's trusted part, as `superloop config trust --digest` wants it; "" when Rejected.
	Digest string
	// Problems are why the file was Rejected, in the order of the file. Warnings are about the pin, with any Kind.
	Problems, Warnings []config.Problem
	// Again, unless 0: the file is not whole; look again after that time. Watch sends by then.
	Again time.Duration
}

// Short is o for a journal: the beginning of each list, and the sizes of long values. `superloop config diff` shows all.
func (o Outcome) Short() Outcome {
	o.Problems, o.Warnings = Few(o.Problems), Few(o.Warnings)
	o.Changes = short(o.Changes, func(c *config.Change) { c.From, c.To = shortValue(c.From), shortValue(c.To) })
	change := func(c *trust.Change) { c.From, c.To = shortValue(c.From), shortValue(c.To) }
	o.Diff.Tightening, o.Diff.Loosening = short(o.Diff.Tightening, change), short(o.Diff.Loosening, change)
	return o
}

// Few are the first of some problems, as many as an event holds.
func Few(list []config.Problem) []config.Problem { return list[:min(len(list), maxShort)] }

func short[T any](in []T, shorten func(*T)) []T {
	out := append([]T{}, in[:min(len(in), maxShort)]...)
	for i := range out {
		shorten(&out[i])
	}
	return out
}

func shortValue(v any) any {
	raw, err := json.Marshal(v)
	if err != nil || len(raw) > maxShortValue {
		return fmt.Sprintf("(%d bytes; superloop config diff shows it)", len(raw))
	}
	return v
}
