package recovery

import (
	"context"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/superloop/superloop/recovery/action"
)

// The real bash is the judge of the analysis: whenever bash ran the program
// "gated", the command may not have been automatic under on_unknown "allow"
// with the pattern "gated".

// bashRun runs a command where the only programs are harmless ones, and says
// whether it ran gated.
type bashRun struct{ bash, home, bin, mark string }

// tools are real programs that the commands may use.
var tools = []string{"env", "timeout", "nice", "nohup", "xargs", "find", "sh", "bash", "cat", "sed", "tee", "sort", "setsid", "stdbuf", "flock", "time", "awk"}

func newBashRun(t testing.TB) *bashRun {
	t.Helper()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("bash is not installed")
	}
	b := &bashRun{bash: bash, home: t.TempDir(), bin: t.TempDir()}
	b.mark = filepath.Join(b.bin, "ran")
	stub := "#!/bin/sh\necho x >> '" + b.mark + "'\n"
	if err := os.WriteFile(filepath.Join(b.bin, "gated"), []byte(stub), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range tools {
		if path, err := exec.LookPath(name); err == nil {
			if err := os.Symlink(path, filepath.Join(b.bin, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return b
}

func (b *bashRun) ran(t testing.TB, command string) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, b.bash, "--noprofile", "--norc", "-o", "pipefail", "-c", command)
	cmd.Dir, cmd.Env = b.home, []string{"PATH=" + b.bin, "HOME=" + b.home}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	_ = cmd.Run() // most of what is tried fails
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what it left in the background
	}
	err := os.Remove(b.mark)
	return err == nil
}

// soups are the tokens of random commands: grammar, gated in pieces, wrappers.
var soups = [][]string{
	strings.Fields(`gated gated gated gated x a 1 ; ; && || | & |& ( ) ( ) { } { } $( ) $( ) ' ' " " \ if then fi else elif ! ! [[ ]] [ ] (( )) $(( )) $ = A= f() f
		eval exec time command builtin env -- - -c -x bash sh echo true false : case in esac ;; ;& * ? ~ << <<< < > >( <( ${ } ${x:- ${x:= ${A:+ @ # while do done until for select coproc function
		!( @( ?( +( {a, ,b} .. $' $" \' $@ "$@" read A=gated $A ${A} ${!A} let declare -i export [0] a[ timeout 1 nice xargs nohup trap EXIT set -k shopt -s extglob return . local -n printf -v test`),
	strings.Fields(`ga ted gate d g ated A=ga B=ted $A$B ${A}ted ${A}${B} $A'ted' x=gated ;$x "$A$B" A=(gated) ${A[0]} ${A[@]} printf %s gated | read declare B[0]=gated ${B} unset A+=ted for A in gated ; do
		$A done case gated in gated) ${_} $_ $BASH_COMMAND ${@: } set -- gated $1 $# $0 $* ${A/x/gated} ${A@E} ${A^} ${!A@} :&gated ;gated coproc time env = if then ! { } ( ) $( <( eval echo f() function`),
	strings.Fields(`env timeout nice nohup xargs find sh bash setsid stdbuf flock time awk command builtin exec eval trap -n -s -k 5 1 KILL -i -u X -S -I{} -I {} -0 -r -P -c -x -o pipefail -e -l -p -v -V -a -- - = A=1
		B=$A --signal=KILL --signal -oL -w -f l . -exec -maxdepth 0 ; + \; ';' -E -C / gated gated gated 'gated' "gated" arg $X "$X" -o -O -ec -lc -n1 -L1 -d, --null --max-args=1 -print -delete -name a -ok
		EXIT 0 | </dev/null <<<x && ( ) echo true --unset=X --unset -iS -iu -n5 --adjustment=1 -5 +x sed tee cat sort`),
}

func randomSoup(r *rand.Rand) string {
	tokens := soups[r.IntN(len(soups))]
	var b strings.Builder
	for range 2 + r.IntN(12) {
		b.WriteString(tokens[r.IntN(len(tokens))])
		switch r.IntN(8) {
		case 0, 1:
		case 2:
			b.WriteByte('\n')
		case 3:
			b.WriteByte('`')
		default:
			b.WriteByte(' ')
		}
	}
	return b.String()
}

// embed puts a command into something that runs it, again and again.
func embed(r *rand.Rand, inner string, depth int) string {
	single := "'" + strings.ReplaceAll(inner, "'", `'\''`) + "'"
	double := `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "$", `\$`, "`", "\\`").Replace(inner) + `"`
	shapes := []string{
		"true; %s", "true && %s", "false || %s", "true | %s", "%s | true", "( %s )", "{ %s\n}", "! { %s\n}", "if %s\nthen :; fi", "if :; then %s\nfi", "for i in 1; do %s\ndone", "while :; do %s\nbreak; done",
		"case x in x) %s\n;; esac", "f() { %s\n}; f", "echo $(%s\n)", "echo \"$(%s\n)\"", "A=$(%s\n)", "cat <(%s\n) >/dev/null", "cat <<E\n$(%s\n)\nE\n", "time { %s\n}", "%s >/dev/null 2>&1 </dev/null", "true &\n%s", "echo ${x:-$(%s\n)}", "[[ -n $(%s\n) ]]",
		"echo $((1$(%s\n)))", "coproc { %s\n}; wait", "until { %s\ntrue\n}; do :; done", "true\n#c\n%s", "[ -n \"$(%s\n)\" ]", "export A=$(%s\n)", "a=(1 $(%s\n))", "exec 3>&1; %s", "{ true; %s\n} 2>&1",
		"bash -c " + "S", "sh -c D", "eval S", "eval D", "trap S EXIT", "env sh -c S", "timeout 5 bash -c D", "find . -maxdepth 0 -exec sh -c S \\;", "xargs -r true; nice bash -c S", "f() { eval \"$1\"; }; f D", "bash <<< S", "echo D | sh",
	}
	out := shapes[r.IntN(len(shapes))]
	if strings.Contains(out, "%s") {
		out = strings.Replace(out, "%s", inner, 1)
	} else if i := strings.LastIndexAny(out, "SD"); i >= 0 {
		body := single
		if out[i] == 'D' {
			body = double
		}
		out = out[:i] + body + out[i+1:]
	}
	if depth == 0 || len(out) > 2000 {
		return out
	}
	return embed(r, out, depth-1)
}

// leaves are ways to write the gated command itself.
var leaves = []string{"gated arg", "gated", "\\gated arg", "'gated' arg", "g\"ate\"d arg", "$'\\x67ated' arg", "env gated arg", "command gated arg", "A=1 gated arg", "nice -n 1 gated arg", "timeout 5 gated arg", "nohup gated arg",
	"gat\\\ned arg", ">/dev/null gated arg", "gated --x arg", "xargs gated </dev/null", "echo arg | xargs gated", "env -i PATH=\"$PATH\" gated arg", "find . -maxdepth 0 -exec gated arg \\;", "exec gated arg", "stdbuf -oL gated arg", "setsid -w gated arg", "flock x gated arg", "X=gated; $X arg", "$(echo gated) arg", "{gated,arg}", "f() { \"$@\"; }; f gated arg"}

// TestBashAgrees: RECOVERY_BASH_ROUNDS makes it look longer.
func TestBashAgrees(t *testing.T) {
	t.Parallel()
	rounds := 3000
	if n, err := strconv.Atoi(os.Getenv("RECOVERY_BASH_ROUNDS")); err == nil {
		rounds = n
	}
	const workers = 2
	var wg sync.WaitGroup
	p := mustCompile(t, allowing("gated"))
	for w := range workers {
		b := newBashRun(t)
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(rounds), uint64(w)))
			ran, tried := 0, 0
			for i := range rounds {
				command := randomSoup(r)
				embedded := i%50 == 0
				if embedded {
					command = embed(r, leaves[r.IntN(len(leaves))], r.IntN(4))
				}
				v := judge(p, command)
				if embedded && v.Decision == action.Auto {
					t.Errorf("embedded, and automatic: %q\nparts %q", command, texts(v.Analysis))
				}
				// Only what is automatic can be wrong; of the rest bash is asked to show
				// that it does run gated.
				if !embedded && (v.Decision != action.Auto || !strings.Contains(command, "g")) {
					continue
				}
				tried++
				if b.ran(t, command) {
					ran++
					// A process that a command before left in another session may have
					// been late; this one is asked again.
					if v.Decision == action.Auto && b.ran(t, command) && b.ran(t, command) {
						t.Errorf("bash runs gated, and it is automatic: %q\nparts %q", command, texts(v.Analysis))
					}
				}
			}
			if ran < rounds/80 {
				t.Errorf("bash ran gated only %d times of %d; the test shows little", ran, tried)
			}
			t.Logf("%d rounds, %d given to bash, gated ran %d times", rounds, tried, ran)
		})
	}
	wg.Wait()
}
