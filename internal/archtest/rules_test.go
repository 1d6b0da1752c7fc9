package archtest

const module = "github.com/superloop/superloop"

// only says which package alone may import a library, and why.
var only = map[string]struct{ packages, why string }{
	"os/exec":                                  {"internal/proc", "a process that is not started by internal/proc is not ended by it either"},
	"github.com/urfave/cli/v2":                 {"cmd/...", "flags are the command line's business"},
	"github.com/slack-go/slack":                {"escalation/slack", "one package knows Slack, so that a move costs a day"},
	"github.com/santhosh-tekuri/jsonschema/v5": {"schemas", "one package knows the schema library"},
	module + "/internal/testkit/mockapi":       {"cmd/superloop/...", "a test double: of the program only doctor --live needs it"},
	"os/signal":                                {"cmd/..., internal/proc", "signals are taken in main (and by the spawner and the scripted agent, which are mains of their own)"},
}

const onlyDurable = "only internal/durable writes (it syncs, and faults are injected there); the scripted agent stands in for a foreign program"

// calls says which functions only some packages, and besides them some files,
// may call, and why.
var calls = []struct{ pkg, names, packages, files, why string }{
	{"os", "WriteFile Create OpenFile CreateTemp Rename MkdirAll MkdirTemp RemoveAll Link Symlink Truncate Chmod Chtimes",
		"internal/durable, cmd/superloop/internal/script", "", onlyDurable},
	{"os", "Mkdir Remove", "internal/durable, cmd/superloop/internal/script", "internal/proc/cgroup*.go",
		onlyDurable + "; a cgroup is made and removed as a directory, but it is a control file of the kernel and never on a disk"},
	{"os", "Exit", "cmd/..., internal/tools/...", "recovery/sandbox/early.go loop/local/main.go", "only main ends the process; and the shim and the first call of main (local.Main), which are mains of their own"},
	{"log", "Fatal Fatalf Fatalln Panic Panicf", "", "", "libraries return errors"},
	{"time", "Sleep", "cmd/superloop/internal/script", "", "wait for the thing itself"},
}

// pureFiles have no clock: time arrives in the input.
var pureFiles = []string{"loop/*.go", "recovery/decide*.go", "recovery/action/*.go", "recovery/plan/*.go", "recovery/failures/*.go"}

var badNames = []string{"util", "utils", "common", "types", "helpers", "constants"}
