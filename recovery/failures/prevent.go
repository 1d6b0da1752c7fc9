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

// CheckKind is what a check looks at.
type CheckKind string

// The kinds.
const (
	CheckPath       CheckKind = "path"            // Path is there (Want: file, dir, or anything)
	CheckPermission CheckKind = "permission"      // Path may be Want: read, write, execute
	CheckDeps       CheckKind = "dependency_sync" // what is installed in Path is what its lock file says (Manager: "" for all)
	CheckDisk       CheckKind = "disk"            // FreeMB are free where Path is
	CheckPort       CheckKind = "port"            // Port is Want: free, or open
	CheckTool       CheckKind = "tool"            // Name is on PATH
	CheckService    CheckKind = "service"         // Address answers: a port of this machine, or a socket's path
	CheckAuth       CheckKind = "auth"            // Name, a runner, has a login
	CheckLimit      CheckKind = "limit"           // Name, a provider, is not limited
)

// CheckKinds lists every kind.
func CheckKinds() []CheckKind {
	return []CheckKind{CheckPath, CheckPermission, CheckDeps, CheckDisk, CheckPort, CheckTool, CheckService, CheckAuth, CheckLimit}
}

// Managers lists the package managers whose lock files can be compared with what is installed: see CheckSpec.Manager.
func Managers() []string {
	return []string{"npm", "pnpm", "yarn", "bun", "pip", "go", "cargo", "bundler"}
}

// CheckSpec is what exactly a check looks at; which fields count, its kind says.
type CheckSpec struct {
	Path    string `json:"path,omitempty"` // relative to the repository, or absolute
	Want    string `json:"want,omitempty"`
	Manager string `json:"manager,omitempty"`
	FreeMB  int64  `json:"free_mb,omitempty"`
	Port    int    `json:"port,omitempty"`
	Name    string `json:"name,omitempty"`
	Address string `json:"address,omitempty"`
}

// Prevention is one check that is made before an iteration, so that no role runs into a known fault of the environment.
type Prevention struct {
	ID      string    `json:"id"` // of the kind and the spec
	Kind    CheckKind `json:"kind"`
	Spec    CheckSpec `json:"spec"`
	Reason  string    `json:"reason"`
	AddedBy string    `json:"added_by"` // rules, superloop, a runner, an operator
	AddedAt time.Time `json:"added_at"`
	// Runs counts looks, Hits those that found it broken, Prevented the role runs that were not spent because of that,
	// Overruled the hits after which the role went well all the same.
	Runs      int       `json:"runs"`
	Hits      int       `json:"hits"`
	Prevented int       `json:"prevented"`
	Overruled int       `json:"overruled,omitempty"`
	LastHit   time.Time `json:"last_hit,omitzero"`
	Retired   time.Time `json:"retired,omitzero"` // when it was given up, "" why not
	RetiredOf string    `json:"retired_because,omitempty"`
}

// Active reports whether it is made.
func (p Prevention) Active() bool { return p.Retired.IsZero() }

// Preventions are all checks of a repository or loop.
type Preventions struct {
	Version int          `json:"version"`
	Checks  []Prevention `json:"checks"`
}

// Bounds of Preventions, when a check is given up, and what a look found.
const (
	maxChecks   = 100
	idleRuns    = 500                 // looks without a single hit
	idleAfter   = 60 * 24 * time.Hour // without a hit, and at least quietRuns looks since it was added
	quietRuns   = 100
	overruledAt = 2 // false alarms, when they are more than what was prevented

	CheckOK      = "ok"
	CheckBroken  = "broken"
	CheckUnknown = "unknown" // it cannot be told here; counts as ok
)

// Add takes a check in, or wakes the one that looks at the same. It reports whether anything is new. A spec that cannot
// be looked at is an error that says what is wrong.
func (ps *Preventions) Add(p Prevention, now time.Time) (Prevention, bool, error) {
	if err := p.Valid(); err != nil {
		return Prevention{}, false, fmt.Errorf("adding a check of kind %q: %w", p.Kind, err)
	}
	p.ID = p.id()
	p.Reason = clip(p.Reason)
	ps.Version = 1
	if q := ps.find(p.ID); q != nil {
		if q.Active() {
			return *q, false, nil
		}
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

// Note takes in what a look found, and retires what has proved useless. It gives the checks that were retired.
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

// Saved notes that a check kept a role from running over a broken environment.
func (ps *Preventions) Saved(id string) {
	if p := ps.find(id); p != nil {
		p.Prevented++
	}
}

// Overrule notes that a role did its work although a check said that it could not.
func (ps *Preventions) Overrule(id string, now time.Time) {
	if p := ps.find(id); p != nil && p.Active() {
		p.Overruled++
		p.retire(p.useless(now), now)
	}
}

// Retire gives a check up because an operator says so. It reports whether it was active.
func (ps *Preventions) Retire(id, why string, now time.Time) bool {
	p := ps.find(id)
	return p != nil && p.Active() && p.retire(clip(why), now)
}

// find is the check of that ID, nil without one.
func (ps *Preventions) find(id string) *Prevention {
	if i := slices.IndexFunc(ps.Checks, func(p Prevention) bool { return p.ID == id }); i >= 0 {
		return &ps.Checks[i]
	}
	return nil
}

// retire gives a check up for a reason; "" is none, and then it reports false.
func (p *Prevention) retire(why string, now time.Time) bool {
	if why != "" {
		p.Retired, p.RetiredOf = now, why
	}
	return why != ""
}

// useless says why a check is not worth its look, "" while it is.
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
	sum := sha256.Sum256(append([]byte(p.Kind+"\x00"), spec...))
	return string(p.Kind) + "-" + hex.EncodeToString(sum[:4])
}

// Valid says what is wrong with a check, nil when it can be looked at.
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

// localAddress accepts what can be asked in an instant: this machine, by localhost or by an address without a zone. It
// splits as net.SplitHostPort does. Package net is not imported because it brings the resolver and its start-up into
// every program that only decides.
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
	// Who adds a check that nobody has learned: Prevention.AddedBy.
	AddedBySuperloop = "superloop"     // it is always made
	AddedByConfig    = "configuration" // the owner has written it down
	// leastFreeMB is how much must be free in the repository: below it tests, git and the journal fail half way.
	leastFreeMB = 200
)

// Builtin are the checks that are made before every iteration, whatever was learned: space and the right to write in
// the directory that is looked at. They are in no Store, so they are never retired.
func Builtin() []Prevention {
	return []Prevention{
		NewCheck(CheckDisk, CheckSpec{Path: ".", FreeMB: leastFreeMB}, "without space tests, git and the journal fail half way", AddedBySuperloop),
		NewCheck(CheckPermission, CheckSpec{Path: ".", Want: "write"}, "no role can do its work where nothing can be written", AddedBySuperloop),
	}
}

// NewCheck is an active check with the ID that Add would give it. It may be one that cannot be looked at: see Valid.
func NewCheck(kind CheckKind, spec CheckSpec, reason, by string) Prevention {
	p := Prevention{Kind: kind, Spec: spec, Reason: clip(reason), AddedBy: by}
	p.ID = p.id()
	return p
}

// Finding is what one look found.
type Finding struct {
	ID       string    `json:"id"`
	Kind     CheckKind `json:"kind"`
	State    string    `json:"state"`
	Category string    `json:"category"` // of the catalog, for what would fix it
	Why      string    `json:"why,omitempty"`
	// Command fixes it, where a rule knows one: a proposal, to be judged by the gate as any other.
	Command string    `json:"command,omitempty"`
	Until   time.Time `json:"until,omitzero"` // when it is over by itself, zero where nobody knows
	TookUS  int64     `json:"took_us"`
}

// Problems are the findings that speak against a run.
func Problems(found []Finding) []Finding {
	return slices.DeleteFunc(slices.Clone(found), func(f Finding) bool { return f.State != CheckBroken })
}

// Category is the one that a broken check belongs to.
func (k CheckKind) Category() string {
	return cmp.Or(map[CheckKind]string{CheckPath: "file_not_found", CheckPermission: "permission_denied", CheckDeps: "dependency",
		CheckDisk: "disk_full", CheckPort: "port_in_use", CheckTool: "command_not_found", CheckAuth: "auth",
		CheckLimit: "rate_limited"}[k], "environment")
}
