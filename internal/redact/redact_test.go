package redact

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

const hidden = "hunter2-hunter2"

func TestSecretIsNeverPrinted(t *testing.T) {
	t.Parallel()
	s := Secret(hidden)
	type holder struct {
		Token Secret `json:"token"`
		Map   map[string]Secret
		inner Secret
	}
	h := holder{Token: s, Map: map[string]Secret{"a": s}, inner: s}
	var out strings.Builder
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T", "%10s"} {
		fmt.Fprintf(&out, verb+" ", s)
	}
	fmt.Fprintf(&out, "%v %+v", h.Token, h.Map)
	fmt.Fprint(&out, s, &s, []Secret{s}, fmt.Errorf("posting: %s", s))
	b, err := json.Marshal(struct {
		holder
		P *Secret
	}{h, &s})
	if err != nil {
		t.Fatal(err)
	}
	out.Write(b)
	if h.inner.Reveal() != hidden {
		t.Error("the value is lost")
	}
	for _, leak := range []string{hidden, fmt.Sprintf("%x", hidden), fmt.Sprintf("%X", hidden)} {
		if strings.Contains(out.String(), leak) {
			t.Errorf("leaks %q in %s", leak, out.String())
		}
	}
	if !strings.Contains(out.String(), Mark) {
		t.Error("no mark")
	}
}

func TestSecretJSON(t *testing.T) {
	t.Parallel()
	var v struct{ A, B Secret }
	if err := json.Unmarshal([]byte(`{"A":"`+hidden+`"}`), &v); err != nil || v.A.Reveal() != hidden {
		t.Fatalf("%v %q", err, v.A.Reveal())
	}
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var back map[string]string
	if err := json.Unmarshal(b, &back); err != nil || back["A"] != Mark || back["B"] != "" {
		t.Errorf("%s", b)
	}
	if got := fmt.Sprintf("%#v %q", v.A, v.A); got != `redact.Secret("<secret>") "<secret>"` {
		t.Errorf("got %s", got)
	}
}

func TestURL(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"https://hooks.slack.com/services/T0/B0/xyz": "https://hooks.slack.com",
		"http://user:pass@127.0.0.1:8080/a?b=c#d":    "http://127.0.0.1:8080",
		"https://user:pa/ss@host/":                   "https://<secret>",
		"https://a:b:c/x":                            "https://<secret>",
		"https://[::1]:80/x":                         "https://[::1]:80",
		"https://[::1]/x":                            "https://[::1]",
		`https://host\@evil/x`:                       "https://host",
		"https:///x":                                 "https://<secret>",
		"hunter2":                                    Mark,
		"mailto:a@b":                                 Mark,
		"://x/y":                                     Mark,
		"":                                           "",
		"https://h?token=" + hidden:                  "https://h",
		"https://h#" + hidden:                        "https://h",
		"git+ssh://git@example.org/" + hidden + "/x.git":  "git+ssh://example.org",
		"see https://example.org/" + hidden:               Mark,
		"https://example.org:99999999" + hidden + "/a":    "https://<secret>",
		"https://" + hidden + "@example.org":              "https://example.org",
		"https://example.org/x@" + hidden + ".com/secret": "https://example.org",
	} {
		if got := URL(in); got != want {
			t.Errorf("URL(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestText(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`Post "https://h.example/T0/` + hidden + `": dial tcp: refused`:     `Post "https://h.example": dial tcp: refused`,
		"a https://x/" + hidden + " b <http://u:" + hidden + "@y/z|text> c": "a https://x b <http://y> c",
		"no url :// here":                  "no url :// here",
		"":                                 "",
		"https://a/b\nhttps://c/" + hidden: "https://a\nhttps://c",
		"plain":                            "plain",
		"(https://a/" + hidden + ")":       "(https://a",
	} {
		if got := Text(in); got != want {
			t.Errorf("Text(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestValues(t *testing.T) {
	t.Parallel()
	r := Values([]string{hidden, "short", "with \"quotes\"\n", "sp ace/slash", "overlap-one", "one-and-two", "hunter2-hunter2-longer"})
	for in, want := range map[string]string{
		"a " + hidden + " b":                    "a <secret> b",
		hidden + hidden:                         "<secret><secret>",
		"hunter2-hunter2-longer!":               "<secret>!",
		"hunter2-hunter2-longe!":                "<secret>-longe!",
		"short is short":                        "short is short",
		`{"k":"with \"quotes\"\n"}`:             `{"k":"<secret>"}`,
		"with \"quotes\"":                       "<secret>",
		"x?t=sp+ace%2Fslash&u=sp%20ace%2Fslash": "x?t=<secret>&u=<secret>",
		"overlap-one-and-two":                   "<secret>",
		"":                                      "",
	} {
		if got := r.String(in); got != want {
			t.Errorf("String(%q) = %q, want %q", in, got, want)
		}
	}
	for _, none := range []*Replacer{nil, Values([]string{"", "a", "1234567"})} {
		if none.String("1234567") != "1234567" {
			t.Error("short secrets are replaced")
		}
		var b bytes.Buffer
		w := none.Writer(&b)
		fmt.Fprint(w, "as it is")
		if err := w.Close(); err != nil || b.String() != "as it is" {
			t.Errorf("%v %q", err, b.String())
		}
	}
}

// However the stream is cut, the writer writes what String gives, and no secret
// is left in it.
func TestWriterProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		secrets := rapid.SliceOfN(rapid.StringMatching(`[ab]{8,12}`), 1, 4).Draw(t, "secrets")
		text := strings.Join(rapid.SliceOf(rapid.OneOf(rapid.StringMatching(`[abc]{0,9}`), rapid.SampledFrom(secrets))).Draw(t, "text"), "")
		r := Values(secrets)
		var b bytes.Buffer
		w := r.Writer(&b)
		for rest := text; rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "cut")
			if m, err := w.Write([]byte(rest[:n])); err != nil || m != n {
				t.Fatalf("wrote %d of %d: %v", m, n, err)
			}
			rest = rest[n:]
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if b.String() != r.String(text) {
			t.Fatalf("%q: writer %q, string %q", text, b.String(), r.String(text))
		}
		for _, s := range secrets {
			for part := range strings.SplitSeq(b.String(), Mark) {
				if strings.Contains(part, s) {
					t.Fatalf("%q is left in %q", s, b.String())
				}
			}
		}
	})
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestWriterReportsErrors(t *testing.T) {
	t.Parallel()
	w := Values([]string{hidden}).Writer(failing{})
	if _, err := w.Write([]byte("short")); err != nil {
		t.Errorf("held back, yet %v", err)
	}
	if err := w.Close(); err == nil {
		t.Error("the error is lost")
	}
}
