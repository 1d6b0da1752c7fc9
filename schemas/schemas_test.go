package schemas

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/superloop/superloop/internal/text"
)

var update = flag.Bool("update", false, "write the expected problems anew")

// Every schema is what the documentation says of it: draft 2020-12, its own
// $id, a title, and a description for every field.
func TestSchemasAreDocumented(t *testing.T) {
	t.Parallel()
	for _, k := range Kinds() {
		t.Run(string(k), func(t *testing.T) {
			t.Parallel()
			raw := parse(k)
			if raw["$schema"] != "https://json-schema.org/draft/2020-12/schema" {
				t.Errorf("$schema is %v", raw["$schema"])
			}
			if raw["$id"] != k.ID() {
				t.Errorf("$id is %v, want %s", raw["$id"], k.ID())
			}
			for _, key := range []string{"title", "description"} {
				if s, _ := raw[key].(string); s == "" {
					t.Errorf("no %s", key)
				}
			}
			undescribed(t, raw, raw, "")
			if compile(k).Draft.String() != "Draft2020" {
				t.Errorf("compiled as %s", compile(k).Draft)
			}
		})
	}
}

func undescribed(t *testing.T, root map[string]any, at any, path string) {
	m, ok := at.(map[string]any)
	if !ok {
		return
	}
	for _, word := range []string{"anyOf", "oneOf", "allOf", "not", "prefixItems", "unevaluatedProperties"} {
		if m[word] != nil {
			t.Errorf("%s uses %s, of which the messages know nothing", path, word)
		}
	}
	for _, group := range []string{"properties", "$defs"} {
		props, _ := m[group].(map[string]any)
		for name, p := range props {
			pm, _ := p.(map[string]any)
			here := path + "/" + name
			if ref, ok := pm["$ref"].(string); ok && pm["description"] == nil {
				pm = root["$defs"].(map[string]any)[strings.TrimPrefix(ref, "#/$defs/")].(map[string]any)
			}
			if s, _ := pm["description"].(string); s == "" {
				t.Errorf("%s has no description", here)
			}
			undescribed(t, root, p, here)
		}
	}
	undescribed(t, root, m["items"], path+"/*")
	undescribed(t, root, m["additionalProperties"], path+"/*")
}

// kindOf is the kind in a test file's name, "<kind>.<what>.json".
func kindOf(t *testing.T, file string) Kind {
	t.Helper()
	k := Kind(strings.SplitN(filepath.Base(file), ".", 2)[0])
	if !k.Known() {
		t.Fatalf("%s: no such kind", file)
	}
	return k
}

// Conforms: 004-1-example, 004-p1.1
func TestValidFiles(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("testdata/valid/*.json")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[Kind]bool{}
	for _, path := range paths {
		k := kindOf(t, path)
		seen[k] = true
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range Validate(k, data) {
				t.Error(p)
			}
			var dst map[string]any
			if ps := Into(k, data, &dst); ps != nil || len(dst) == 0 {
				t.Errorf("Into: %v, %v", ps, dst)
			}
		})
	}
	for _, k := range Kinds() {
		if !seen[k] {
			t.Errorf("no valid file of kind %s", k)
		}
	}
}

// Conforms: 004-p1.1
func TestBadFiles(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("testdata/bad/*.json")
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var got bytes.Buffer
			for _, p := range Validate(kindOf(t, path), data) {
				got.WriteString(p.Code + " " + p.String() + "\n")
				checkProblem(t, p, data)
			}
			golden(t, strings.TrimSuffix(path, ".json")+".txt", got.Bytes())
		})
	}
}

func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("problems:\n%s\nwant:\n%s", got, want)
	}
}

// checkProblem holds for every problem of every file.
func checkProblem(t interface{ Errorf(string, ...any) }, p Problem, src []byte) {
	if p.Message == "" || p.Code == "" {
		t.Errorf("a problem without message or code: %+v", p)
	}
	if p.Line < 1 || p.Column < 1 || p.Line > bytes.Count(src, []byte("\n"))+1 {
		t.Errorf("a place outside the file: %+v", p)
	}
	if shown := p.String(); len(shown) > 4000 || shown != text.Plain(shown) {
		t.Errorf("a problem that no screen shows: %d bytes, %q", len(shown), text.Head(shown, 4000))
	}
	if p.Near != "" && !strings.Contains(p.Allowed, p.Near) && !strings.Contains(p.Message, p.Near) {
		t.Errorf("a hint that is not shown: %+v", p)
	}
}

// The secret of a config never gets into a message.
func TestSecretsAreNotShown(t *testing.T) {
	t.Parallel()
	src := []byte(`{"runners":{"x":{"command":"x","env":{"TOKEN":["hunter2hunter2"]}}},
	 "loops":[],"webhooks":{"on_escalation":"ftp://hooks.example/hunter2hunter2"}}`)
	ps := Validate(Config, src)
	if len(ps) != 2 {
		t.Fatalf("want 2 problems, got %v", ps)
	}
	out, err := json.Marshal(ps)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(out, []byte("hunter2")) {
		t.Errorf("a secret is shown: %s", out)
	}
	d, _ := Read(Config, []byte(`{"runners":{"x":{"command":"x","env":{"A":"b"}}},"loops":[],"webhooks":{"on_escalation":"https://x/y"}}`))
	for ptr, want := range map[string]bool{"/webhooks/on_escalation": true, "/runners/x/env/A": true, "/runners/x/command": false, "/webhooks": false, "/nothing/here": false} {
		if d.Secret(ptr) != want {
			t.Errorf("Secret(%s) = %v", ptr, !want)
		}
	}
}

func TestIgnored(t *testing.T) {
	t.Parallel()
	src := []byte("{\"loops\":[{\"id\":\"a\",\"spec_file\":\"a\",\n \"rlms\":{\"enabled\":false},\"git\":{\"commit_message\":{\"authoring\":\"llm\"}}}],\n\"runner\":{\"command\":\"x\"},\"dev_env_contract\":{}}")
	d, ps := Read(Config, src)
	if ps != nil {
		t.Fatal(ps)
	}
	var got []string
	for _, p := range d.Ignored() {
		got = append(got, p.String())
	}
	want := []string{
		`2:2: /loops/0/rlms: superloop does not act on "rlms"`,
		`2:52: /loops/0/git/commit_message/authoring: superloop does not act on "authoring"; the message is the reviewer's, else a template`,
		`3:26: /dev_env_contract: superloop does not act on "dev_env_contract"`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestSizeCap(t *testing.T) {
	t.Parallel()
	for _, k := range Kinds() {
		if k.Limit() < 64*kib {
			t.Errorf("%s: limit %d", k, k.Limit())
		}
	}
	big := bytes.Repeat([]byte(" "), Recovery.Limit()+1)
	ps := Validate(Recovery, big)
	if len(ps) != 1 || ps[0].Code != CodeTooLarge || ps[0].Allowed != "at most 64 KiB" {
		t.Errorf("got %v", ps)
	}
	if ps := Validate(Kind("nonsense"), []byte("{}")); len(ps) != 1 {
		t.Errorf("an unknown kind: %v", ps)
	}
}

func TestDepth(t *testing.T) {
	t.Parallel()
	nest := func(n int) []byte {
		return []byte(`{"x":` + strings.Repeat("[", n-1) + strings.Repeat("]", n-1) + `}`)
	}
	if ps := Validate(RootCause, nest(MaxDepth)); slices.ContainsFunc(ps, func(p Problem) bool { return p.Code == CodeDepth }) {
		t.Errorf("%d levels: %v", MaxDepth, ps)
	}
	if ps := Validate(RootCause, nest(MaxDepth+1)); len(ps) != 1 || ps[0].Code != CodeDepth {
		t.Errorf("%d levels: %v", MaxDepth+1, ps)
	}
	if ps := Validate(Config, bytes.Repeat([]byte("["), mib)); len(ps) != 1 || ps[0].Code != CodeDepth {
		t.Errorf("a mebibyte of brackets: %d problems", len(ps))
	}
}

// A hostile file of the largest size costs seconds at most, and its problems
// are bounded.
func TestHostileFiles(t *testing.T) {
	t.Parallel()
	fill := func(head, item, tail string) []byte {
		n := (Config.Limit() - len(head) - len(tail)) / len(item)
		return []byte(head + strings.TrimSuffix(strings.Repeat(item, n), ",") + tail)
	}
	var names strings.Builder
	for i := 0; names.Len() < Config.Limit()-100; i++ {
		names.WriteString(`"r`)
		names.WriteString(strings.ToUpper(strings.Repeat("x", i%3)))
		names.WriteString(time.Duration(i).String())
		names.WriteString(`":1,`)
	}
	files := map[string][]byte{
		"many values":    fill(`{"recovery":{"auto_approve":[`, `1,`, `]},"loops":[]}`),
		"wrong items":    []byte(`{"recovery":{"auto_approve":[` + strings.Repeat("1,", Config.caps().values-10) + `1]},"loops":[]}`),
		"duplicate keys": fill(`{"loops":[],`, `"a":1,`, `}`),
		"bad runners":    []byte(`{"loops":[],"runners":{` + strings.TrimSuffix(names.String(), ",") + `}}`),
		"unknown keys":   []byte(`{"loops":[],` + strings.TrimSuffix(names.String(), ",") + `}`),
		"surrogates":     fill(`{"loops":[],"x":"`, `\ud800`, `"}`),
	}
	for name, src := range files {
		t.Run(name, func(t *testing.T) {
			ps := Validate(Config, src)
			if len(ps) == 0 || len(ps) > maxProblems+1 {
				t.Errorf("%d problems", len(ps))
			}
		})
	}
}

func TestIntoNumbers(t *testing.T) {
	t.Parallel()
	src, err := os.ReadFile("testdata/valid/recovery.float-timeout.json")
	if err != nil {
		t.Fatal(err)
	}
	var dst struct {
		Version  int `json:"version"`
		Recovery struct {
			Timeout int `json:"timeout_seconds"`
		} `json:"recovery"`
	}
	if ps := Into(Recovery, src, &dst); ps != nil || dst.Version != 1 || dst.Recovery.Timeout != 300 {
		t.Errorf("%v, %+v", ps, dst)
	}
	var wrong struct {
		Recovery struct {
			Command int `json:"command"`
		} `json:"recovery"`
	}
	ps := Into(Recovery, src, &wrong)
	if len(ps) != 1 || ps[0].Pointer != "/recovery/command" || ps[0].Line != 3 {
		t.Errorf("got %+v", ps)
	}
}

func TestNearest(t *testing.T) {
	t.Parallel()
	names := []string{"max_iterations", "spec_file", "tests", "timeouts", "id", "on_unknown"}
	for got, want := range map[string]string{
		"maxIterations": "max_iterations", "max-iteration": "max_iterations", "spec": "", "test": "tests", "tsets": "tests",
		"ID": "id", "": "", "zzz": "", "timeout": "timeouts", "onunkown": "on_unknown", strings.Repeat("x", 100): "",
	} {
		if n := Nearest(got, names); n != want {
			t.Errorf("Nearest(%q) = %q, want %q", got, n, want)
		}
	}
}

func TestRaw(t *testing.T) {
	t.Parallel()
	d, _ := Read(RootCause, []byte(`{"a": {"//x": 1, "n": 300.0, "s": "\u0041\n", "l": [1e2, true , null]}, "b~/c": 2}`))
	drop := func(k string) bool { return strings.HasPrefix(k, "//") }
	if got := string(d.Raw("/a", drop)); got != `{"n":300,"s":"\u0041\n","l":[100,true,null]}` {
		t.Errorf("Raw: %s", got)
	}
	if got := string(d.Raw("/b~0~1c", nil)); got != "2" {
		t.Errorf("escaped pointer: %s", got)
	}
	if d.Raw("/a/l/3", nil) != nil || d.Raw("/a/n/x", nil) != nil || d.Raw("/a/l/x", nil) != nil {
		t.Error("a value where there is none")
	}
}

func BenchmarkCompileConfig(b *testing.B) {
	for b.Loop() {
		compile(Config)
	}
}

func BenchmarkValidateEvent(b *testing.B) {
	src, err := os.ReadFile("testdata/valid/event.recovery.json")
	if err != nil {
		b.Fatal(err)
	}
	Validate(Event, src)
	for b.Loop() {
		if ps := Validate(Event, src); ps != nil {
			b.Fatal(ps)
		}
	}
}
