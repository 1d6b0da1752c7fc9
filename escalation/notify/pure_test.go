package notify

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/superloop/superloop/escalation"
	"github.com/superloop/superloop/internal/redact"
	"github.com/superloop/superloop/internal/text"
)

func TestVisible(t *testing.T) {
	for name, c := range map[string]struct {
		in, want string
		marks    int
	}{
		"plain":          {"bun install && bun test", "bun install && bun test", 0},
		"bidi":           {"rm \u202etxt.x\u202c", "rm <U+202E>txt.x<U+202C>", 2},
		"zero width":     {"bun\u200b install", "bun<U+200B> install", 1},
		"ansi":           {"a\x1b[2Kb", "a<U+001B>[2Kb", 1},
		"carriage":       {"good\rbad!", "good<U+000D>bad!", 1},
		"tab":            {"a\tb", "a<U+0009>b", 1},
		"nbsp":           {"a\u00a0b", "a<U+00A0>b", 1},
		"tag":            {"a\U000e0041b", "a<U+E0041>b", 1},
		"filler":         {"a\u3164b", "a<U+3164>b", 1},
		"selector":       {"a\ufe0fb", "a<U+FE0F>b", 1},
		"line separator": {"a\u2028b", "a<U+2028>b", 1},
		"bad utf-8":      {"a\xff\xc3b", "a<0xFF><0xC3>b", 2},
		"real U+FFFD":    {"a\ufffdb", "a\ufffdb", 0},
		"blanks":         {"a" + strings.Repeat(" ", 5000) + "; rm -rf /", "a<5000 blanks>; rm -rf /", 1},
		"three blanks":   {"a   b\n\n\nc", "a   b\n\n\nc", 0},
		"newlines":       {"a" + strings.Repeat("\n", 60) + "b", "a<60 newlines>\nb", 1},
		"accents":        {"e" + strings.Repeat("\u0301", 6), "e" + strings.Repeat("\u0301", 4) + "<U+0301><U+0301>", 2},
		"umlauts":        {"Gr\u00fc\u00dfe, \u4e16\u754c", "Gr\u00fc\u00dfe, \u4e16\u754c", 0},
	} {
		if got, marks := Visible(c.in); got != c.want || marks != c.marks {
			t.Errorf("%s: Visible(%q) = %q, %d; want %q, %d", name, c.in, got, marks, c.want, c.marks)
		}
	}
}

// hostile makes strings of what deceives readers, and of anything else.
func hostile() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		parts := rapid.SliceOf(rapid.OneOf(
			rapid.SampledFrom([]string{"\u202e", "\u2066", "\u200b", "\x1b[31m", "\r", "\x00", "    ", "\n\n\n\n", "<!channel>", "<http://x|Approve>",
				"```", "&amp;", "\xff", "\u3164", "\U000e0020", "*bold*", "@here", "\u0301\u0301\u0301\u0301\u0301"}),
			rapid.String(),
			rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
		)).Draw(t, "parts")
		return strings.Join(parts, "")
	})
}

func TestVisibleHoldsItsPromise(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := hostile().Draw(t, "s")
		shown, marks := Visible(s)
		if marks == 0 && shown != s {
			t.Fatalf("no marks, but %q became %q", s, shown)
		}
		if again, _ := Visible(shown); again != shown {
			t.Fatalf("%q is not visible yet: %q", shown, again)
		}
		for _, r := range shown {
			if r != '\n' && (!text.Seen(r) || unicode.Is(unicode.Cf, r)) {
				t.Fatalf("%U in %q", r, shown)
			}
		}
		limit := rapid.IntRange(3, 50).Draw(t, "limit")
		line := OneLine(s, limit)
		if strings.Contains(line, "\n") || utf8.RuneCountInString(line) > limit {
			t.Fatalf("OneLine(%q, %d) = %q", s, limit, line)
		}
		if strings.ContainsAny(strings.NewReplacer("&amp;", "", "&lt;", "", "&gt;", "").Replace(Escape(shown)), "<>&") {
			t.Fatalf("Escape left something in %q", Escape(shown))
		}
	})
}

func TestOneLineSaysThatItIsCut(t *testing.T) {
	got := OneLine("echo hi"+strings.Repeat(" ", 5000)+"; rm -rf /", 40)
	if !strings.HasSuffix(got, "...") || utf8.RuneCountInString(got) > 40 {
		t.Errorf("%q", got)
	}
}

func TestBodyIsInert(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := opened("e1")
		m.Command, m.RootCause, m.Loop, m.Note = hostile().Draw(t, "command"), hostile().Draw(t, "cause"), hostile().Draw(t, "loop"), hostile().Draw(t, "note")
		body, err := Body(m)
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			Text    string `json:"text"`
			Event   string `json:"event"`
			Command string `json:"command"`
			Exact   string `json:"command_base64"`
		}
		if err := json.Unmarshal(body, &got); err != nil {
			t.Fatal(err)
		}
		if exact, err := base64.StdEncoding.DecodeString(got.Exact); err != nil || string(exact) != m.Command {
			t.Fatalf("the exact command is %q (%v), want %q", exact, err, m.Command)
		}
		if shown, _ := Visible(m.Command); got.Command != shown || got.Event != "escalation_opened" {
			t.Fatalf("command %q, want %q", got.Command, shown)
		}
		if strings.ContainsAny(got.Text, "<>") {
			t.Fatalf("text %q", got.Text)
		}
		for _, line := range strings.Split(Text(m), "\n")[1:] {
			if line == "" || strings.HasPrefix(line, "    ") {
				continue // the command
			}
			if label, _, ok := strings.Cut(line, ": "); !ok && !strings.HasPrefix(line, "Command, in ") || len(label) > 40 && !strings.HasPrefix(line, "Command, in ") {
				t.Fatalf("a line that is not ours: %q", line)
			}
		}
		if strings.Count(Title(m), "\n") != 0 {
			t.Fatalf("title %q", Title(m))
		}
	})
}

// loop/effects/testdata/news has the text of every real message; here is what no real one holds.
func TestTextShowsWhatIsHidden(t *testing.T) {
	m := opened("e1")
	m.Command, m.Expires, m.Ways = "bun\u200b install", m.Created.Add(time.Hour), append(m.Ways, escalation.Way{Does: "later", Line: "z"}) // of which this version has no words
	want := `superloop: loop web needs an operator: may a command run?
Repository: /srv/shop
Iteration: 6
Reason: matches require_human "*"
Category: dependency, blocking, high confidence
Root cause: node_modules is missing
Evidence: test-output.txt:3: no such module
Command, in .:
    bun<U+200B> install
Note: the command has 1 hidden or repeated character, written here as <...>
To approve: superloop approve-recovery --loop web
To reject: superloop reject-recovery --loop web
later: z
Expires: 2026-05-01T13:00:00Z
Type: recovery_approval_required
Escalation: e1
Digest: sha256:0123456789abcdef
`
	if got := Text(m); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for kind, want := range map[Kind]string{Test: "superloop: this is a test message, nothing is waiting", "other": "superloop: loop web: other"} {
		if m.Kind = kind; Title(m) != want {
			t.Errorf("%s: %q", kind, Title(m))
		}
	}
}

func TestEvidenceIsBounded(t *testing.T) {
	t.Parallel()
	m := opened("e1")
	m.Evidence = []string{"1", "2", "3", "4", "the s3cr3t-token", "6", "7"}
	secrets := redact.Values([]string{"s3cr3t-token"})
	first := m.prepared(secrets)
	if want := []string{"1", "2", "3", "4", "and 3 more lines"}; !slices.Equal(first.Evidence, want) {
		t.Errorf("got %q, want %q", first.Evidence, want)
	}
	if again := first.prepared(secrets); !slices.Equal(again.Evidence, first.Evidence) {
		t.Errorf("the second time: %q", again.Evidence)
	}
	m.Evidence = m.Evidence[4:5]
	if got := m.prepared(secrets).Evidence[0]; strings.Contains(got, "s3cr3t") || m.Evidence[0] != "the s3cr3t-token" {
		t.Errorf("got %q of %q", got, m.Evidence[0])
	}
}

func TestSchedule(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := Options{
			FirstBackoff: time.Duration(rapid.Int64Range(1, int64(time.Minute)).Draw(t, "first")),
			MaxBackoff:   time.Duration(rapid.Int64Range(int64(time.Minute), int64(24*time.Hour)).Draw(t, "longest")),
		}
		failures := rapid.IntRange(0, 1<<20).Draw(t, "failures")
		asked := time.Duration(rapid.Int64().Draw(t, "asked"))
		d := s.delay(failures, asked)
		if d < min(asked, longestAsked) {
			t.Fatalf("%v is less than the %v that were asked for", d, asked)
		}
		if d > max(s.MaxBackoff, min(asked, longestAsked)) {
			t.Fatalf("%v is too long", d)
		}
		if free := s.delay(failures, 0); failures >= 1 && failures < 10 {
			if full := min(s.FirstBackoff<<(failures-1), s.MaxBackoff); free > full || free < full/2 {
				t.Fatalf("failure %d: %v, want about %v", failures, free, full)
			}
		}
	})
}

func TestMessageBounds(t *testing.T) {
	for _, m := range []Message{{}, {ID: "x"}, {ID: strings.Repeat("x", maxID+1), Kind: Opened}} {
		if m.check() == nil {
			t.Errorf("%.20q was taken", m.ID)
		}
	}
	m := opened("e1")
	m.Command, m.Note = strings.Repeat("\u00e4", maxCommand), strings.Repeat("n", maxField+5)
	got := m.prepared(nil)
	if !utf8.ValidString(got.Command) || len(got.Command) > maxCommand+50 || !strings.HasSuffix(got.Command, "[65536 more bytes are left out]") {
		t.Errorf("the command has %d bytes and ends with %q", len(got.Command), got.Command[len(got.Command)-40:])
	}
	if got.Note != strings.Repeat("n", maxField)+" [5 more bytes are left out]" {
		t.Errorf("note ends with %q", got.Note[maxField-2:])
	}
	if m.Note == got.Note {
		t.Error("the caller's message was changed")
	}
}
