package failures

import (
	"cmp"
	"slices"
	"time"
)

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
