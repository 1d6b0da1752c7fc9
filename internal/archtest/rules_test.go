package archtest

const module = "github.com/superloop/superloop"

// only says which package alone may import a library, and why.
var only = map[string]struct{ packages, why string }{
	"os/exec":                   {"internal/proc", "a process that is not started by internal/proc is not ended by it either"},
	"github.com/urfave/cli/v2":  {"cmd/...", "flags are the command line's business"},
	"github.com/slack-go/slack": {"escalation/slack", "one package knows Slack, so that a move costs a day"},
	"github.com/prometheus/client_golang/prometheus":          {"cmd/...", "figures come from the journal; no other package counts"},
	"github.com/prometheus/client_golang/prometheus/promhttp": {"cmd/...", "one verb serves figures"},
	"github.com/santhosh-tekuri/jsonschema/v5":                {"schemas", "one package knows the schema library"},
	"os/signal": {"cmd/..., internal/proc, roles/agent/script", "signals are taken in main (and by the spawner and the scripted agent, which are mains of their own)"},
}

const onlyDurable = "only internal/durable writes (it syncs, and faults are injected there); the scripted agent stands in for a foreign program"

// calls says which functions only some packages, and besides them some files,
// may call, and why.
var calls = []struct{ pkg, names, packages, files, why string }{
	{"os", "WriteFile Create OpenFile CreateTemp Rename MkdirAll MkdirTemp RemoveAll Link Symlink Truncate Chmod Chtimes",
		"internal/durable, roles/agent/script", "", onlyDurable},
	{"os", "Mkdir Remove", "internal/durable, roles/agent/script", "internal/proc/cgroup*.go",
		onlyDurable + "; a cgroup is made and removed as a directory, but it is a control file of the kernel and never on a disk"},
	{"os", "Exit", "cmd/...", "recovery/cage/early.go recovery/classify/internal/record/main.go", "only main ends the process; and the shim, and the recorder of real failures, which are mains of their own"},
	{"log", "Fatal Fatalf Fatalln Panic Panicf", "", "", "libraries return errors"},
	{"time", "Sleep", "roles/agent/script", "", "wait for the thing itself"},
}

// pureFiles have no clock: time arrives in the input.
var pureFiles = []string{"loop/step*.go", "loop/state.go", "loop/effect.go", "loop/input*.go", "loop/plan.go", "loop/replay.go", "recovery/decide*.go"}

var badNames = []string{"util", "utils", "common", "types", "helpers", "constants"}
