package doctor

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/superloop/superloop/internal/proc"
	"github.com/superloop/superloop/loop/layout"
	"github.com/superloop/superloop/recovery/sandbox"
)

const (
	LevelAdvisory = "L0" // the rules for agents are advisory: nothing enforces them
	LevelMount    = "L1" // mounts keep agents from the configuration and the private state
)

// Enforcement says which protections hold on this machine and which do not. superloop measures them by setting up the
// same sandboxes as a run.
type Enforcement struct {
	Level      string                   `json:"level"`
	Agents     sandbox.ProtectionReport `json:"agents"`     // what protects configuration and private state from agents
	Wall       sandbox.Siege            `json:"wall"`       // whether a child that was started as an agent reached the daemon's TCP port
	Recoveries sandbox.Sandbox          `json:"recoveries"` // the sandbox of a recovery command
	// RequiredBy lists the loops whose policy has sandbox.required. The recovery section that all loops share is listed
	// as "recovery". Met reports whether the sandbox of this machine meets that requirement.
	RequiredBy []string `json:"sandbox_required_by"`
	Met        bool     `json:"sandbox_required_met"`
	NotRefused []string `json:"not_refused"` // the actions that nothing keeps an agent from
	root       bool
}

// protection returns the directories that a run protects from agents, as far as they exist.
func (p Target) protection() sandbox.Protection {
	own := sandbox.Protection{ReadOnly: []string{filepath.Dir(p.ConfigPath)}}
	for _, l := range p.Loops {
		if dir := filepath.Dir(l.Events); exists(dir) {
			own.Writable = append(own.Writable, dir)
		}
	}
	ports := []uint16{layout.DaemonPort}
	if len(p.Loops) > 0 {
		// The private directory of a loop is <state home>/superloop/<repository>/loops/<id>.
		dir := filepath.Dir(filepath.Dir(filepath.Dir(p.Loops[0].Private)))
		if ports = layout.DaemonPorts(dir); exists(dir) {
			own.Hidden = append(own.Hidden, dir)
		}
	}
	own.Ports = func() []uint16 { return ports }
	if !exists(own.ReadOnly[0]) {
		return sandbox.Protection{ReadOnly: []string{p.Repo}, Ports: own.Ports} // to measure which protection this machine allows
	}
	return own
}

// measure finds out which protections hold. It starts the same sandboxes as a run.
func (p Target) measure(ctx context.Context) (Enforcement, error) {
	s, err := proc.Start(proc.Options{})
	if err != nil {
		return Enforcement{}, err
	}
	defer func() { _ = s.Close() }() // no process of the spawner runs any more
	e := Enforcement{RequiredBy: p.requiredBy(), root: os.Geteuid() == 0}
	e.Agents, e.Wall = sandbox.TryWall(ctx, s, p.protection())
	if e.Recoveries, err = sandbox.Measure(ctx, s); err != nil {
		return Enforcement{}, err
	}
	e.conclude()
	return e, nil
}

// requiredBy lists the policies that require a sandbox: "recovery" for the one that all loops share, or else the ids of
// loops.
func (p Target) requiredBy() []string {
	list := []string{}
	if p.Config == nil {
		return list
	}
	asks := func(loop string) bool {
		policy, _ := p.Config.Policy(loop)
		return policy != nil && policy.Settings.Enabled && policy.Settings.Sandbox.Required
	}
	if asks("") {
		return append(list, "recovery")
	}
	for _, l := range p.Config.Loops {
		if asks(l.ID) {
			list = append(list, l.ID)
		}
	}
	return list
}

func (e *Enforcement) conclude() {
	e.Level = LevelAdvisory
	if e.Agents.Level == sandbox.ProtectMount {
		e.Level = LevelMount
	}
	e.Met = e.Recoveries.Level.Meets(sandbox.Landlock) // the lowest level that satisfies sandbox.required
	if e.Level == LevelAdvisory {
		e.NotRefused = []string{
			"editing .superloop/config.json and the specs (what loosens the policy is held, all else counts at the next iteration)",
			"rewriting events.jsonl, plans and escalations (a changed journal is found out only while the private state was not changed with it)",
			"rewriting the private state: the pin of the policy, budgets, what waits for an answer",
			"approving a recovery with superloop approve-recovery: it is your own user",
		}
		if e.Agents.Tree != proc.PIDNamespace {
			e.NotRefused = append(e.NotRefused, "looking into other processes of your user")
		}
	} else {
		e.NotRefused = []string{
			"rewriting what roles write for each other in the loop's own directory",
			"asking a service that is reached over the network, by an abstract socket, or by what protect.allow opens, to do it",
		}
		if !e.walled() {
			e.NotRefused = append(e.NotRefused, "asking superloop's daemon over TCP, with a token that it finds")
		}
		if e.root {
			e.NotRefused = append(e.NotRefused, "changing the settings of the kernel in /proc/sys: agents are root")
		}
	}
	if !e.apart() {
		e.NotRefused = append(e.NotRefused, "ending or stopping superloop, and other processes of your user, by a signal (superloop goes on where it was when it is started again), "+
			"and leaving processes behind when superloop and its spawner are killed at once")
	}
	later := "changing files of yours that you run later, such as ~/.bashrc or the hooks of git"
	if e.Level == LevelMount {
		later = "changing what you run later and superloop does not know: hooks of git, scripts beside the repository (name them in protect.paths)"
	}
	e.NotRefused = append(e.NotRefused, later)
}

// walled reports whether the daemon's ports are closed to agents, and a trial has shown it.
func (e *Enforcement) walled() bool { return len(e.Agents.Walled) > 0 && e.Wall.Holds() }

// apart reports whether agents and recovery commands run in PID namespaces of their own.
func (e *Enforcement) apart() bool {
	return e.Agents.Tree == proc.PIDNamespace && e.Recoveries.Tree == proc.PIDNamespace
}

// enforcement returns the checks of the protections. They share one measurement.
func (p Target) enforcement() []Check {
	var once sync.Once
	var e Enforcement
	var err error
	about := func(judge func(Enforcement) Result) func(context.Context) Result {
		return func(ctx context.Context) Result {
			once.Do(func() { e, err = p.measure(ctx) })
			if err != nil {
				return fail(ownBinary, "finding out what is enforced: %v", err)
			}
			return judge(e)
		}
	}
	return []Check{{"enforcement", about(judgeAgents)}, {"enforcement:wall", about(judgeWall)}, {"enforcement:recovery", about(judgeRecoveries)}, {"enforcement:home", p.surroundings}, {"enforcement:limits", about(judgeLimits)}}
}

func judgeAgents(e Enforcement) Result {
	r := warn("for a wall, let superloop make namespaces (see the reason), or run it in a container or as a user of its own",
		"L0, advisory: agents run with your own rights and can change .superloop/config.json and the private state; "+
			"a change that loosens the policy is held until an operator types: superloop config trust")
	if e.Level == LevelMount {
		how := "a mount namespace"
		if e.Agents.UserNS {
			how = "a user and a mount namespace"
		}
		r = ok("L1: agents run in %s of their own, in which .superloop is read-only but for the directory of their loop, and the private state cannot be seen; "+
			"a policy that you loosen counts at the next iteration", how)
		switch {
		case e.root:
			r.Status, r.Fix = Warn, "run superloop as an ordinary user"
		case !e.apart():
			r.Status, r.Fix = Warn, apartFix
		}
	}
	if e.apart() {
		r.Detail += "; they neither see nor signal other processes, and the kernel ends them when superloop ends"
	} else {
		r.Detail += "; they can end or stop superloop (their processes are held by " + string(e.Agents.Tree) + ")"
	}
	r.Detail += notes(e.Agents.Notes)
	r.Enforcement = &e
	return r
}

// judgeWall says whether agents reach the TCP port of the daemon.
func judgeWall(e Enforcement) Result {
	var ways, ports []string
	for _, a := range e.Wall.Attempts {
		ways = append(ways, a.Way)
	}
	for _, p := range e.Agents.Walled {
		ports = append(ports, strconv.Itoa(int(p)))
	}
	got := strings.Join(e.Wall.Got(), ", ")
	switch {
	case e.Level == LevelAdvisory:
		return warn("see the fix of enforcement", "no wall at L0: an agent reaches superloop's daemon, over TCP and by its socket")
	case e.walled():
		return ok("agents can neither reach nor take the daemon's TCP port (%s): a child that was started as an agent tried, and got nowhere by %s",
			strings.Join(ports, ", "), strings.Join(ways, ", "))
	case len(e.Agents.Walled) > 0 && got != "":
		return fail("do not let the daemon listen on TCP on this kernel", "agents reach the daemon's TCP port through the wall, by %s", got)
	case len(e.Agents.Walled) > 0:
		return warn("superloop doctor, once more; until then do not let the daemon listen on TCP", "whether agents reach the daemon's TCP port was not shown: %s", e.Wall.Err)
	case e.Wall.Err != "":
		r := warn("boot Linux 6.7 or newer with landlock among the security modules (lsm=), in a container that allows seccomp and landlock; until then do not let the daemon listen on TCP",
			"no wall: %s", e.Wall.Err)
		if got != "" {
			r.Detail += "; a child that was started as an agent reached a port by " + got
		}
		return r
	}
	return warn("do not let the daemon listen on TCP", "no wall (see the reason at enforcement): a child that was started as an agent reached a port by %s", got)
}

func judgeRecoveries(e Enforcement) Result {
	box := e.Recoveries
	means := map[sandbox.Level]string{
		sandbox.None:          "nothing keeps a recovery command from writing what you may write",
		sandbox.Landlock:      "a recovery command writes nothing outside of the repository and its caches, but it can write .superloop and read everything",
		sandbox.Mount:         "a recovery command writes nothing outside of the repository and its caches, and nothing in .superloop",
		sandbox.LandlockMount: "a recovery command writes nothing outside of the repository and its caches, and nothing in .superloop; it signals nobody outside",
	}[box.Level]
	yes, not := map[bool]string{true: "yes", false: "no"}, map[bool]string{false: "not"}
	r := ok("%s: %s (Landlock ABI %d, mount namespace %s, user namespace %s, the network can%s be switched off, processes held by %s)",
		box.Level, means, box.LandlockABI, yes[box.MountNS], yes[box.UserNS], not[box.NetNS], box.Tree)
	by := "; sandbox.required (" + strings.Join(e.RequiredBy, ", ") + ") is "
	switch {
	case len(e.RequiredBy) == 0:
		r.Detail += "; sandbox.required is not set, and could " + strings.TrimLeft(not[e.Met]+" ", " ") + "be met"
	case e.Met:
		r.Detail += by + "met"
	default:
		r.Detail += by + "not met: no recovery runs without an operator"
	}
	if !e.Met || box.Level == sandbox.Landlock {
		var missing []string // the changes of the system that would give a better sandbox
		if !box.MountNS {
			missing = append(missing, "allow user namespaces (sysctl user.max_user_namespaces, kernel.apparmor_restrict_unprivileged_userns; in a container: its seccomp profile)")
		}
		if box.LandlockABI == 0 {
			missing = append(missing, "boot Linux 5.13 or newer with landlock among the security modules (lsm=)")
		}
		r.Status, r.Fix = Warn, strings.Join(missing, "; or ")
	}
	r.Detail += notes(box.Notes)
	return r
}

// judgeLimits tells the operator which actions of an agent nothing prevents. Its status is always OK.
func judgeLimits(e Enforcement) Result {
	return ok("nothing refuses an agent at %s: %s", e.Level, strings.Join(e.NotRefused, "; "))
}
