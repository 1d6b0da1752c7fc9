package loop

import (
	"fmt"
	"hash/fnv"
	"time"

	"github.com/superloop/superloop/recovery/failures"
)

// Trouble is what is wrong with a task of a World.
type Trouble string

// The troubles.
const (
	Sound     Trouble = "sound"      // nothing
	Hiccup    Trouble = "transient"  // the first attempt fails, any other succeeds
	Outage    Trouble = "outage"     // the provider of whoever begins it is down for a while
	Blackout  Trouble = "blackout"   // all providers are down for a while
	Broken    Trouble = "broken"     // the environment, until it is repaired
	Hopeless  Trouble = "impossible" // nobody can do it
	Flaky     Trouble = "flaky"      // whoever begins it fails it more often than not
	CodeFault Trouble = "code"       // a bug stands in the way, until the cause is told
)

// Mix are the shares of the troubles among the tasks of a World; what is left to 1 is sound.
type Mix map[Trouble]float64

// troubles in the order in which a Mix is gone through.
func troubles() []Trouble {
	return []Trouble{Hiccup, Outage, Blackout, Broken, Hopeless, Flaky, CodeFault}
}

// World plays tasks that fail, for simulations: given a seed, the same task, agent and attempt always end in the same
// way. It has no state but what the caller has repaired, so that it can be driven by the failure policy alone or by the
// whole machine.
type World struct {
	Seed uint64
	Mix  Mix
	// Remediable is the share of broken environments that a rule or an analysis can mend; the others need an operator.
	Remediable float64
}

// Job is one task of a World.
type Job struct {
	N              int
	Task           failures.Task
	Trouble        Trouble
	Remediable     bool           // Remediable: without an operator
	Until          time.Time      // when its outage is over
	Home           failures.Agent // the provider, or the agent's runner, that the trouble is with
	Repaired, Told bool           // Repaired: somebody has mended the environment; Told: the cause stands in the prompt
}

// Job is the nth task, begun by an agent.
func (w World) Job(n int, a failures.Agent, now time.Time) Job {
	j := Job{N: n, Task: failures.Task{Loop: fmt.Sprintf("sim-%d", n%4), Role: "implementer", Item: fmt.Sprintf("%06d", n)},
		Trouble: Sound, Remediable: true, Home: a}
	at := w.chance(n, "trouble")
	for _, t := range troubles() {
		if at < w.Mix[t] {
			j.Trouble = t
			break
		}
		at -= w.Mix[t]
	}
	switch j.Trouble {
	case Outage, Blackout:
		j.Until = now.Add(5*time.Minute + time.Duration(w.chance(n, "outage")*float64(85*time.Minute)))
	case Broken:
		j.Remediable = w.chance(n, "curable") < w.Remediable
	case Hopeless:
		j.Remediable = false
	}
	return j
}

// chance is a number from 0 up to 1 that belongs to a name.
func (w World) chance(n int, name string) float64 {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%d/%d/%s", w.Seed, n, name) // a hash does not fail
	x := h.Sum64()
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	x ^= x >> 33
	return float64(x>>11) / (1 << 53)
}

// Run is how an attempt at a job ends that an agent begins now, and how long it takes.
func (w World) Run(j Job, a failures.Agent, attempt int, now time.Time) (failures.RoleOutcome, time.Duration) {
	took := time.Minute + time.Duration(w.chance(j.N, fmt.Sprintf("took/%d", attempt))*float64(9*time.Minute))
	o := failures.RoleOutcome{Task: j.Task, Agent: a, RunID: "sim", Iteration: 1, Attempt: attempt, Outcome: "ok",
		Output: "fresh", MustReport: true, Tree: "after", TreeBefore: "before", MustChange: true}
	die := w.chance(j.N, fmt.Sprintf("die/%d/%s", attempt, a.Runner))
	switch j.Trouble {
	case Hiccup:
		if attempt == 1 {
			took = w.fail(&o, die, took)
		}
	case Outage, Blackout:
		if now.Before(j.Until) && (j.Trouble == Blackout || a.Provider == j.Home.Provider) {
			o.Outcome, o.ExitCode, took = "error", 1, 3*time.Second
			o.Class, o.Error = string(failures.KindOverloaded), "529 overloaded"
			if die < 0.3 {
				o.Class, o.Error, o.Until = string(failures.KindLimit), "429 too many requests", j.Until
			}
		}
	case Broken:
		if !j.Repaired {
			o.Outcome, o.ExitCode, took = "exit", 1, 20*time.Second
			o.Error = "Cannot find module 'left-pad'"
			o.Classified = &failures.Classified{Category: "dependency", Handler: "node_module_missing", Persistence: failures.Environment, Infra: true, Confidence: 0.9, Signature: "dependency/node_module_missing-0000000000"}
		}
	case Hopeless:
		took = w.refuse(&o, j)
	case Flaky:
		if a == j.Home && die < 0.7 || die > 0.98 {
			took = w.fail(&o, w.chance(j.N, fmt.Sprintf("how/%d", attempt)), took)
		}
	case CodeFault:
		if !j.Told && (attempt < 3 || die < 0.8) {
			o.Outcome, o.ExitCode = "exit", 1
			o.Error = "panic: nil map in store.go:41"
			o.Classified = &failures.Classified{Category: "code_bug", Persistence: failures.Code, Code: true, Confidence: 0.9, Signature: "code_bug-1111111111"}
		}
	}
	o.DurationMS = took.Milliseconds()
	o.At = now.Add(took)
	return o, took
}

// fail makes an outcome one of the failures that speak against an agent.
func (w World) fail(o *failures.RoleOutcome, die float64, took time.Duration) time.Duration {
	switch int(die * 8) {
	case 0:
		o.Outcome, took = "timeout", 10*time.Minute
	case 1:
		o.Outcome = "inactive"
	case 2:
		o.Outcome, o.Signal = "signal", "SIGSEGV"
	case 3:
		o.Outcome, o.ExitCode, o.Class = "exit", 0, string(failures.KindNoResult)
	case 4:
		o.Output = "missing"
	case 5:
		o.Tree = o.TreeBefore
	case 6:
		o.Outcome = "lost"
	default:
		o.Outcome, o.ExitCode = "exit", 2
	}
	return took
}

// refuse makes an outcome that of work which cannot be done.
func (w World) refuse(o *failures.RoleOutcome, j Job) time.Duration {
	switch die := w.chance(j.N, "hopeless"); {
	case die < 0.4:
		o.Impossible = "the item names a file that no commit has"
	case die < 0.7:
		o.Outcome, o.ExitCode, o.Class, o.Error = "error", 1, string(failures.KindRefused), "the model refused"
	default:
		o.Outcome, o.ExitCode, o.Error = "exit", 1, "nothing to do"
	}
	return 400 * time.Millisecond
}

// shared reports whether every runner fails of the trouble: a first reassignment shows that, and cannot help.
func (j Job) shared() bool { return j.Trouble == Broken || j.Trouble == CodeFault }
