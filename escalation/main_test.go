package escalation

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/recovery/action"
)

// childEnv makes the test binary another process that deals with a question. Its
// value is the part and its arguments, a line each.
const childEnv = "ESCALATION_TEST_CHILD"

func TestMain(m *testing.M) {
	if part := os.Getenv(childEnv); part != "" {
		f := strings.Split(part, "\n")
		if err := children[f[0]](f[1:]); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

var children = map[string]func(args []string) error{
	"answer": childAnswer,
	"step":   childStep,
	"caller": childCaller,
}

// child is the command of a child process; whoever starts it waits for it.
func child(t *testing.T, env []string, part ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), childEnv+"="+strings.Join(part, "\n")), env...)
	cmd.Stderr = os.Stderr
	return cmd
}

// childAnswer answers when its standard input ends, and says how that went.
func childAnswer(args []string) error {
	s := Store{Disk: durable.OS(), Dir: args[0], Loop: "pinpoint-v1"}
	fmt.Println("ready")
	_, _ = bufio.NewReader(os.Stdin).ReadByte()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r, err := s.Answer(ctx, AnswerRequest{Method: Method(args[1]), By: By{Channel: CLI, User: args[2]}, Digest: args[3]})
	var decided *DecidedError
	switch {
	case errors.As(err, &decided):
		fmt.Println("decided", decided.First.By.User)
	case err != nil:
		return err
	default:
		fmt.Println("won", r.State)
		if _, err := s.Begin(ctx, r.Question.ID); err == nil {
			fmt.Println("begun")
		}
	}
	return nil
}

// childStep carries out one step and dies of SIGKILL at its n-th act on the disk.
func childStep(args []string) error {
	n, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	s := Store{Dir: args[1], Loop: "pinpoint-v1", Now: func() time.Time { return created.Add(time.Minute) }}
	s.Disk = durable.OS().WithFault(func(string) error {
		if n--; n < 0 {
			self, err := os.FindProcess(os.Getpid())
			if err == nil {
				err = self.Kill()
			}
			if err != nil {
				return err
			}
			select {} // the signal is on its way
		}
		return nil
	})
	for _, c := range crashes {
		if c.name == args[0] {
			return c.step(context.Background(), s)
		}
	}
	return fmt.Errorf("no step %q", args[0])
}

// patience bounds every wait: far more than anything takes.
const patience = 2 * time.Minute

var created = time.Date(2026, 1, 23, 5, 40, 0, 0, time.UTC)

const (
	idA = "0123456789abcdef0123456789abcdef"
	idB = "fedcba9876543210fedcba9876543210"
)

// sample is a usual question.
func sample(id string) Question {
	return Question{
		ID: id, Loop: "pinpoint-v1", Run: "20260123T050000.000Z-1a2b3c4d", Iteration: 6, Type: RecoveryApproval, Repo: "/repo/pinpoint",
		Reason: "no list names it, and on_unknown is escalate", Rule: "on_unknown", Created: created,
		Command: &Command{
			Text: []byte("rm -rf node_modules && bun install"), WorkingDir: ".", Binding: Binding{Dev: 64768, Ino: 4711, PolicyDigest: sum([]byte("policy")), InputsDigest: sum([]byte("inputs"))},
			TimeoutMS: 300_000, Network: "full", Source: "tester", Role: "tester", Category: "dependency", Severity: "blocking",
			ErrorPattern: "Host version .* does not match binary version", RootCause: "esbuild version mismatch between vite and vitest dependencies",
			Evidence:        []string{`test-output.txt:3: Host version "0.21.5" does not match binary version "0.27.2"`},
			ExpectedOutcome: "Consistent esbuild versions, vitest can start", Confidence: "high", ProposedAt: created.Add(-3 * time.Minute),
			Fallback: &action.Action{Command: "bun install --force", WorkingDir: ".", TimeoutMS: 300_000, Confidence: "medium"},
		},
		Options: []Option{{ID: "clean_install", Label: "remove node_modules and install again", Command: "rm -rf node_modules && bun install"}},
	}
}

func asking(id, command string) Question {
	q := sample(id)
	q.Command.Text = []byte(command)
	return q
}

// clock is a time that tests move.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

func newStore(t testing.TB) (Store, *clock) {
	t.Helper()
	c := &clock{created}
	return Store{Disk: durable.OS(), Dir: filepath.Join(t.TempDir(), "loops", "pinpoint-v1", Folder), Loop: "pinpoint-v1", Now: c.now}, c
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func mustOpen(t testing.TB, s Store, q Question) Record {
	t.Helper()
	r, err := s.Open(context.Background(), q)
	check(t, err)
	return r
}

func uid(n int) *int { return &n }

var alice = By{Channel: CLI, UID: uid(1000), User: "alice", Method: "process"}
