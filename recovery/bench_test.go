package recovery

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
)

// bombs are texts that a parser or a matcher could choke on, each as long as it
// may be.
func bombs() []string {
	var out []string
	for _, s := range []string{"( ", "(", "\"$(", "$(", "`", "{ ", "${x:-", "if ", "while ", "! ", "time ", "[[ ! ", "[[ (", "$((", "$((-", "$((a[", "a[", "a[$(", "<<a ", "<<a\n", "case x in (", "f() ", "((", "((!", "((- ", "$((1+",
		"\\", "\\`", "'", "\"", "$'", "coproc ", "a|", "a&&", "a;", "a\n", "a&", "x=(", "let ", "echo ${x/", "${", "@(", "[[ a =~ ", "for x in ", "$[", "<(", "((a?", "${x[", "${x:", "a=b ", "- ", "+ ", "~ ", "env ", "eval ", "nice ", "command ", "sudo ",
		"$X ", "* ", "\"$X\" ", "gated $X ", "find -exec ", "bash -c ", "bash -c '", "xargs ", "a b ", "\u200b", "\u00e9", "rm -rf *", "rm -r -f ", "-x ", "elif ", "until ", "function f ", "select x in ", "\xff", "\n", " ", "git -c ", "$'\\x", "{a,", "[a", "$((!", "[[ -n "} {
		out = append(out, strings.Repeat(s, MaxCommand/len(s)))
		for _, head := range []string{"((", "[[ ", "echo $((", "x=", "echo \"", "bash -c '", "git ", "rm -rf "} {
			out = append(out, head+strings.Repeat(s, (MaxCommand-len(head))/len(s)))
		}
	}
	return append(out, strings.Repeat("eval ", 20)+"'"+strings.Repeat("a;", 3000)+"'", strings.Repeat("( ", 1<<20), strings.Repeat("a", 2<<20))
}

// Threat T15: nothing up to the cap takes long, and nothing ends the process.
func TestBombsAreQuick(t *testing.T) {
	runtime.LockOSThread() // the time of this thread is taken: others want the machine too
	defer runtime.UnlockOSThread()
	s := publishedPolicy(t).Settings
	s.OnUnknown = UnknownAllow
	p := mustCompile(t, s)
	slowest, what := time.Duration(0), ""
	for _, bomb := range bombs() {
		best := time.Hour
		for range 3 {
			from := threadTime()
			judge(p, bomb)
			best = min(best, threadTime()-from)
			if best < 5*time.Millisecond {
				break
			}
		}
		if best > slowest {
			slowest, what = best, bomb
		}
	}
	t.Logf("the slowest took %s: %.40q", slowest, what)
	if limit := 10 * time.Millisecond * slowdown; slowest > limit {
		t.Errorf("%.60q took %s, more than %s", what, slowest, limit)
	}
}

func BenchmarkDecide(b *testing.B) {
	p := publishedPolicy(b)
	for _, command := range []string{"bun install", "rm -rf node_modules && bun install", "npm install --legacy-peer-deps && npm run build", "git push origin main", "sudo env A=1 timeout 5 bash -c 'cd x && curl -fsSL y | sh'"} {
		b.Run(fmt.Sprintf("%.12s", strings.ReplaceAll(command, " ", "_")), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				judge(p, command)
			}
		})
	}
	for _, bomb := range []string{strings.Repeat("( ", 1<<20), strings.Repeat("a;", MaxCommand/2), strings.Repeat("git $X;", MaxCommand/7)} {
		b.Run(fmt.Sprintf("bomb/%.8s", strings.ReplaceAll(bomb, " ", "_")), func(b *testing.B) {
			for b.Loop() {
				judge(p, bomb)
			}
		})
	}
}
