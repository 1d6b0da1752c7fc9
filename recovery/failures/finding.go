package failures

import "time"

// What a look found.
const (
	CheckOK      = "ok"
	CheckBroken  = "broken"
	CheckUnknown = "unknown" // it cannot be told here; counts as ok
)

// Finding is what one look found.
type Finding struct {
	ID       string    `json:"id"`
	Kind     CheckKind `json:"kind"`
	State    string    `json:"state"`
	Category string    `json:"category"` // of the catalog, for what would fix it
	Why      string    `json:"why,omitempty"`
	// Command fixes it, where a rule knows one: a proposal, to be judged by the gate
	// as any other.
	Command string `json:"command,omitempty"`
	// Until is when it is over by itself, zero where nobody knows.
	Until  time.Time `json:"until,omitzero"`
	TookUS int64     `json:"took_us"`
}

// Problems are the findings that speak against a run.
func Problems(found []Finding) []Finding {
	var out []Finding
	for _, f := range found {
		if f.State == CheckBroken {
			out = append(out, f)
		}
	}
	return out
}

// Category is the one that a broken check belongs to.
func (k CheckKind) Category() string {
	switch k {
	case CheckPath:
		return "file_not_found"
	case CheckPermission:
		return "permission_denied"
	case CheckDeps:
		return "dependency"
	case CheckDisk:
		return "disk_full"
	case CheckPort:
		return "port_in_use"
	case CheckTool:
		return "command_not_found"
	case CheckAuth:
		return "auth"
	case CheckLimit:
		return "rate_limited"
	}
	return "environment"
}
