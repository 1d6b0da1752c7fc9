package archtest

const module = "github.com/superloop/superloop"

// only says which package alone may import a library, and why.
var only = map[string]struct{ packages, why string }{
	"os/exec":                                  {"internal/proc, internal/tools/mutate", "a process that is not started by internal/proc is not ended by it either; " + mutateIsApart},
	"github.com/urfave/cli/v2":                 {"cmd/...", "flags are the command line's business"},
	"github.com/slack-go/slack":                {"escalation/slack", "one package knows Slack, so that a move costs a day"},
	"github.com/santhosh-tekuri/jsonschema/v5": {"schemas", "one package knows the schema library"},
	module + "/internal/testkit/mockapi":       {"cmd/superloop/...", "a test double: of the program only doctor --live needs it"},
	"os/signal":                                {"cmd/..., internal/proc, internal/tools/mutate", "signals are taken in main (and by the spawner, the scripted agent and the mutation runner, which are mains of their own)"},
}

// mutateIsApart is why the mutation runner starts processes and writes by itself.
// It puts faults into our own packages and needs namespaces that hold meanwhile.
const mutateIsApart = "the mutation runner depends on nothing that it may have broken, and keeps its processes in namespaces of its own"

const onlyDurable = "only internal/durable writes (it syncs, and faults are injected there); the scripted agent stands in for a foreign program; " + mutateIsApart

// calls says which functions only some packages, and besides them some files,
// may call, and why.
var calls = []struct{ pkg, names, packages, files, why string }{
	{"os", "WriteFile Create OpenFile CreateTemp Rename MkdirAll MkdirTemp RemoveAll Link Symlink Truncate Chmod Chtimes",
		"internal/durable, internal/tools/mutate, cmd/superloop/internal/script", "", onlyDurable},
	{"os", "Mkdir Remove", "internal/durable, internal/tools/mutate, cmd/superloop/internal/script", "internal/proc/cgroup*.go",
		onlyDurable + "; a cgroup is made and removed as a directory, but it is a control file of the kernel and never on a disk"},
	{"os", "Exit", "cmd/..., internal/tools/...", "recovery/sandbox/early.go loop/local/main.go", "only main ends the process; and the shim and the first call of main (local.Main), which are mains of their own"},
	{"log", "Fatal Fatalf Fatalln Panic Panicf", "", "", "libraries return errors"},
	{"time", "Sleep", "cmd/superloop/internal/script", "", "wait for the thing itself"},
}

// pureFiles have no clock: time arrives in the input.
var pureFiles = []string{"loop/*.go", "recovery/decide*.go", "recovery/action/*.go", "recovery/plan/*.go", "recovery/failures/*.go"}

var badNames = []string{"util", "utils", "common", "types", "helpers", "constants"}
