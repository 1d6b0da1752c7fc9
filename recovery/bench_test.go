package recovery

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
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

// Threat T15: nothing up to the cap takes much memory, and nothing ends the process or hangs it.
func TestBombsAreBounded(t *testing.T) {
	s := publishedPolicy(t).Settings
	s.OnUnknown = UnknownAllow
	p := mustCompile(t, s)
	most, what := uint64(0), ""
	for _, bomb := range bombs() {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		judge(p, bomb)
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > most {
			most, what = n, bomb
		}
	}
	t.Logf("the most was %d bytes: %.40q", most, what)
	if most > 4<<10*MaxCommand {
		t.Errorf("%.60q took %d bytes, more than 4 KiB for each byte of the command", what, most)
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
