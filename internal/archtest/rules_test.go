package archtest

import "strings"

const module = "github.com/superloop/superloop"

// only says which package alone may import a library, and why.
var only = map[string]struct{ packages, why string }{
	"os/exec":                                  {"internal/proc, internal/tools/release", "a process that is not started by internal/proc is not ended by it either; the release tool starts compilers for whoever waits for them"},
	"github.com/urfave/cli/v2":                 {"cmd/...", "flags are the command line's business"},
	"github.com/slack-go/slack":                {"escalation/slack", "one package knows Slack, so that a move costs a day"},
	"github.com/wneessen/go-mail":              {"escalation/notify", "one package knows SMTP, so that a move costs a day"},
	"github.com/tailscale/hujson":              {"loop/config/edit", "one package changes files with comments; it has no bound of the depth, so the strict reader comes first"},
	"github.com/santhosh-tekuri/jsonschema/v5": {"schemas", "one package knows the schema library"},
	"github.com/charmbracelet/bubbletea":       {"cmd/superloop/internal/watch", "one package knows the full screen, and keeps it from asking the terminal in every verb"},
	"github.com/charmbracelet/lipgloss":        {"cmd/superloop/internal/screen", "one package knows how text gets its form"},
	"github.com/muesli/termenv":                {"cmd/superloop/internal/screen", "one package knows how text gets its form"},
	"github.com/go-webauthn/webauthn/protocol": {"server/passkey", "one package knows WebAuthn, so that its rules stand beside its use"},
	"github.com/go-webauthn/webauthn/webauthn": {"server/passkey", "one package knows WebAuthn, so that its rules stand beside its use"},
	"go.temporal.io/sdk/workflow":              {"loop/temporal", "one package knows Temporal, so that a move costs days; superloop does not link it"},
	"go.temporal.io/sdk/worker":                {"loop/temporal, cmd/superloop-fleet", "superloop does not link Temporal"},
	"go.temporal.io/sdk/client":                {"loop/temporal, cmd/superloop-fleet", "superloop does not link Temporal"},
	module + "/loop/temporal":                  {"cmd/superloop-fleet", "superloop does not link Temporal: it would be 16 MB larger and start later"},
	module + "/internal/testkit/mockapi":       {"cmd/superloop/...", "a test double: of the program only doctor --live needs it"},
	module + "/server/forge/forgefake":         {"", "a test double"},
	"os/signal":                                {"cmd/..., internal/proc", "signals are taken in main (and by the spawner and the scripted agent, which are mains of their own)"},
}

const onlyDurable = "only internal/durable writes (it syncs, and faults are injected there); the scripted agent stands in for a foreign program"

// opensItself are the files that open something without internal/door. A file that does so no more fails the test until
// it has left the list.
var opensItself = []string{
	// Files of the kernel, below /proc and /sys: no agent makes them, and they have no length.
	"cmd/superloop/internal/doctor/machine.go", "escalation/caller.go", "loop/effects/failures/leftovers.go", "recovery/classify/probes_linux.go",
	"recovery/preflight/collect.go", "recovery/sandbox/mount_linux.go", "server/api/owner_linux.go",
	// Directory handles: the kernel resolves every path below them. What they open is regular, without waiting, and bounded.
	"loop/gate/tree.go", "recovery/inputs/tree.go", "recovery/inputs/outside.go", "internal/workdir/workdir.go", "recovery/catalog/sources.go", "recovery/sandbox/surroundings.go",
	"roles/agent/claude_usage.go", "roles/agent/codex_recover.go", "recovery/steering/keeper.go",
	// A file that the operator names on the command line; a pipe is one of them: classify <(make 2>&1).
	"cmd/superloop/classify.go",
}

// calls says which functions only some packages, and besides them some files,
// may call, and why. "OpenFile:read" is an OpenFile whose flags say O_RDONLY.
var calls = []struct{ pkg, names, packages, files, why string }{
	{"os", "WriteFile Create OpenFile CreateTemp Rename MkdirAll MkdirTemp RemoveAll Link Symlink Truncate Chmod Chtimes",
		"internal/durable, internal/testkit, cmd/superloop/internal/script", "", onlyDurable + "; the test kit gives files to decoders"},
	{"os", "Mkdir Remove", "internal/durable, cmd/superloop/internal/script", "internal/proc/cgroup*.go",
		onlyDurable + "; a cgroup is made and removed as a directory, but it is a control file of the kernel and never on a disk"},
	{"os", "Open ReadFile OpenFile:read OpenRoot DirFS", "internal/door, internal/durable, internal/proc, internal/tools/..., cmd/superloop/internal/script, cmd/superloop/internal/selftest",
		strings.Join(opensItself, " "), "only internal/door opens what an agent can have written (a FIFO hangs, a link leads away, a sparse terabyte fills the memory): door.Open, Read, ReadJSON, Ends, or OpenOwn and ReadOwn for a file of the operator; a file of another kind joins opensItself with its reason"},
	{"os", "Exit", "cmd/..., internal/tools/...", "recovery/sandbox/early.go internal/proc/early.go loop/local/main.go", "only main ends the process; and the shim, the spawner and the first call of main (local.Main), which are mains of their own"},
	{"log", "Fatal Fatalf Fatalln Panic Panicf", "", "", "libraries return errors"},
	{module + "/internal/proc", "TrustInTests", "", "", "it is for tests: superloop's own programs are those of proc.Trusted"},
	{module + "/internal/proc", "OnHost", "", "loop/local/resume.go cmd/superloop/classify.go cmd/superloop/fix_walk.go cmd/superloop/verify.go",
		"without namespaces a command can end superloop and outlive it; that is for --unprotected, and for commands that an operator gives"},
	{"time", "Sleep", "cmd/superloop/internal/script", "", "wait for the thing itself"},
}

// pureFiles have no clock: time arrives in the input.
var pureFiles = []string{"loop/*.go", "loop/temporal/workflow.go", "loop/temporal/decide.go", "loop/temporal/claim.go", "recovery/decide*.go", "recovery/permit/*.go", "recovery/action/*.go", "recovery/plan/*.go", "recovery/failures/*.go"}

var badNames = []string{"util", "utils", "common", "types", "helpers", "constants"}
