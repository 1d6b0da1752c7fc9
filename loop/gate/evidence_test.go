package gate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func sha(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

func TestEvidence(t *testing.T) {
	t.Parallel()
	outside := repo(t, map[string]string{"x": "x"})
	root := repo(t, map[string]string{
		"report.txt": "hello", "dist/a.js": "a", "dist/sub/b.js": "bb", "dist/.git/HEAD": "ref", "empty/": "",
		"out": "-> " + outside + "/x", "in": "-> report.txt", "zero": "", "shots/1.png": "1", "shots/2.png": "2",
	})
	mtime := time.Unix(1_700_000_000, 0)
	must(t, os.Chtimes(filepath.Join(root, "report.txt"), mtime, mtime))
	must(t, syscall.Mkfifo(filepath.Join(root, "pipe"), 0o644))

	res, err := evidence(t.Context(), root, []string{"report.txt", "in", "zero", "shots/*.png", "shots/1.png", "dist", ""})
	must(t, err)
	if !res.OK || res.Status() != "ok" || len(res.Missing) != 0 || len(res.Artifacts) != 6 {
		t.Fatalf("got %+v", res)
	}
	a := res.Artifacts[0]
	if a.Path != "report.txt" || !a.Exists || *a.SHA256 != sha("hello") || *a.MTime != mtime.Unix() || *a.Size != 5 || a.Gate != "evidence" || a.Kind != "file" {
		t.Errorf("got %+v", a)
	}
	equal(t, "empty file", *res.Artifacts[2].SHA256, sha(""))
	d := res.Artifacts[5]
	if d.Kind != "directory" || d.Files != 2 || *d.Size != 3 ||
		*d.SHA256 != sha(sha("a")+" 1 \"a.js\"\n"+sha("bb")+" 2 \"sub/b.js\"\n") {
		t.Errorf("directory: %+v %s", d, *d.SHA256)
	}

	for artifact, reason := range map[string]string{
		"gone.txt": ReasonNotFound, "shots/*.gif": ReasonNotFound, "empty": ReasonEmptyDir, "out": ReasonOutside,
		"../x": ReasonOutside, "pipe": ReasonNotAFile, "[": ReasonBadPattern,
	} {
		res, err := evidence(t.Context(), root, []string{"report.txt", artifact})
		must(t, err)
		if res.OK || res.Status() != "failed" || len(res.Missing) != 1 || !strings.HasPrefix(res.Missing[0], artifact+": "+reason) {
			t.Errorf("%s: got %+v", artifact, res)
			continue
		}
		a := res.Artifacts[1]
		if a.Exists || a.SHA256 != nil || a.MTime != nil || a.Path != artifact || a.Reason != reason {
			t.Errorf("%s: got %+v", artifact, a)
		}
	}
	res, err = evidence(t.Context(), root, nil)
	if err != nil || !res.OK {
		t.Errorf("nothing asked for: %+v %v", res, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := evidence(ctx, root, []string{"report.txt"}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if _, err := evidence(t.Context(), root+"/gone", []string{"x"}); err == nil {
		t.Error("a repository that is not there is no error")
	}
}

// Any change below a directory changes its hash; the same content has the same
// hash wherever it is.
func TestTreeHash(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		files := rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c/d", "c/e", "f\ng", "h i"}),
			rapid.StringMatching(`[a-z]{0,4}`), 1, 5).Draw(t, "files")
		hash := func(files map[string]string) string {
			n++
			root := filepath.Join(dir, "r", strings.Repeat("x", n%40+1)+string(rune('a'+n%26)))
			os.RemoveAll(root)
			for name, content := range files {
				p := filepath.Join(root, "art", name)
				if os.MkdirAll(filepath.Dir(p), 0o755) != nil || os.WriteFile(p, []byte(content), 0o644) != nil {
					t.Fatal("cannot write")
				}
			}
			res, err := evidence(context.Background(), root, []string{"art"})
			if err != nil || !res.OK {
				t.Fatalf("%+v %v", res, err)
			}
			return *res.Artifacts[0].SHA256
		}
		before := hash(files)
		if hash(files) != before {
			t.Fatal("the same files have another hash")
		}
		var any string
		for any = range files {
			break
		}
		files[any] += "!"
		if hash(files) == before {
			t.Fatal("a changed file has the same hash")
		}
		files[any] = strings.TrimSuffix(files[any], "!")
		files["new"] = ""
		if hash(files) == before {
			t.Fatal("a new file has the same hash")
		}
	})
}

func TestManifest(t *testing.T) {
	t.Parallel()
	root := repo(t, map[string]string{
		"spec.md": "s", "l/test-status.json": "{\"ok\":true,\"exit_code\":0}\n", "l/test-output.txt": "out",
		"l/checklist-status.json": "{broken", "l/checklist-remaining.md": "", "l/validation-status.json": `{"ok":true}`,
		"l/validation-results.json": `{"preflight":null}`, "art": "x",
	})
	found, err := evidence(t.Context(), root, []string{"art", "gone"})
	must(t, err)
	data, err := Manifest(t.Context(), root, ManifestSpec{
		LoopID: "t", Iteration: 3, SpecFile: "spec.md", TestsMode: "every", TestCommands: []string{"make"},
		File: func(name string) string {
			if name == "test-status.json" {
				return filepath.Join(root, "l", name)
			}
			return "l/" + name
		},
	}, found, noon)
	must(t, err)
	m := decode(t, data)
	keys(t, m, "generated_at loop_id iteration spec_file spec_sha256 ok missing tests checklists validation prerequisites rlms artifacts")
	tests := m["tests"].(map[string]any)
	keys(t, tests, "mode commands status status_file status_sha256 status_mtime output_file output_sha256 output_mtime")
	equal(t, "status", tests["status"].(map[string]any)["ok"].(bool), true)
	equal(t, "status file", tests["status_file"].(string), "l/test-status.json")
	equal(t, "output hash", tests["output_sha256"].(string), sha("out"))
	lists := m["checklists"].(map[string]any)
	keys(t, lists, "patterns status status_file status_sha256 status_mtime remaining_file remaining_sha256 remaining_mtime")
	if lists["status"] != nil || lists["status_sha256"] != sha("{broken") || len(lists["patterns"].([]any)) != 0 {
		t.Errorf("checklists: %v", lists)
	}
	if v := m["validation"].(map[string]any); v["status"] == nil || v["results_sha256"] != sha(`{"preflight":null}`) {
		t.Errorf("validation: %v", v)
	}
	if p := m["prerequisites"].(map[string]any); p["status"] != nil || p["status_sha256"] != nil || p["status_file"] != "l/prerequisites-status.json" {
		t.Errorf("prerequisites: %v", p)
	}
	keys(t, m["rlms"].(map[string]any), "index_file index index_sha256 index_mtime latest")
	arts := m["artifacts"].([]any)
	if a := arts[0].(map[string]any); a["path"] != "art" || a["exists"] != true || a["sha256"] != sha("x") || a["gate"] != "evidence" {
		t.Errorf("artifact: %v", a)
	}
	if a := arts[1].(map[string]any); a["exists"] != false || a["sha256"] != nil || a["mtime"] != nil {
		t.Errorf("missing artifact: %v", a)
	}
	if m["ok"] != false || len(m["missing"].([]any)) != 1 {
		t.Errorf("verdict: %v %v", m["ok"], m["missing"])
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Manifest(ctx, root, ManifestSpec{SpecFile: "spec.md", File: func(name string) string { return name }}, found, noon); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func evidence(ctx context.Context, root string, artifacts []string) (r EvidenceResult, err error) {
	err = r.Look(ctx, root, artifacts)
	return r, err
}
