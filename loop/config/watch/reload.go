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
	settled = 500 * time.Millisecond // how long a file that is not whole must stay the same before it is Rejected
	longest = 5 * time.Second        // how long a file that is not whole may keep changing before it is Rejected

	// Bounds of the lists and values that an Outcome puts into the journal.
	maxShort      = 40      // entries of a list
	maxShortValue = 2 << 10 // bytes of one value

	// Codes of problems that occur only while loops run.
	CodeRunning = "running_loop" // the file changes a running loop in a way that is not possible
	CodeTrust   = "trust"        // superloop cannot read or save the pin, or cannot put the trusted configuration in force
)

// Options holds the values that a Reloader needs besides the configuration. Repo, LookPath, Store and Now are required.
type Options struct {
	Repo     string   // the repository's root
	Running  []string // the ids of the loops that run on the configuration
	LookPath config.LookPath
	Store    trust.Store
	// Loosen says that the agents cannot write the file, because of the sandbox level Level. Then the Reloader puts a
	// loosening in force and pins it.
	Loosen bool
	Level  string
	Trust  bool // whether the operator By, who starts the loop, trusts the present file
	By     string
	Now    func() time.Time // the clock for the times of pins
}

// Reloader holds the configuration in force. Any goroutine may call Config and Check at any time.
type Reloader struct {
	o    Options
	path string
	live atomic.Pointer[config.Config]

	mu    sync.Mutex
	force inForce
	pin   trust.Pin
	// accepted names the file and the pin that led to force. file and pinned are their stamps. If file is zero, the
	// next Check reads the file.
	accepted     string
	file, pinned stamp
	broken       string // the fingerprint of a file that is not whole
	since, this  time.Time
	// The last reports, so that each is made once: the Rejected file, the digest of the Held one, and the warning about
	// the pin.
	rejected, held, warned string
}

// New returns the Reloader of a configuration that the caller has read and checked. The first run in a repository pins
// the configuration. Later runs compare it with the pin. The kind of the Outcome is Unchanged, Held, or Reloaded if a
// loosening was put in force. For a damaged pin New returns a *trust.DamagedError, unless o.Trust is set.
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
	out.Changes = nil // no configuration was in force before
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

// Config returns the configuration that is in force.
func (r *Reloader) Config() *config.Config { return r.live.Load() }

// Check reads the file if it may have changed, and puts a valid change in force. The caller passes times that never go
// back. Without a change Check takes microseconds.
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

// key names a file, by its digest, and the pin with which it was compared.
func (r *Reloader) key(sum string) string { return sum + " " + r.pin.Digest }

func untrusted(why string) []config.Problem { return []config.Problem{{Code: CodeTrust, Message: why}} }

// problemsOf returns the problems in an error of config.LoadBytes or config.Read.
func problemsOf(err error) []config.Problem {
	if bad, ok := errors.AsType[*config.Error](err); ok {
		return bad.Problems
	}
	if err != nil {
		return []config.Problem{{Code: config.CodeUnreadable, Message: err.Error()}}
	}
	return nil
}

// wait returns how long the Reloader should still wait for a file that is not whole. 0 means that the file is to be
// rejected now.
func (r *Reloader) wait(sum string, now time.Time) time.Duration {
	if r.broken == "" {
		r.since = now
	}
	if r.broken != sum {
		r.broken, r.this = sum, now
	}
	left := min(settled-now.Sub(r.this), longest-now.Sub(r.since))
	if left <= 0 {
		r.since = now // Check reports this file now; a later one gets the full time
	}
	return max(0, left)
}

// reject returns the Outcome of a wrong file. It reports the same content with the same problems only once.
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

// judge compares a valid configuration with the pin and puts the permitted part in force. It takes every step that can
// fail before it replaces the configuration.
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

// runnable checks that every running loop is in the configuration.
func (r *Reloader) runnable(c *config.Config) error {
	for _, id := range r.o.Running {
		if _, ok := c.Loop(id); !ok {
			return fmt.Errorf("the loop %q is not among what is trusted; to see what is held type: superloop config diff, and to trust it: superloop config trust", id)
		}
	}
	return nil
}

// readPin reads the pin again if an operator has changed it. It writes a removed pin again and leaves a damaged one. It
// reports each of the two once.
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

// Kind is the result of a Check.
type Kind string

// The kinds. Check reports Reloaded, Rejected and Held once for each cause, and Unchanged after that.
const (
	Unchanged Kind = "unchanged" // the same configuration is in force, and there is nothing new to report about the file
	Reloaded  Kind = "reloaded"  // another configuration is in force
	Rejected  Kind = "rejected"  // the file is wrong; the previous configuration stays in force
	// Held means that the file loosens something that no operator has trusted. The loosening is not in force; the rest
	// of the file is.
	Held Kind = "held"
)

// Outcome is the result of New or Check. It shows no secret.
type Outcome struct {
	Kind    Kind
	Config  *config.Config  // the configuration that is in force from now on; never nil
	Changes []config.Change // the changes of the configuration in force, sorted by path; set by Reloaded and Held
	// Diff holds the changes from the pin to the file. Held sets it, and Reloaded sets it if a loosening was put in
	// force because no agent can have made it.
	Diff trust.Diff
	// Digest is the digest of the file's Section, as `superloop config trust --digest` takes it. It is "" when the file
	// is Rejected.
	Digest string
	// Problems say why the file was Rejected, in the order of the file. Warnings are about the pin; they may come with
	// any Kind.
	Problems, Warnings []config.Problem
	// Again is not 0 when the file is not whole. The caller should call Check after that time; Watch sends by then.
	Again time.Duration
}

// Short returns o for the journal, with only the beginning of each list, and with the sizes of long values instead of
// the values. `superloop config diff` shows all of them.
func (o Outcome) Short() Outcome {
	o.Problems, o.Warnings = Few(o.Problems), Few(o.Warnings)
	o.Changes = short(o.Changes, func(c *config.Change) { c.From, c.To = shortValue(c.From), shortValue(c.To) })
	change := func(c *trust.Change) { c.From, c.To = shortValue(c.From), shortValue(c.To) }
	o.Diff.Tightening, o.Diff.Loosening = short(o.Diff.Tightening, change), short(o.Diff.Loosening, change)
	return o
}

// Few returns the first problems, as many as an event holds.
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
