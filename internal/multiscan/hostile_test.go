package multiscan

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/superloop/superloop/internal/testkit"
)

// repeated gives n bytes of one text over and over, in writes of 64 KiB.
func repeated(sc *Scanner, text string, n int) {
	block := []byte(strings.Repeat(text, max(1, (64<<10)/len(text))))
	for n > 0 {
		k := min(n, len(block))
		_, _ = sc.Write(block[:k])
		n -= k
	}
}

// work is what the confirmations of a stream cost, in the units of limits.
func work(sc *Scanner) (total, worst int64) {
	for _, t := range sc.tried {
		worst = max(worst, t.spent)
	}
	return sc.total, worst
}

// TestHostilePatterns: patterns made to be slow, on text made for them, cost
// no more work than the budgets, counted, and say that something was skipped.
func TestHostilePatterns(t *testing.T) {
	t.Parallel()
	exprs := []string{
		`aaaaaaaa(?:.*){5}z`, `(?i)aaaaaaaa.*.*.*=.*`, `aaaaaaaa[ab]{100}c`, `(?:aaaaaaaa|baaaaaaa)(?:a{0,9}){0,9}c`, `(a|aa)+$z`, `aaaaaaaa\pL{100}\d`, `x*`, `^(?:a?){50}b`,
	}
	for i := range 200 {
		exprs = append(exprs, fmt.Sprintf("aaaaaaaa.*b{%d}", i%50+1))
	}
	// The text holds what each pattern asks for, in an order that none matches.
	head := "- " + strings.Repeat("b", 50) + "z=c9 "
	for _, tc := range []struct {
		name, text string
		skips      bool
	}{
		{"lines", head + strings.Repeat("a", 200) + "\n", true},
		{"short lines", head + "aaaaaaaa\n", true},
		{"one line", "aaaaaaaaaa", false}, // what its windows lack is quickly seen
		{"one line of all", head + strings.Repeat("a", 8000), true},
		{"progress", head + strings.Repeat("a", 60) + "\r", true},
		{"letters only", strings.Repeat("a", 60) + "\n", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := compile(t, exprs...)
			sc := s.NewScanner(func(Hit) {})
			sizes := []int{96 << 10, 384 << 10}[:testkit.Sample(1, 2, 2)]
			for _, size := range sizes {
				sc.Reset(func(Hit) {})
				repeated(sc, tc.text, size)
				total, worst := work(sc)
				if most := s.limits.total.at(int64(size)); total > most {
					t.Errorf("%d bytes: work of %d, allowed are %d", size, total, most)
				}
				if most := s.limits.pattern.at(int64(size)); worst > most {
					t.Errorf("%d bytes: work of %d for one pattern, allowed are %d", size, worst, most)
				}
				if skipped := sc.Stats().Skipped > 0; skipped != tc.skips {
					t.Errorf("%d bytes: %+v", size, sc.Stats())
				}
				_ = sc.Close()
				if skipped := sc.Stats().Skipped > 0; skipped != tc.skips {
					t.Errorf("%d bytes: nothing says at the end that patterns were skipped: %+v", size, sc.Stats())
				}
			}
		})
	}
}

// TestTheEndIsLookedAt: patterns that spent their budgets on lines that nearly
// match, or were found too often, are found in the last lines nevertheless.
func TestTheEndIsLookedAt(t *testing.T) {
	t.Parallel()
	s := compile(t, `no space left(?:.* ){9}on device (?P<dev>\w+)$`, `(?i)connection refused`, `(?i)killed by signal`)
	s.limits.pattern = budget{base: 100_000}
	s.limits.pattern.most = s.limits.pattern.base
	near := "no space left: the message names on device " + strings.Repeat("x y ", 30) + "z\n"
	for name, tail := range map[string]string{
		"at once": "", "more lines": strings.Repeat("at some.place(file:3)\n", 2000), "more near ones": strings.Repeat(near, 100),
	} {
		var got []found
		sc := s.NewScanner(func(h Hit) {
			got = append(got, found{h.Pattern, h.Line, h.Offset, string(h.Text), ints(h.Loc)})
		})
		repeated(sc, near, 10_000*len(near))
		if n := sc.Stats().Skipped; n == 0 || len(got) > 0 {
			t.Fatalf("%d hits, %d skipped", len(got), n)
		}
		_, _ = sc.Write([]byte(strings.Repeat("connection refused\n", 500)))
		_, _ = sc.Write([]byte("no space left a b c d e f g h i on device sda\nkilled by signal 9\n" + tail))
		before := len(got)
		skipped := sc.Stats().Skipped
		_ = sc.Close()
		if before != MaxHits+1 || got[MaxHits].pattern != 2 {
			t.Errorf("%s: %d hits before the end", name, before)
		}
		last := got[before:]
		if len(last) != LastHits+1 || last[LastHits].pattern != 0 || last[0].pattern != 1 || last[0].line != 10_000+500-LastHits+1 {
			t.Fatalf("%s: %v", name, last)
		}
		if h := last[LastHits]; h.line != 10_501 || h.offset != int64(10_000*len(near)+500*len("connection refused\n")) || !strings.HasSuffix(h.text, "sda") {
			t.Errorf("%s: %v", name, h)
		}
		if now := sc.Stats().Skipped; now >= skipped || now == 0 {
			t.Errorf("%s: %d skipped, %d before the end", name, now, skipped)
		}
	}
}

// TestLateBounds: what is kept for the end is bounded, and is the newest.
func TestLateBounds(t *testing.T) {
	t.Parallel()
	s := compile(t, `connection refused`)
	s.limits = unlimited
	for _, line := range []string{"connection refused\n", "connection refused " + strings.Repeat("x", 8000) + "\n"} {
		var last []int64
		sc := s.NewScanner(func(h Hit) { last = append(last, h.Line) })
		lines := 4 * maxLate / len(line) * 2
		for range lines + MaxHits {
			_, _ = sc.Write([]byte(line))
		}
		if n := sc.late.old.size() + sc.late.young.size(); n > 2*maxLate+len(line)+sizeOfLook+4 || n < maxLate/2 {
			t.Errorf("%d bytes are kept", n)
		}
		_ = sc.Close()
		if n := len(last); n != MaxHits+LastHits || last[n-1] != int64(lines+MaxHits) || last[n-LastHits] != int64(lines+MaxHits-LastHits+1) {
			t.Errorf("%d hits, the last %v of %d lines", n, last[max(0, n-LastHits):], lines+MaxHits)
		}
	}
}

// TestBudgetOfOthers: a pattern that spends its budget takes none away from
// one that is specific.
func TestBudgetOfOthers(t *testing.T) {
	t.Parallel()
	s := compile(t, `aaaaaaaa[ab]{100}[^a]c`, `(?i)no space left on device`)
	n := 0
	sc := s.NewScanner(func(h Hit) { n += h.Pattern })
	size := 4 << 20
	if raceEnabled {
		size = 1 << 20
	}
	repeated(sc, "c "+strings.Repeat("a", 500)+"\n", size)
	_, _ = sc.Write([]byte("\nwrite: No space left on device\n"))
	if st := sc.Stats(); n != 1 || st.Skipped == 0 {
		t.Errorf("%d hits, %+v", n, st)
	}
}

// TestBudgetsEnd: streams of any length cost a bounded amount of work.
func TestBudgetsEnd(t *testing.T) {
	t.Parallel()
	for _, b := range []budget{defaultLimits.pattern, defaultLimits.total} {
		if b.at(0) != b.base || b.at(1<<50) != b.most || b.at(16) != b.base+b.rate {
			t.Errorf("%+v: %d, %d, %d", b, b.at(0), b.at(16), b.at(1<<50))
		}
	}
}

func TestTooLarge(t *testing.T) {
	t.Parallel()
	for _, e := range []string{
		`[ab]{500}c`, `((a{0,30}){0,30})c`, `\pL{300}\d`, `(((a{100}){100}){100})`, `(`, `a{2000}`, strings.Repeat("a|b", 5000), `\xff\Q`, `(?=a)`, `a**`,
	} {
		s, problems, err := Compile([]string{e, "abcdefgh"}, Options{})
		if err != nil || len(problems) != 1 || !problems[0].Reject || problems[0].Pattern != 0 || problems[0].Text == "" {
			if e != `\xff\Q` {
				t.Errorf("%.40q: %+v, %v", e, problems, err)
			}
			continue
		}
		got, _ := scan(t, s, "abcdefgh\n")
		if len(got) != 1 || got[0].pattern != 1 || s.Names(0) != nil {
			t.Errorf("%.40q: %v", e, got)
		}
	}
	if _, _, err := Compile(nil, Options{MaxProgram: -1}); err == nil {
		t.Error("a negative bound is accepted")
	}
	if _, problems, _ := Compile([]string{`[ab]{500}cdefghijk`}, Options{MaxProgram: 1000}); len(problems) != 0 {
		t.Error(problems)
	}
}

// TestMemory: streams without line ends, of escapes, of line ends: what the
// scanner holds does not grow with them.
func TestMemory(t *testing.T) {
	size := 4 << 20 // TotalAlloc shows growth long before a hundred
	if testing.Short() || raceEnabled {
		size = 2 << 20
	}
	s := compile(t, benchPatterns()...)
	for name, text := range map[string]string{
		"no line end": "the quick brown fox ", "ESC": "\x1b", "open string": "\x1b]0;title", "backspaces": "ab\b", "line ends": "\n", "CRs": "\r", "NUL": "\x00", "broken": "\xff\xc3",
		"long lines": strings.Repeat("z", 1<<20) + "\n",
	} {
		sc := s.NewScanner(func(Hit) {})
		repeated(sc, text, 1<<20)
		block := []byte(strings.Repeat(text, max(1, (64<<10)/len(text))))
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		for n := 0; n < size; n += len(block) {
			_, _ = sc.Write(block)
		}
		runtime.ReadMemStats(&after)
		_, _ = sc.Write([]byte("\nnpm error code ERESOLVE"))
		if err := sc.Close(); err != nil {
			t.Fatal(err)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 256<<10 {
			t.Errorf("%s: %d bytes were allocated for %d bytes", name, n, size)
		}
		if sc.Stats().Skipped != 0 {
			t.Errorf("%s: %+v", name, sc.Stats())
		}
	}
}

// TestNoAllocations: a warm scanner allocates for hits only.
func TestNoAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	s := compile(t, benchPatterns()...)
	sc := s.NewScanner(func(Hit) {})
	log := logOf(nearLog, 256<<10, 3)
	log = append(log, bytes.ReplaceAll(logOf(hotLog, 256<<10, 4), []byte("error"), []byte("\x1b[31merror\x1b[m"))...)
	for range MaxHits + 1 {
		_, _ = sc.Write(log)
	}
	if n := testing.AllocsPerRun(5, func() { _, _ = sc.Write(log) }); n != 0 {
		t.Errorf("%v allocations for %d bytes", n, len(log))
	}
}

func TestLint(t *testing.T) {
	t.Parallel()
	exprs := []string{
		`(?i)npm error code ERESOLVE`, // 0: nothing to say
		`(?i)SIGBUS`,                  // 1: short
		`(?i)\bOO\b`,                  // 2: too short
		`.*`,                          // 3: none
		`(?i)passed \(`,               // 4: common
		"one\ntwo",                    // 5: never
	}
	_, problems, err := Compile(exprs, Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{1: "shortest", 2: "every line", 3: "every line", 4: "common", 5: "no line"}
	for _, p := range problems {
		if p.Reject || !strings.Contains(p.Text, want[p.Pattern]) || want[p.Pattern] == "" {
			t.Errorf("%+v", p)
		}
		want[p.Pattern] = ""
	}
	if left := strings.Join(want, ""); left != "" {
		t.Errorf("not said: %s", left)
	}
}
