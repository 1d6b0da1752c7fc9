package classify

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/superloop/superloop/internal/testkit"
	"github.com/superloop/superloop/recovery/catalog"
)

// variant is one way in which the same failure may come along.
type variant struct {
	name  string
	every int                                       // only each so many examples are tried
	apply func(h *catalog.Handler, in *sample) bool // false: it does not fit this example
}

// sample is an example that is being changed.
type sample struct {
	stdout, stderr string
	merged         bool
	slow           bool
}

var (
	absPath   = regexp.MustCompile(`/repo\b|/home/dev\b`)
	clockTime = regexp.MustCompile(`\b\d\d:\d\d:\d\d\b`)
	millis    = regexp.MustCompile(`\b(?:in )?\d+\.\d+s\b`)
)

// unrelated is what a build prints that nothing is wrong with.
func unrelated(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "[info] step %d of %d: copied asset-%04x.png, 0 errors, 0 warnings\n", i+1, n, i*7919)
	}
	return b.String()
}

func eachLine(s string, f func(string) string) string {
	if s == "" {
		return ""
	}
	lines := strings.Split(strings.TrimSuffix(s, "\n"), "\n")
	for i, l := range lines {
		lines[i] = f(l)
	}
	return strings.Join(lines, "\n") + "\n"
}

// lineEnded ends the last line.
func lineEnded(s string) string {
	if s != "" && !strings.HasSuffix(s, "\n") {
		s += "\n"
	}
	return s
}

func variants() []variant {
	return []variant{
		{"colours", 3, func(_ *catalog.Handler, s *sample) bool {
			f := func(l string) string {
				if i := strings.IndexByte(l, ' '); i > 0 {
					return "\x1b[1m\x1b[31m" + l[:i] + "\x1b[0m" + l[i:] + "\x1b[39m"
				}
				return "\x1b[2m" + l + "\x1b[0m"
			}
			s.stdout, s.stderr = eachLine(s.stdout, f), eachLine(s.stderr, f)
			return true
		}},
		{"CRLF", 3, func(_ *catalog.Handler, s *sample) bool {
			f := func(l string) string { return l + "\r" }
			s.stdout, s.stderr = eachLine(s.stdout, f), eachLine(s.stderr, f)
			return true
		}},
		{"merged", 3, func(_ *catalog.Handler, s *sample) bool {
			s.stdout, s.stderr, s.merged = lineEnded(s.stdout)+s.stderr, "", true
			return true
		}},
		{"swapped", 3, func(h *catalog.Handler, s *sample) bool {
			s.stdout, s.stderr = s.stderr, s.stdout
			return len(h.Match.Streams) == 0
		}},
		{"200 lines before", 5, func(_ *catalog.Handler, s *sample) bool {
			s.stdout, s.stderr = unrelated(200)+s.stdout, unrelated(200)+s.stderr
			return s.stdout+s.stderr != ""
		}},
		{"200 lines after", 5, func(_ *catalog.Handler, s *sample) bool {
			s.stdout, s.stderr = lineEnded(s.stdout)+unrelated(200), lineEnded(s.stderr)+unrelated(200)
			return true
		}},
		{"1 MiB before", 37, func(_ *catalog.Handler, s *sample) bool {
			s.stdout = unrelated(14000) + s.stdout
			return true
		}},
		{"a line of 1 MB", 37, func(_ *catalog.Handler, s *sample) bool {
			s.stderr = strings.Repeat("x", 1<<20) + "\n" + s.stderr
			return true
		}},
		{"invalid UTF-8", 3, func(_ *catalog.Handler, s *sample) bool {
			s.stdout, s.stderr = "\xff\xfe\x00\xc3\n"+s.stdout, "\xf0\x28\n"+s.stderr
			return true
		}},
		{"another directory and time", 3, func(_ *catalog.Handler, s *sample) bool {
			f := func(t string) string {
				t = absPath.ReplaceAllString(t, "/srv/work/app-7")
				t = clockTime.ReplaceAllString(t, "23:59:58")
				return millis.ReplaceAllString(t, "in 7.31s")
			}
			if millis.MatchString(s.stdout + s.stderr) {
				f = func(t string) string { return absPath.ReplaceAllString(t, "/srv/work/app-7") }
			}
			s.stdout, s.stderr = f(s.stdout), f(s.stderr)
			return true
		}},
		{"1-byte reads", 7, func(_ *catalog.Handler, s *sample) bool { s.slow = true; return true }},
	}
}

// The verdict on an example does not depend on how its output comes along.
func TestMetamorphic(t *testing.T) {
	t.Parallel()
	cat := embedded(t)
	c := embeddedClassifier(t)
	for _, v := range variants() {
		if v.every *= testkit.Sample(15, 1, 1); raced {
			v.every *= 5
		}
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			for i := range cat.Handlers {
				h := &cat.Handlers[i]
				for n, e := range h.Examples {
					if v.every > 1 && (i+n)%v.every != 0 {
						continue
					}
					s := sample{stdout: e.Stdout, stderr: e.Stderr}
					if s.stdout+s.stderr == "" || ExampleInput(h, e).Exit.OK() || !v.apply(h, &s) {
						continue
					}
					want, err := c.Classify(context.Background(), ExampleInput(h, e))
					if err != nil {
						t.Fatalf("%s: %v", h.ID, err)
					}
					in := ExampleInput(h, e)
					in.Stdout, in.Stderr, in.Merged = reader(s.stdout, s.slow), reader(s.stderr, s.slow), s.merged
					got, err := c.Classify(context.Background(), in)
					if err != nil {
						t.Fatalf("%s: %v", h.ID, err)
					}
					if got.Handler != want.Handler || got.Category != want.Category || got.Code != want.Code || got.Weak != want.Weak {
						t.Errorf("%s (%s): %s by %s (code %v, weak %v), before %s by %s (code %v, weak %v)", h.ID, e.Tool,
							got.Category, got.Handler, got.Code, got.Weak, want.Category, want.Handler, want.Code, want.Weak)
					} else if both := e.Stdout != "" && e.Stderr != ""; got.Signature != want.Signature && want.Handler != "" && v.name != "another directory and time" && !both {
						t.Errorf("%s (%s): signature %s, before %s", h.ID, e.Tool, got.Signature, want.Signature)
					}
				}
			}
		})
	}
}

func reader(s string, slow bool) io.Reader {
	if slow {
		return iotest.OneByteReader(strings.NewReader(s))
	}
	return strings.NewReader(s)
}
