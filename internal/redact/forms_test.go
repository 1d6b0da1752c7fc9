package redact

import (
	"bytes"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// body is n bytes that look random. The tokens below are made of it, so that no file holds one that a scanner finds.
func body(n int) string { return strings.Repeat("aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0z", 8)[:n] }

// tokens are texts with the secret in them between two bars.
func tokens() []string {
	b := "|"
	key := "-----BEGIN RSA PRIVATE KEY-----\n" + body(64) + "\n" + body(64) + "\n" + body(20) + "==\n-----END RSA PRIVATE KEY-----"
	return []string{
		b + "gh" + "p_" + body(36) + b, b + "gh" + "s_" + body(36) + b, b + "github" + "_pat_" + body(22) + "_" + body(59) + b, b + "gl" + "pat-" + body(20) + b,
		b + "sk" + "-ant-api03-" + body(80) + "-" + body(8) + b, b + "sk" + "-" + body(48) + b, b + "sk" + "-proj-" + body(60) + b, b + "sk" + "-" + strings.Repeat("0a1b2c3d", 4) + b,
		b + "xo" + "xb-123456789012-1234567890123-" + body(24) + b, b + "xo" + "xp-" + body(40) + b, b + "AK" + "IA" + "IOSFODNN7EXAMPLE" + b, b + "AI" + "za" + body(35) + b,
		b + "np" + "m_" + body(36) + b, b + "py" + "pi-AgEIcHlwaS5vcmc" + body(60) + b, b + "hf" + "_" + body(34) + b, b + "sk" + "_live_" + body(24) + b, b + "hv" + "s." + body(30) + b,
		b + "sl" + "s_" + body(43) + b, b + "sl" + "t_" + body(21) + "-_" + body(20) + b,
		b + "ey" + "JhbGciOiJIUzI1NiJ9." + "ey" + "JzdWIiOiIxMjM0In0." + body(43) + b,
		"Authorization: Bearer " + b + body(40) + b, "-H 'Authorization: Basic " + b + "dXNlcjpwYXNzd29yZA==" + b + "'",
		b + key + b, b + strings.ReplaceAll(key, "\n", `\n`) + b, b + strings.ReplaceAll(key, "RSA ", "") + b,
		"postgres://me:" + b + "s3cr3t-pa55" + b + "@db.example/x", "https://x-access-token:" + b + "0123456789abcdef" + b + "@github.com/x/y",
		"https://hooks.slack.com/" + b + "services/T00000000/B00000000/" + body(24) + b, "https://discord.com/api/webhooks/" + b + "123456789012345678/" + body(68) + b,
		"https://x.webhook.office.com/webhookb2/" + b + "11111111-2222-3333-4444-555555555555@66666666-7777-8888-9999-000000000000/IncomingWebhook/" + body(32) + b,
	}
}

// Every token is replaced as a whole, wherever it stands.
func TestTokensByTheirForm(t *testing.T) {
	t.Parallel()
	r := Values(nil)
	for _, token := range tokens() {
		before, rest, _ := strings.Cut(token, "|")
		secret, after, _ := strings.Cut(rest, "|")
		for _, around := range [][2]string{{"", ""}, {"a ", " b"}, {"x=", "\n"}, {"\"", "\","}, {`"out\n`, `\n"`}, {"\x1b[32m", "\x1b[0m"}, {`\u001b[1;32m`, `\u001b[0m`}, {"(", ")"}, {"'", "'"}, {"export TOKEN=", ";"}} {
			if strings.HasPrefix(around[1], `\`) && strings.Contains(secret, "KEY-----") {
				continue
			}
			in := around[0] + before + secret + after + around[1]
			want := around[0] + before + Mark + after + around[1]
			if got := r.String(in); got != want {
				t.Errorf("%q is %q, want %q", in, got, want)
			}
		}
	}
}

// What looks like a token and is none stays.
func TestWhatIsNoToken(t *testing.T) {
	t.Parallel()
	r := Values(nil)
	for _, text := range []string{
		"3089499aeb1b5e1c1f0bd0f3a5f8e6d4c2b1a0f9", "commit 3089499aeb1b5e1c1f0bd0f3a5f8e6d4c2b1a0f9", "550e8400-e29b-41d4-a716-446655440000",
		"sha512-" + strings.Repeat("Ab3/+", 17) + "w==", "h1:Y6XrSO7DxQ2Z3sN6y2bE8pQmJYl8m2Vn0k5M0Qh0p9c=", "sha256:" + strings.Repeat("0a1b2c3d", 8), "ghp_short", "sk-learn-something-very-long-without-any", "task-sk-1",
		"scikit-learn", "npm_config_registry=https://registry.npmjs.org/", "npm_lifecycle_event", "pypi-server", "risk-assessment-of-2024-in-Europe", "AKIAIOSFODNN7EXAMPLEX1", "eyJ2ZXJzaW9uIjozLCJzb3VyY2VzIjpbXX0=",
		"Bearer token", "bearer authentication-is-required-here", "http://localhost:3000/x@y", "https://registry.npmjs.org/@scope/x", "git@github.com:a/b.git", "ssh://git@host:22/x", "https://user:$TOKEN@host/x", "https://user:***@host/x",
		"https://hooks.slack.com/", "-----BEGIN CERTIFICATE-----\n" + body(64), "-----BEGIN PRIVATE KEY-----", `grep "-----BEGIN RSA PRIVATE KEY-----" x`, "-------------------------------------------------", "xoxb-", "AIza", "SG.", "a://b", "::://", "\"://\"",
		"https://a:b", "s", "sk", "sk-", "-----BEGIN ", "e", "eyJ", "",
	} {
		if got := r.String(text); got != text {
			t.Errorf("%q is %q", text, got)
		}
	}
}

// However the stream is cut, the writer writes what String gives. No token and no known secret is left.
func TestTokensAcrossCuts(t *testing.T) {
	t.Parallel()
	all := tokens()
	words := []string{"commit", " ", "\n", "sk-", "eyJ", "://", "-", "-----", "gh", "m", "\\n", "\x1b[0m", "a", "A", "known-secret-1", "https://a:b", "/api/webhooks/", "Bearer ", "xoxb", "é"}
	rapid.Check(t, func(t *rapid.T) {
		var text string
		var secrets []string
		for range rapid.IntRange(0, 8).Draw(t, "pieces") {
			if rapid.Bool().Draw(t, "token") {
				before, rest, _ := strings.Cut(rapid.SampledFrom(all).Draw(t, "of"), "|")
				secret, after, _ := strings.Cut(rest, "|")
				text += " " + before + secret + after + " \"\n"
				secrets = append(secrets, secret)
			} else {
				text += rapid.SampledFrom(words).Draw(t, "word")
			}
		}
		var known []string
		if rapid.Bool().Draw(t, "values") {
			known = []string{"known-secret-1", "a gh" + "p_" + body(36)}
		}
		r := Values(known)
		var b bytes.Buffer
		w := r.Writer(&b)
		for rest := text; rest != ""; {
			n := rapid.IntRange(1, min(len(rest), rapid.SampledFrom([]int{1, 3, 40, 4000}).Draw(t, "most"))).Draw(t, "cut")
			if _, err := io.WriteString(w, rest[:n]); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if whole := r.String(text); b.String() != whole {
			t.Fatalf("%q: writer %q, string %q", text, b.String(), whole)
		}
		for _, s := range append(secrets, known...) {
			if strings.Contains(b.String(), s) {
				t.Fatalf("%q is left in %q", s, b.String())
			}
		}
	})
}

// The writer holds back only what may be the beginning of a token.
func TestLinesPassAtOnce(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	w := Values(nil).Writer(&b)
	for _, line := range []string{"npm test\n", "ok 1 - passes\n", "https://example.org/x\n", "----------\n", "commit 3089499aeb1b\n"} {
		b.Reset()
		if _, err := io.WriteString(w, line); err != nil || b.String() != line {
			t.Errorf("%q has come as %q (%v)", line, b.String(), err)
		}
	}
}

// realLogs calls see with every recorded output that the repository holds: of agents, of failed commands, of tests.
func realLogs(t testing.TB, see func(name string, data []byte)) {
	t.Helper()
	root, n := filepath.Join("..", ".."), 0
	for _, dir := range []string{"roles", "recovery", "loop", "cmd", "escalation"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() || !strings.Contains(path, "testdata") || strings.HasSuffix(path, ".go") {
				return err
			}
			data, err := os.ReadFile(path)
			n += len(data)
			see(path, data)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if n < 2<<20 {
		t.Fatalf("only %d bytes of recorded output", n)
	}
}

// In what real tools and agents have printed nothing is taken for a token: no commit, no integrity hash, no id. What
// has the form of one there stands in the list, with the reason.
func TestRecordedOutputStays(t *testing.T) {
	t.Parallel()
	r := Values(nil)
	realLogs(t, func(name string, data []byte) {
		got := r.String(string(data))
		if got == string(data) {
			return
		}
		for line := range strings.Lines(string(data)) {
			if now := r.String(line); now != line {
				at := 0
				for at < len(now) && now[at] == line[at] {
					at++
				}
				t.Errorf("%s: %q", name, line[max(0, at-40):min(len(line), at+100)])
			}
		}
	})
}

func BenchmarkRecordedOutput(b *testing.B) {
	var all []byte
	realLogs(b, func(_ string, data []byte) { all = append(all, data...) })
	for name, r := range map[string]*Replacer{"forms": Values(nil), "three_values": Values([]string{"hunter2-hunter2", "another-secret-1", "third-secret-22"})} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(all)))
			for b.Loop() {
				w := r.Writer(io.Discard)
				for rest := all; len(rest) > 0; {
					n := min(len(rest), 32<<10)
					if _, err := w.Write(rest[:n]); err != nil {
						b.Fatal(err)
					}
					rest = rest[n:]
				}
				if err := w.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
