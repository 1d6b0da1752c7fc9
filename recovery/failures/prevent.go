package failures

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// CheckKind names the kind of fact that a check examines.
type CheckKind string

// These are the kinds of checks, with the condition that each one requires.
const (
	CheckPath       CheckKind = "path"            // Path exists (Want: file, dir, or "" for either)
	CheckPermission CheckKind = "permission"      // superloop has the right Want to Path: read, write, execute
	CheckDeps       CheckKind = "dependency_sync" // the packages installed in Path match their lock file (Manager: "" for every manager)
	CheckDisk       CheckKind = "disk"            // FreeMB are free on the file system of Path
	CheckPort       CheckKind = "port"            // Port is in the state Want: free, or open
	CheckTool       CheckKind = "tool"            // Name is on PATH
	CheckService    CheckKind = "service"         // Address accepts a connection: a port of this machine, or the path of a socket
	CheckAuth       CheckKind = "auth"            // the runner Name has a login
	CheckLimit      CheckKind = "limit"           // the provider Name is not limited
)

// CheckKinds lists every kind of check.
func CheckKinds() []CheckKind {
	return []CheckKind{CheckPath, CheckPermission, CheckDeps, CheckDisk, CheckPort, CheckTool, CheckService, CheckAuth, CheckLimit}
}

// Managers lists the package managers whose lock files superloop can compare with the installed packages: see
// CheckSpec.Manager.
func Managers() []string {
	return []string{"npm", "pnpm", "yarn", "bun", "pip", "go", "cargo", "bundler"}
}

// CheckSpec holds the parameters of a check. The kind of the check decides which fields count.
type CheckSpec struct {
	Path    string `json:"path,omitempty"` // relative to the repository, or absolute
	Want    string `json:"want,omitempty"`
	Manager string `json:"manager,omitempty"`
	FreeMB  int64  `json:"free_mb,omitempty"`
	Port    int    `json:"port,omitempty"`
	Name    string `json:"name,omitempty"`
	Address string `json:"address,omitempty"`
}

// Prevention is one check that superloop makes before an iteration, so that no role runs into a known fault of the
// environment.
type Prevention struct {
	ID      string    `json:"id"` // made of the kind, the spec, and the loop and role of the scope
	Kind    CheckKind `json:"kind"`
	Spec    CheckSpec `json:"spec"`
	Scope   Scope     `json:"scope,omitzero"`
	Reason  string    `json:"reason"`
	AddedBy string    `json:"added_by"` // rules, superloop, a runner, an operator
	AddedAt time.Time `json:"added_at"`
	// Runs counts how often superloop made the check. Hits counts the runs of the check that found the fault. Prevented
	// counts the role runs that were saved by this. Overruled counts the hits after which the role succeeded all the
	// same.
	Runs      int       `json:"runs"`
	Hits      int       `json:"hits"`
	Prevented int       `json:"prevented"`
	Overruled int       `json:"overruled,omitempty"`
	LastHit   time.Time `json:"last_hit,omitzero"`
	Retired   time.Time `json:"retired,omitzero"` // when the check was retired; zero while it is active
	RetiredOf string    `json:"retired_because,omitempty"`
}

// Active reports whether superloop makes the check.
func (p Prevention) Active() bool { return p.Retired.IsZero() }

// Preventions are all checks of a repository or a loop.
type Preventions struct {
	Version int          `json:"version"`
	Checks  []Prevention `json:"checks"`
}

// These constants bound Preventions, say when a check is retired, and name the states of a Finding.
const (
	maxChecks   = 100
	idleRuns    = 500                 // runs of a check without a single hit
	idleAfter   = 60 * 24 * time.Hour // time without a hit, with at least quietRuns runs since the check was added
	quietRuns   = 100
	overruledAt = 2 // false alarms of a check that an operator added, if they are more than the prevented runs

	CheckOK      = "ok"
	CheckBroken  = "broken"
	CheckUnknown = "unknown" // the check cannot be made here; counts as ok
)

// Add adds a check, or reactivates the retired check of the same kind, spec, loop and role. If the check is active, Add
// only adds runners to its scope. Add reports whether it changed anything. The error says what is wrong with a spec that
// cannot be checked.
func (ps *Preventions) Add(p Prevention, now time.Time) (Prevention, bool, error) {
	if err := p.Valid(); err != nil {
		return Prevention{}, false, fmt.Errorf("adding a check of kind %q: %w", p.Kind, err)
	}
	p.ID = p.id()
	p.Reason = clip(p.Reason)
	ps.Version = 1
	if q := ps.find(p.ID); q != nil {
		if q.Active() {
			wider := q.Scope.widen(p.Scope)
			return *q, wider, nil
		}
		q.Scope = p.Scope
		q.Retired, q.RetiredOf, q.Overruled, q.Reason, q.AddedBy, q.AddedAt, q.Runs = time.Time{}, "", 0, p.Reason, p.AddedBy, now, 0
		return *q, true, nil
	}
	p.AddedAt, p.Runs, p.Hits, p.Prevented, p.Overruled = now, 0, 0, 0, 0
	p.LastHit, p.Retired, p.RetiredOf = time.Time{}, time.Time{}, ""
	ps.Checks = append(ps.Checks, p)
	if len(ps.Checks) > maxChecks {
		worst := slices.MinFunc(ps.Checks[:maxChecks], func(a, b Prevention) int {
			return cmp.Or(last(a.Active(), b.Active()), cmp.Compare(a.Hits, b.Hits), a.AddedAt.Compare(b.AddedAt))
		})
		ps.Checks = slices.DeleteFunc(ps.Checks, func(q Prevention) bool { return q.ID == worst.ID })
	}
	return p, true, nil
}

// Note records findings, and retires the checks that have proved useless. Note returns the retired checks.
func (ps *Preventions) Note(found []Finding, now time.Time) (retired []Prevention) {
	for _, f := range found {
		p := ps.find(f.ID)
		if p == nil || !p.Active() {
			continue
		}
		p.Runs++
		if f.State == CheckBroken {
			p.Hits++
			p.LastHit = now
		}
		if p.retire(p.useless(now), now) {
			retired = append(retired, *p)
		}
	}
	return retired
}

// Saved records that a check kept a role from running in a broken environment.
func (ps *Preventions) Saved(id string) {
	if p := ps.find(id); p != nil {
		p.Prevented++
	}
}

// Overrule records that a role succeeded although the check had found a fault. It retires a learned check at once,
// because the failure that taught the check had another cause. Overrule reports whether it retired the check.
func (ps *Preventions) Overrule(id string, now time.Time) bool {
	p := ps.find(id)
	if p == nil || !p.Active() {
		return false
	}
	p.Overruled++
	if p.Learned() {
		return p.retire("a role succeeded without what it demands", now)
	}
	return p.retire(p.useless(now), now)
}

// Retire retires a check on the request of an operator. Retire reports whether the check was active.
func (ps *Preventions) Retire(id, why string, now time.Time) bool {
	p := ps.find(id)
	return p != nil && p.Active() && p.retire(clip(why), now)
}

// find returns the check with an ID, or nil.
func (ps *Preventions) find(id string) *Prevention {
	if i := slices.IndexFunc(ps.Checks, func(p Prevention) bool { return p.ID == id }); i >= 0 {
		return &ps.Checks[i]
	}
	return nil
}

// retire retires a check for a reason. For the reason "" it does nothing and returns false.
func (p *Prevention) retire(why string, now time.Time) bool {
	if why != "" {
		p.Retired, p.RetiredOf = now, why
	}
	return why != ""
}

// useless says why a check should be retired, or "" if it should not.
func (p Prevention) useless(now time.Time) string {
	since := later(p.AddedAt, p.LastHit)
	switch {
	case p.Overruled >= overruledAt && p.Overruled > p.Prevented:
		return fmt.Sprintf("%d false alarms, %d runs saved", p.Overruled, p.Prevented)
	case p.Hits == 0 && p.Runs >= idleRuns:
		return fmt.Sprintf("%d looks, and never broken", p.Runs)
	case p.Runs >= quietRuns && now.Sub(since) > idleAfter:
		return fmt.Sprintf("not broken for %d days", int(now.Sub(since).Hours()/24))
	}
	return ""
}

func (p Prevention) id() string {
	spec, _ := json.Marshal(p.Spec) // plain strings and numbers cannot fail
	text := string(p.Kind) + "\x00" + string(spec)
	if p.Learned() {
		text += "\x00" + p.Scope.Loop + "\x00" + p.Scope.Role
	}
	sum := sha256.Sum256([]byte(text))
	return string(p.Kind) + "-" + hex.EncodeToString(sum[:4])
}

// Valid returns nil if superloop can make the check, or an error that says what is wrong with it.
func (p Prevention) Valid() error {
	s := p.Spec
	for _, text := range []string{s.Path, s.Want, s.Manager, s.Name, s.Address} {
		if len(text) > 4096 || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return errors.New("a text in it is too long, or not printable")
		}
	}
	one := func(what, got string, of ...string) error {
		if !slices.Contains(of, got) {
			return fmt.Errorf("%s is %q, it may be %q", what, got, of)
		}
		return nil
	}
	switch p.Kind {
	case CheckPath, CheckPermission:
		if s.Path == "" {
			return errors.New("it needs a path")
		}
		if p.Kind == CheckPath {
			return one("want", s.Want, "", "file", "dir")
		}
		return one("want", s.Want, "read", "write", "execute")
	case CheckDeps:
		return one("manager", s.Manager, append([]string{""}, Managers()...)...)
	case CheckDisk:
		if s.FreeMB <= 0 {
			return errors.New("free_mb is how much there must be, above 0")
		}
	case CheckPort:
		if s.Port < 1 || s.Port > 65535 {
			return fmt.Errorf("port %d, it may be 1 to 65535", s.Port)
		}
		return one("want", s.Want, "free", "open")
	case CheckTool:
		if s.Name == "" || strings.ContainsAny(s.Name, "/ ") {
			return errors.New("name is that of a program, without a path")
		}
	case CheckService:
		return localAddress(s.Address)
	case CheckAuth, CheckLimit:
		if s.Name == "" {
			return errors.New("it needs the name of a runner or provider")
		}
	default:
		return fmt.Errorf("there is no such kind; there are %q", CheckKinds())
	}
	return nil
}

// localAddress accepts addresses that superloop can query at once: a socket's path, or a port of this machine given as
// localhost or as a loopback address without a zone. It splits an address as net.SplitHostPort does. This package does
// not import package net, because net brings the resolver and its start-up into every program that only decides.
func localAddress(addr string) error {
	at := strings.LastIndexByte(addr, ':')
	whole, port := addr[:max(0, at)], addr[at+1:]
	host := strings.TrimSuffix(strings.TrimPrefix(whole, "["), "]")
	ip, noIP := netip.ParseAddr(host)
	n, err := strconv.Atoi(port)
	switch bare := host == whole; {
	case filepath.IsAbs(addr):
	case at < 0 || strings.ContainsAny(host+port, "[]") || bare && strings.Contains(host, ":") || !bare && whole != "["+host+"]":
		return fmt.Errorf("address %q is neither host:port nor the path of a socket", addr)
	case err != nil || n < 1 || n > 65535:
		return fmt.Errorf("port %q, it may be 1 to 65535", port)
	case host != "localhost" && (noIP != nil || ip.Zone() != "" || !ip.Unmap().IsLoopback()):
		return fmt.Errorf("host %q is another machine; only this one is asked", host)
	}
	return nil
}

const (
	// AddedBySuperloop and AddedByConfig are values of Prevention.AddedBy for checks that no analysis has added.
	AddedBySuperloop = "superloop"     // superloop always makes the check
	AddedByConfig    = "configuration" // the operator has configured the check
	// leastFreeMB is the space that the repository needs. With less, tests, git and the journal fail half way.
	leastFreeMB = 200
)

// Builtin returns the checks that superloop makes before every iteration: free space, and the right to write, in the
// repository. No Store holds them, so they are never retired.
func Builtin() []Prevention {
	return []Prevention{
		NewCheck(CheckDisk, CheckSpec{Path: ".", FreeMB: leastFreeMB}, "without space tests, git and the journal fail half way", AddedBySuperloop),
		NewCheck(CheckPermission, CheckSpec{Path: ".", Want: "write"}, "no role can do its work where nothing can be written", AddedBySuperloop),
	}
}

// NewCheck returns an active check with the ID that Add would give it. The check may be invalid: see Valid.
func NewCheck(kind CheckKind, spec CheckSpec, reason, by string) Prevention {
	p := Prevention{Kind: kind, Spec: spec, Reason: clip(reason), AddedBy: by}
	p.ID = p.id()
	return p
}

// Finding is the result of one run of a check.
type Finding struct {
	ID       string    `json:"id"`
	Kind     CheckKind `json:"kind"`
	State    string    `json:"state"`
	Category string    `json:"category"` // category of the catalog, to look up remedies
	Why      string    `json:"why,omitempty"`
	// Learned says that an operator can retire the check: nobody asked for it.
	Learned bool `json:"learned,omitempty"`
	// Command repairs the fault, if a rule knows a command. It is a proposal, which the recovery policy judges like any
	// other.
	Command string    `json:"command,omitempty"`
	Until   time.Time `json:"until,omitzero"` // when the fault ends by itself; zero if unknown
	TookUS  int64     `json:"took_us"`
}

// Problems returns the findings that are broken.
func Problems(found []Finding) []Finding {
	return slices.DeleteFunc(slices.Clone(found), func(f Finding) bool { return f.State != CheckBroken })
}

// Category returns the category of a failure that a broken check of this kind stands for.
func (k CheckKind) Category() string {
	return cmp.Or(map[CheckKind]string{CheckPath: "file_not_found", CheckPermission: "permission_denied", CheckDeps: "dependency",
		CheckDisk: "disk_full", CheckPort: "port_in_use", CheckTool: "command_not_found", CheckAuth: "auth",
		CheckLimit: "rate_limited"}[k], "environment")
}
