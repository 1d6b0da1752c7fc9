package recovery

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/superloop/superloop/internal/testkit"
	"github.com/superloop/superloop/internal/text"
	"github.com/superloop/superloop/recovery/action"
)

// FuzzDecide: no panic, no end of patience, nothing automatic that is not
// listed, and the same verdict twice.
func FuzzDecide(f *testing.F) {
	for _, command := range hostile {
		f.Add(command, "gated")
	}
	for _, bomb := range bombs() {
		f.Add(bomb, "gated *")
	}
	f.Add("bun install", "*")
	f.Fuzz(func(t *testing.T, command, pattern string) {
		s := Defaults()
		s.AutoApprove, s.RequireHuman = []string{"bun install", "gated arg"}, []string{"curl *"}
		if strings.TrimSpace(pattern) != "" && utf8.ValidString(pattern) {
			s.RequireHuman = append(s.RequireHuman, pattern)
		}
		for _, mode := range []string{UnknownEscalate, UnknownAllow} {
			s.OnUnknown = mode
			p, problems := Compile(s)
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			v := judge(p, command)
			_, listed := p.Listed(command)
			if v.Decision == action.Auto && !listed && mode != UnknownAllow || strings.Contains(v.Reason, "the decision failed") || v.Reason == "" {
				t.Fatalf("%q: %+v", command, v)
			}
			if again := judge(p, command); again.Decision != v.Decision || again.Reason != v.Reason {
				t.Fatalf("%q: %+v, then %+v", command, v, again)
			}
			text.Display(command)
			p.Nearest(command)
		}
	})
}

// FuzzProposal: what is decoded is what the bytes say, and within its bounds.
func FuzzProposal(f *testing.F) {
	f.Add([]byte(published))
	f.Add([]byte(strings.Replace(published, `"working_dir": ".",`, `"working_dir": "a/../b", "working_dir": "c",`, 1)))
	f.Add([]byte(strings.Replace(published, "bun install", `bun install\ud800`, 1)))
	f.Add([]byte(strings.Replace(published, "300", "3e99", 1)))
	f.Add([]byte(strings.Repeat("[", 70_000)))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, problems := DecodeProposal(data, 900*time.Second)
		if (p == nil) != (len(problems) > 0) {
			t.Fatalf("%+v, %v", p, problems)
		}
		if p == nil {
			return
		}
		attempts := []action.Action{p.Recovery}
		if p.Fallback != nil {
			attempts = append(attempts, *p.Fallback)
		}
		for _, a := range attempts {
			if strings.TrimSpace(a.Command) == "" || !utf8.ValidString(a.Command) || a.Timeout() < time.Second || a.Timeout() > 900*time.Second || a.WorkingDir == "" || len(a.Digest) != 64 {
				t.Fatalf("%+v", a)
			}
		}
	})
}

func FuzzKept(f *testing.F) {
	p, _ := Compile(Defaults())
	testkit.Seed(f, p.JSON())
	d := testkit.Decoder[*Policy]{Exact: true, Encode: func(p *Policy) ([]byte, error) { return p.JSON(), nil },
		Decode: func(data []byte) (*Policy, error) { return Kept(fmt.Sprintf("%x", sha256.Sum256(data)), data) }}
	f.Fuzz(func(t *testing.T, data []byte) { d.Check(t, data) })
}
