package local

import (
	"context"
	"os"
	"reflect"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/loop"
	"github.com/superloop/superloop/loop/config"
	"github.com/superloop/superloop/loop/config/trust"
	"github.com/superloop/superloop/loop/config/watch"
	"github.com/superloop/superloop/loop/effects"
	"github.com/superloop/superloop/loop/journal"
	"github.com/superloop/superloop/loop/layout"
	"github.com/superloop/superloop/recovery"
	"github.com/superloop/superloop/recovery/sandbox"
	"github.com/superloop/superloop/recovery/steering"
)

// protect finds out whether this system can keep agents from the configuration, from the private state, from the files
// that superloop writes for people, and from what steers other programs outside of the repository. From then on d.host.Runner starts agents with that protection.
func (d *driver) protect(ctx context.Context) {
	own := sandbox.Protection{ReadOnly: []string{d.paths.Super}, Writable: []string{d.paths.Loop}, Hidden: []string{d.paths.State}}
	if d.repo.Top != d.paths.Repo {
		own.Writable = append(own.Writable, d.repo.Top) // the loop's own work tree lies in .superloop
	}
	own.ReadOnly = append(own.ReadOnly, d.paths.Events(), journal.Segments(d.paths.Events()))
	for _, name := range append([]string{"lock", "proposals", "policies"}, layout.OwnFiles()...) {
		own.ReadOnly = append(own.ReadOnly, d.paths.File(name))
	}
	d.host.Runner, d.protection = d.spawner, sandbox.ProtectionReport{Level: sandbox.ProtectNone, Tree: d.spawner.Level(), Notes: []string{"switched off by --unprotected"}}
	if d.o.Unprotected {
		return
	}
	d.host.Warn("agents may look into the supervisor's memory", proc.Undumpable())
	d.surroundings.Close()
	d.surroundings = steering.NewKeeper(steering.Home{Env: d.host.Env(), Work: []string{d.paths.Repo, d.repo.Top},
		Needed: []string{d.paths.State, os.TempDir()}, Paths: d.o.Config.Protect.Paths, Allow: d.o.Config.Opened()}, d.o.Disk)
	own.Around, own.Ports = d.surroundings.Around, d.ports()
	d.host.Runner, d.protection = sandbox.Protect(ctx, d.spawner, own)
	if d.protection.Level == sandbox.ProtectNone {
		d.surroundings.Close() // nothing holds the links
	}
}

// ports returns a function that returns the TCP ports of the daemon of this user, which neither agents nor commands
// reach. It returns nil if the operator has switched off the protection.
func (d *driver) ports() func() []uint16 {
	if d.o.Unprotected {
		return nil
	}
	return func() []uint16 { return layout.DaemonPorts(d.paths.State) }
}

// startConfig compares the configuration with the pin, puts the trusted part in force, and begins to watch the file.
// The caller records the outcome when the loop has begun.
func (d *driver) startConfig() (watch.Outcome, error) {
	look := d.o.LookPath
	if look == nil {
		look = func(string) (string, error) { return "", nil }
	}
	r, out, err := watch.New(d.o.Config, watch.Options{Repo: d.paths.Repo, Running: []string{d.o.LoopID}, LookPath: look,
		Store:  trust.Store{Disk: d.o.Disk, Path: d.paths.Trust(d.o.Config.Path)},
		Loosen: d.protection.Level != sandbox.ProtectNone, Level: d.protection.Level, Trust: d.o.TrustConfig, By: d.o.By, Now: d.o.Now})
	if err != nil {
		return out, d.host.Full(err)
	}
	d.reload = r
	d.next.Store(out.Config)
	d.adopt()
	d.newConfig = watch.Watch(d.life, d.o.Config.Path)
	return out, nil
}

// adopt puts the newest configuration in force. The driver calls it at the start of a run and of each iteration.
func (d *driver) adopt() {
	next := d.next.Load()
	if next == nil || next == d.o.Config {
		return
	}
	l, ok := next.Loop(d.o.LoopID)
	if !ok {
		return // watch never removes a running loop from a configuration; the old one stays
	}
	was := d.o.Config.Protect
	d.o.Config, d.loop = next, l
	d.outbox.Configure()
	if !reflect.DeepEqual(was, next.Protect) {
		d.protect(d.life)
	}
}

// checkConfig takes in a changed configuration. during is the role that runs at that time, "" for none.
func (d *driver) checkConfig(during string) error {
	if d.reload == nil {
		return nil
	}
	return d.tellConfig(d.reload.Check(d.o.Now()), during)
}

// rejectedFields are the fields of config_rejected and config_warning.
type rejectedFields struct {
	Problems []config.Problem `json:"problems"`
	During   string           `json:"during,omitempty"`
}

// heldFields are the fields of config_change_held.
type heldFields struct {
	Changes []config.Change `json:"changes"`
	Diff    trust.Diff      `json:"diff"`
	Digest  string          `json:"digest"`
	During  string          `json:"during,omitempty"`
	Next    string          `json:"next"` // the command that puts it in force
}

// tellConfig records the outcome of a check of the configuration file. It gives a changed plan to the machine.
func (d *driver) tellConfig(out watch.Outcome, during string) error {
	if out.Kind == watch.Unchanged && len(out.Warnings) == 0 {
		return nil
	}
	if out.Config != nil {
		d.next.Store(out.Config)
	}
	loosened := len(out.Diff.Loosening)
	out = out.Short()
	switch out.Kind {
	case watch.Rejected:
		return d.record("config_rejected", rejectedFields{out.Problems, during})
	case watch.Unchanged:
		return d.record("config_warning", rejectedFields{out.Warnings, during})
	}
	if len(out.Changes) > 0 || out.Kind == watch.Reloaded {
		f := loop.Reconfigured{Changes: effects.ChangesOf(out.Changes), Digest: out.Digest, Warnings: effects.ProblemsOf(out.Warnings), During: during}
		if l, ok := d.next.Load().Loop(d.o.LoopID); ok {
			plan, was := effects.PlanOf(d.settings().Next, l), d.state.Plan
			if d.state.NextPlan != nil {
				was = *d.state.NextPlan
			}
			if !reflect.DeepEqual(plan, was) {
				f.Plan = &plan
			}
		}
		if err := d.step(f); err != nil {
			return err
		}
	}
	if out.Kind == watch.Held {
		d.outbox.Held(d.state, out.Digest, loosened)
		next := "superloop config trust "
		if d.paths.Owns(d.o.Config.Path) {
			next += "--loop " + d.o.LoopID + " "
		}
		next += "--digest " + out.Digest[:min(8, len(out.Digest))]
		return d.record("config_change_held", heldFields{out.Changes, out.Diff, out.Digest, during, next})
	}
	return nil
}

// loadedFields are the fields of config_loaded: the configuration and the protection with which a run begins.
type loadedFields struct {
	File         string           `json:"file"`
	Digest       string           `json:"digest"`
	PolicyDigest string           `json:"policy_digest,omitempty"`
	Protection   string           `json:"protection"`
	Notes        []string         `json:"protection_notes,omitempty"`
	Warnings     []config.Problem `json:"warnings,omitempty"`
}

// tellLoaded records config_loaded, with a warning for each overlap of the policy's lists, and then the outcome of
// startConfig.
func (d *driver) tellLoaded(out watch.Outcome) error {
	c := d.o.Config
	f := loadedFields{File: d.paths.Rel(c.Path), Digest: c.Digest, Protection: d.protection.Level, Notes: d.protection.Notes, Warnings: c.Warnings}
	if p, problems := c.Policy(d.o.LoopID); p != nil && len(problems) == 0 && p.Settings.Enabled {
		f.PolicyDigest = p.Digest
		if err := (&effects.Policies{Host: d.host}).Keep(p); err != nil {
			return err
		}
		for _, found := range p.Lint() {
			if found.Severity == recovery.SevNote {
				f.Warnings = append(f.Warnings, config.Problem{Pointer: found.Pointer, Code: found.Code, Message: found.Message})
			}
		}
	}
	f.Warnings = watch.Few(f.Warnings)
	if err := d.record("config_loaded", f); err != nil {
		return err
	}
	return d.tellConfig(out, "")
}

// news takes in what happens while an effect is performed: a new proposal if sighting is set, otherwise a changed
// configuration.
func (d *driver) news(ctx context.Context, sighting bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	role := ""
	if p := d.state.Pending; p != nil {
		role = p.Role
	}
	if sighting {
		if f := d.recoveries.Sight(ctx, d.state); f != nil {
			d.host.Warn("a proposal was seen and could not be recorded yet", d.step(f))
		}
		return
	}
	d.host.Warn("a change of the configuration could not be recorded yet", d.checkConfig(role))
}
